# SPDX-License-Identifier: Apache-2.0
"""The bodies of the tools that touch nothing."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from palyra.core.canonical import JsonValue
    from palyra.flow.sandbox.tool_call import ToolCall


async def echo(call: ToolCall) -> JsonValue:
    """Give back the text."""
    return {"echo": call.arguments["text"]}


async def sleep(call: ToolCall) -> JsonValue:
    """Wait as long as asked."""
    duration_ms: int = call.arguments["duration_ms"]
    await asyncio.sleep(duration_ms / 1000)
    return {"slept_ms": duration_ms}
