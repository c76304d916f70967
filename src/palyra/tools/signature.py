# SPDX-License-Identifier: Apache-2.0
"""A Python function's signature in, what a manifest needs to know of it out.

Schemas are made from the type hints, so that they cannot drift from the code. What a hint cannot
say, a caller cannot be held to: a function with a missing or unsupported hint is no tool.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from palyra.core.errors import Code, InputError
from palyra.tools.secrets import secret_pointers

if TYPE_CHECKING:
    from palyra.core.ids import CallId

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_NAMED = frozenset({inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY})


class ToolContext(Protocol):
    """What a running tool may ask of the gate. Injected where a parameter has this type."""

    @property
    def call_id(self) -> CallId:
        """The call that is running."""

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> Any:  # noqa: ANN401
        """Call another tool through the gate, on this call's budget, and return its output.

        Raises:
            ToolError: the call was refused, or the other tool failed.
        """


class Signature(msgspec.Struct, frozen=True, kw_only=True):
    """What a function takes and gives, as schemas and as types."""

    arguments: type[msgspec.Struct]
    input_schema: Mapping[str, Any]
    output_schema: Mapping[str, Any]
    secret_fields: tuple[str, ...]
    context_parameter: str | None


def signature_of(function: Callable[..., Any]) -> Signature:
    """Read a function's signature.

    Raises:
        InputError: a parameter without a hint, with a hint that JSON cannot express, without a
            name of its own, or more than one context.
    """
    hints = _hints(function)
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    secrets: list[str] = []
    contexts: list[str] = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind not in _NAMED:
            raise _refusal(function, parameter.name, "cannot be passed by name")
        if parameter.name not in hints:
            raise _refusal(function, parameter.name, "has no type hint")
        hint = hints[parameter.name]
        if hint is ToolContext:
            contexts.append(parameter.name)
            continue
        fields.append(_field(function, parameter, hint))
        secrets += _secrets(function, parameter.name, hint)
    if len(contexts) > 1:
        raise _refusal(function, contexts[1], "is a second context")
    if "return" not in hints:
        raise _refusal(function, None, "has no type hint")
    arguments = msgspec.defstruct("Arguments", fields, forbid_unknown_fields=True, kw_only=True)
    return Signature(
        arguments=arguments,
        input_schema=_input_schema(arguments),
        output_schema=_output_schema(function, hints["return"]),
        secret_fields=tuple(secrets),
        context_parameter=contexts[0] if contexts else None,
    )


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function, include_extras=True)
    except (NameError, TypeError, AttributeError) as error:
        raise InputError(
            Code.TOOL_MANIFEST,
            f"function {_name(function)}: its type hints cannot be resolved: {error}",
            hint="define the types where the function's module can see them",
        ) from error


def _field(
    function: Callable[..., Any], parameter: inspect.Parameter, hint: object
) -> tuple[str, Any] | tuple[str, Any, Any]:
    """Return one field of the arguments, once it is known to have a schema of its own."""
    field = (
        (parameter.name, hint)
        if parameter.default is inspect.Parameter.empty
        else (parameter.name, hint, parameter.default)
    )
    try:
        # Alone first: only here is it known which parameter is to blame.
        msgspec.json.schema(msgspec.defstruct("Argument", [field], kw_only=True))
    except (TypeError, ValueError) as error:
        raise _refusal(
            function, parameter.name, f"has no JSON schema: {_last_line(error)}"
        ) from error
    return field


def _secrets(function: Callable[..., Any], parameter: str, hint: object) -> tuple[str, ...]:
    try:
        return secret_pointers(hint, at=f"/{parameter}")
    except ValueError as error:
        raise _refusal(function, parameter, f"cannot be hidden: {error}") from error


def _input_schema(arguments: type[msgspec.Struct]) -> dict[str, Any]:
    (root,), parts = msgspec.json.schema_components([arguments], ref_template="#/$defs/{name}")
    for part in parts.values():
        if "properties" in part:
            part.setdefault("additionalProperties", False)
    whole = parts.pop(root["$ref"].removeprefix("#/$defs/"))
    whole.pop("title")
    return {"$schema": _DIALECT, **whole, **({"$defs": parts} if parts else {})}


def _output_schema(function: Callable[..., Any], hint: object) -> dict[str, Any]:
    try:
        return {"$schema": _DIALECT, **msgspec.json.schema(hint)}
    except (TypeError, ValueError) as error:
        raise _refusal(function, None, f"has no JSON schema: {_last_line(error)}") from error


def _refusal(function: Callable[..., Any], parameter: str | None, problem: str) -> InputError:
    blamed = f"parameter {parameter}" if parameter else "the return value"
    return InputError(Code.TOOL_MANIFEST, f"function {_name(function)}: {blamed} {problem}")


def _name(function: Callable[..., Any]) -> str:
    return f"{function.__module__}.{function.__qualname__}"


def _last_line(error: Exception) -> str:
    return str(error).rstrip().rpartition("\n")[2]
