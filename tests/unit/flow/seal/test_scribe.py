# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from palyra.core.approval import Pending, Rejection
from palyra.core.attestation import Anchor
from palyra.core.decision import Verdict
from palyra.core.errors import Code, StateConflictError, StoreError
from palyra.core.events import (
    ApprovalRequested,
    CallDecided,
    CallEnded,
    CallLaunched,
    CallRedecided,
    EffectPlanned,
    FloodSuppressed,
    PlannedChange,
    RunOpened,
    SessionOpened,
    WorkspaceAdded,
    WorkspaceRemoved,
)
from palyra.core.execution import Enforcement, Execution, Executor, Outcome
from palyra.core.facts import NO_FACTS
from palyra.core.lifecycle import CallState
from palyra.core.obligations import Obligations
from palyra.core.permit import Permit
from palyra.core.ports import Recorded
from palyra.core.principal import Assurance
from palyra.core.result import CallResult, read_ending
from palyra.core.session import BudgetLeft
from palyra.core.transitions import (
    AddWorkspace,
    Admission,
    Admit,
    Admitted,
    Conflicting,
    End,
    Exhausted,
    Flooded,
    Launch,
    Note,
    OpenRun,
    OpenSession,
    Outdated,
    PlanEffect,
    RemoveWorkspace,
    Repeated,
    Transition,
)
from palyra.flow.seal.attest import Attestor, decision_record, permit_record
from palyra.flow.seal.scribe import CallEffects, Scribe
from palyra.flow.seal.signatures import PublicKey
from tests.support.samples import (
    AGENT,
    ALLOW,
    APPROVAL_ID,
    ASK,
    CALL,
    CALL_ID,
    CREDENTIAL_ID,
    FORBID,
    MALFORMED,
    NOW_MS,
    OPERATOR,
    PERMIT_ID,
    PLAN,
    PROPOSAL,
    REQUEST,
    RUN_ID,
    SESSION_ID,
)
from tests.support.scripted import CountedIds, FakeClock
from tests.support.store import KEY, LIMITS, RUN, SESSION, WORKSPACE

if TYPE_CHECKING:
    from collections.abc import Iterable

ANCHOR = Anchor(index=7, link="a" * 64)
PERMIT = Permit.from_allow(PROPOSAL, ALLOW, permit_id=PERMIT_ID)
LEFT = BudgetLeft(run=1, session=1, agent_hour=1)
ADMITTED = Admitted(left=LEFT)
REJECTION = Rejection(code=Code.APPROVAL_DENIED, reason="no", decided_by=OPERATOR)
EXECUTION = Execution(
    permit_id=PERMIT_ID,
    executor=Executor.BUILTIN,
    enforcement=Enforcement.NONE,
    observed=msgspec.Raw(b"{}"),
    outcome=Outcome(state=CallState.SUCCEEDED, output=msgspec.Raw(b'{"echo":"hi"}'), failure=None),
    started_at_ms=NOW_MS,
    ended_at_ms=NOW_MS,
)
UNREADABLE = msgspec.structs.replace(MALFORMED, reason="no", hint="")
DECIDED = CallDecided(
    call_id=CALL_ID,
    request_id=None,
    principal="agent:ada",
    session_id=SESSION_ID,
    run_id=RUN_ID,
    parent_call_id=None,
    depth=0,
    tool="palyra.echo",
    tool_version="1.0.0",
    arguments=PROPOSAL.journaled_arguments,
    facts=PROPOSAL.facts,
    call_digest=CALL,
    plan_digest=PLAN,
    request=None,
    decision=decision_record(ALLOW),
)
LAUNCHED = CallLaunched(call_id=CALL_ID, executor="builtin", permit=permit_record(PERMIT))


class Notebook:
    """A recorder that keeps what it is given and answers by script."""

    anchor = ANCHOR

    def __init__(self, admissions: Iterable[Admission] = (ADMITTED,)) -> None:
        self.transitions: list[Transition] = []
        self.fault: Exception | None = None
        self._admissions = iter(admissions)

    async def record(self, transition: Transition) -> Recorded:
        self.transitions.append(transition)
        if self.fault is not None:
            raise self.fault
        admission = next(self._admissions) if isinstance(transition, Admit) else None
        return Recorded(admission=admission, prove=None)

    @property
    def only(self) -> Transition:
        (transition,) = self.transitions
        return transition

    @property
    def admit(self) -> Admit:
        assert isinstance(self.only, Admit)
        return self.only

    @property
    def end(self) -> End:
        assert isinstance(self.only, End)
        return self.only


def scribe(notebook: Notebook) -> Scribe:
    clock = FakeClock()
    attestor = Attestor(signer=KEY, ids=CountedIds(clock), assurance=Assurance.DEVELOPER)
    return Scribe(recorder=notebook, attestor=attestor, clock=clock, limits=LIMITS)


def ended_by(events: Iterable[object]) -> CallEnded:
    """Return the entry that ends a call, and check its signature and anchor."""
    (ended,) = (event for event in events if isinstance(event, CallEnded))
    assert PublicKey(KEY.public_key).signed_attestation(ended.attestation)
    assert ended.attestation.statement.anchor == ANCHOR
    return ended


async def test_sessions_and_runs_are_recorded_as_issued() -> None:
    notebook = Notebook()
    await scribe(notebook).session_opened(SESSION, RUN)
    await scribe(notebook).run_opened(RUN)
    session_opened = SessionOpened(
        session_id=SESSION_ID, principal="agent:ada", credential_id=CREDENTIAL_ID
    )
    run_opened = RunOpened(run_id=RUN_ID, session_id=SESSION_ID, principal="agent:ada")
    assert notebook.transitions == [
        OpenSession(session=SESSION, run=RUN, events=(session_opened, run_opened)),
        OpenRun(run=RUN, events=(run_opened,)),
    ]


ADMIT = Admit(
    call_id=CALL_ID,
    principal=AGENT,
    session_id=SESSION_ID,
    run_id=RUN_ID,
    request_id=None,
    call_digest=CALL,
    at_ms=NOW_MS,
    limits=LIMITS,
    state=CallState.LAUNCHED,
    rules_version=0,
    events=(DECIDED, LAUNCHED),
)


@pytest.mark.invariant("I7")
async def test_a_launch_is_recorded_with_its_decision() -> None:
    notebook = Notebook()
    assert await scribe(notebook).launched(PROPOSAL, ALLOW, PERMIT) == ADMITTED
    assert notebook.only == ADMIT


@pytest.mark.invariant("I5")
async def test_a_question_is_recorded_with_what_resuming_needs() -> None:
    notebook = Notebook()
    admission = await scribe(notebook).suspended(PROPOSAL, ASK, Pending(approval_id=APPROVAL_ID))
    assert admission == ADMITTED
    requested = ApprovalRequested(call_id=CALL_ID, approval_id=APPROVAL_ID)
    decision = msgspec.structs.replace(DECIDED, decision=decision_record(ASK))
    expected = msgspec.structs.replace(
        ADMIT,
        state=CallState.PENDING,
        approval_id=APPROVAL_ID,
        kept_proposal=PROPOSAL,
        ending=notebook.admit.ending,
        events=(decision, requested),
    )
    assert notebook.only == expected
    approval = read_ending(notebook.admit.ending).approval
    assert approval is not None
    assert (approval.approval_id, approval.state) == (APPROVAL_ID, "pending")


@pytest.mark.invariant("I4")
async def test_every_admission_names_the_rules_it_was_decided_by() -> None:
    notebook = Notebook([ADMITTED] * 3)
    allow, ask, forbid = (
        msgspec.structs.replace(decision, rules_version=7) for decision in (ALLOW, ASK, FORBID)
    )
    await scribe(notebook).launched(PROPOSAL, allow, PERMIT)
    await scribe(notebook).suspended(PROPOSAL, ask, Pending(approval_id=APPROVAL_ID))
    await scribe(notebook).refused(PROPOSAL, forbid)
    versions = [each.rules_version for each in notebook.transitions if isinstance(each, Admit)]
    assert versions == [7, 7, 7]


@pytest.mark.invariant("I8")
async def test_what_policy_was_asked_and_demands_is_recorded_with_the_decision() -> None:
    demand = Obligations(timeout_ms=5, redact=("/token",))
    asked = msgspec.structs.replace(ALLOW, request=REQUEST, obligations=demand)
    notebook = Notebook([ADMITTED] * 3)
    await scribe(notebook).launched(PROPOSAL, asked, PERMIT)
    await scribe(notebook).suspended(
        PROPOSAL,
        msgspec.structs.replace(asked, verdict=Verdict.ASK),
        Pending(approval_id=APPROVAL_ID),
    )
    await scribe(notebook).refused(PROPOSAL, msgspec.structs.replace(asked, verdict=Verdict.FORBID))
    decided = [each.events[0] for each in notebook.transitions if isinstance(each, Admit)]
    assert len(decided) == 3
    for event in decided:
        assert isinstance(event, CallDecided)
        assert (event.request, event.decision.obligations) == (REQUEST, demand)


@pytest.mark.parametrize(
    ("answer", "code"), [(None, "tool.not_allowlisted"), (REJECTION, "approval.denied")]
)
async def test_a_refusal_is_recorded_and_attested(answer: Rejection | None, code: str) -> None:
    notebook = Notebook()
    result = await scribe(notebook).refused(PROPOSAL, FORBID, answer=answer)
    assert isinstance(result, CallResult)
    ended = ended_by(notebook.admit.events)
    outcome = ended.attestation.statement.outcome
    assert (outcome.state, outcome.error_code) == ("denied", code)
    assert (result.state, result.decision.code) == ("denied", "tool.not_allowlisted")
    assert (notebook.admit.state, notebook.admit.over_budget) == (CallState.DENIED, False)
    assert read_ending(notebook.admit.ending).approval == result.approval


async def test_a_malformed_call_is_recorded_without_its_arguments() -> None:
    notebook = Notebook()
    await scribe(notebook).refused(UNREADABLE, FORBID)
    decision = notebook.admit.events[0]
    assert decision == msgspec.structs.replace(
        DECIDED,
        arguments=msgspec.Raw(b"{}"),
        facts=NO_FACTS,
        plan_digest="",
        decision=decision_record(FORBID),
    )


async def test_a_refusal_beyond_the_budget_is_recorded_all_the_same() -> None:
    notebook = Notebook([Exhausted(left=LEFT), ADMITTED])
    result = await scribe(notebook).refused(PROPOSAL, FORBID)
    assert isinstance(result, CallResult)
    over_budget = [each.over_budget for each in notebook.transitions if isinstance(each, Admit)]
    assert over_budget == [False, True]


@pytest.mark.parametrize(
    "admission",
    [
        Repeated(call_id=CALL_ID),
        Conflicting(call_id=CALL_ID),
        Flooded(count=3),
        Outdated(rules_version=8),
    ],
    ids=lambda admission: type(admission).__name__,
)
async def test_what_the_store_does_not_take_is_handed_back(admission: Admission) -> None:
    assert await scribe(Notebook([admission])).refused(PROPOSAL, FORBID) == admission
    assert await scribe(Notebook([admission])).launched(PROPOSAL, ALLOW, PERMIT) == admission


@pytest.mark.invariant("I5")
async def test_a_pending_call_is_launched_by_compare_and_set() -> None:
    notebook = Notebook()
    still = msgspec.structs.replace(ALLOW, rules_version=7)
    await scribe(notebook).pending_launched(PROPOSAL, still, PERMIT)
    again = CallRedecided(call_id=CALL_ID, request=None, decision=decision_record(still))
    assert notebook.only == Launch(call_id=CALL_ID, rules_version=7, events=(again, LAUNCHED))


async def test_a_pending_call_that_is_refused_ends() -> None:
    notebook = Notebook()
    result = await scribe(notebook).pending_refused(PROPOSAL, ASK, answer=REJECTION)
    assert (notebook.end.before, notebook.end.after) == (CallState.PENDING, CallState.DENIED)
    assert notebook.end.events[0] == CallRedecided(
        call_id=CALL_ID, request=None, decision=decision_record(ASK)
    )
    assert ended_by(notebook.end.events).attestation.statement.permit is None
    assert result.state == "denied"


@pytest.mark.invariant("I7")
async def test_an_outcome_is_recorded_then_told() -> None:
    notebook = Notebook()
    result = await scribe(notebook).ended(PROPOSAL, ALLOW, PERMIT, EXECUTION, answer=None)
    assert (notebook.end.before, notebook.end.after) == (CallState.LAUNCHED, CallState.SUCCEEDED)
    statement = ended_by(notebook.end.events).attestation.statement
    assert statement.permit == permit_record(PERMIT)
    assert result.outcome == read_ending(notebook.end.ending).outcome
    assert result.attestation is not None
    assert result.attestation.execution_sha256 == statement.execution_sha256


@pytest.mark.invariant("I7")
async def test_an_outcome_that_cannot_be_recorded_is_not_told() -> None:
    notebook = Notebook()
    notebook.fault = StoreError(Code.STORE_FULL)
    with pytest.raises(StoreError) as fault:
        await scribe(notebook).ended(PROPOSAL, ALLOW, PERMIT, EXECUTION, answer=None)
    assert (fault.value.code, dict(fault.value.details)) == (
        Code.STORE_OUTCOME_LOST,
        {"call_id": CALL_ID, "cause": "store.full"},
    )


async def test_a_lost_race_for_the_end_stays_what_it_is() -> None:
    notebook = Notebook()
    notebook.fault = StateConflictError(Code.STATE_CONFLICT)
    with pytest.raises(StateConflictError):
        await scribe(notebook).ended(PROPOSAL, ALLOW, PERMIT, EXECUTION, answer=None)


@pytest.mark.invariant("I7")
async def test_the_effects_of_a_call_are_planned_under_its_name() -> None:
    notebook = Notebook()
    change = PlannedChange(path="a", before_sha256="", after_sha256="1" * 64, mode=0o644)
    effects = CallEffects(scribe(notebook), CALL_ID)
    await effects.plan(workspace="site", staging=".palyra-stage-x", changes=(change,))
    planned = EffectPlanned(
        call_id=CALL_ID, workspace="site", staging=".palyra-stage-x", changes=(change,)
    )
    assert notebook.only == PlanEffect(call_id=CALL_ID, events=(planned,))


@pytest.mark.invariant("I13")
async def test_a_flood_is_recorded_each_time_it_doubles() -> None:
    notebook = Notebook()
    for count in range(1, 10):
        await scribe(notebook).flood_suppressed(AGENT, count=count)
    floods = [
        FloodSuppressed(principal="agent:ada", code="rate.limited", count=count)
        for count in (1, 2, 4, 8)
    ]
    assert notebook.transitions == [Note(events=(flood,)) for flood in floods]


async def test_workspaces_are_recorded_with_who_changed_them() -> None:
    notebook = Notebook()
    await scribe(notebook).workspace_added(WORKSPACE, principal=OPERATOR)
    await scribe(notebook).workspace_removed("site", principal=OPERATOR)
    added = WorkspaceAdded(
        principal="operator:grace", name="site", root="/srv/site", folder=WORKSPACE.folder
    )
    removed = WorkspaceRemoved(principal="operator:grace", name="site")
    assert notebook.transitions == [
        AddWorkspace(workspace=WORKSPACE, events=(added,)),
        RemoveWorkspace(name="site", events=(removed,)),
    ]


async def test_a_store_that_records_without_admitting_is_a_fault_of_ours() -> None:
    class Absent(Notebook):
        async def record(self, transition: Transition) -> Recorded:
            await super().record(transition)
            return Recorded(admission=None, prove=None)

    with pytest.raises(RuntimeError):
        await scribe(Absent()).launched(PROPOSAL, ALLOW, PERMIT)
