# SPDX-License-Identifier: Apache-2.0
"""The gate: the one way from an agent's request to an effect. Read this file first.

Every call walks the same five steps, (1) to (5) below. Types hold the order: a decision needs a
proposal, a permit needs a decision (and an answer where it asks), an execution needs a permit, an
attestation needs them all. Nothing is told before it is durable (I7), and whatever goes wrong on
the way ends in a refusal (I1).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from palyra.core.approval import Answer, Approval, Grant, Pending, Rejection
from palyra.core.decision import Decision, Verdict
from palyra.core.errors import Code, NotPermittedError, StateConflictError
from palyra.core.ids import CallId, PermitId, SessionId
from palyra.core.lifecycle import CallState
from palyra.core.permit import Permit
from palyra.core.proposal import CallRequest, Malformed, Proposal
from palyra.core.result import CallResult, call_result
from palyra.core.transitions import Admission, Admitted, Conflicting, Flooded, Repeated
from palyra.flow.intake.receive import Parent, Receiver
from palyra.flow.seal.recall import Recall, conflict
from palyra.flow.seal.scribe import CallEffects, Scribe

if TYPE_CHECKING:
    from palyra.core.execution import Execution
    from palyra.core.ports import Clock, IdSource
    from palyra.core.principal import Credential
    from palyra.core.session import Run
    from palyra.flow.intake.rate import ProposalRate
    from palyra.flow.intake.sessions import Sessions
    from palyra.flow.policy.decide import Decider
    from palyra.flow.review.resolve import Resolver
    from palyra.flow.sandbox.supervise import Supervisor
    from palyra.flow.sandbox.time_limit import RunningClocks
    from palyra.flow.sandbox.walks import Walks


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """Propose, decide, approve, execute, attest."""

    sessions: Sessions
    rate: ProposalRate
    receiver: Receiver
    decider: Decider
    resolver: Resolver
    supervisor: Supervisor
    scribe: Scribe
    recall: Recall
    walks: Walks
    clocks: RunningClocks
    clock: Clock
    ids: IdSource

    async def open_session(self, credential: Credential) -> Run:
        """Issue a session and return its first run, bound to ``credential`` (I14)."""
        session, run = self.sessions.issue(credential)
        await self.scribe.session_opened(session, run)
        return run

    async def open_run(self, session_id: SessionId, *, credential: Credential) -> Run:
        """Issue a further run within a session of ``credential``."""
        run = self.sessions.issue_run(session_id, credential=credential)
        await self.scribe.run_opened(run)
        return run

    async def submit(
        self, request: CallRequest, *, credential: Credential, wait: bool = True
    ) -> CallResult:
        """Walk one call through the gate; without ``wait``, a question leaves it pending."""
        return await self._submit(request, credential=credential, wait=wait, parent=None)

    async def resume(
        self, call_id: CallId, *, credential: Credential, wait: bool = True
    ) -> CallResult:
        """Go on with a pending call once its question is answered; tell an ended one again."""
        record = self.recall.record(call_id)
        self.sessions.run(record.run_id, credential=credential)  # I14
        proposal, approval_id = record.kept_proposal, record.approval_id
        if not wait or proposal is None or approval_id is None:
            return self.recall.result(call_id)
        with self.clocks.standing(proposal.parent_call_id):
            answer = await self.resolver.wait(approval_id)
        return await self.walks.drive(self._settle(proposal, answer, credential))

    def dry_run(self, request: CallRequest, *, credential: Credential) -> CallResult:
        """Decide only: nothing is executed, charged or journaled."""
        run = self.sessions.run(request.run_id, credential=credential)
        subject = self.receiver.receive(request, run=run)
        result = call_result(subject, self.decider.decide(subject), state=CallState.PENDING)
        return msgspec.structs.replace(result, call_id=None, state="dry_run")

    async def close(self) -> None:
        """Let every call under way end and be recorded."""
        await self.walks.finish()

    async def _submit(
        self, request: CallRequest, *, credential: Credential, wait: bool, parent: Parent | None
    ) -> CallResult:
        run = self.sessions.run(request.run_id, credential=credential)
        dropped = self.rate.take(run.principal)
        if dropped:
            if dropped & (dropped - 1) == 0:  # one entry each time the count doubles (I13)
                await self.scribe.flood_suppressed(run.principal, count=dropped)
            raise NotPermittedError(Code.RATE_LIMITED)
        result = await self.walks.drive(self._walk(request, run, parent, credential))
        if wait and result.state == CallState.PENDING and result.call_id is not None:
            return await self.resume(result.call_id, credential=credential)
        return result

    async def _walk(
        self, request: CallRequest, run: Run, parent: Parent | None, credential: Credential
    ) -> CallResult:
        # (1) Propose: strict input becomes canonical arguments and a digest, or is refused.
        proposal = self.receiver.receive(request, run=run, parent=parent)
        earlier = self.recall.earlier(proposal)
        if earlier is not None:
            return earlier
        # (2) Decide: the active policy's verdict on exactly this call.
        decision = self.decider.decide(proposal)
        if isinstance(proposal, Malformed) or decision.verdict is Verdict.FORBID:
            return await self._refuse(proposal, decision)
        # (3) Approve: only where policy asks, and only an answer to exactly this call counts.
        answer = None
        if decision.verdict is Verdict.ASK:
            asked = await self.resolver.ask(proposal, decision)
            if isinstance(asked, Rejection):
                return await self._refuse(proposal, decision, answer=asked)
            if isinstance(asked, Pending):
                return await self._suspend(proposal, decision, asked)
            answer = asked
        permit = self._permit(proposal, decision, answer)
        # (4) Execute: the intent is durable first; a budget or a race may still refuse it.
        admission = await self.scribe.launched(proposal, decision, permit)
        if not isinstance(admission, Admitted):
            return await self._not_admitted(admission, proposal)
        execution = await self._execute(proposal, permit, credential)
        # (5) Attest: outcome, observation and signature become durable, then they are told.
        return await self.scribe.ended(proposal, decision, permit, execution, answer=answer)

    async def _settle(
        self, proposal: Proposal, answer: Answer, credential: Credential
    ) -> CallResult:
        """Take a pending call through (2) to (5) again: the rules may have changed (I4)."""
        decision = self.decider.decide(proposal, is_charged=True)
        try:
            if isinstance(answer, Rejection):
                return await self.scribe.pending_refused(proposal, decision, answer=answer)
            try:
                permit = self._permit(proposal, decision, answer)
            except StateConflictError as error:
                refusal = Rejection(code=error.code, reason=error.message)
                return await self.scribe.pending_refused(proposal, decision, answer=refusal)
            await self.scribe.pending_launched(proposal, permit)
        except StateConflictError:
            return self.recall.result(proposal.call_id)  # somebody else settled it first (I5)
        execution = await self._execute(proposal, permit, credential)
        return await self.scribe.ended(proposal, decision, permit, execution, answer=answer)

    def _permit(
        self, proposal: Proposal, decision: Decision, answer: Approval | Grant | None
    ) -> Permit:
        """Build the permit from its evidence and check it against the policy of this moment."""
        permit_id, now_ms = PermitId(self.ids.ulid()), self.clock.now_ms()
        permit = Permit.from_answer(proposal, decision, answer, permit_id=permit_id, now_ms=now_ms)
        still = self.decider.confirm(proposal, decision)
        permit.check_launch(proposal, still, now_ms=now_ms)
        return permit

    async def _execute(
        self, proposal: Proposal, permit: Permit, credential: Credential
    ) -> Execution:
        return await self.supervisor.execute(
            proposal,
            permit,
            effects=CallEffects(self.scribe, proposal.call_id),
            nested=partial(self._nested, proposal, credential),
        )

    async def _nested(
        self, parent: Proposal, credential: Credential, tool: str, raw_arguments: bytes
    ) -> CallResult:
        """Submit a tool's own call: same gate, same run, same budget, one level deeper."""
        request = CallRequest(tool=tool, raw_arguments=raw_arguments, run_id=parent.run_id)
        above = Parent(call_id=parent.call_id, depth=parent.depth)
        return await self._submit(request, credential=credential, wait=True, parent=above)

    async def _suspend(
        self, proposal: Proposal, decision: Decision, pending: Pending
    ) -> CallResult:
        admission = await self.scribe.suspended(proposal, decision, pending)
        if not isinstance(admission, Admitted):
            return await self._not_admitted(admission, proposal)
        await self.resolver.announce(pending)
        return self.recall.result(proposal.call_id)

    async def _refuse(
        self, subject: Proposal | Malformed, decision: Decision, answer: Rejection | None = None
    ) -> CallResult:
        refused = await self.scribe.refused(subject, decision, answer=answer)
        if isinstance(refused, CallResult):
            return refused
        return await self._not_admitted(refused, subject)

    async def _not_admitted(
        self, admission: Admission, subject: Proposal | Malformed
    ) -> CallResult:
        """Answer a call that the store would not take: a retry, a conflict, a used-up budget."""
        match admission:
            case Repeated():
                return self.recall.result(admission.call_id)
            case Conflicting():
                raise conflict(admission.call_id)
            case Flooded():
                raise NotPermittedError(Code.RATE_LIMITED, details={"dropped": admission.count})
            case _:
                return await self._refuse(subject, self.decider.exhausted(subject))
