# SPDX-License-Identifier: Apache-2.0
"""A request id names one call for ever: a retry gets its result, other content a conflict."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec
import pytest

from palyra.core.decision import Verdict
from palyra.core.errors import Code, StateConflictError
from palyra.core.session import BudgetLimits
from tests.support.scripted import ScriptedPolicy
from tests.support.simulator import (
    AGENT_CREDENTIAL,
    OPERATOR_CREDENTIAL,
    GateSimulator,
    Probe,
    output_of,
    refusal_of,
    settle_down,
)

if TYPE_CHECKING:
    from pathlib import Path

    from palyra.core.result import CallResult


def as_recalled(result: CallResult) -> CallResult:
    """Return a result as it is told later: its place in the log without the way to a head."""
    if result.attestation is None:
        return result
    return msgspec.structs.replace(
        result, attestation=msgspec.structs.replace(result.attestation, receipt=None)
    )


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        pytest.param("test.probe", {"word": "a"}, id="a-success"),
        pytest.param("test.probe", {"word": 1}, id="a-malformed-call"),
        pytest.param("no.such_tool", {}, id="an-unknown-tool"),
    ],
)
async def test_a_retry_gets_the_same_result_and_runs_nothing(
    tmp_path: Path, tool: str, arguments: dict[str, object]
) -> None:
    probe = Probe()
    home = tmp_path / "home"
    async with GateSimulator(home, tools=[probe.tool]) as simulator:
        first = await simulator.call(tool, arguments, request_id="r-1")
        run_id = first.run_id
        entries = simulator.journal()
        again = await simulator.call(tool, arguments, request_id="r-1")
        assert again == as_recalled(first)
        assert simulator.journal() == entries
    async with GateSimulator(home, tools=[probe.tool], series=1) as restarted:
        again = await restarted.call(tool, arguments, request_id="r-1", run_id=run_id)
        assert again == as_recalled(first)
        assert restarted.journal() == entries
    assert probe.begun <= 1


async def test_a_retry_in_another_run_still_gets_the_first_result(tmp_path: Path) -> None:
    probe = Probe()
    async with GateSimulator(tmp_path / "home", tools=[probe.tool]) as simulator:
        first = await simulator.call("test.probe", request_id="r")
        other = await simulator.gate.open_session(AGENT_CREDENTIAL)
        again = await simulator.call("test.probe", request_id="r", run_id=other.run_id)
        assert (again.call_id, again.run_id) == (first.call_id, first.run_id)
        assert probe.begun == 1


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [("test.probe", {"word": "b"}), ("test.probe", {"word": 1}), ("palyra.echo", {"text": "a"})],
    ids=["other-arguments", "malformed-arguments", "another-tool"],
)
async def test_other_content_under_a_used_id_is_a_conflict(
    tmp_path: Path, tool: str, arguments: dict[str, object]
) -> None:
    probe = Probe()
    async with GateSimulator(tmp_path / "home", tools=[probe.tool]) as simulator:
        first = await simulator.call("test.probe", {"word": "a"}, request_id="r-1")
        entries = simulator.journal()
        with pytest.raises(StateConflictError) as caught:
            await simulator.call(tool, arguments, request_id="r-1")
        assert caught.value.code is Code.REQUEST_CONFLICT
        assert caught.value.details == {"call_id": first.call_id}
        assert (probe.begun, simulator.journal()) == (1, entries)


async def test_two_callers_may_use_the_same_id(tmp_path: Path) -> None:
    async with GateSimulator(tmp_path / "home") as simulator:
        agents = await simulator.call(request_id="r")
        operators = await simulator.call(request_id="r", credential=OPERATOR_CREDENTIAL)
        assert agents.call_id != operators.call_id
        assert output_of(operators) == {"echo": "hi"}


@pytest.mark.invariant("I5")
async def test_duplicates_at_once_run_once_and_are_told_the_same(tmp_path: Path) -> None:
    probe = Probe(holds=True)
    async with GateSimulator(tmp_path / "home", tools=[probe.tool]) as simulator:
        await simulator.run()
        calls = [
            asyncio.create_task(simulator.call("test.probe", {"word": "x"}, request_id="r"))
            for _ in range(16)
        ]
        await probe.until_begun()
        await settle_down()
        probe.release.set()
        results = await asyncio.gather(*calls)
        assert {output_of(result) for result in results} == {"x"}
        assert len({result.call_id for result in results}) == 1
        assert probe.begun == 1
        assert simulator.kinds().count("call.decided") == 1
        assert simulator.verified().ok


@pytest.mark.invariant("I5")
async def test_duplicates_in_two_processes_run_once(tmp_path: Path) -> None:
    probe = Probe(holds=True)
    home = tmp_path / "home"
    async with (
        GateSimulator(home, tools=[probe.tool]) as one,
        GateSimulator(home, tools=[probe.tool], series=1) as two,
    ):
        run_id = await one.run()
        first = asyncio.create_task(one.call("test.probe", request_id="r"))
        await probe.until_begun()
        with pytest.raises(StateConflictError) as caught:
            await two.call("test.probe", request_id="r", run_id=run_id)
        assert caught.value.code is Code.CALL_UNDER_WAY
        probe.release.set()
        told = await first
        again = await two.call("test.probe", request_id="r", run_id=run_id)
        assert again == as_recalled(told)
        assert probe.begun == 1


async def test_a_retry_while_pending_waits_for_the_same_question(tmp_path: Path) -> None:
    probe, policy = Probe(), ScriptedPolicy(Verdict.ASK)
    async with GateSimulator(tmp_path / "home", tools=[probe.tool], policy=policy) as simulator:
        first = asyncio.create_task(simulator.call("test.probe", request_id="r"))
        await settle_down()
        pending = await simulator.call("test.probe", request_id="r", wait=False)
        assert pending.state == "pending"
        second = asyncio.create_task(simulator.call("test.probe", request_id="r"))
        await settle_down()
        assert len(simulator.reviewer.questions) == 1
        simulator.reviewer.approve()
        results = await asyncio.gather(first, second)
        assert {result.call_id for result in results} == {pending.call_id}
        assert [result.state for result in results] == ["succeeded", "succeeded"]
        assert probe.begun == 1


async def test_a_retry_costs_no_budget(tmp_path: Path) -> None:
    limits = BudgetLimits(max_calls_per_run=2)
    async with GateSimulator(tmp_path / "home", limits=limits) as simulator:
        for _ in range(10):
            await simulator.call(request_id="r")
        assert output_of(await simulator.call()) == {"echo": "hi"}
        assert refusal_of(await simulator.call()) == ("denied", "budget.exhausted")
        assert output_of(await simulator.call(request_id="r")) == {"echo": "hi"}


@pytest.mark.parametrize(
    "request_id",
    ["", "x" * 129, "a\nb", "\x7f", "é", "\ud800", "\u202e"],
    ids=["empty", "too-long", "newline", "delete", "not-ascii", "surrogate", "bidi"],
)
async def test_an_id_that_could_mislead_is_refused_and_not_kept(
    tmp_path: Path, request_id: str
) -> None:
    async with GateSimulator(tmp_path / "home") as simulator:
        result = await simulator.call(request_id=request_id)
        assert refusal_of(result) == ("denied", "input.invalid")
        assert "request id" in result.decision.reason
        (call,) = simulator.calls()
        assert call.request_id is None
        assert simulator.verified().ok
