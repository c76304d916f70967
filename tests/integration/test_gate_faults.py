# SPDX-License-Identifier: Apache-2.0
"""Whatever fails behind the gate: a typed refusal or fault, and nothing runs on a lost intent."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from palyra.core.decision import Verdict
from palyra.core.errors import Code, IntegrityError, PalyraError, StoreError
from palyra.core.events import PlannedChange
from palyra.core.ids import CallId
from palyra.core.transitions import Admit, End, Launch, Note, OpenSession
from palyra.tools.function import tool
from tests.support.scripted import ScriptedPolicy, approval_of
from tests.support.simulator import (
    AGENT_CREDENTIAL,
    GateSimulator,
    Probe,
    attested_code,
    failure_of,
    output_of,
    refusal_of,
    settle_down,
)

if TYPE_CHECKING:
    from pathlib import Path

    from palyra.core.decision import Decision
    from palyra.core.execution import Execution
    from palyra.core.transitions import Transition

FULL = StoreError(Code.STORE_FULL, "the disk is full")
BREAKDOWNS = [
    pytest.param(RuntimeError("secret in a trace"), id="unexpected"),
    pytest.param(StoreError(Code.STORE_UNREACHABLE), id="typed"),
]


@tool(name="test.dangerous", sensitive=True)
async def dangerous() -> str:
    """Be something that a human must agree to."""
    return "boom"


def fails_at(number: int) -> Any:  # noqa: ANN401 - a script for the store
    """Let the store fail at the record of this number, from now on counted."""
    count = 0

    def fails(_: Transition) -> Exception | None:
        nonlocal count
        count += 1
        return FULL if count == number else None

    return fails


def fails_for(kind: type) -> Any:  # noqa: ANN401 - a script for the store
    return lambda transition: FULL if isinstance(transition, kind) else None


# --- Policy --------------------------------------------------------------------------------------


@pytest.mark.invariant("I1")
@pytest.mark.parametrize("fault", BREAKDOWNS)
async def test_a_policy_that_breaks_down_forbids(tmp_path: Path, fault: Exception) -> None:
    probe, policy = Probe(), ScriptedPolicy()
    policy.fault = fault
    async with GateSimulator(tmp_path / "home", tools=[probe.tool], policy=policy) as simulator:
        result = await simulator.call("test.probe")
        assert refusal_of(result) == ("denied", "policy.fault")
        assert probe.begun == 0
        assert b"secret in a trace" not in simulator.stored_bytes()
        assert simulator.verified().ok


@pytest.mark.invariant("I1")
async def test_a_policy_that_breaks_down_while_a_call_is_pending_forbids(tmp_path: Path) -> None:
    probe, policy = Probe(), ScriptedPolicy(Verdict.ASK)
    async with GateSimulator(tmp_path / "home", tools=[probe.tool], policy=policy) as simulator:
        pending = await simulator.call("test.probe", wait=False)
        simulator.reviewer.approve()
        policy.fault = RuntimeError("broken since")
        result = await simulator.gate.resume(
            CallId(str(pending.call_id)), credential=AGENT_CREDENTIAL
        )
        assert refusal_of(result) == ("denied", "policy.fault")
        assert probe.begun == 0


@pytest.mark.invariant("I1")
async def test_a_policy_that_decides_about_another_call_forbids(tmp_path: Path) -> None:
    class Confused(ScriptedPolicy):
        remembered: Decision | None = None

        def decide(self, *args: Any, **options: Any) -> Decision:  # noqa: ANN401 - as inherited
            self.remembered = self.remembered or super().decide(*args, **options)
            return self.remembered

    async with GateSimulator(tmp_path / "home", policy=Confused()) as simulator:
        assert output_of(await simulator.call()) == {"echo": "hi"}
        result = await simulator.call(arguments={"text": "something else"})
        assert refusal_of(result) == ("denied", "policy.fault")


# --- Review --------------------------------------------------------------------------------------


@pytest.mark.invariant("I1")
@pytest.mark.parametrize("where", ["ask", "wait"])
@pytest.mark.parametrize("fault", BREAKDOWNS)
async def test_a_reviewer_that_breaks_down_is_a_no(
    tmp_path: Path, where: str, fault: Exception
) -> None:
    async with GateSimulator(tmp_path / "home", tools=[dangerous]) as simulator:
        simulator.reviewer.faults[where] = fault
        result = await simulator.call("test.dangerous")
        assert result.state == "denied"
        assert attested_code(simulator, result) == "approval.fault"
        assert b"secret in a trace" not in simulator.stored_bytes()
        assert simulator.verified().ok


async def test_a_question_that_could_not_be_announced_stays_open(tmp_path: Path) -> None:
    async with GateSimulator(tmp_path / "home", tools=[dangerous]) as simulator:
        simulator.reviewer.faults["announce"] = RuntimeError("nobody listens")
        task = asyncio.create_task(simulator.call("test.dangerous"))
        await settle_down()
        assert list(simulator.states().values()) == ["pending"]
        simulator.reviewer.approve()
        assert output_of(await task) == "boom"


# --- The store -----------------------------------------------------------------------------------


@pytest.mark.invariant("I7")
async def test_an_intent_that_is_not_durable_runs_nothing(tmp_path: Path) -> None:
    probe = Probe()
    async with GateSimulator(tmp_path / "home", tools=[probe.tool]) as simulator:
        await simulator.run()
        simulator.store.fails = fails_for(Admit)
        with pytest.raises(StoreError) as caught:
            await simulator.call("test.probe")
        assert caught.value.code is Code.STORE_FULL
        assert (probe.begun, simulator.calls()) == (0, [])
        simulator.store.fails = lambda _: None
        assert (await simulator.call("test.probe")).state == "succeeded"


@pytest.mark.invariant("I7")
async def test_an_approved_intent_that_is_not_durable_runs_nothing(tmp_path: Path) -> None:
    probe, policy = Probe(), ScriptedPolicy(Verdict.ASK)
    async with GateSimulator(tmp_path / "home", tools=[probe.tool], policy=policy) as simulator:
        pending = await simulator.call("test.probe", wait=False)
        call_id = CallId(str(pending.call_id))
        simulator.reviewer.approve()
        simulator.store.fails = fails_for(Launch)
        with pytest.raises(StoreError):
            await simulator.gate.resume(call_id, credential=AGENT_CREDENTIAL)
        assert (probe.begun, simulator.states()) == (0, {call_id: "pending"})
        simulator.store.fails = lambda _: None
        result = await simulator.gate.resume(call_id, credential=AGENT_CREDENTIAL)
        assert (result.state, probe.begun) == ("succeeded", 1)


@pytest.mark.invariant("I7")
async def test_an_outcome_that_is_not_durable_is_not_told_and_shows_as_interrupted(
    tmp_path: Path,
) -> None:
    probe = Probe()
    async with GateSimulator(tmp_path / "home", tools=[probe.tool]) as simulator:
        simulator.store.fails = fails_for(End)
        with pytest.raises(StoreError) as caught:
            await simulator.call("test.probe")
        assert caught.value.code is Code.STORE_OUTCOME_LOST
        (call_id,) = simulator.states()
        assert caught.value.details == {"call_id": call_id, "cause": "store.full"}
        assert probe.begun == 1
    async with GateSimulator(tmp_path / "home", tools=[probe.tool], series=1) as after:
        assert after.composition.recovered == 1
        assert after.states() == {call_id: "interrupted"}
        told = await after.gate.resume(call_id, credential=AGENT_CREDENTIAL)
        assert failure_of(told) == ("interrupted", "tool.interrupted")
        assert after.verified().ok


@pytest.mark.invariant("I1")
@pytest.mark.invariant("I7")
@pytest.mark.parametrize("verdict", list(Verdict), ids=lambda verdict: verdict.wire)
@pytest.mark.parametrize("number", range(1, 5))
async def test_whichever_record_fails_nothing_runs_without_its_intent(
    tmp_path: Path, verdict: Verdict, number: int
) -> None:
    launched_when_run: list[int] = []

    @tool(name="test.careful")
    async def careful() -> None:
        """Look for the own launch."""
        launched_when_run.append(simulator.kinds().count("call.launched"))

    policy = ScriptedPolicy(verdict)
    async with GateSimulator(tmp_path / "home", tools=[careful], policy=policy) as simulator:
        simulator.store.fails = fails_at(number)
        simulator.reviewer.on_ask = None
        task = asyncio.create_task(simulator.call("test.careful"))
        await settle_down()
        if simulator.reviewer.questions:
            simulator.reviewer.approve()
        (ended,) = await asyncio.gather(task, return_exceptions=True)
        if isinstance(ended, BaseException):
            assert isinstance(ended, StoreError)
        assert launched_when_run in ([], [1])
        assert simulator.verified().ok


@pytest.mark.invariant("I1")
@pytest.mark.parametrize(
    "fault",
    [FULL, IntegrityError(Code.STORE_CORRUPT)],
    ids=["a-store-fault", "an-integrity-fault"],
)
async def test_a_store_that_cannot_be_read_runs_nothing(tmp_path: Path, fault: PalyraError) -> None:
    probe = Probe()
    async with GateSimulator(tmp_path / "home", tools=[probe.tool]) as simulator:
        request = await simulator.request("test.probe", request_id="r")
        simulator.store.read_fault = fault
        with pytest.raises(type(fault)):
            await simulator.gate.submit(request, credential=AGENT_CREDENTIAL)
        assert (probe.begun, simulator.calls()) == (0, [])


async def test_a_session_that_is_not_durable_was_never_opened(tmp_path: Path) -> None:
    async with GateSimulator(tmp_path / "home") as simulator:
        simulator.store.fails = fails_for(OpenSession)
        with pytest.raises(StoreError):
            await simulator.gate.open_session(AGENT_CREDENTIAL)
        assert "session.opened" not in simulator.kinds()


@pytest.mark.invariant("I13")
async def test_a_flood_that_cannot_be_noted_is_refused_all_the_same(tmp_path: Path) -> None:
    async with GateSimulator(tmp_path / "home", burst=1) as simulator:
        await simulator.run()
        simulator.store.fails = fails_for(Note)
        with pytest.raises(PalyraError) as caught:
            await simulator.call()
        assert caught.value.code in {Code.STORE_FULL, Code.RATE_LIMITED}
        assert simulator.calls() == []


# --- Within the gate -----------------------------------------------------------------------------


class BrokenExecutor:
    """Raises where it should run."""

    def __init__(self, fault: BaseException) -> None:
        self._fault = fault

    async def execute(self, *_: object) -> Execution:
        await asyncio.sleep(0)
        raise self._fault


@pytest.mark.invariant("I1")
@pytest.mark.parametrize(
    "fault", [RuntimeError("secret in a trace"), FULL], ids=["unexpected", "typed"]
)
async def test_an_executor_that_breaks_down_is_a_recorded_failure(
    tmp_path: Path, fault: Exception
) -> None:
    async with GateSimulator(tmp_path / "home") as simulator:
        simulator.gate.supervisor._executor = BrokenExecutor(fault)
        result = await simulator.call()
        assert failure_of(result) == ("failed", "gate.fault")
        assert result.attestation is not None
        assert result.attestation.executor == "builtin"  # nobody knows that nobody ran it
        assert b"secret in a trace" not in simulator.stored_bytes()
        assert simulator.verified().ok


@pytest.mark.invariant("I1")
async def test_a_fault_within_the_walk_is_a_typed_fault(tmp_path: Path) -> None:
    probe = Probe()
    async with GateSimulator(tmp_path / "home", tools=[probe.tool]) as simulator:
        await simulator.run()
        simulator.store.fails = lambda _: ZeroDivisionError("ours")
        with pytest.raises(PalyraError) as caught:
            await simulator.call("test.probe")
        assert caught.value.code is Code.GATE_FAULT
        assert "ours" not in str(caught.value)
        assert (probe.begun, simulator.calls()) == (0, [])


@pytest.mark.invariant("I7")
async def test_an_effect_whose_plan_is_not_durable_is_not_made(tmp_path: Path) -> None:
    made: list[str] = []

    class Planning:
        async def execute(self, _: object, __: object, context: Any) -> Execution:  # noqa: ANN401
            change = PlannedChange(path="a", before_sha256="", after_sha256="0" * 64, mode=0o644)
            await context.effects.plan(workspace="w", staging="s", changes=(change,))
            made.append("an effect")
            raise AssertionError

    async with GateSimulator(tmp_path / "home") as simulator:
        simulator.gate.supervisor._executor = Planning()
        await simulator.run()
        simulator.store.fails = lambda each: FULL if type(each).__name__ == "PlanEffect" else None
        assert failure_of(await simulator.call()) == ("failed", "gate.fault")
        assert made == []


async def test_an_early_answer_is_refused_when_the_store_has_no_budget_for_it(
    tmp_path: Path,
) -> None:
    async with GateSimulator(tmp_path / "home", tools=[dangerous]) as simulator:
        simulator.reviewer.at_once = approval_of
        results = [await simulator.call("test.dangerous") for _ in range(33)]
        assert [result.state for result in results] == ["succeeded"] * 32 + ["denied"]
        assert results[-1].decision.code == "budget.exhausted"
