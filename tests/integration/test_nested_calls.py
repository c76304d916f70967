# SPDX-License-Identifier: Apache-2.0
"""Tools that call tools: the same gate, the same budget, and a clock that is fair to parents."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from palyra.core.approval import Rejection
from palyra.core.errors import Code, ToolError
from palyra.core.session import BudgetLimits
from palyra.tools.function import FunctionTool, tool
from palyra.tools.signature import ToolContext  # noqa: TC001 - a type hint that tools are made from
from tests.support.simulator import (
    GateSimulator,
    Probe,
    failure_of,
    output_of,
    refusal_of,
    settle_down,
    travel,
)

if TYPE_CHECKING:
    from pathlib import Path

    from palyra.core.result import CallResult

PARENT_TIME_MS = 30_000


@tool(name="test.dangerous", sensitive=True)
async def dangerous() -> str:
    """Be something that a human must agree to."""
    return "boom"


class Family:
    """A parent that makes the calls it is told to, and keeps what came of them."""

    def __init__(self) -> None:
        self.codes: list[str] = []

        @tool(name="test.parent")
        async def parent(
            context: ToolContext, calls: list[tuple[str, dict[str, Any]]]
        ) -> list[Any]:
            """Make calls, one after the other."""
            outputs: list[Any] = []
            for name, arguments in calls:
                try:
                    outputs.append(await context.call(name, arguments))
                except ToolError as error:
                    self.codes.append(error.code.value)
            return outputs

        @tool(name="test.recursive")
        async def recursive(context: ToolContext, depth: int = 0) -> int:
            """Call itself until it is refused; say how deep that was."""
            try:
                deeper: int = await context.call("test.recursive", {"depth": depth + 1})
            except ToolError as error:
                self.codes.append(error.code.value)
                return depth
            return deeper

        self.tools: list[FunctionTool[Any, Any]] = [parent, recursive, dangerous]


async def calls(simulator: GateSimulator, *children: tuple[str, dict[str, Any]]) -> CallResult:
    return await simulator.call("test.parent", {"calls": list(children)})


async def test_a_child_is_recorded_with_its_parent_on_the_same_run(tmp_path: Path) -> None:
    async with GateSimulator(tmp_path / "home", tools=Family().tools) as simulator:
        result = await calls(simulator, ("palyra.echo", {"text": "from below"}))
        assert output_of(result) == [{"echo": "from below"}]
        parent, child = [each.body for each in simulator.journal() if each.kind == "call.decided"]
        assert (parent["parent_call_id"], parent["depth"]) == (None, 0)
        assert (child["parent_call_id"], child["depth"]) == (result.call_id, 1)
        assert child["run_id"] == parent["run_id"] == result.run_id
        assert child["principal"] == parent["principal"]
        statements = [
            each.body["attestation"]["statement"]
            for each in simulator.journal()
            if each.kind == "call.ended"
        ]
        assert [each["parent_call_id"] for each in statements] == [result.call_id, None]
        assert simulator.verified().ok


@pytest.mark.parametrize(
    ("child", "code"),
    [
        pytest.param(("no.such_tool", {}), "tool.unknown", id="unknown"),
        pytest.param(("palyra.echo", {"text": 1}), "input.invalid", id="malformed"),
        pytest.param(("palyra.fs.read", {"path": "x"}), "workspace.unknown", id="no-workspace"),
        pytest.param(("test.failing", {}), "tool.failed", id="failing"),
    ],
)
async def test_a_parent_sees_by_its_code_why_a_child_gave_nothing(
    tmp_path: Path, child: tuple[str, dict[str, Any]], code: str
) -> None:
    @tool(name="test.failing")
    async def failing() -> None:
        """Fail."""
        raise ValueError

    family = Family()
    async with GateSimulator(tmp_path / "home", tools=[*family.tools, failing]) as simulator:
        assert output_of(await calls(simulator, child)) == []
        assert family.codes == [code]


async def test_a_parent_that_lets_a_childs_refusal_pass_fails_with_its_code(tmp_path: Path) -> None:
    @tool(name="test.careless")
    async def careless(context: ToolContext) -> None:
        """Do not look at what comes back."""
        await context.call("no.such_tool", {})

    async with GateSimulator(tmp_path / "home", tools=[careless]) as simulator:
        result = await simulator.call("test.careless")
        assert failure_of(result) == ("failed", "tool.unknown")
        assert simulator.verified().ok


@pytest.mark.invariant("I13")
@pytest.mark.parametrize("max_depth", [0, 1, 3])
async def test_depth_ends_where_the_configuration_says(tmp_path: Path, max_depth: int) -> None:
    family = Family()
    home = tmp_path / "home"
    async with GateSimulator(home, tools=family.tools, max_depth=max_depth) as simulator:
        assert output_of(await simulator.call("test.recursive")) == max_depth
        assert family.codes == ["depth.exceeded"]
        refused = [each.body for each in simulator.journal() if each.kind == "call.decided"][-1]
        assert refused["depth"] == max_depth + 1
        assert refused["decision"]["code"] == "depth.exceeded"
        assert simulator.verified().ok


@pytest.mark.invariant("I14")
async def test_children_are_charged_to_the_run_of_their_parent(tmp_path: Path) -> None:
    family = Family()
    limits = BudgetLimits(max_calls_per_run=4)
    async with GateSimulator(tmp_path / "home", tools=family.tools, limits=limits) as simulator:
        result = await calls(simulator, *[("palyra.echo", {"text": "x"})] * 5)
        assert len(output_of(result)) == 3
        assert family.codes == ["budget.exhausted"] * 2
        assert refusal_of(await simulator.call()) == ("denied", "budget.exhausted")


async def test_a_child_that_comes_too_fast_is_refused(tmp_path: Path) -> None:
    async with GateSimulator(tmp_path / "home", tools=Family().tools, burst=3) as simulator:
        result = await calls(simulator, *[("palyra.echo", {"text": "x"})] * 2)
        assert failure_of(result) == ("failed", "rate.limited")


async def test_a_parents_clock_stands_still_while_its_child_waits_for_a_human(
    tmp_path: Path,
) -> None:
    async with GateSimulator(tmp_path / "home", tools=Family().tools) as simulator:
        task = asyncio.create_task(calls(simulator, ("test.dangerous", {})))
        await settle_down()
        assert simulator.reviewer.waiting == 1
        travel(24 * 3600)
        await settle_down()
        simulator.reviewer.approve()
        assert output_of(await task) == ["boom"]


async def test_the_clocks_of_all_above_stand_still(tmp_path: Path) -> None:
    async with GateSimulator(tmp_path / "home", tools=Family().tools) as simulator:
        inner: tuple[str, dict[str, Any]] = ("test.parent", {"calls": [("test.dangerous", {})]})
        task = asyncio.create_task(calls(simulator, inner))
        await settle_down(60)
        assert simulator.reviewer.waiting == 1
        travel(24 * 3600)
        await settle_down()
        simulator.reviewer.approve()
        assert output_of(await task) == [["boom"]]


async def test_a_parents_clock_goes_on_where_it_stood(tmp_path: Path) -> None:
    @tool(name="test.slow_parent")
    async def slow_parent(context: ToolContext) -> None:
        """Use most of the time before and after."""
        travel(20)
        await context.call("test.dangerous", {})
        travel(20)
        await asyncio.sleep(1)

    async with GateSimulator(tmp_path / "home", tools=[slow_parent, dangerous]) as simulator:
        task = asyncio.create_task(simulator.call("test.slow_parent"))
        await settle_down()
        travel(24 * 3600)
        simulator.reviewer.approve()
        assert failure_of(await task) == ("timed_out", "tool.timed_out")


async def test_a_parents_clock_runs_while_its_child_runs(tmp_path: Path) -> None:
    probe = Probe(holds=True)
    async with GateSimulator(
        tmp_path / "home", tools=[*Family().tools, probe.tool], timeout_ms=PARENT_TIME_MS
    ) as simulator:
        task = asyncio.create_task(calls(simulator, ("test.probe", {})))
        await probe.until_begun()
        travel(PARENT_TIME_MS / 1000 + 1)
        assert failure_of(await task) == ("timed_out", "tool.timed_out")
        assert probe.running == 0
        parent, child = simulator.states().values()
        assert (parent, child) in {("timed_out", "timed_out"), ("timed_out", "cancelled")}
        assert simulator.verified().ok


async def test_a_childs_rejection_reaches_its_parent(tmp_path: Path) -> None:
    family = Family()
    async with GateSimulator(tmp_path / "home", tools=family.tools) as simulator:
        task = asyncio.create_task(calls(simulator, ("test.dangerous", {})))
        await settle_down()
        simulator.reviewer.reply(Rejection(code=Code.APPROVAL_DENIED, reason="no"))
        assert output_of(await task) == []
        assert len(family.codes) == 1
        assert sorted(simulator.states().values()) == ["denied", "succeeded"]


async def test_children_of_one_parent_may_run_side_by_side(tmp_path: Path) -> None:
    @tool(name="test.wide")
    async def wide(context: ToolContext) -> list[Any]:
        """Make many calls at once, some of which wait for a human."""
        names = [("test.dangerous", {}), ("palyra.echo", {"text": "x"})] * 4
        return list(await asyncio.gather(*(context.call(*each) for each in names)))

    async with GateSimulator(tmp_path / "home", tools=[wide, dangerous]) as simulator:
        task = asyncio.create_task(simulator.call("test.wide"))
        await settle_down(40)
        travel(3600)
        for question in simulator.reviewer.questions.values():
            question.answer.set_result(Rejection(code=Code.APPROVAL_DENIED, reason="no"))
        assert (await task).state == "failed"
        await simulator.at_rest()
        assert set(simulator.states().values()) == {"succeeded", "failed", "denied"}
        assert simulator.verified().ok


async def test_a_child_that_outlives_its_parent_is_still_recorded(tmp_path: Path) -> None:
    left_behind: list[asyncio.Task[Any]] = []

    @tool(name="test.hasty")
    async def hasty(context: ToolContext) -> str:
        """Do not wait for the child."""
        left_behind.append(asyncio.create_task(context.call("test.dangerous", {})))
        await settle_down()
        return "gone"

    async with GateSimulator(tmp_path / "home", tools=[hasty, dangerous]) as simulator:
        assert output_of(await simulator.call("test.hasty")) == "gone"
        assert simulator.reviewer.waiting == 1
        simulator.reviewer.approve()
        assert await asyncio.gather(*left_behind) == ["boom"]
        assert set(simulator.states().values()) == {"succeeded"}
        assert simulator.verified().ok
