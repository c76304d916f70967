# SPDX-License-Identifier: Apache-2.0
"""A caller goes away at every point there is: nothing is left running, nothing unrecorded."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from palyra.core.lifecycle import TERMINAL, CallState
from palyra.core.session import BudgetLimits
from palyra.tools.function import FunctionTool, tool
from palyra.tools.signature import ToolContext  # noqa: TC001 - a type hint that tools are made from
from tests.support.scripted import ScriptedReviewer, approval_of
from tests.support.simulator import PLENTY, GateSimulator, Probe, settle_down, travel

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

LIMITS = BudgetLimits(
    max_calls_per_run=PLENTY, max_calls_per_session=PLENTY, max_calls_per_agent_hour=PLENTY
)
MOST_TURNS = 200


class Steps:
    """Tools that come to a halt a few times, alone or within each other, and count themselves."""

    def __init__(self) -> None:
        self.running = 0

        @tool(name="test.steps")
        async def steps(count: int = 3) -> int:
            """Take a few turns of the event loop."""
            self.running += 1
            try:
                for _ in range(count):
                    await asyncio.sleep(0)
            finally:
                self.running -= 1
            return count

        @tool(name="test.asking", sensitive=True)
        async def asking() -> int:
            """Take two turns, once a human has agreed."""
            return await steps(2)

        @tool(name="test.nesting")
        async def nesting(context: ToolContext) -> list[int]:
            """Call the others, one after the other and side by side."""
            self.running += 1
            try:
                one = await context.call("test.steps", {"count": 1})
                more = await asyncio.gather(
                    context.call("test.steps", {"count": 2}), context.call("test.asking", {})
                )
                return [one, *more]
            finally:
                self.running -= 1

        self.tools: list[FunctionTool[Any, Any]] = [steps, asking, nesting]


async def steps(simulator: GateSimulator) -> object:
    return await simulator.call("test.steps")


async def echo_twice_at_once(simulator: GateSimulator) -> object:
    return await asyncio.gather(simulator.call(), simulator.call("test.steps", {"count": 1}))


async def asked_and_answered_at_once(simulator: GateSimulator) -> object:
    simulator.reviewer.at_once = approval_of
    return await simulator.call("test.asking")


async def asked_and_answered_later(simulator: GateSimulator) -> object:
    answering = asyncio.create_task(_answer(simulator.reviewer))
    try:
        return await simulator.call("test.asking")
    finally:
        answering.cancel()


async def nested(simulator: GateSimulator) -> object:
    answering = asyncio.create_task(_answer(simulator.reviewer))
    try:
        return await simulator.call("test.nesting")
    finally:
        answering.cancel()


async def malformed(simulator: GateSimulator) -> object:
    return await asyncio.gather(simulator.call("no.such_tool"), simulator.call("no.such_tool"))


async def _answer(reviewer: ScriptedReviewer) -> None:
    while True:
        await asyncio.sleep(0)
        for question in reviewer.questions.values():
            if not question.answer.done():
                reviewer.reply(approval_of(question.proposal), to=question)


@pytest.mark.invariant("I7")
@pytest.mark.invariant("I5")
@pytest.mark.parametrize("times", [1, 2, 5], ids=["once", "twice", "again-and-again"])
@pytest.mark.parametrize(
    "act",
    [
        steps,
        echo_twice_at_once,
        asked_and_answered_at_once,
        asked_and_answered_later,
        nested,
        malformed,
    ],
)
async def test_a_caller_may_go_away_at_every_turn(
    tmp_path: Path, act: Callable[[GateSimulator], Awaitable[object]], times: int
) -> None:
    tools = Steps()
    allowed = TERMINAL | {CallState.PENDING}
    async with GateSimulator(tmp_path / "home", tools=tools.tools, limits=LIMITS) as simulator:
        await simulator.run()
        turns = 0
        while await _cancelled_after(turns, act(simulator), times=times):
            await simulator.at_rest()
            assert tools.running == 0, f"a tool runs on after {turns} turns"
            assert set(simulator.states().values()) <= allowed, f"after {turns} turns"
            turns += 1
            assert turns < MOST_TURNS
        assert turns > 2
        await settle_down()
        states = set(simulator.states().values())
        assert states & {"succeeded", "denied"}
        report = simulator.verified()
        assert report.problems == ()


async def _cancelled_after(turns: int, act: Awaitable[object], *, times: int) -> bool:
    """Cancel ``act`` after so many turns of the loop; say whether it had not ended by then."""
    task = asyncio.ensure_future(act)
    for _ in range(turns):
        await asyncio.sleep(0)
    if task.done():
        await task
        return False
    for _ in range(times):
        task.cancel()
        await asyncio.sleep(0)
    await asyncio.wait([task])
    return True


@pytest.mark.invariant("I7")
async def test_a_caller_that_goes_away_before_the_launch_leaves_a_call_that_nobody_ran(
    tmp_path: Path,
) -> None:
    probe = Probe()
    async with GateSimulator(tmp_path / "home", tools=[probe.tool]) as simulator:
        await simulator.run()
        simulator.store.hold = asyncio.Event()
        task = asyncio.create_task(simulator.call("test.probe"))
        await settle_down()
        task.cancel()
        await settle_down()
        assert not task.done()  # the intent is on its way to the disk: its end is waited for
        simulator.store.hold.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert probe.begun == 0
        (call_id,) = simulator.states()
        assert simulator.states()[call_id] == "cancelled"
        ended = simulator.journal(about=call_id)[-1].body["attestation"]["statement"]
        assert (ended["executor"], ended["outcome"]["error_code"]) == ("policy", "tool.cancelled")


@pytest.mark.invariant("I7")
async def test_a_cancelled_tool_has_ended_before_its_caller_goes_on(tmp_path: Path) -> None:
    order: list[str] = []

    @tool(name="test.tidy")
    async def tidy() -> None:
        """Take a while to clean up."""
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.01)
            order.append("the tool has ended")

    async with GateSimulator(tmp_path / "home", tools=[tidy]) as simulator:
        task = asyncio.create_task(simulator.call("test.tidy"))
        await settle_down()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        order.append("the caller goes on")
        assert order == ["the tool has ended", "the caller goes on"]
        assert list(simulator.states().values()) == ["cancelled"]
        assert simulator.verified().ok


async def test_a_tool_that_ignores_its_cancellation_still_ends_by_its_own_result(
    tmp_path: Path,
) -> None:
    @tool(name="test.stubborn")
    async def stubborn() -> str:
        """Go on regardless."""
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0)
        return "still here"

    async with GateSimulator(tmp_path / "home", tools=[stubborn]) as simulator:
        task = asyncio.create_task(simulator.call("test.stubborn"))
        await settle_down()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert list(simulator.states().values()) == ["succeeded"]
        assert simulator.verified().ok


async def test_a_caller_may_go_away_in_the_moment_the_time_is_up(tmp_path: Path) -> None:
    probe = Probe(holds=True)
    async with GateSimulator(tmp_path / "home", tools=[probe.tool]) as simulator:
        for turns in range(6):
            task = asyncio.create_task(simulator.call("test.probe"))
            await probe.until_begun()
            travel(31)
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
        assert set(simulator.states().values()) <= {"cancelled", "timed_out"}
        assert probe.running == 0
        assert simulator.verified().ok


async def test_a_caller_that_stops_waiting_for_a_human_leaves_the_call_pending(
    tmp_path: Path,
) -> None:
    async with GateSimulator(tmp_path / "home", tools=Steps().tools) as simulator:
        task = asyncio.create_task(simulator.call("test.asking"))
        await settle_down()
        assert simulator.reviewer.waiting == 1
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert simulator.reviewer.waiting == 0
        assert list(simulator.states().values()) == ["pending"]
        await asyncio.wait_for(simulator.gate.close(), timeout=1)  # nobody holds the gate open


@pytest.mark.invariant("I13")
async def test_a_reviewer_that_hangs_does_not_hold_a_caller_that_goes_away(tmp_path: Path) -> None:
    async with GateSimulator(tmp_path / "home", tools=Steps().tools) as simulator:
        simulator.reviewer.on_ask = asyncio.Event().wait
        task = asyncio.create_task(simulator.call("test.asking"))
        await settle_down()
        task.cancel()
        done, _ = await asyncio.wait([task], timeout=2)
        assert done == {task}
        assert simulator.calls() == []
        await asyncio.wait_for(simulator.gate.close(), timeout=1)


async def test_a_duplicate_that_goes_away_leaves_the_call_it_joined_alone(tmp_path: Path) -> None:
    probe = Probe(holds=True)
    async with GateSimulator(tmp_path / "home", tools=[probe.tool]) as simulator:
        first = asyncio.create_task(simulator.call("test.probe", request_id="r"))
        await probe.until_begun()
        duplicate = asyncio.create_task(simulator.call("test.probe", request_id="r"))
        await settle_down()
        duplicate.cancel()
        await settle_down()
        probe.release.set()
        assert (await first).state == "succeeded"
        with pytest.raises(asyncio.CancelledError):
            await duplicate
        assert (probe.begun, probe.cancelled) == (1, 0)
