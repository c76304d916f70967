# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
from contextlib import ExitStack

import pytest

from palyra.core.ids import CallId
from palyra.flow.sandbox.time_limit import RunningClocks, TimeLimit
from tests.support.simulator import settle_down, travel

PARENT, CHILD, STRANGER = CallId("parent"), CallId("child"), CallId("stranger")


class Pendulum:
    """A clock that says what was done to it."""

    def __init__(self) -> None:
        self.acts: list[str] = []

    def pause(self) -> None:
        self.acts.append("pause")

    def resume(self) -> None:
        self.acts.append("resume")


async def wait_under(limit: TimeLimit) -> str:
    try:
        async with limit:
            await asyncio.Event().wait()
    except TimeoutError:
        return "out of time"
    return "never"


async def test_a_block_ends_when_its_time_is_up() -> None:
    limit = TimeLimit(1000)
    task = asyncio.create_task(wait_under(limit))
    await settle_down()
    travel(0.9)
    await settle_down()
    assert (task.done(), limit.has_expired) == (False, False)
    travel(0.2)
    assert await task == "out of time"
    assert limit.has_expired


async def test_a_block_that_ends_in_time_is_left_alone() -> None:
    limit = TimeLimit(1000)
    async with limit:
        await asyncio.sleep(0)
    assert not limit.has_expired


async def test_a_block_that_raises_is_not_out_of_time() -> None:
    limit = TimeLimit(1000)
    with pytest.raises(TimeoutError, match="its own"):
        async with limit:
            raise TimeoutError("its own")
    assert not limit.has_expired


async def test_time_stands_still_during_a_pause_and_goes_on_with_what_was_left() -> None:
    limit = TimeLimit(1000)
    task = asyncio.create_task(wait_under(limit))
    await settle_down()
    travel(0.6)
    limit.pause()
    travel(3600)
    await settle_down()
    assert not task.done()
    limit.resume()
    travel(0.3)
    await settle_down()
    assert not task.done()
    travel(0.2)
    assert await task == "out of time"


async def test_pauses_nest() -> None:
    limit = TimeLimit(1000)
    task = asyncio.create_task(wait_under(limit))
    await settle_down()
    limit.pause()
    limit.pause()
    limit.resume()
    travel(3600)
    await settle_down()
    assert not task.done()
    limit.resume()
    travel(1.1)
    assert await task == "out of time"


async def test_what_was_overdrawn_before_a_pause_is_due_at_once_after_it() -> None:
    limit = TimeLimit(1000)
    task = asyncio.create_task(wait_under(limit))
    await settle_down()
    travel(1.5)
    limit.pause()
    await settle_down()
    assert not task.done()
    limit.resume()
    assert await task == "out of time"


async def test_a_clock_that_has_stopped_for_good_is_neither_stopped_nor_started() -> None:
    ended = TimeLimit(1000)
    async with ended:
        ended.pause()
    ended.resume()
    ended.pause()
    expired = TimeLimit(1000)
    task = asyncio.create_task(wait_under(expired))
    await settle_down()
    travel(2)
    await task
    expired.pause()
    expired.resume()
    assert expired.has_expired


def test_the_clocks_of_everyone_above_stand_and_go_on() -> None:
    clocks = RunningClocks()
    parents, childs, strangers = Pendulum(), Pendulum(), Pendulum()
    with ExitStack() as stack:
        stack.enter_context(clocks.running(PARENT, parent=None))
        stack.enter_context(clocks.running(CHILD, parent=PARENT))
        stack.enter_context(clocks.running(STRANGER, parent=None))
        clocks.started(PARENT, parents)
        clocks.started(CHILD, childs)
        clocks.started(STRANGER, strangers)
        with clocks.standing(CHILD):
            assert (parents.acts, childs.acts) == (["pause"], ["pause"])
        with clocks.standing(PARENT):
            pass
    assert parents.acts == ["pause", "resume"] * 2
    assert childs.acts == ["pause", "resume"]
    assert strangers.acts == []


def test_clocks_go_on_whatever_happens_meanwhile() -> None:
    clocks = RunningClocks()
    pendulum = Pendulum()
    with clocks.running(PARENT, parent=None):
        clocks.started(PARENT, pendulum)
        with pytest.raises(ZeroDivisionError), clocks.standing(PARENT):
            raise ZeroDivisionError
    assert pendulum.acts == ["pause", "resume"]


@pytest.mark.parametrize("call_id", [None, STRANGER, CHILD])
def test_where_no_clock_runs_none_stands(call_id: CallId | None) -> None:
    clocks = RunningClocks()
    with clocks.running(CHILD, parent=PARENT), clocks.standing(call_id):
        pass


@pytest.mark.invariant("I13")
def test_a_call_that_ended_is_forgotten() -> None:
    clocks = RunningClocks()
    pendulum = Pendulum()
    with clocks.running(PARENT, parent=None):
        clocks.started(PARENT, pendulum)
    with clocks.running(CHILD, parent=None):
        pass  # it ended before it had a clock
    with clocks.standing(PARENT):
        pass
    assert pendulum.acts == []
    assert (clocks._clocks, clocks._parents) == ({}, {})
