# SPDX-License-Identifier: Apache-2.0
"""An agent asks without end: budgets hold in every scope, and the journal does not grow with it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from palyra.core.decision import Verdict
from palyra.core.errors import Code, NotPermittedError, PalyraError
from palyra.core.ids import CallId, CredentialId
from palyra.core.session import BudgetLimits
from tests.support.scripted import ScriptedPolicy
from tests.support.simulator import (
    AGENT_CREDENTIAL,
    PLENTY,
    GateSimulator,
    Probe,
    output_of,
    refusal_of,
)

if TYPE_CHECKING:
    from pathlib import Path

HOUR_MS = 3_600_000


def limits(run: int = PLENTY, session: int = PLENTY, hour: int = PLENTY) -> BudgetLimits:
    return BudgetLimits(
        max_calls_per_run=run, max_calls_per_session=session, max_calls_per_agent_hour=hour
    )


async def flood(simulator: GateSimulator, times: int, **options: Any) -> list[str]:  # noqa: ANN401
    """Call again and again; return the code of each answer."""
    codes: list[str] = []
    for _ in range(times):
        try:
            codes.append((await simulator.call(**options)).decision.code)
        except PalyraError as error:
            codes.append(error.code.value)
    return codes


@pytest.mark.invariant("I14")
async def test_a_run_ends_with_its_budget_and_another_run_goes_on(tmp_path: Path) -> None:
    async with GateSimulator(tmp_path / "home", limits=limits(run=3)) as simulator:
        first = await simulator.gate.open_session(AGENT_CREDENTIAL)
        second = await simulator.gate.open_run(first.session_id, credential=AGENT_CREDENTIAL)
        for run in (first, second):
            results = [await simulator.call(run_id=run.run_id) for _ in range(4)]
            assert [each.state for each in results] == ["succeeded"] * 3 + ["denied"]
            assert results[-1].decision.code == "budget.exhausted"


@pytest.mark.invariant("I14")
async def test_a_session_ends_with_its_budget_whatever_its_runs_have_left(tmp_path: Path) -> None:
    async with GateSimulator(tmp_path / "home", limits=limits(session=3)) as simulator:
        first = await simulator.gate.open_session(AGENT_CREDENTIAL)
        states = []
        for _ in range(4):
            run = await simulator.gate.open_run(first.session_id, credential=AGENT_CREDENTIAL)
            states.append((await simulator.call(run_id=run.run_id)).state)
        assert states == ["succeeded"] * 3 + ["denied"]
        other = await simulator.gate.open_session(AGENT_CREDENTIAL)
        assert (await simulator.call(run_id=other.run_id)).state == "succeeded"


@pytest.mark.invariant("I14")
async def test_an_agent_has_one_budget_an_hour_whatever_it_opens_and_with_whichever_credential(
    tmp_path: Path,
) -> None:
    other = msgspec.structs.replace(AGENT_CREDENTIAL, credential_id=CredentialId("second-key"))
    async with GateSimulator(tmp_path / "home", limits=limits(hour=3)) as simulator:
        states = []
        for credential in (AGENT_CREDENTIAL, other, AGENT_CREDENTIAL, other):
            run = await simulator.gate.open_session(credential)
            call = await simulator.call(run_id=run.run_id, credential=credential)
            states.append(call.state)
        assert states == ["succeeded"] * 3 + ["denied"]
        simulator.clock.advance(HOUR_MS)
        assert (await simulator.call()).state == "succeeded"


@pytest.mark.invariant("I14")
async def test_refused_and_malformed_calls_are_charged(tmp_path: Path) -> None:
    async with GateSimulator(tmp_path / "home", limits=limits(run=4)) as simulator:
        await simulator.call("no.such_tool")
        await simulator.call("palyra.echo", b"not json")
        await simulator.call("palyra.fs.write", {"path": "x", "content": "y"})
        assert output_of(await simulator.call()) == {"echo": "hi"}
        assert refusal_of(await simulator.call()) == ("denied", "budget.exhausted")


@pytest.mark.invariant("I14")
async def test_a_policy_that_forgets_the_budget_is_overruled_by_the_store(tmp_path: Path) -> None:
    probe = Probe()
    async with GateSimulator(
        tmp_path / "home", tools=[probe.tool], policy=ScriptedPolicy(), limits=limits(run=2)
    ) as simulator:
        results = [await simulator.call("test.probe") for _ in range(3)]
        assert [each.state for each in results] == ["succeeded", "succeeded", "denied"]
        assert results[-1].decision.code == "budget.exhausted"
        assert probe.begun == 2
        assert simulator.verified().ok


@pytest.mark.invariant("I14")
async def test_a_budget_is_exact_under_calls_at_once(tmp_path: Path) -> None:
    probe = Probe()
    async with GateSimulator(
        tmp_path / "home", tools=[probe.tool], limits=limits(run=10)
    ) as simulator:
        await simulator.run()
        calls = [simulator.call("test.probe") for _ in range(64)]
        results = await asyncio.gather(*calls, return_exceptions=True)
        assert probe.begun == 10
        assert sum(getattr(each, "state", "") == "succeeded" for each in results) == 10
        refused = [each for each in results if isinstance(each, BaseException)]
        assert all(isinstance(each, NotPermittedError) for each in refused)
        assert simulator.verified().ok


@pytest.mark.invariant("I14")
async def test_a_pending_call_keeps_the_unit_it_was_charged(tmp_path: Path) -> None:
    probe, policy = Probe(), ScriptedPolicy(Verdict.ALLOW, probe=Verdict.ASK)

    class Mindful(ScriptedPolicy):
        def decide(self, proposal: Any, *, left: Any) -> Any:  # noqa: ANN401 - as inherited
            if left.is_exhausted:
                raise RuntimeError("no budget")
            return policy.decide(proposal, left=left)

    async with GateSimulator(
        tmp_path / "home", tools=[probe.tool], policy=Mindful(), limits=limits(run=2)
    ) as simulator:
        pending = await simulator.call("test.probe", wait=False)
        await flood(simulator, 5)
        simulator.reviewer.approve()
        call_id = CallId(str(pending.call_id))
        result = await simulator.gate.resume(call_id, credential=AGENT_CREDENTIAL)
        assert (result.state, probe.begun) == ("succeeded", 1)


@pytest.mark.invariant("I13")
async def test_a_flood_beyond_the_budget_is_counted_and_hardly_journaled(tmp_path: Path) -> None:
    async with GateSimulator(tmp_path / "home", limits=limits(run=2)) as simulator:
        codes = await flood(simulator, 300)
        assert codes[:2] == ["tool.allowlisted"] * 2
        assert codes[2:10] == ["budget.exhausted"] * 8
        assert set(codes[10:]) == {"budget.exhausted"}
        counts = [each.body["count"] for each in simulator.journal() if each.kind[:5] == "flood"]
        assert counts == [1, 2, 4, 8, 16, 32, 64, 128, 256]
        assert len(simulator.calls()) == 10
        assert simulator.verified().ok


@pytest.mark.invariant("I13")
async def test_a_flood_that_opens_a_run_for_each_call_is_hardly_journaled_either(
    tmp_path: Path,
) -> None:
    async with GateSimulator(tmp_path / "home", limits=limits(hour=2)) as simulator:
        run = await simulator.gate.open_session(AGENT_CREDENTIAL)
        codes: list[str] = []
        for _ in range(100):
            run = await simulator.gate.open_run(run.session_id, credential=AGENT_CREDENTIAL)
            codes += await flood(simulator, 1, run_id=run.run_id)
        assert codes.count("tool.allowlisted") == 2
        kinds = simulator.kinds()
        assert kinds.count("call.decided") == 10
        assert kinds.count("flood.suppressed") == 7


@pytest.mark.invariant("I13")
async def test_a_steady_flood_is_journaled_by_its_doublings_only(tmp_path: Path) -> None:
    async with GateSimulator(
        tmp_path / "home", limits=limits(run=1), burst=5, per_second=10
    ) as simulator:
        await simulator.run()
        codes: list[str] = []
        for _ in range(1000):  # a thousand calls a second, of which ten are taken
            simulator.clock.advance(1)
            codes += await flood(simulator, 1)
        assert codes.count("rate.limited") > 900
        assert simulator.kinds().count("flood.suppressed") <= 15
        simulator.clock.advance(120_000)
        await flood(simulator, 20)
        last = [each.body for each in simulator.journal() if each.kind == "flood.suppressed"][-4:]
        assert [each["count"] for each in last] == [1, 2, 4, 8]


@pytest.mark.invariant("I13")
async def test_sessions_and_runs_are_not_opened_faster_than_calls_are_made(tmp_path: Path) -> None:
    async with GateSimulator(tmp_path / "home", burst=8) as simulator:
        run = await simulator.gate.open_session(AGENT_CREDENTIAL)
        refused = 0
        for _ in range(100):
            try:
                await simulator.gate.open_run(run.session_id, credential=AGENT_CREDENTIAL)
                await simulator.gate.open_session(AGENT_CREDENTIAL)
            except NotPermittedError as error:
                refused += error.code is Code.RATE_LIMITED
        assert refused > 90
        assert simulator.kinds().count("run.opened") == 8


@pytest.mark.invariant("I13")
async def test_policy_is_not_probed_faster_than_calls_are_made(tmp_path: Path) -> None:
    async with GateSimulator(tmp_path / "home", burst=8) as simulator:
        request = await simulator.request()
        refused = 0
        for _ in range(100):
            try:
                simulator.gate.dry_run(request, credential=AGENT_CREDENTIAL)
            except NotPermittedError as error:
                refused += error.code is Code.RATE_LIMITED
        assert refused > 90
