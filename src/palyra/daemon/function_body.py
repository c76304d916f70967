# SPDX-License-Identifier: Apache-2.0
"""Python functions as tool bodies: they run in this process, with nothing between them and it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec
import orjson

from palyra.core.errors import Code, ToolError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from palyra.core.canonical import JsonValue
    from palyra.core.ids import CallId
    from palyra.flow.sandbox.execute import ToolBody
    from palyra.flow.sandbox.tool_call import ToolCall
    from palyra.tools.function import FunctionTool


class NestedCalls:
    """How a function calls other tools: through the gate, as a child of its own call."""

    def __init__(self, call: ToolCall) -> None:
        self._call = call

    @property
    def call_id(self) -> CallId:
        """The call on whose behalf the function runs."""
        return self._call.call_id

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> JsonValue:
        """Return the output of another tool.

        Raises:
            ToolError: it was refused or failed; the code says which.
        """
        result = await self._call.nested(tool, orjson.dumps(dict(arguments)))
        if result.outcome is not None and result.outcome.ok:
            output: JsonValue = orjson.loads(bytes(result.outcome.output))
            return output
        error = result.outcome.error if result.outcome is not None else None
        code = Code(error.code) if error is not None else Code(result.decision.code)
        raise ToolError(
            code,
            f"the nested call of {tool} ended as {result.state}",
            details={"call_id": result.call_id},
        )


def function_body(tool: FunctionTool[Any, Any]) -> ToolBody:
    """Return the body that calls the function of ``tool``.

    A coroutine is stopped when its time is up. Any other function runs in a thread, which Python
    cannot stop: its call ends on time, the thread when the function returns.
    """

    async def body(call: ToolCall) -> JsonValue:
        keywords = tool.keywords(orjson.dumps(dict(call.arguments)), context=NestedCalls(call))
        if tool.is_async:
            value = await tool.function(**keywords)
        else:
            value = await asyncio.to_thread(tool.function, **keywords)
        output: JsonValue = msgspec.to_builtins(value)
        return output

    return body
