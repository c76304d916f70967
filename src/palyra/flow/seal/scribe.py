# SPDX-License-Identifier: Apache-2.0
"""The scribe: each step of a call in, one durable transition with its entries out.

Nobody else writes about calls. Every method returns only once its transition is durable, and what
it returns is what may be told (I7, I8).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from palyra.core.digest import content_sha256
from palyra.core.errors import Code, StoreError
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
from palyra.core.facts import NO_FACTS
from palyra.core.lifecycle import CallState
from palyra.core.proposal import Malformed, Proposal
from palyra.core.result import CallResult, call_result, ending_of, with_place
from palyra.core.transitions import (
    AddWorkspace,
    Admission,
    Admit,
    Admitted,
    End,
    Exhausted,
    Launch,
    Note,
    OpenRun,
    OpenSession,
    PlanEffect,
    RemoveWorkspace,
)
from palyra.flow.seal.attest import Attestor, decision_record, permit_record

if TYPE_CHECKING:
    from palyra.core.approval import Answer, Pending, Rejection
    from palyra.core.attestation import Attestation
    from palyra.core.decision import Decision
    from palyra.core.execution import Execution
    from palyra.core.ids import CallId
    from palyra.core.permit import Permit
    from palyra.core.ports import Clock, Recorded, Recorder
    from palyra.core.principal import Principal
    from palyra.core.session import BudgetLimits, Run, Session
    from palyra.core.workspace import Workspace

_NO_ARGUMENTS = msgspec.Raw(b"{}")


class Scribe:
    """Writes what happens to calls."""

    def __init__(
        self, *, recorder: Recorder, attestor: Attestor, clock: Clock, limits: BudgetLimits
    ) -> None:
        self._recorder = recorder
        self._attestor = attestor
        self._clock = clock
        self._limits = limits

    async def session_opened(self, session: Session, run: Run) -> None:
        """Record a session and its first run."""
        opened = SessionOpened(
            session_id=session.session_id,
            principal=str(session.principal),
            credential_id=session.credential_id,
        )
        await self._recorder.record(
            OpenSession(session=session, run=run, events=(opened, _run_opened(run)))
        )

    async def run_opened(self, run: Run) -> None:
        """Record a further run."""
        await self._recorder.record(OpenRun(run=run, events=(_run_opened(run),)))

    async def launched(self, proposal: Proposal, decision: Decision, permit: Permit) -> Admission:
        """Record a new call's decision and the intent to run it, before it runs (I7)."""
        events = (_decided(proposal, decision), _launched(proposal, permit))
        recorded = await self._recorder.record(
            self._admit(proposal, decision, state=CallState.LAUNCHED, events=events)
        )
        return _admission(recorded)

    async def suspended(
        self, proposal: Proposal, decision: Decision, pending: Pending
    ) -> Admission:
        """Record that a call waits for a human; it is not executable meanwhile (I5)."""
        requested = ApprovalRequested(call_id=proposal.call_id, approval_id=pending.approval_id)
        result = call_result(proposal, decision, state=CallState.PENDING, answer=pending)
        admit = self._admit(
            proposal,
            decision,
            state=CallState.PENDING,
            events=(_decided(proposal, decision), requested),
            ending=ending_of(result),
        )
        admit = msgspec.structs.replace(
            admit, approval_id=pending.approval_id, kept_proposal=proposal
        )
        return _admission(await self._recorder.record(admit))

    async def refused(
        self,
        subject: Proposal | Malformed,
        decision: Decision,
        *,
        answer: Rejection | None = None,
    ) -> CallResult | Admission:
        """Record that a new call was refused, with its attestation; refusals are charged too."""
        result = await self._refuse(subject, decision, answer=answer, over_budget=False)
        if isinstance(result, Exhausted):
            return await self._refuse(subject, decision, answer=answer, over_budget=True)
        return result

    async def _refuse(
        self,
        subject: Proposal | Malformed,
        decision: Decision,
        *,
        answer: Rejection | None,
        over_budget: bool,
    ) -> CallResult | Admission:
        code = answer.code if answer is not None else decision.code
        attestation = self._attest_nothing_ran(subject, decision, CallState.DENIED, code)
        result = call_result(
            subject, decision, state=CallState.DENIED, answer=answer, attestation=attestation
        )
        ending = ending_of(result)
        admit = self._admit(
            subject,
            decision,
            state=CallState.DENIED,
            events=(_decided(subject, decision), _ended(subject.call_id, attestation, ending)),
            ending=ending,
            over_budget=over_budget,
        )
        recorded = await self._recorder.record(admit)
        admission = _admission(recorded)
        if isinstance(admission, Admitted):
            return with_place(result, recorded.receipt)
        return admission

    async def pending_launched(
        self, proposal: Proposal, decision: Decision, permit: Permit
    ) -> None:
        """Record the intent to run a call that was pending: exactly one caller wins (I5)."""
        await self._recorder.record(
            Launch(
                call_id=proposal.call_id,
                rules_version=decision.rules_version,
                events=(_redecided(proposal, decision), _launched(proposal, permit)),
            )
        )

    async def pending_refused(
        self, proposal: Proposal, decision: Decision, *, answer: Rejection
    ) -> CallResult:
        """Record that a pending call will never run."""
        state = CallState.DENIED
        attestation = self._attest_nothing_ran(proposal, decision, state, answer.code)
        result = call_result(
            proposal, decision, state=state, answer=answer, attestation=attestation
        )
        again = _redecided(proposal, decision)
        return await self._end(proposal, CallState.PENDING, state, attestation, result, again)

    async def ended(
        self,
        proposal: Proposal,
        decision: Decision,
        permit: Permit,
        execution: Execution,
        *,
        answer: Answer | None,
    ) -> CallResult:
        """Record the outcome of a launch with its attestation."""
        attestation = self._attestor.executed(
            proposal, decision, permit, execution, anchor=self._recorder.anchor
        )
        state = execution.outcome.state
        result = call_result(
            proposal,
            decision,
            state=state,
            answer=answer,
            outcome=execution.outcome,
            attestation=attestation,
        )
        try:
            return await self._end(proposal, CallState.LAUNCHED, state, attestation, result)
        except StoreError as error:
            raise StoreError(
                Code.STORE_OUTCOME_LOST,
                f"call {proposal.call_id} ran, but its outcome could not be recorded: {error}",
                details={"call_id": proposal.call_id, "cause": error.code.value},
            ) from error

    async def effect_planned(
        self,
        call_id: CallId,
        *,
        workspace: str,
        staging: str,
        changes: tuple[PlannedChange, ...],
    ) -> None:
        """Record the exact file changes a launched call is about to make (I7)."""
        planned = EffectPlanned(
            call_id=call_id, workspace=workspace, staging=staging, changes=changes
        )
        await self._recorder.record(PlanEffect(call_id=call_id, events=(planned,)))

    async def flood_suppressed(self, principal: Principal, *, count: int) -> None:
        """Record how many proposals were dropped, each time that number doubles (I13)."""
        if count & (count - 1):
            return
        flood = FloodSuppressed(principal=str(principal), code=Code.RATE_LIMITED.value, count=count)
        await self._recorder.record(Note(events=(flood,)))

    async def workspace_added(self, workspace: Workspace, *, principal: Principal) -> None:
        """Record a new workspace."""
        added = WorkspaceAdded(
            principal=str(principal),
            name=workspace.name,
            root=workspace.root,
            folder=workspace.folder,
        )
        await self._recorder.record(AddWorkspace(workspace=workspace, events=(added,)))

    async def workspace_removed(self, name: str, *, principal: Principal) -> None:
        """Record that a workspace was forgotten."""
        removed = WorkspaceRemoved(principal=str(principal), name=name)
        await self._recorder.record(RemoveWorkspace(name=name, events=(removed,)))

    async def _end(
        self,
        proposal: Proposal,
        before: CallState,
        after: CallState,
        attestation: Attestation,
        result: CallResult,
        *first: CallRedecided,
    ) -> CallResult:
        ending = ending_of(result)
        end = End(
            call_id=proposal.call_id,
            before=before,
            after=after,
            ending=ending,
            events=(*first, _ended(proposal.call_id, attestation, ending)),
        )
        recorded = await self._recorder.record(end)
        return with_place(result, recorded.receipt)

    def _attest_nothing_ran(
        self, subject: Proposal | Malformed, decision: Decision, state: CallState, code: Code
    ) -> Attestation:
        return self._attestor.not_executed(
            subject,
            decision,
            state=state,
            code=code,
            at_ms=self._clock.now_ms(),
            anchor=self._recorder.anchor,
        )

    def _admit(
        self,
        subject: Proposal | Malformed,
        decision: Decision,
        *,
        state: CallState,
        events: tuple[CallDecided | CallLaunched | ApprovalRequested | CallEnded, ...],
        ending: bytes = b"",
        over_budget: bool = False,
    ) -> Admit:
        return Admit(
            call_id=subject.call_id,
            principal=subject.principal,
            session_id=subject.session_id,
            run_id=subject.run_id,
            request_id=subject.request_id,
            call_digest=subject.call_digest,
            at_ms=subject.proposed_at_ms,
            limits=self._limits,
            state=state,
            rules_version=decision.rules_version,
            over_budget=over_budget,
            ending=ending,
            events=events,
        )


class CallEffects:
    """The effect log of one call, as its executor sees it."""

    def __init__(self, scribe: Scribe, call_id: CallId) -> None:
        self._scribe = scribe
        self._call_id = call_id

    async def plan(
        self, *, workspace: str, staging: str, changes: tuple[PlannedChange, ...]
    ) -> None:
        """Return once the plan is durable (I7)."""
        await self._scribe.effect_planned(
            self._call_id, workspace=workspace, staging=staging, changes=changes
        )


def _admission(recorded: Recorded) -> Admission:
    if recorded.admission is None:
        raise RuntimeError("a call was recorded without being admitted")
    return recorded.admission


def _run_opened(run: Run) -> RunOpened:
    return RunOpened(run_id=run.run_id, session_id=run.session_id, principal=str(run.principal))


def _decided(subject: Proposal | Malformed, decision: Decision) -> CallDecided:
    proposal = subject if isinstance(subject, Proposal) else None
    return CallDecided(
        call_id=subject.call_id,
        request_id=subject.request_id,
        principal=str(subject.principal),
        session_id=subject.session_id,
        run_id=subject.run_id,
        parent_call_id=subject.parent_call_id,
        depth=subject.depth,
        tool=subject.tool,
        tool_version=subject.tool_version,
        arguments=proposal.journaled_arguments if proposal else _NO_ARGUMENTS,
        facts=proposal.facts if proposal else NO_FACTS,
        call_digest=subject.call_digest,
        plan_digest=proposal.plan_digest if proposal else "",
        request=decision.request,
        decision=decision_record(decision),
    )


def _redecided(proposal: Proposal, decision: Decision) -> CallRedecided:
    return CallRedecided(
        call_id=proposal.call_id, request=decision.request, decision=decision_record(decision)
    )


def _ended(call_id: CallId, attestation: Attestation, ending: bytes) -> CallEnded:
    return CallEnded(call_id=call_id, attestation=attestation, ending_sha256=content_sha256(ending))


def _launched(proposal: Proposal, permit: Permit) -> CallLaunched:
    return CallLaunched(
        call_id=proposal.call_id, executor=proposal.executor.value, permit=permit_record(permit)
    )
