# SPDX-License-Identifier: Apache-2.0
import asyncio
import contextlib
import threading
import time

import pytest

from palyra.core.errors import Code, ToolError
from palyra.flow.sandbox.blocking import MAX_THREADS, StopToken, run_blocking, tidy_blocking


def work_until_stopped(stop: StopToken) -> None:
    while True:
        stop.check()
        time.sleep(0.001)


async def test_returns_what_the_work_returns_from_another_thread() -> None:
    assert await run_blocking(lambda _: threading.get_ident()) != threading.get_ident()


async def test_raises_what_the_work_raises() -> None:
    with pytest.raises(ZeroDivisionError):
        await run_blocking(lambda _: 1 // 0)


def test_a_stopped_token_cancels_whoever_looks_at_it() -> None:
    stop = StopToken()
    stop.check()
    stop.stop()
    with pytest.raises(ToolError) as caught:
        stop.check()
    assert caught.value.code is Code.TOOL_CANCELLED


@pytest.mark.invariant("I7")
@pytest.mark.parametrize("cancels", [1, 3])
async def test_a_cancelled_caller_goes_on_only_when_the_thread_has_ended(cancels: int) -> None:
    begun, ended = threading.Event(), threading.Event()

    def work(stop: StopToken) -> None:
        begun.set()
        with contextlib.suppress(ToolError):
            work_until_stopped(stop)
        time.sleep(0.1)  # an uninterruptible last act
        ended.set()

    task = asyncio.create_task(run_blocking(work))
    await asyncio.to_thread(begun.wait)
    for _ in range(cancels):
        task.cancel()
        await asyncio.sleep(0.01)
        assert not task.done()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()


async def test_what_the_work_raises_after_a_cancellation_is_not_the_answer() -> None:
    begun = threading.Event()

    def work(stop: StopToken) -> None:
        begun.set()
        work_until_stopped(stop)

    task = asyncio.create_task(run_blocking(work))
    await asyncio.to_thread(begun.wait)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.invariant("I13")
async def test_work_that_waits_for_a_thread_is_cancelled_at_once_and_never_begins() -> None:
    go_on, begun, tidied = threading.Event(), threading.Event(), threading.Event()
    hanging = [
        asyncio.create_task(run_blocking(lambda _: go_on.wait())) for _ in range(MAX_THREADS)
    ]
    await asyncio.sleep(0)
    try:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await run_blocking(lambda _: begun.set())
        assert not any(task.done() for task in hanging)
        await tidy_blocking(tidied.set)
    finally:
        go_on.set()
        await asyncio.gather(*hanging)
    assert (begun.is_set(), tidied.is_set()) == (False, True)


async def test_the_threads_of_file_tools_are_named_and_apart_from_those_of_others() -> None:
    name = await run_blocking(lambda _: threading.current_thread().name)
    assert name.startswith("palyra-files")


@pytest.mark.invariant("I7")
async def test_tidying_ends_before_a_cancellation_goes_on() -> None:
    begun, ended = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        time.sleep(0.05)
        ended.set()

    task = asyncio.create_task(tidy_blocking(work))
    await asyncio.to_thread(begun.wait)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()
