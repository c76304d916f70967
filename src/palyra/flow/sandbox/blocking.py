# SPDX-License-Identifier: Apache-2.0
"""Blocking work in a thread, from which a coroutine returns only when the thread has ended."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import TYPE_CHECKING, TypeVar

from palyra.core.errors import Code, ToolError

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


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

    When the caller is cancelled, the work is asked to stop and the cancellation goes on only after
    its thread has ended: nothing happens after the call is recorded as ended (I7).
    """
    stop = StopToken()
    thread = asyncio.get_running_loop().run_in_executor(None, work, stop)
    try:
        return await asyncio.shield(thread)
    except asyncio.CancelledError:
        stop.stop()
        while not thread.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait({thread})
        thread.exception()  # The cancellation is the answer; what the work raised is not.
        raise
