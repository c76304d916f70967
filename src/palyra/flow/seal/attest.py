# SPDX-License-Identifier: Apache-2.0
"""Statements: what is known of a call in, a signed attestation out; only what was seen (I9)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from palyra.core.attestation import (
    STATEMENT_TYPE,
    Anchor,
    Attestation,
    DecisionRecord,
    OutcomeRecord,
    PermitRecord,
    Statement,
    execution_sha256,
    signed_bytes,
)
from palyra.core.canonical import canonical_record
from palyra.core.digest import content_sha256
from palyra.core.errors import Code
from palyra.core.execution import NOT_OBSERVED, Enforcement, Execution, Executor
from palyra.core.ids import AttestationId, CallId, CredentialId, RunId, SessionId
from palyra.core.lifecycle import CallState
from palyra.core.proposal import Malformed, Proposal

if TYPE_CHECKING:
    from palyra.core.decision import Decision
    from palyra.core.events import CallDecided, CallLaunched
    from palyra.core.permit import Permit
    from palyra.core.ports import IdSource, Signer
    from palyra.core.principal import Assurance

_NOTHING: Final = content_sha256(b"")


class _Subject(msgspec.Struct, frozen=True, kw_only=True):
    """Whose call it was and what it asked for."""

    call_id: CallId
    principal: str
    credential_id: CredentialId
    session_id: SessionId
    run_id: RunId
    parent_call_id: CallId | None
    depth: int
    tool: str
    tool_version: str
    call_digest: str
    plan_digest: str


class _Ending(msgspec.Struct, frozen=True, kw_only=True):
    """How it ended and by whose hand."""

    executor: str
    enforcement: str
    observed: msgspec.Raw
    outcome: OutcomeRecord
    started_at_ms: int
    ended_at_ms: int


class Attestor:
    """Signs statements with the journal's key."""

    def __init__(self, *, signer: Signer, ids: IdSource, assurance: Assurance) -> None:
        self._signer = signer
        self._ids = ids
        self._assurance = assurance

    def executed(
        self,
        proposal: Proposal,
        decision: Decision,
        permit: Permit,
        execution: Execution,
        *,
        anchor: Anchor,
    ) -> Attestation:
        """Attest a launch and its outcome."""
        outcome = execution.outcome
        output = bytes(outcome.output) if outcome.output is not None else b""
        ending = _Ending(
            executor=execution.executor.value,
            enforcement=execution.enforcement.value,
            observed=execution.observed,
            outcome=OutcomeRecord(
                state=outcome.state.value,
                output_sha256=content_sha256(output),
                output_bytes=len(output),
                error_code=outcome.failure.code.value if outcome.failure else "",
                truncated=outcome.truncated,
                limit=outcome.limit or "",
                duration_ms=outcome.duration_ms,
            ),
            started_at_ms=execution.started_at_ms,
            ended_at_ms=execution.ended_at_ms,
        )
        return self._sign(
            _subject_of(proposal), decision_record(decision), permit_record(permit), ending, anchor
        )

    def not_executed(
        self,
        subject: Proposal | Malformed,
        decision: Decision,
        *,
        state: CallState,
        code: Code,
        at_ms: int,
        anchor: Anchor,
    ) -> Attestation:
        """Attest that nothing ran: refused, rejected, or cancelled before the launch."""
        ending = _nothing_ran(state, code, started_at_ms=subject.proposed_at_ms, at_ms=at_ms)
        return self._sign(_subject_of(subject), decision_record(decision), None, ending, anchor)

    def interrupted(
        self,
        decided: CallDecided,
        launched: CallLaunched,
        *,
        credential_id: CredentialId,
        launched_at_ms: int,
        at_ms: int,
        anchor: Anchor,
    ) -> Attestation:
        """Attest that a launch has no known outcome: effects may have happened (I7)."""
        subject = _Subject(
            call_id=decided.call_id,
            principal=decided.principal,
            credential_id=credential_id,
            session_id=decided.session_id,
            run_id=decided.run_id,
            parent_call_id=decided.parent_call_id,
            depth=decided.depth,
            tool=decided.tool,
            tool_version=decided.tool_version,
            call_digest=decided.call_digest,
            plan_digest=decided.plan_digest,
        )
        ending = _Ending(
            executor=launched.executor,
            enforcement=Enforcement.NONE.value,
            observed=NOT_OBSERVED,
            outcome=_no_output(CallState.INTERRUPTED, Code.TOOL_INTERRUPTED),
            started_at_ms=launched_at_ms,
            ended_at_ms=at_ms,
        )
        return self._sign(subject, decided.decision, launched.permit, ending, anchor)

    def _sign(
        self,
        subject: _Subject,
        decision: DecisionRecord,
        permit: PermitRecord | None,
        ending: _Ending,
        anchor: Anchor,
    ) -> Attestation:
        statement = Statement(
            attestation_id=AttestationId(self._ids.ulid()),
            call_id=subject.call_id,
            principal=subject.principal,
            credential_id=subject.credential_id,
            session_id=subject.session_id,
            run_id=subject.run_id,
            parent_call_id=subject.parent_call_id,
            depth=subject.depth,
            tool=subject.tool,
            tool_version=subject.tool_version,
            call_digest=subject.call_digest,
            plan_digest=subject.plan_digest,
            decision=decision,
            permit=permit,
            executor=ending.executor,
            sandbox_enforcement=ending.enforcement,
            observed=ending.observed,
            assurance=self._assurance.value,
            outcome=ending.outcome,
            started_at_ms=ending.started_at_ms,
            ended_at_ms=ending.ended_at_ms,
            anchor=anchor,
            execution_sha256=execution_sha256(
                call_id=subject.call_id,
                call_digest=subject.call_digest,
                plan_digest=subject.plan_digest,
                policy_digest=decision.policy_digest,
                snapshot_digest=decision.snapshot_digest,
                permit_id=permit.permit_id if permit else "",
                executor=ending.executor,
                sandbox_enforcement=ending.enforcement,
                state=ending.outcome.state,
                output_sha256=ending.outcome.output_sha256,
                error_code=ending.outcome.error_code,
                ended_at_ms=ending.ended_at_ms,
            ),
        )
        signature = self._signer.sign(signed_bytes(STATEMENT_TYPE, canonical_record(statement)))
        return Attestation(
            key_id=self._signer.key_id, signature=signature.hex(), statement=statement
        )


def decision_record(decision: Decision) -> DecisionRecord:
    """Return the decision as it is journaled and signed."""
    return DecisionRecord(
        verdict=decision.verdict.wire,
        code=decision.code.value,
        reason=decision.reason,
        policies=decision.policies,
        policy_digest=decision.policy_digest,
        snapshot_digest=decision.snapshot_digest,
        obligations=decision.obligations,
    )


def permit_record(permit: Permit) -> PermitRecord:
    """Return the permit as it is journaled and signed."""
    return PermitRecord(
        permit_id=permit.permit_id,
        basis=permit.basis.value,
        approval_id=permit.approval_id,
        grant_id=permit.grant_id,
    )


def _subject_of(subject: Proposal | Malformed) -> _Subject:
    return _Subject(
        call_id=subject.call_id,
        principal=str(subject.principal),
        credential_id=subject.credential_id,
        session_id=subject.session_id,
        run_id=subject.run_id,
        parent_call_id=subject.parent_call_id,
        depth=subject.depth,
        tool=subject.tool,
        tool_version=subject.tool_version,
        call_digest=subject.call_digest,
        plan_digest=subject.plan_digest if isinstance(subject, Proposal) else "",
    )


def _nothing_ran(state: CallState, code: Code, *, started_at_ms: int, at_ms: int) -> _Ending:
    return _Ending(
        executor=Executor.POLICY.value,
        enforcement=Enforcement.NONE.value,
        observed=NOT_OBSERVED,
        outcome=_no_output(state, code),
        started_at_ms=started_at_ms,
        ended_at_ms=at_ms,
    )


def _no_output(state: CallState, code: Code) -> OutcomeRecord:
    return OutcomeRecord(
        state=state.value,
        output_sha256=_NOTHING,
        output_bytes=0,
        error_code=code.value,
        truncated=False,
        limit="",
        duration_ms=0,
    )
