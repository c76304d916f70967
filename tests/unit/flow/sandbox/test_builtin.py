# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from palyra.flow.sandbox import builtin
from palyra.flow.sandbox.tool_call import ToolCall
from tests.support.samples import CALL_ID
from tests.support.simulator import travel
from tests.support.workspaces import MemoryEffects, no_nested_call

if TYPE_CHECKING:
    from collections.abc import Mapping


def call(arguments: Mapping[str, object]) -> ToolCall:
    return ToolCall(
        arguments=arguments,
        call_id=CALL_ID,
        workspace=None,
        effects=MemoryEffects(),
        nested=no_nested_call,
    )


@pytest.mark.parametrize("text", ["", "hi", "\u202e\x00🦊"])
async def test_echo_gives_back_the_text(text: str) -> None:
    assert await builtin.echo(call({"text": text})) == {"echo": text}


async def test_sleep_takes_as_long_as_asked() -> None:
    task = asyncio.create_task(builtin.sleep(call({"duration_ms": 5000})))
    await asyncio.sleep(0)
    travel(4.9)
    await asyncio.sleep(0)
    assert not task.done()
    travel(0.2)
    assert await task == {"slept_ms": 5000}


async def test_sleep_of_nothing_ends_at_once() -> None:
    assert await builtin.sleep(call({"duration_ms": 0})) == {"slept_ms": 0}
