# SPDX-License-Identifier: Apache-2.0
"""The tasks in which calls walk through the gate. They belong to the gate, not to the callers.

A caller that goes away cancels the tool it waits for, and nothing else: what was begun is recorded
to its end (I7). Cancellation therefore reaches a walk only while it executes.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine

T = TypeVar("T")


class Walks:
    """The walks under way."""

    def __init__(self) -> None:
        self._under_way: set[asyncio.Task[Any]] = set()
        self._executing: set[asyncio.Task[Any]] = set()
        self._abandoned: set[asyncio.Task[Any]] = set()

    async def drive(self, walk: Coroutine[Any, Any, T]) -> T:
        """Run ``walk`` to its end, whatever becomes of the caller, and return its result."""
        task = asyncio.get_running_loop().create_task(walk)
        self._under_way.add(task)
        task.add_done_callback(self._forget)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if not task.done():
                self._abandon(task)
                await asyncio.wait([task])
            raise

    @property
    def is_alone(self) -> bool:
        """Whether no more than one walk is under way."""
        return len(self._under_way) <= 1

    @property
    def is_abandoned(self) -> bool:
        """Whether the caller of the current walk has gone away."""
        return asyncio.current_task() in self._abandoned

    @asynccontextmanager
    async def executing(self) -> AsyncIterator[None]:
        """Let a cancellation through to the tool that the current walk executes."""
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a walk runs in a task")
        self._executing.add(task)
        try:
            yield
        finally:
            self._executing.discard(task)

    async def finish(self) -> None:
        """Return once every walk has ended."""
        while self._under_way:
            await asyncio.wait(tuple(self._under_way))

    def _abandon(self, task: asyncio.Task[Any]) -> None:
        self._abandoned.add(task)
        if task in self._executing:
            task.cancel()

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._under_way.discard(task)
        self._abandoned.discard(task)
        if not task.cancelled():
            task.exception()  # Told to the caller, or to nobody if it went away.
