# SPDX-License-Identifier: Apache-2.0
"""The tasks in which calls walk through the gate. They belong to the gate, not to the callers.

A caller that goes away cancels the tool or the reviewer it waits for, and nothing else: what was
begun is recorded to its end (I7). Cancellation therefore reaches a walk only in these two places.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

from palyra.core.errors import Code, PalyraError, StateConflictError
from palyra.core.trace import trace_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Coroutine, Iterator

    from palyra.core.ids import CallId

T = TypeVar("T")
_log: Final = logging.getLogger(__name__)


class Walks:
    """The walks under way."""

    def __init__(self) -> None:
        self._under_way: set[asyncio.Task[Any]] = set()
        self._is_closed = False
        self._cancellable: set[asyncio.Task[Any]] = set()
        self._abandoned: set[asyncio.Task[Any]] = set()
        self._by_call: dict[CallId, asyncio.Task[Any]] = {}

    async def drive(self, walk: Coroutine[Any, Any, T], *, within: CallId | None = None) -> T:
        """Run ``walk`` to its end, whatever becomes of the caller, and return its result.

        ``within`` names the call whose tool asks. It must still run; then even a closing gate takes
        its nested calls, so that it can end.
        """
        if within is not None and within not in self._by_call:
            walk.close()
            raise StateConflictError(
                Code.STATE_CONFLICT, f"call {within} has ended, so it makes no further calls"
            )
        if within is None and self._is_closed:
            walk.close()
            raise StateConflictError(Code.GATE_CLOSED)
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
        except PalyraError:
            raise
        except Exception as error:
            _log.error("a walk failed: %s", trace_of(error))
            raise PalyraError(Code.GATE_FAULT) from error  # I1

    @property
    def is_alone(self) -> bool:
        """Whether no more than one walk is under way."""
        return len(self._under_way) <= 1

    @property
    def is_abandoned(self) -> bool:
        """Whether the caller of the current walk has gone away."""
        return asyncio.current_task() in self._abandoned

    def joined(self, call_id: CallId) -> Awaitable[Any] | None:
        """Return how to wait for the walk of a launched call, if it is one of these."""
        task = self._by_call.get(call_id)
        return asyncio.shield(task) if task is not None else None

    @contextmanager
    def launched(self, call_id: CallId) -> Iterator[None]:
        """Let others join the current walk by its call, until its outcome is recorded."""
        self._by_call[call_id] = _current()
        try:
            yield
        finally:
            del self._by_call[call_id]

    @contextmanager
    def cancellable(self) -> Iterator[None]:
        """Let a cancellation through to what the current walk waits for: a tool, a reviewer."""
        task = _current()
        if task in self._abandoned:
            task.cancel()
        self._cancellable.add(task)
        try:
            yield
        finally:
            self._cancellable.discard(task)

    async def finish(self) -> None:
        """Take no further walks, and return once every one has ended."""
        self._is_closed = True
        while self._under_way:
            await asyncio.wait(tuple(self._under_way))

    def _abandon(self, task: asyncio.Task[Any]) -> None:
        self._abandoned.add(task)
        if task in self._cancellable:
            task.cancel()

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._under_way.discard(task)
        self._abandoned.discard(task)
        if not task.cancelled():
            task.exception()  # Told to the caller, or to nobody if it went away.


def _current() -> asyncio.Task[Any]:
    task = asyncio.current_task()
    if task is None:
        raise RuntimeError("a walk runs in a task")
    return task
