# SPDX-License-Identifier: Apache-2.0
"""The gate: the one way from an agent's request to an effect. Read this file first.

Every call walks the steps (1) to (5) below. Types hold the order: a permit needs a decision (and an
answer where it asks), an execution needs a permit, an attestation needs them all. Nothing is told
before it is durable (I7), and whatever goes wrong on the way ends in a refusal (I1).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from palyra.core.approval import Answer, Pending, Rejection
from palyra.core.decision import Decision, Verdict
from palyra.core.errors import Code, NotPermittedError, StateConflictError
from palyra.core.lifecycle import CallState
from palyra.core.proposal import CallRequest, Malformed, Proposal
from palyra.core.result import CallResult, call_result
from palyra.flow.intake.receive import Parent, Receiver
from palyra.flow.intake.renew import renew
from palyra.flow.seal.scribe import CallEffects, Scribe

if TYPE_CHECKING:
    from palyra.core.ids import CallId, SessionId
    from palyra.core.permit import Permit
    from palyra.core.principal import Credential, Principal
    from palyra.core.session import Run
    from palyra.flow.intake.rate import ProposalRate
    from palyra.flow.intake.sessions import Sessions
    from palyra.flow.policy.decide import Decider
    from palyra.flow.review.permits import Permits
    from palyra.flow.review.resolve import Resolver
    from palyra.flow.sandbox.supervise import Supervisor
    from palyra.flow.sandbox.time_limit import RunningClocks
    from palyra.flow.sandbox.walks import Walks
    from palyra.flow.seal.admissions import Admissions
    from palyra.flow.seal.recall import Recall


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """Propose, decide, approve, execute, attest."""

    sessions: Sessions
    rate: ProposalRate
    receiver: Receiver
    decider: Decider
    resolver: Resolver
    permits: Permits
    supervisor: Supervisor
    scribe: Scribe
    recall: Recall
    admissions: Admissions
    walks: Walks
    clocks: RunningClocks

    async def open_session(self, credential: Credential) -> Run:
        """Issue a session and return its first run, bound to ``credential`` (I14)."""
        await self._pace(credential.principal)
        session, run = self.sessions.issue(credential)
        await self.scribe.session_opened(session, run)
        return run

    async def open_run(self, session_id: SessionId, *, credential: Credential) -> Run:
        """Issue a further run within a session of ``credential``."""
        await self._pace(credential.principal)
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
        run = self.sessions.run(record.run_id, credential=credential, otherwise=Code.CALL_UNKNOWN)
        kept, approval_id = record.kept_proposal, record.approval_id
        if not wait or kept is None or approval_id is None:
            return await self.recall.tell(call_id)
        with self.clocks.standing(kept.parent_call_id):
            answer = await self.resolver.wait(approval_id)
        proposal = self.recall.as_decided(renew(self.receiver, kept, run=run), call_id=call_id)
        return await self.walks.drive(self._settle(proposal, answer, credential))

    def dry_run(self, request: CallRequest, *, credential: Credential) -> CallResult:
        """Decide only: nothing is executed, charged or journaled, not even a run of its own."""
        if self.rate.take(credential.principal):
            raise NotPermittedError(Code.RATE_LIMITED)
        _, run = self.sessions.issue(credential)
        if request.run_id:
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
        await self._pace(run.principal)
        walk = self._walk(request, run, parent, credential)
        result = await self.walks.drive(walk, within=parent.call_id if parent else None)
        if wait and result.state == CallState.PENDING and result.call_id is not None:
            return await self.resume(result.call_id, credential=credential)
        return result

    async def _pace(self, principal: Principal) -> None:
        """Refuse whoever asks too fast; how often is recorded, but not each time (I13)."""
        dropped = self.rate.take(principal)
        if dropped:
            await self.scribe.flood_suppressed(principal, count=dropped)
            raise NotPermittedError(Code.RATE_LIMITED)

    async def _walk(
        self, request: CallRequest, run: Run, parent: Parent | None, credential: Credential
    ) -> CallResult:
        # (1) Propose: strict input becomes canonical arguments and a digest, or is refused.
        proposal = self.receiver.receive(request, run=run, parent=parent)
        if (earlier := await self.recall.earlier(proposal)) is not None:
            return earlier
        # (2) Decide: the active policy's verdict on exactly this call.
        decision = self.decider.decide(proposal)
        if isinstance(proposal, Malformed) or decision.verdict is Verdict.FORBID:
            return await self.admissions.refuse(proposal, decision)
        # (3) Approve: only where policy asks, and only an answer to exactly this call counts.
        answer = None
        if decision.verdict is Verdict.ASK:
            with self.walks.cancellable():
                answer = await self.resolver.ask(proposal, decision)
        if isinstance(answer, Pending):
            untaken = await self.admissions.suspend(proposal, decision, answer)
            if untaken is None:
                with self.walks.cancellable():
                    await self.resolver.announce(answer)
            return untaken or self.recall.result(proposal.call_id)
        still = self.decider.confirm(proposal, decision)
        permit = self.permits.build(proposal, decision, answer, still=still)
        if isinstance(permit, Rejection):
            return await self.admissions.refuse(proposal, decision, permit)
        # (4) Execute: the intent is durable first; a budget or a race may still refuse it.
        untaken = await self.admissions.launch(proposal, decision, permit)
        if untaken is not None:
            return untaken
        return await self._run(proposal, decision, permit, answer, credential)

    async def _settle(self, proposal: Proposal, answer: Answer, who: Credential) -> CallResult:
        """Take a pending call through (2) to (5) again: the rules may have changed (I4)."""
        decision = self.decider.decide(proposal, is_charged=True)
        asked = self.recall.asked_by(proposal.call_id)
        permit = self.permits.build(proposal, decision, answer, still=decision, asked_by=asked)
        try:
            if isinstance(permit, Rejection):
                return await self.scribe.pending_refused(proposal, decision, answer=permit)
            await self.scribe.pending_launched(proposal, decision, permit)
        except StateConflictError as error:
            if error.code is Code.POLICY_CHANGED:  # the call is still pending: decide anew (I4)
                return await self._settle(proposal, answer, who)
            return await self.recall.tell(proposal.call_id)  # somebody else settled it first (I5)
        return await self._run(proposal, decision, permit, answer, who)

    async def _run(
        self,
        proposal: Proposal,
        decision: Decision,
        permit: Permit,
        answer: Answer | None,
        credential: Credential,
    ) -> CallResult:
        with self.walks.launched(proposal.call_id):
            execution = await self.supervisor.execute(
                proposal,
                permit,
                effects=CallEffects(self.scribe, proposal.call_id),
                nested=partial(self._nested, proposal, credential),
            )
            # (5) Attest: outcome, observation and signature become durable, then they are told.
            return await self.scribe.ended(proposal, decision, permit, execution, answer=answer)

    async def _nested(
        self, parent: Proposal, credential: Credential, tool: str, raw_arguments: bytes
    ) -> CallResult:
        """Submit a tool's own call: same gate, same run, same budget, one level deeper."""
        request = CallRequest(tool=tool, raw_arguments=raw_arguments, run_id=parent.run_id)
        above = Parent(call_id=parent.call_id, depth=parent.depth)
        return await self._submit(request, credential=credential, wait=True, parent=above)
