# SPDX-License-Identifier: Apache-2.0
"""A time limit that can be stopped and continued: a parent's clock stands while a child waits."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from palyra.core.ids import CallId
    from palyra.core.ports import Clockwork


class TimeLimit:
    """Cancels the block it guards once its running time is used up; raises ``TimeoutError``."""

    def __init__(self, limit_ms: int) -> None:
        self._left_seconds = limit_ms / 1000
        self._timeout = asyncio.timeout(None)
        self._running_since = 0.0
        self._pauses = 0
        self._is_over = False

    @property
    def has_expired(self) -> bool:
        """Whether the time was used up."""
        return self._timeout.expired()

    def pause(self) -> None:
        """Stop counting. Pauses nest: each needs its own :meth:`resume`.

        Once the guarded block has ended, or its time is up, there is nothing left to stop.
        """
        self._pauses += 1
        if self._pauses == 1 and self._is_counting:
            self._left_seconds -= asyncio.get_running_loop().time() - self._running_since
            self._timeout.reschedule(None)

    def resume(self) -> None:
        """Go on counting with what was left."""
        self._pauses -= 1
        if self._pauses == 0 and self._is_counting:
            self._start()

    async def __aenter__(self) -> Self:
        await self._timeout.__aenter__()
        self._start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_over = True
        await self._timeout.__aexit__(kind, error, trace)

    @property
    def _is_counting(self) -> bool:
        return not self._is_over and not self._timeout.expired()

    def _start(self) -> None:
        self._running_since = asyncio.get_running_loop().time()
        self._timeout.reschedule(self._running_since + max(0.0, self._left_seconds))


class RunningClocks:
    """The time limits of the calls under way, by call, with who called whom."""

    def __init__(self) -> None:
        self._clocks: dict[CallId, Clockwork] = {}
        self._parents: dict[CallId, CallId | None] = {}

    @contextmanager
    def running(self, call_id: CallId, *, parent: CallId | None) -> Iterator[None]:
        """Remember a call while it runs."""
        self._parents[call_id] = parent
        try:
            yield
        finally:
            del self._parents[call_id]
            self._clocks.pop(call_id, None)

    def started(self, call_id: CallId, clock: Clockwork) -> None:
        """Take up the time limit that an executor started for a call."""
        self._clocks[call_id] = clock

    @contextmanager
    def standing(self, call_id: CallId | None) -> Iterator[None]:
        """Stop the clocks of ``call_id`` and of everyone above it, and start them again."""
        stopped: list[Clockwork] = []
        while call_id is not None:
            clock = self._clocks.get(call_id)
            if clock is not None:
                clock.pause()
                stopped.append(clock)
            call_id = self._parents.get(call_id)
        try:
            yield
        finally:
            for clock in stopped:
                clock.resume()
