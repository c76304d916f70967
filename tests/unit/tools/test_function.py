# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any

import msgspec
import pytest

from palyra.core.capability import Capability
from palyra.core.errors import Code, InputError
from palyra.core.execution import Executor
from palyra.core.facts import Facts
from palyra.core.ids import CallId
from palyra.core.manifest import Arguments
from palyra.tools.function import tool
from palyra.tools.secrets import Secret
from palyra.tools.signature import ToolContext


class Point(msgspec.Struct):
    x: int
    y: int


class SilentContext:
    """A context that answers every call with its own arguments."""

    @property
    def call_id(self) -> CallId:
        return CallId("01ARZ3NDEKTSV4RRFFQ69G5FAV")

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        return {"tool": tool, **arguments}


def distance_facts(arguments: Arguments) -> Facts:
    return Facts(size_bytes=arguments["scale"])


@tool(
    name="geometry.distance",
    version="2.1.0",
    capabilities=[Capability.NETWORK],
    facts=distance_facts,
    max_input_bytes=512,
    max_output_bytes=64,
)
def distance(start: Point, end: Point, scale: int = 2) -> int:
    """Measure the way from start to end.

    Along the streets.
    """
    return scale * (abs(end.x - start.x) + abs(end.y - start.y))


@tool(name="echo.nested", sensitive=True)
async def nested(text: str, context: ToolContext, key: Annotated[str, Secret()] = "") -> str:
    """Echo through another tool."""
    answer = await context.call("palyra.echo", {"text": text + key})
    return str(answer["text"])


@tool(name="raw.size", description="Count bytes.")
def size(content: bytes) -> int:
    return len(content)


def test_manifest_says_what_the_decorator_and_the_function_say() -> None:
    manifest = distance.manifest
    assert (manifest.name, manifest.version) == ("geometry.distance", "2.1.0")
    assert manifest.description == "Measure the way from start to end.\n\nAlong the streets."
    assert manifest.executor is Executor.BUILTIN
    assert manifest.capabilities == frozenset({Capability.NETWORK})
    assert manifest.is_sensitive
    assert (manifest.max_input_bytes, manifest.max_output_bytes) == (512, 64)
    assert manifest.extract_facts({"scale": 3}) == Facts(size_bytes=3)
    assert manifest.input_schema["required"] == ["start", "end"]


def test_given_description_stands_in_for_a_docstring() -> None:
    assert size.manifest.description == "Count bytes."
    assert not size.manifest.is_sensitive


def test_tool_can_be_declared_sensitive() -> None:
    assert nested.manifest.is_sensitive
    assert nested.manifest.secret_fields == ("/key",)


def test_function_can_still_be_called() -> None:
    assert distance(Point(0, 0), Point(1, 2), scale=1) == 3


async def test_coroutine_can_still_be_awaited() -> None:
    assert await nested("a", SilentContext(), key="b") == "ab"


def test_tool_knows_whether_it_is_async_and_takes_a_context() -> None:
    assert (distance.is_async, distance.takes_context) == (False, False)
    assert (nested.is_async, nested.takes_context) == (True, True)


def test_keywords_are_typed_and_have_defaults() -> None:
    arguments = b'{"start":{"x":1,"y":2},"end":{"x":3,"y":4}}'
    assert distance.keywords(arguments, context=None) == {
        "start": Point(1, 2),
        "end": Point(3, 4),
        "scale": 2,
    }


def test_context_is_among_the_keywords() -> None:
    context = SilentContext()
    assert nested.keywords(b'{"text":"a"}', context=context) == {
        "text": "a",
        "key": "",
        "context": context,
    }


def test_value_that_only_the_type_can_judge_is_refused_without_showing_it() -> None:
    with pytest.raises(InputError) as caught:
        size.keywords(b'{"content":"not base64!"}', context=None)
    assert caught.value.code is Code.INPUT_INVALID
    assert "not base64!" not in caught.value.message


def silent(text: str) -> str:
    return text


def generator(text: str) -> Iterator[str]:
    """Yield."""
    yield text


class Callable_:  # noqa: N801 - stands for any callable object
    """Not a function."""

    def __call__(self, text: str) -> str:
        return text


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        (silent, "function silent: it has no docstring"),
        (generator, "function generator: a generator is no tool"),
        (Callable_(), "tool test.tool: only a function can be a tool"),
    ],
)
def test_what_cannot_be_a_tool_is_refused(function: Callable[..., Any], problem: str) -> None:
    with pytest.raises(InputError) as caught:
        tool(name="test.tool")(function)
    assert (caught.value.code, caught.value.message) == (Code.TOOL_MANIFEST, problem)


def test_name_is_checked_like_any_other() -> None:
    with pytest.raises(InputError, match="is not a dotted tool name"):
        tool(name="NoDots", description="Anything.")(silent)
