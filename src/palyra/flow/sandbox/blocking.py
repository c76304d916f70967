# SPDX-License-Identifier: Apache-2.0
"""Blocking work in a thread, from which a coroutine returns only when the thread has ended."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final, TypeVar

from palyra.core.errors import Code, ToolError

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

MAX_THREADS: Final = 32
_THREADS: Final = ThreadPoolExecutor(MAX_THREADS, thread_name_prefix="palyra-files")
# Apart, so that work which hangs cannot keep another call from being tidied up.
_TIDYING: Final = ThreadPoolExecutor(4, thread_name_prefix="palyra-files-tidying")


class StopToken:
    """Asks work in another thread to stop; the work looks at it wherever it can stop cleanly."""

    def __init__(self) -> None:
        self._stopped = threading.Event()

    def stop(self) -> None:
        """Ask to stop. There is no way back."""
        self._stopped.set()

    def check(self) -> None:
        """Raise ``tool.cancelled`` once a stop was asked for."""
        if self._stopped.is_set():
            raise ToolError(Code.TOOL_CANCELLED)


async def run_blocking(work: Callable[[StopToken], T]) -> T:
    """Return what ``work`` returns, run in a thread.

    When the caller is cancelled, work that waits for a thread never begins. Work that has begun is
    asked to stop, and the cancellation goes on only after its thread has ended: nothing happens
    after the call is recorded as ended (I7).
    """
    stop = StopToken()
    future = _THREADS.submit(work, stop)
    thread = asyncio.wrap_future(future)
    try:
        return await asyncio.shield(thread)
    except asyncio.CancelledError:
        stop.stop()
        if not future.cancel():
            await _end_of(thread)
        raise


async def tidy_blocking(work: Callable[[], None]) -> None:
    """Run ``work``, which tidies up after other work, to its end whoever is cancelled."""
    thread = asyncio.wrap_future(_TIDYING.submit(work))
    try:
        await asyncio.shield(thread)
    except asyncio.CancelledError:
        await _end_of(thread)
        raise


async def _end_of(thread: asyncio.Future[T]) -> None:
    while not thread.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait({thread})
    thread.exception()  # The cancellation is the answer; what the work raised is not.
