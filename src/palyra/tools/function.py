# SPDX-License-Identifier: Apache-2.0
"""The ``@tool`` decorator: a Python function in, a tool with its manifest out.

The decorated function can still be called as before, which is how it is tested; only the gate
calls it on behalf of an agent.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

import msgspec

from palyra.core.errors import Code, InputError
from palyra.core.execution import Executor
from palyra.core.manifest import FactExtraction, ToolManifest, no_facts
from palyra.tools.signature import signature_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from palyra.core.capability import Capability
    from palyra.tools.signature import ToolContext

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionTool(Generic[P, R]):
    """A function and the manifest that was read off it."""

    manifest: ToolManifest
    function: Callable[P, R]
    arguments: type[msgspec.Struct]
    context_parameter: str | None

    @property
    def takes_context(self) -> bool:
        """Whether the function wants to call other tools."""
        return self.context_parameter is not None

    @property
    def is_async(self) -> bool:
        """Whether the function is a coroutine; any other would block the event loop."""
        return inspect.iscoroutinefunction(self.function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function itself, past the gate."""
        return self.function(*args, **kwargs)

    def keywords(self, arguments: bytes, *, context: ToolContext | None) -> dict[str, Any]:
        """Return the function's keyword arguments for schema-valid JSON: typed, with defaults.

        Raises:
            InputError: a value that its schema cannot tell from a good one, such as bad base64.
        """
        try:
            decoded = msgspec.json.decode(arguments, type=self.arguments)
        except msgspec.ValidationError as error:
            raise InputError(
                Code.INPUT_INVALID,
                f"tool {self.manifest.name}: an argument does not fit its type hint",
            ) from error
        keywords = {name: getattr(decoded, name) for name in decoded.__struct_fields__}
        if self.context_parameter is not None:
            keywords[self.context_parameter] = context
        return keywords


def tool(
    *,
    name: str,
    version: str = "1.0.0",
    description: str = "",
    capabilities: Iterable[Capability] = (),
    sensitive: bool = False,
    facts: FactExtraction = no_facts,
    max_input_bytes: int = 64 * 1024,
    max_output_bytes: int = 1024 * 1024,
) -> Callable[[Callable[P, R]], FunctionTool[P, R]]:
    """Make a tool of the decorated function, sync or async.

    Its schemas come from the type hints, its description from the docstring unless one is given.
    ``version`` is part of every call's digest: raise it when the meaning of a call changes, and
    what was approved before no longer counts. A parameter of type ``ToolContext`` is injected;
    a hint ``Annotated[str, Secret()]`` keeps a value out of the journal.

    Raises:
        InputError: the function cannot be a tool; the message names function and parameter.
    """

    def decorate(function: Callable[P, R]) -> FunctionTool[P, R]:
        _require_plain_function(function, name=name)
        told = description or inspect.getdoc(function)
        if not told:
            raise InputError(
                Code.TOOL_MANIFEST,
                f"function {function.__qualname__}: it has no docstring",
                hint="say in a docstring what the tool does: people decide by it",
            )
        signature = signature_of(function)
        return FunctionTool(
            manifest=ToolManifest(
                name=name,
                version=version,
                description=told,
                input_schema=signature.input_schema,
                output_schema=signature.output_schema,
                executor=Executor.BUILTIN,
                capabilities=frozenset(capabilities),
                declared_sensitive=sensitive,
                max_input_bytes=max_input_bytes,
                max_output_bytes=max_output_bytes,
                secret_fields=signature.secret_fields,
                extract_facts=facts,
            ),
            function=function,
            arguments=signature.arguments,
            context_parameter=signature.context_parameter,
        )

    return decorate


def _require_plain_function(function: object, *, name: str) -> None:
    if not inspect.isfunction(function):
        raise InputError(Code.TOOL_MANIFEST, f"tool {name}: only a function can be a tool")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise InputError(
            Code.TOOL_MANIFEST, f"function {function.__qualname__}: a generator is no tool"
        )
