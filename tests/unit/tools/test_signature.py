# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable
from enum import StrEnum
from typing import Annotated, Any, Literal

import msgspec
import pytest

from palyra.core.errors import Code, InputError
from palyra.flow.intake.schema import ArgumentSchema, SchemaRole
from palyra.tools.secrets import Secret
from palyra.tools.signature import ToolContext, signature_of

DIALECT = "https://json-schema.org/draft/2020-12/schema"
ODD = object()


class Point(msgspec.Struct):
    x: int
    y: int = 0


class Colour(StrEnum):
    RED = "red"


class Arguments(msgspec.Struct):
    """Has the name that the arguments' own type has."""

    inner: int


class Chain(msgspec.Struct):
    key: Annotated[str, Secret()]
    rest: "Chain | None" = None


def nothing() -> None:
    raise NotImplementedError


def plain(
    name: Annotated[str, msgspec.Meta(min_length=1, max_length=9, pattern="^[a-z]+$")],
    count: Annotated[int, msgspec.Meta(ge=0)] = 3,
    *,
    mode: Literal["fast", "slow"] = "slow",
    tags: list[str] | None = None,
) -> list[int]:
    raise NotImplementedError


def with_point(point: Point, context: ToolContext, key: Annotated[str, Secret()]) -> Point:
    raise NotImplementedError


def with_colour(colour: Colour) -> Colour:
    raise NotImplementedError


def with_namesake(arguments: Arguments) -> Arguments:
    raise NotImplementedError


def test_function_of_nothing_takes_no_field() -> None:
    signature = signature_of(nothing)
    assert signature.input_schema == {
        "$schema": DIALECT,
        "type": "object",
        "properties": {},
        "required": [],
        "additionalProperties": False,
    }
    assert signature.output_schema == {"$schema": DIALECT, "type": "null"}
    assert signature.context_parameter is None


def test_constraints_and_defaults_are_carried() -> None:
    signature = signature_of(plain)
    assert signature.input_schema == {
        "$schema": DIALECT,
        "type": "object",
        "properties": {
            "name": {"type": "string", "minLength": 1, "maxLength": 9, "pattern": "^[a-z]+$"},
            "count": {"type": "integer", "minimum": 0, "default": 3},
            "mode": {"enum": ["fast", "slow"], "default": "slow"},
            "tags": {
                "anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}],
                "default": None,
            },
        },
        "required": ["name"],
        "additionalProperties": False,
    }
    assert signature.output_schema == {
        "$schema": DIALECT,
        "type": "array",
        "items": {"type": "integer"},
    }


def test_context_is_injected_and_not_in_the_schema() -> None:
    signature = signature_of(with_point)
    assert signature.context_parameter == "context"
    assert sorted(signature.input_schema["properties"]) == ["key", "point"]
    assert signature.secret_fields == ("/key",)


def test_unknown_fields_are_refused_at_every_level() -> None:
    schema = ArgumentSchema(
        signature_of(with_point).input_schema, tool="test.point", role=SchemaRole.INPUT
    )
    assert schema.check({"key": "k", "point": {"x": 1}}) is None
    fault = schema.check({"key": "k", "point": {"x": 1, "z": 2}})
    assert fault is not None
    assert fault.path == "/point/z"


def test_enumeration_is_a_list_of_its_values() -> None:
    signature = signature_of(with_colour)
    assert signature.input_schema["$defs"] == {"Colour": {"title": "Colour", "enum": ["red"]}}


def test_type_with_the_name_of_the_arguments_is_told_apart() -> None:
    signature = signature_of(with_namesake)
    schema = ArgumentSchema(signature.input_schema, tool="test.same", role=SchemaRole.INPUT)
    assert schema.check({"arguments": {"inner": 1}}) is None
    assert schema.check({"inner": 1}) is not None


def without_hint(first: int, second) -> int:  # type: ignore[no-untyped-def]  # noqa: ANN001
    raise NotImplementedError


def without_return(first: int):  # type: ignore[no-untyped-def]  # noqa: ANN201
    raise NotImplementedError


def variadic(*numbers: int) -> int:
    raise NotImplementedError


def variadic_by_name(**numbers: int) -> int:
    raise NotImplementedError


def positional(first: int, /) -> int:
    raise NotImplementedError


def of_object(thing: object) -> int:
    raise NotImplementedError


def of_complex(number: complex) -> int:
    raise NotImplementedError


def gives_object() -> object:
    raise NotImplementedError


def with_list_default(items: list[int] = [1]) -> int:  # noqa: B006 - the point
    raise NotImplementedError


def with_odd_default(thing: Any = ODD) -> int:  # noqa: ANN401 - the point
    raise NotImplementedError


def of_unknown(thing: "Unknown") -> int:  # type: ignore[name-defined]  # noqa: F821
    raise NotImplementedError


def with_two_contexts(one: ToolContext, two: ToolContext) -> int:
    raise NotImplementedError


def with_endless_secret(chain: Chain) -> int:
    raise NotImplementedError


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        (without_hint, "without_hint: parameter second has no type hint"),
        (without_return, "without_return: the return value has no type hint"),
        (variadic, "variadic: parameter numbers cannot be passed by name"),
        (variadic_by_name, "variadic_by_name: parameter numbers cannot be passed by name"),
        (positional, "positional: parameter first cannot be passed by name"),
        (of_object, "of_object: parameter thing has no JSON schema"),
        (of_complex, "of_complex: parameter number has no JSON schema"),
        (gives_object, "gives_object: the return value has no JSON schema"),
        (with_list_default, "with_list_default: parameter items has no JSON schema"),
        (with_odd_default, "with_odd_default: parameter thing has no JSON schema"),
        (of_unknown, "of_unknown: its type hints cannot be resolved"),
        (with_two_contexts, "with_two_contexts: parameter two is a second context"),
        (with_endless_secret, "with_endless_secret: parameter chain cannot be hidden"),
    ],
)
def test_function_that_is_no_tool_is_refused_by_name(
    function: Callable[..., Any], problem: str
) -> None:
    with pytest.raises(InputError) as caught:
        signature_of(function)
    assert caught.value.code is Code.TOOL_MANIFEST
    assert problem in caught.value.message
    assert "\n" not in caught.value.message
