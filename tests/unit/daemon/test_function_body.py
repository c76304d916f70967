# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import pytest

from palyra.core.approval import Rejection
from palyra.core.errors import Code, ToolError
from palyra.core.execution import Failure, Outcome
from palyra.core.lifecycle import CallState
from palyra.core.result import CallResult, call_result
from palyra.daemon.function_body import NestedCalls, function_body
from palyra.flow.sandbox.tool_call import ToolCall
from palyra.tools.function import tool
from palyra.tools.signature import ToolContext  # noqa: TC001 - read by @tool
from tests.support.samples import ALLOW, CALL_ID, FORBID, PROPOSAL
from tests.support.workspaces import MemoryEffects, no_nested_call

if TYPE_CHECKING:
    from palyra.core.decision import Decision


class Point(msgspec.Struct):
    x: int
    y: int


@tool(name="test.add")
def add(first: int, second: int = 2) -> int:
    """Add."""
    return first + second


@tool(name="test.add_later")
async def add_later(first: int, second: int = 2) -> int:
    """Add, without blocking."""
    return first + second


@tool(name="test.mirror")
def mirror(point: Point) -> Point:
    """Swap the coordinates."""
    return Point(x=point.y, y=point.x)


@tool(name="test.where")
def where() -> bool:
    """Say whether this is the main thread."""
    return threading.current_thread() is threading.main_thread()


@tool(name="test.where_later")
async def where_later() -> bool:
    """Say whether this is the main thread."""
    return threading.current_thread() is threading.main_thread()


@tool(name="test.ask")
async def ask(text: Annotated[str, msgspec.Meta(max_length=9)], context: ToolContext) -> str:
    """Call an echo and name the call."""
    output = await context.call("palyra.echo", {"text": text})
    return f"{context.call_id} {output['echo']}"


class Nested:
    """The gate as a nested call sees it: one answer, and what was asked."""

    def __init__(self, result: CallResult) -> None:
        self.result = result
        self.asked: list[tuple[str, bytes]] = []

    async def __call__(self, tool: str, raw_arguments: bytes) -> CallResult:
        self.asked.append((tool, raw_arguments))
        return self.result


def call(nested: Any = no_nested_call, /, **arguments: object) -> ToolCall:  # noqa: ANN401
    return ToolCall(
        arguments=arguments,
        call_id=CALL_ID,
        workspace=None,
        effects=MemoryEffects(),
        nested=nested,
    )


@pytest.mark.parametrize(
    ("arguments", "expected"), [({"first": 1}, 3), ({"first": 1, "second": 5}, 6)]
)
async def test_a_function_is_called_with_its_arguments(
    arguments: dict[str, int], expected: int
) -> None:
    assert await function_body(add)(call(**arguments)) == expected
    assert await function_body(add_later)(call(**arguments)) == expected


async def test_arguments_and_results_are_of_their_types() -> None:
    assert await function_body(mirror)(call(point={"x": 1, "y": 2})) == {"x": 2, "y": 1}


async def test_only_a_blocking_function_runs_in_a_thread() -> None:
    assert await function_body(where)(call()) is False
    assert await function_body(where_later)(call()) is True


def answered(outcome: Outcome | None, decision: Decision = ALLOW) -> CallResult:
    state = outcome.state if outcome is not None else CallState.DENIED
    return call_result(PROPOSAL, decision, state=state, outcome=outcome)


SUCCESS = Outcome(state=CallState.SUCCEEDED, output=msgspec.Raw(b'{"echo":"hi"}'), failure=None)


async def test_a_function_calls_other_tools_through_the_gate() -> None:
    nested = Nested(answered(SUCCESS))
    assert await function_body(ask)(call(nested, text="hi")) == f"{CALL_ID} hi"
    assert nested.asked == [("palyra.echo", b'{"text":"hi"}')]


@pytest.mark.parametrize(
    ("result", "code", "state"),
    [
        pytest.param(
            answered(None, FORBID), Code.TOOL_NOT_ALLOWLISTED, "denied", id="refused-by-policy"
        ),
        pytest.param(
            answered(
                Outcome(
                    state=CallState.TIMED_OUT,
                    output=None,
                    failure=Failure(code=Code.TOOL_TIMED_OUT, message="too late"),
                )
            ),
            Code.TOOL_TIMED_OUT,
            "timed_out",
            id="timed-out",
        ),
    ],
)
async def test_a_nested_call_that_fails_is_an_error_with_its_code(
    result: CallResult, code: Code, state: str
) -> None:
    with pytest.raises(ToolError) as error:
        await NestedCalls(call(Nested(result))).call("palyra.echo", {"text": "hi"})
    assert (error.value.code, error.value.message, dict(error.value.details)) == (
        code,
        f"the nested call of palyra.echo ended as {state}",
        {"call_id": CALL_ID},
    )


async def test_a_nested_call_that_a_human_refused_is_an_error() -> None:
    rejection = Rejection(code=Code.APPROVAL_DENIED, reason="no")
    result = call_result(PROPOSAL, FORBID, state=CallState.DENIED, answer=rejection)
    with pytest.raises(ToolError):
        await NestedCalls(call(Nested(result))).call("palyra.echo", {})
