# SPDX-License-Identifier: Apache-2.0
"""The walk itself: what runs, what does not, what is recorded when, and who may ask about it."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

import msgspec
import pytest

from palyra.core.approval import Rejection
from palyra.core.decision import Verdict
from palyra.core.errors import Code, NotFoundError, NotPermittedError, StateConflictError
from palyra.core.ids import CallId, CredentialId, RunId, SessionId
from palyra.core.principal import Principal, PrincipalKind
from palyra.core.session import BudgetLimits
from palyra.flow.review.unattended import Unattended
from palyra.tools.function import tool
from palyra.tools.signature import ToolContext  # noqa: TC001 - a type hint that tools are made from
from tests.support.samples import OPERATOR
from tests.support.scripted import ScriptedPolicy, approval_of, grant_of
from tests.support.simulator import (
    AGENT_CREDENTIAL,
    OPERATOR_CREDENTIAL,
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

    from palyra.core.approval import Approval
    from palyra.core.principal import Credential
    from palyra.core.proposal import Proposal

change = msgspec.structs.replace
NOBODYS_RUN = RunId("01JCZK5M8N00000000000000ZZ")
EVE = Principal(kind=PrincipalKind.AGENT, name="eve")
STRANGERS = [
    pytest.param(
        change(AGENT_CREDENTIAL, credential_id=CredentialId("stolen")), id="another-credential"
    ),
    pytest.param(change(AGENT_CREDENTIAL, principal=EVE), id="another-agent"),
    pytest.param(OPERATOR_CREDENTIAL, id="an-operator"),
]


@tool(name="test.dangerous", sensitive=True)
async def dangerous() -> str:
    """Be something that a human must agree to."""
    return "boom"


# --- The walk ------------------------------------------------------------------------------------


@pytest.mark.invariant("I7")
async def test_a_body_sees_its_own_launch_in_the_journal_and_not_its_end(tmp_path: Path) -> None:
    seen: list[list[str]] = []

    @tool(name="test.curious")
    async def curious() -> None:
        """Look into the journal."""
        (call,) = simulator.calls()
        seen.append([call.state.value, *simulator.kinds(about=call.call_id)])

    async with GateSimulator(tmp_path / "home", tools=[curious]) as simulator:
        result = await simulator.call("test.curious")
        assert seen == [["launched", "call.decided", "call.launched"]]
        assert simulator.kinds(about=str(result.call_id)) == [
            "call.decided",
            "call.launched",
            "call.ended",
        ]


@pytest.mark.invariant("I7")
async def test_an_outcome_is_durable_before_it_is_told(tmp_path: Path) -> None:
    async with GateSimulator(tmp_path / "home") as simulator:
        await simulator.run()
        simulator.store.hold = asyncio.Event()
        task = asyncio.create_task(simulator.call())
        await settle_down()
        assert [type(each).__name__ for each in simulator.store.put] == ["OpenSession", "Admit"]
        simulator.store.hold.set()
        result = await task
        assert output_of(result) == {"echo": "hi"}
        assert simulator.states() == {result.call_id: "succeeded"}
        assert simulator.verified().ok


@pytest.mark.invariant("I1")
async def test_a_forbidden_call_runs_nothing_and_is_attested_all_the_same(tmp_path: Path) -> None:
    probe = Probe()
    policy = ScriptedPolicy(Verdict.FORBID)
    async with GateSimulator(tmp_path / "home", tools=[probe.tool], policy=policy) as simulator:
        result = await simulator.call("test.probe")
        assert refusal_of(result) == ("denied", "tool.not_allowlisted")
        assert probe.begun == 0
        assert result.attestation is not None
        assert result.attestation.executor == "policy"
        assert simulator.kinds(about=str(result.call_id)) == ["call.decided", "call.ended"]
        assert simulator.verified().ok


@pytest.mark.invariant("I1")
@pytest.mark.parametrize(
    ("name", "arguments", "code"),
    [
        pytest.param("palyra.unheard_of", {}, "tool.unknown", id="unknown-tool"),
        pytest.param("Palyra.Echo", {}, "input.invalid", id="no-tool-name"),
        pytest.param("palyra.echo", {"text": 1}, "input.invalid", id="wrong-type"),
        pytest.param("palyra.echo", b'{"text":"a","text":"b"}', "input.duplicate_key", id="twice"),
        pytest.param("palyra.echo", b"\xff", "input.not_json", id="not-json"),
    ],
)
async def test_a_malformed_call_is_refused_recorded_and_charged(
    tmp_path: Path, name: str, arguments: dict[str, object] | bytes, code: str
) -> None:
    async with GateSimulator(tmp_path / "home") as simulator:
        result = await simulator.call(name, arguments)
        assert refusal_of(result) == ("denied", code)
        assert simulator.kinds(about=str(result.call_id)) == ["call.decided", "call.ended"]
        assert simulator.verified().ok


@pytest.mark.invariant("I6")
async def test_what_an_operator_starts_is_an_allow_and_never_an_approval(tmp_path: Path) -> None:
    async with GateSimulator(tmp_path / "home", tools=[dangerous]) as simulator:
        result = await simulator.call("test.dangerous", credential=OPERATOR_CREDENTIAL)
        assert output_of(result) == "boom"
        assert (result.decision.verdict, result.decision.code) == ("allow", "operator.initiated")
        assert result.approval is None
        assert simulator.reviewer.questions == {}


# --- Questions -----------------------------------------------------------------------------------


@pytest.mark.invariant("I1")
async def test_a_question_that_nobody_can_be_asked_is_a_no(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with GateSimulator(home, tools=[dangerous], reviewer=Unattended()) as simulator:
        result = await simulator.call("test.dangerous")
        assert refusal_of(result) == ("denied", "tool.sensitive")
        assert attested_code(simulator, result) == "approval.no_operator"


@pytest.mark.invariant("I5")
async def test_pending_is_not_executable_and_an_approval_launches_it_once(tmp_path: Path) -> None:
    probe = Probe()
    policy = ScriptedPolicy(Verdict.ASK)
    async with GateSimulator(tmp_path / "home", tools=[probe.tool], policy=policy) as simulator:
        pending = await simulator.call("test.probe", {"word": "yes"}, wait=False)
        call_id = CallId(str(pending.call_id))
        assert (pending.state, probe.begun) == ("pending", 0)
        assert simulator.reviewer.announced == [simulator.reviewer.latest.approval_id]
        asked = await simulator.gate.resume(call_id, credential=AGENT_CREDENTIAL, wait=False)
        assert asked == pending
        simulator.reviewer.approve()
        first = await simulator.gate.resume(call_id, credential=AGENT_CREDENTIAL)
        again = await simulator.gate.resume(call_id, credential=AGENT_CREDENTIAL)
        assert output_of(first) == output_of(again) == "yes"
        assert probe.begun == 1
        assert first.approval is not None
        assert first.approval.decided_by == str(OPERATOR)
        assert simulator.kinds(about=call_id) == [
            "call.decided",
            "approval.requested",
            "call.redecided",
            "call.launched",
            "call.ended",
        ]
        assert simulator.verified().ok


async def test_a_caller_that_waits_is_told_once_the_question_is_answered(tmp_path: Path) -> None:
    async with GateSimulator(tmp_path / "home", tools=[dangerous]) as simulator:
        task = asyncio.create_task(simulator.call("test.dangerous"))
        await settle_down()
        assert list(simulator.states().values()) == ["pending"]
        simulator.reviewer.approve()
        assert output_of(await task) == "boom"


@pytest.mark.parametrize("answer", [approval_of, grant_of], ids=["approval", "grant"])
async def test_an_answer_that_is_known_at_once_leaves_nothing_pending(
    tmp_path: Path, answer: object
) -> None:
    async with GateSimulator(tmp_path / "home", tools=[dangerous]) as simulator:
        simulator.reviewer.at_once = answer  # type: ignore[assignment]  # either of the two
        result = await simulator.call("test.dangerous")
        assert output_of(result) == "boom"
        assert "approval.requested" not in simulator.kinds()


async def test_an_operators_no_is_final(tmp_path: Path) -> None:
    async with GateSimulator(tmp_path / "home", tools=[dangerous]) as simulator:
        pending = await simulator.call("test.dangerous", wait=False)
        call_id = CallId(str(pending.call_id))
        no = Rejection(code=Code.APPROVAL_DENIED, reason="no", decided_by=OPERATOR)
        simulator.reviewer.reply(no)
        result = await simulator.gate.resume(call_id, credential=AGENT_CREDENTIAL)
        again = await simulator.gate.resume(call_id, credential=AGENT_CREDENTIAL)
        assert result.state == again.state == "denied"
        assert result.approval == again.approval
        assert result.approval is not None
        assert result.approval.decided_by == str(OPERATOR)
        assert attested_code(simulator, result) == "approval.denied"
        assert simulator.verified().ok


@pytest.mark.invariant("I5")
async def test_a_pending_call_outlives_a_restart(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with GateSimulator(home, tools=[dangerous]) as before:
        pending = await before.call("test.dangerous", wait=False)
    async with GateSimulator(home, tools=[dangerous], series=1) as after:
        after.reviewer.questions = before.reviewer.questions
        after.reviewer.approve()
        result = await after.gate.resume(CallId(str(pending.call_id)), credential=AGENT_CREDENTIAL)
        assert output_of(result) == "boom"
        assert after.verified().ok


@pytest.mark.invariant("I5")
async def test_of_two_resumers_one_launches_and_both_are_told(tmp_path: Path) -> None:
    probe, policy = Probe(), ScriptedPolicy(Verdict.ASK)
    async with GateSimulator(tmp_path / "home", tools=[probe.tool], policy=policy) as simulator:
        pending = await simulator.call("test.probe", wait=False)
        call_id = CallId(str(pending.call_id))
        racing = [simulator.gate.resume(call_id, credential=AGENT_CREDENTIAL) for _ in range(2)]
        both = asyncio.gather(*racing)
        await settle_down()
        simulator.reviewer.approve()
        assert [result.state for result in await both] == ["succeeded", "succeeded"]
        assert probe.begun == 1


@pytest.mark.invariant("I4")
async def test_a_policy_that_became_stricter_since_it_decided_refuses(tmp_path: Path) -> None:
    async with GateSimulator(tmp_path / "home", policy=ScriptedPolicy(Verdict.ASK)) as simulator:
        policy = simulator.gate.decider._engine
        assert isinstance(policy, ScriptedPolicy)

        def agree_too_late(proposal: Proposal) -> Approval:
            policy.change_to(Verdict.FORBID)
            return approval_of(proposal)

        simulator.reviewer.at_once = agree_too_late
        result = await simulator.call()
        assert (result.state, result.outcome) == ("denied", None)
        assert attested_code(simulator, result) == "policy.stricter"


@pytest.mark.invariant("I14")
async def test_a_question_is_not_put_when_the_store_has_no_budget_for_it(tmp_path: Path) -> None:
    limits = BudgetLimits(max_calls_per_run=1)
    async with GateSimulator(
        tmp_path / "home", policy=ScriptedPolicy(Verdict.ASK), limits=limits
    ) as simulator:
        first = await simulator.call(wait=False)
        second = await simulator.call(wait=False)
        assert (first.state, second.state) == ("pending", "denied")
        assert second.decision.code == "budget.exhausted"
        assert len(simulator.reviewer.announced) == 1


# --- Who may ask ---------------------------------------------------------------------------------


@pytest.mark.invariant("I14")
@pytest.mark.parametrize("stranger", STRANGERS)
async def test_another_ones_run_looks_like_no_run(tmp_path: Path, stranger: Credential) -> None:
    async with GateSimulator(tmp_path / "home") as simulator:
        run_id = await simulator.run()
        told = []
        for claimed in (run_id, NOBODYS_RUN):
            request = await simulator.request(run_id=claimed)
            with pytest.raises(NotFoundError) as caught:
                await simulator.gate.submit(request, credential=stranger)
            with pytest.raises(NotFoundError) as dry:
                simulator.gate.dry_run(request, credential=stranger)
            told += [_said(caught.value), _said(dry.value)]
        assert told == [(Code.RUN_UNKNOWN, told[0][1], {})] * 4
        assert simulator.calls() == []


@pytest.mark.invariant("I14")
@pytest.mark.parametrize("stranger", STRANGERS)
async def test_another_ones_session_looks_like_none(tmp_path: Path, stranger: Credential) -> None:
    async with GateSimulator(tmp_path / "home") as simulator:
        run = await simulator.gate.open_session(AGENT_CREDENTIAL)
        before = simulator.kinds()
        told = []
        for claimed in (run.session_id, SessionId(NOBODYS_RUN)):
            with pytest.raises(NotFoundError) as caught:
                await simulator.gate.open_run(claimed, credential=stranger)
            told.append(_said(caught.value))
        assert told == [(Code.SESSION_UNKNOWN, told[0][1], {})] * 2
        assert simulator.kinds() == before


@pytest.mark.invariant("I14")
@pytest.mark.parametrize("stranger", STRANGERS)
async def test_another_ones_call_looks_like_none(tmp_path: Path, stranger: Credential) -> None:
    async with GateSimulator(tmp_path / "home", tools=[dangerous]) as simulator:
        pending = await simulator.call("test.dangerous", wait=False)
        simulator.reviewer.approve()
        told = []
        for claimed in (CallId(str(pending.call_id)), CallId(NOBODYS_RUN)):
            for wait in (True, False):
                with pytest.raises(NotFoundError) as caught:
                    await simulator.gate.resume(claimed, credential=stranger, wait=wait)
                told.append(_said(caught.value))
        assert told == [(Code.CALL_UNKNOWN, told[0][1], {})] * 4
        assert simulator.states() == {pending.call_id: "pending"}


async def test_a_session_may_have_several_runs(tmp_path: Path) -> None:
    async with GateSimulator(tmp_path / "home") as simulator:
        first = await simulator.gate.open_session(AGENT_CREDENTIAL)
        second = await simulator.gate.open_run(first.session_id, credential=AGENT_CREDENTIAL)
        assert second.session_id == first.session_id
        result = await simulator.call(run_id=second.run_id)
        assert (result.session_id, result.run_id) == (first.session_id, second.run_id)
        assert simulator.kinds()[-4:] == [
            "run.opened",
            "call.decided",
            "call.launched",
            "call.ended",
        ]


# --- Bounds, many at once, the end ---------------------------------------------------------------


@pytest.mark.invariant("I13")
async def test_proposals_that_come_too_fast_are_counted_and_not_journaled(tmp_path: Path) -> None:
    async with GateSimulator(tmp_path / "home", burst=4) as simulator:
        await simulator.run()
        before = len(simulator.journal())
        codes: Counter[str] = Counter()
        for _ in range(102):
            try:
                codes[(await simulator.call()).decision.code] += 1
            except NotPermittedError as error:
                codes[error.code] += 1
        flood = [each.body["count"] for each in simulator.journal() if each.kind[:5] == "flood"]
        assert flood == [1, 2, 4, 8, 16, 32, 64]
        accepted = codes.pop("tool.allowlisted")
        assert codes == {Code.RATE_LIMITED: 102 - accepted}
        assert len(simulator.journal()) - before == 3 * accepted + len(flood)


async def test_calls_at_once_each_get_their_own_result(tmp_path: Path) -> None:
    probe = Probe(holds=True)
    limits = BudgetLimits(max_calls_per_run=64)
    async with GateSimulator(tmp_path / "home", tools=[probe.tool], limits=limits) as simulator:
        await simulator.run()
        tasks = [
            asyncio.create_task(simulator.call("test.probe", {"word": f"word {number}"}))
            for number in range(64)
        ]
        await probe.until_begun(64)
        assert set(simulator.states().values()) == {"launched"}
        probe.release.set()
        results = await asyncio.gather(*tasks)
        assert [output_of(result) for result in results] == [f"word {n}" for n in range(64)]
        assert len({result.call_id for result in results}) == 64
        assert list(simulator.states().values()) == ["succeeded"] * 64
        assert simulator.verified().ok


async def test_the_budget_that_ran_out_meanwhile_refuses(tmp_path: Path) -> None:
    limits = BudgetLimits(max_calls_per_run=1)
    async with GateSimulator(
        tmp_path / "home", policy=ScriptedPolicy(), limits=limits
    ) as simulator:
        assert (await simulator.call()).state == "succeeded"
        assert refusal_of(await simulator.call()) == ("denied", "budget.exhausted")


async def test_a_retry_is_told_what_the_first_attempt_was_told(tmp_path: Path) -> None:
    async with GateSimulator(tmp_path / "home") as simulator:
        first = await simulator.call(request_id="r")
        again = await simulator.call(request_id="r")
        assert (again.call_id, again.outcome) == (first.call_id, first.outcome)


async def test_a_tool_calls_another_through_the_same_gate(tmp_path: Path) -> None:
    @tool(name="test.parent")
    async def parent(context: ToolContext) -> str:
        """Ask another tool."""
        echoed = await context.call("palyra.echo", {"text": "below"})
        return str(echoed["echo"])

    async with GateSimulator(tmp_path / "home", tools=[parent]) as simulator:
        result = await simulator.call("test.parent")
        assert output_of(result) == "below"
        _, child = [each.body for each in simulator.journal() if each.kind == "call.decided"]
        assert (child["parent_call_id"], child["depth"]) == (result.call_id, 1)


async def test_closing_waits_for_calls_under_way(tmp_path: Path) -> None:
    probe = Probe(holds=True)
    async with GateSimulator(tmp_path / "home", tools=[probe.tool]) as simulator:
        call = asyncio.create_task(simulator.call("test.probe"))
        await probe.until_begun()
        closing = asyncio.create_task(simulator.gate.close())
        await settle_down()
        assert not closing.done()
        probe.release.set()
        await closing
        assert list(simulator.states().values()) == ["succeeded"]
        assert (await call).state == "succeeded"
        with pytest.raises(StateConflictError) as caught:
            await simulator.call("test.probe")
        assert (caught.value.code, probe.begun) == (Code.GATE_CLOSED, 1)


async def test_a_dry_run_needs_no_run(tmp_path: Path) -> None:
    async with GateSimulator(tmp_path / "home") as simulator:
        request = msgspec.structs.replace(await simulator.request(), run_id=RunId(""))
        before = simulator.journal()
        result = simulator.gate.dry_run(request, credential=AGENT_CREDENTIAL)
        assert (result.state, result.decision.verdict) == ("dry_run", "allow")
        assert simulator.journal() == before


@pytest.mark.parametrize(
    ("name", "verdict", "code"),
    [
        ("palyra.echo", "allow", "tool.allowlisted"),
        ("test.dangerous", "needs_approval", "tool.sensitive"),
        ("palyra.unheard_of", "deny", "tool.unknown"),
    ],
)
async def test_a_dry_run_decides_and_leaves_no_trace(
    tmp_path: Path, name: str, verdict: str, code: str
) -> None:
    async with GateSimulator(tmp_path / "home", tools=[dangerous]) as simulator:
        request = await simulator.request(name)
        before = simulator.journal()
        result, *_ = (  # charged, they would run out of budget
            simulator.gate.dry_run(request, credential=AGENT_CREDENTIAL) for _ in range(100)
        )
        assert (result.state, result.call_id) == ("dry_run", None)
        assert (result.decision.verdict, result.decision.code) == (verdict, code)
        assert (result.outcome, result.attestation, result.approval) == (None, None, None)
        assert (simulator.journal(), simulator.calls()) == (before, [])
        assert simulator.reviewer.questions == {}


@pytest.mark.parametrize(
    ("asked_ms", "limit_ms"), [(50, 50), (60_000, 200), (None, 200), (-5, 1), (0, 1)]
)
async def test_a_request_can_only_shorten_its_time(
    tmp_path: Path, asked_ms: int | None, limit_ms: int
) -> None:
    async with GateSimulator(tmp_path / "home", timeout_ms=200) as simulator:
        arguments = {"duration_ms": 5000}
        result = await simulator.call("palyra.sleep", arguments, timeout_ms=asked_ms)
        assert failure_of(result) == ("timed_out", "tool.timed_out")
        assert result.outcome is not None
        assert (result.outcome.timed_out, result.outcome.limit) == (True, "execution_timeout_ms")
        assert f"{limit_ms} ms" in result.outcome.error.message  # type: ignore[union-attr]


def _said(error: NotFoundError) -> tuple[Code, str, dict[str, object]]:
    return error.code, error.message, dict(error.details)
