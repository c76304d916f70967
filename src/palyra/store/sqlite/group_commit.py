# SPDX-License-Identifier: Apache-2.0
"""Forms commits: many waiting producers, one writer, as few disk synchronisations as possible.

Whoever comes first while nothing waits lets every other ready producer join, then the writer
commits for all of them in place. A hop to a thread was measured to cost more than the disk takes:
half a commit for a lone producer, a third of the throughput for many, who fight over the
interpreter's lock. A producer that knows it is alone does not even wait for others to join.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from palyra.core.errors import Code, PalyraError, StoreError
from palyra.core.ports import Recorded
from palyra.core.transitions import Transition

CommitFunction = Callable[[Sequence[Transition]], list[Recorded | PalyraError]]

LARGEST_COMMIT: Final = 128
"""Transitions in one commit. Each brings a few entries, which bounds the way to the signed head."""
LONGEST_QUEUE: Final = 16_384
"""Producers beyond this many waiting are refused with ``store.busy`` (I13)."""


class GroupCommit:
    """The queue before the one writer. Belongs to one event loop."""

    def __init__(self, commit: CommitFunction) -> None:
        self._commit = commit
        self._waiting: deque[tuple[Transition, asyncio.Future[Recorded]]] = deque()
        self._is_due = False
        self.is_alone: Callable[[], bool] = _unknown

    async def record(self, transition: Transition) -> Recorded:
        """Return once ``transition`` is durable."""
        if not self._waiting and self.is_alone():
            recorded = self._commit([transition])[0]
            if isinstance(recorded, PalyraError):
                raise recorded
            return recorded
        if len(self._waiting) >= LONGEST_QUEUE:
            raise StoreError(Code.STORE_BUSY, f"{LONGEST_QUEUE} records wait for the disk already")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Recorded] = loop.create_future()
        self._waiting.append((transition, future))
        if not self._is_due:
            self._is_due = True
            # Not a part of this coroutine: a producer that is cancelled takes nobody with it.
            loop.call_soon(self._commit_waiting)
        return await future

    def _commit_waiting(self) -> None:
        batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), LARGEST_COMMIT))]
        try:
            results = self._commit([transition for transition, _ in batch])
        except BaseException as error:
            for _, future in batch:  # No producer is left waiting, whatever happened.
                if not future.done():
                    future.set_exception(
                        StoreError(Code.STORE_UNREACHABLE, f"the writer failed: {error!r}")
                    )
            raise
        else:
            for (_, future), result in zip(batch, results, strict=True):
                if future.done():
                    continue  # Its producer was cancelled; the record stands all the same.
                if isinstance(result, PalyraError):
                    future.set_exception(result)
                else:
                    future.set_result(result)
        finally:
            self._is_due = bool(self._waiting)
            if self._is_due:
                asyncio.get_running_loop().call_soon(self._commit_waiting)


def _unknown() -> bool:
    """Nobody has said how many producers there are, so others may come."""
    return False
