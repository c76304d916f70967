# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio

import pytest

from palyra.core.errors import Code, PalyraError, StateConflictError, StoreError
from palyra.core.ids import CallId
from palyra.flow.sandbox.walks import Walks
from tests.support.simulator import settle_down

CALL = CallId("a-call")


class Walk:
    """A walk that records before and after what it lets be cancelled."""

    def __init__(self, walks: Walks) -> None:
        self.walks = walks
        self.before, self.inside, self.after = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.trace: list[str] = []

    async def __call__(self) -> str:
        await self.before.wait()
        self.trace.append("begun")
        try:
            with self.walks.cancellable():
                await self.inside.wait()
        except asyncio.CancelledError:
            self.trace.append("cancelled")
            asyncio.current_task().uncancel()  # type: ignore[union-attr]  # there is one
        await self.after.wait()
        self.trace.append("abandoned" if self.walks.is_abandoned else "attended")
        return "walked"

    def let_go(self) -> None:
        for event in (self.before, self.inside, self.after):
            event.set()


async def test_a_walk_gives_its_result() -> None:
    walk = Walk(Walks())
    walk.let_go()
    assert await walk.walks.drive(walk()) == "walked"
    assert walk.trace == ["begun", "attended"]


@pytest.mark.invariant("I7")
async def test_a_caller_that_goes_away_early_is_held_until_the_walk_has_ended() -> None:
    walk = Walk(Walks())
    caller = asyncio.create_task(walk.walks.drive(walk()))
    await settle_down()
    caller.cancel()
    await settle_down()
    assert not caller.done()
    walk.before.set()
    walk.after.set()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert walk.trace == ["begun", "cancelled", "abandoned"]


@pytest.mark.invariant("I7")
async def test_a_cancellation_reaches_what_the_walk_waits_for() -> None:
    walk = Walk(Walks())
    walk.before.set()
    caller = asyncio.create_task(walk.walks.drive(walk()))
    await settle_down()
    caller.cancel()
    await settle_down()
    assert (walk.trace, caller.done()) == (["begun", "cancelled"], False)
    walk.after.set()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert walk.trace[-1] == "abandoned"


@pytest.mark.invariant("I7")
async def test_a_cancellation_reaches_nothing_else() -> None:
    walk = Walk(Walks())
    walk.before.set()
    walk.inside.set()
    caller = asyncio.create_task(walk.walks.drive(walk()))
    await settle_down()
    caller.cancel()
    await settle_down()
    walk.after.set()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert walk.trace == ["begun", "abandoned"]


async def test_a_caller_cancelled_when_the_walk_has_just_ended_is_cancelled() -> None:
    walks = Walks()

    async def ends() -> str:
        caller.cancel()
        return "ended"

    caller = asyncio.ensure_future(walks.drive(ends()))
    with pytest.raises(asyncio.CancelledError):
        await caller
    await walks.finish()


async def test_a_walk_that_lets_its_cancellation_pass_ends_with_it() -> None:
    walks = Walks()

    async def waits() -> None:
        with walks.cancellable():
            await asyncio.Event().wait()

    caller = asyncio.create_task(walks.drive(waits()))
    await settle_down()
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    await walks.finish()


async def test_typed_faults_pass_as_they_are() -> None:
    async def fails() -> None:
        raise StoreError(Code.STORE_BUSY)

    with pytest.raises(StoreError):
        await Walks().drive(fails())


@pytest.mark.invariant("I1")
async def test_any_other_fault_becomes_a_typed_one() -> None:
    async def fails() -> None:
        raise ZeroDivisionError("with a secret")

    with pytest.raises(PalyraError) as caught:
        await Walks().drive(fails())
    assert caught.value.code is Code.GATE_FAULT
    assert "secret" not in str(caught.value)


async def test_a_fault_after_the_caller_went_away_is_nobodys() -> None:
    walks, go = Walks(), asyncio.Event()

    async def fails() -> None:
        await go.wait()
        raise ZeroDivisionError

    caller = asyncio.create_task(walks.drive(fails()))
    await settle_down()
    caller.cancel()
    await settle_down()
    go.set()
    with pytest.raises(asyncio.CancelledError):
        await caller


async def test_others_may_join_a_launched_call_and_go_away_again() -> None:
    walks, end = Walks(), asyncio.Event()

    async def launches() -> str:
        with walks.launched(CALL):
            await end.wait()
            return "outcome"

    assert walks.joined(CALL) is None
    first = asyncio.create_task(walks.drive(launches()))
    await settle_down()
    joined = [asyncio.ensure_future(walks.joined(CALL) or _nothing()) for _ in range(2)]
    joined[0].cancel()
    await settle_down()
    end.set()
    assert await joined[1] == await first == "outcome"
    assert joined[0].cancelled()
    assert walks.joined(CALL) is None


async def test_it_is_known_whether_somebody_else_walks() -> None:
    walks = Walks()
    one, two = Walk(walks), Walk(walks)
    alone = [walks.is_alone]
    callers = [asyncio.create_task(walks.drive(one()))]
    await settle_down()
    alone.append(walks.is_alone)
    callers.append(asyncio.create_task(walks.drive(two())))
    await settle_down()
    alone.append(walks.is_alone)
    one.let_go()
    await callers[0]
    alone.append(walks.is_alone)
    two.let_go()
    await callers[1]
    assert alone == [True, True, False, True]
    assert not walks.is_abandoned


async def test_the_end_waits_for_every_walk_and_for_those_within_them() -> None:
    walks, inner = Walks(), Walk(Walks())

    async def outer() -> str:
        with walks.launched(CallId("outer")):
            await go.wait()
            return await walks.drive(inner(), within=CallId("outer"))

    go = asyncio.Event()
    caller = asyncio.create_task(walks.drive(outer()))
    await settle_down()
    end = asyncio.create_task(walks.finish())
    await settle_down()
    go.set()
    await settle_down()
    assert not end.done()
    inner.let_go()
    await end
    assert await caller == "walked"


async def test_after_the_end_no_walk_begins() -> None:
    walk = Walk(Walks())
    await walk.walks.finish()
    with pytest.raises(StateConflictError) as caught:
        await walk.walks.drive(walk())
    assert (caught.value.code, walk.trace) == (Code.GATE_CLOSED, [])


async def test_a_call_that_has_ended_makes_no_further_calls() -> None:
    walk = Walk(Walks())
    with pytest.raises(StateConflictError) as caught:
        await walk.walks.drive(walk(), within=CallId("ended"))
    assert (caught.value.code, walk.trace) == (Code.STATE_CONFLICT, [])


def test_a_walk_runs_in_a_task() -> None:
    async def nothing() -> None:
        await asyncio.sleep(0)

    loop = asyncio.new_event_loop()
    failures: list[BaseException] = []

    def outside_of_any_task() -> None:
        try:
            with Walks().cancellable():
                pass
        except RuntimeError as error:
            failures.append(error)

    loop.call_soon(outside_of_any_task)
    loop.run_until_complete(nothing())
    loop.close()
    assert [str(error) for error in failures] == ["a walk runs in a task"]


async def _nothing() -> None:
    raise AssertionError("there was nothing to join")
