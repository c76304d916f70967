# SPDX-License-Identifier: Apache-2.0
"""The result of a call as the outer contract names it: one object for every surface."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, assert_never

import msgspec

from palyra.core.approval import Approval, Grant, Pending, Rejection, Scope
from palyra.core.attestation import Anchor, Attestation
from palyra.core.canonical import canonicalize
from palyra.core.chain import Receipt
from palyra.core.errors import MEANINGS
from palyra.core.ids import AttestationId, CallId, RunId, SessionId
from palyra.core.lifecycle import CallState
from palyra.core.obligations import NO_OBLIGATIONS, Obligations
from palyra.core.proposal import Malformed, Proposal

if TYPE_CHECKING:
    from palyra.core.decision import Decision
    from palyra.core.events import CallDecided
    from palyra.core.execution import Outcome


NO_OUTPUT: Final = msgspec.Raw(b"null")


class DecisionView(msgspec.Struct, frozen=True, kw_only=True):
    """The decision on the wire."""

    verdict: str
    code: str
    reason: str
    hint: str
    path: str = ""
    policies: tuple[str, ...]
    policy_digest: str
    snapshot_digest: str
    obligations: Obligations = NO_OBLIGATIONS


class ApprovalView(msgspec.Struct, frozen=True, kw_only=True):
    """The approval on the wire."""

    approval_id: str | None
    state: str
    decision: str | None = None
    scope: str | None = None
    decided_by: str | None = None
    view_digest: str | None = None
    code: str | None = None
    reason: str | None = None


class OutcomeError(msgspec.Struct, frozen=True, kw_only=True):
    """Why the tool gave no result."""

    code: str
    message: str
    hint: str
    details: msgspec.Raw = msgspec.Raw(b"{}")


class OutcomeView(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome on the wire."""

    ok: bool
    output: msgspec.Raw
    """Canonical JSON; ``null`` where there is none."""
    error: OutcomeError | None
    timed_out: bool
    truncated: bool
    limit: str | None
    duration_ms: int


class AttestationView(msgspec.Struct, frozen=True, kw_only=True):
    """The attestation on the wire; ``palyra attest show`` gives the whole envelope."""

    attestation_id: AttestationId
    execution_sha256: str
    executor: str
    sandbox_enforcement: str
    observed: msgspec.Raw
    assurance: str
    log_index: int
    anchor: Anchor
    receipt: Receipt | None = None


class CallResult(msgspec.Struct, frozen=True, kw_only=True):
    """What ``palyra call --json`` prints."""

    call_id: CallId | None
    tool: str
    state: str
    session_id: SessionId
    run_id: RunId
    call_digest: str
    plan_digest: str
    decision: DecisionView
    approval: ApprovalView | None
    outcome: OutcomeView | None
    attestation: AttestationView | None


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """What of a result the journal keeps only by digest, or not at all."""

    hint: str = ""
    path: str = ""
    approval: ApprovalView | None = None
    outcome: OutcomeView | None = None


def ending_of(result: CallResult) -> bytes:
    """Return what must be kept beside the journal to tell ``result`` again."""
    return _encode_ending(
        Ending(
            hint=result.decision.hint,
            path=result.decision.path,
            approval=result.approval,
            outcome=result.outcome,
        )
    )


def read_ending(ending: bytes) -> Ending:
    """Read back what :func:`ending_of` returned. Raises ``msgspec.MsgspecError``."""
    return _endings.decode(ending)


def recorded_result(
    decided: CallDecided, ending: Ending, *, state: CallState, attestation: Attestation | None
) -> CallResult:
    """Join what the journal and the store keep of a call into its result."""
    decision = attestation.statement.decision if attestation is not None else decided.decision
    return CallResult(
        call_id=decided.call_id,
        tool=decided.tool,
        state=state.value,
        session_id=decided.session_id,
        run_id=decided.run_id,
        call_digest=decided.call_digest,
        plan_digest=decided.plan_digest,
        decision=DecisionView(
            verdict=decision.verdict,
            code=decision.code,
            reason=decision.reason,
            hint=ending.hint,
            path=ending.path,
            policies=decision.policies,
            policy_digest=decision.policy_digest,
            snapshot_digest=decision.snapshot_digest,
            obligations=decision.obligations,
        ),
        approval=ending.approval,
        outcome=ending.outcome,
        attestation=attestation_view(attestation) if attestation is not None else None,
    )


def decision_view(decision: Decision) -> DecisionView:
    """Return the decision as the caller sees it."""
    return DecisionView(
        verdict=decision.verdict.wire,
        code=decision.code.value,
        reason=decision.reason,
        hint=decision.hint,
        path=decision.path,
        policies=decision.policies,
        policy_digest=decision.policy_digest,
        snapshot_digest=decision.snapshot_digest,
        obligations=decision.obligations,
    )


def approval_view(answer: Approval | Grant | Rejection | Pending | None) -> ApprovalView | None:
    """Return what became of the question, as the caller sees it."""
    match answer:
        case None:
            return None
        case Pending():
            return ApprovalView(approval_id=answer.approval_id, state="pending")
        case Rejection():
            return ApprovalView(
                approval_id=answer.approval_id,
                state="denied",
                decision="deny",
                decided_by=str(answer.decided_by) if answer.decided_by else None,
                code=answer.code.value,
                reason=answer.reason,
            )
        case Approval():
            return ApprovalView(
                approval_id=answer.approval_id,
                state="allowed",
                decision="allow",
                scope=answer.scope.value,
                decided_by=str(answer.decided_by),
                view_digest=answer.view_digest,
            )
        case Grant():
            return ApprovalView(
                approval_id=answer.approval_id,
                state="allowed",
                decision="allow",
                scope=Scope.SESSION.value,
                decided_by=str(answer.granted_by),
            )
        case _:
            assert_never(answer)


def outcome_view(outcome: Outcome) -> OutcomeView:
    """Return the outcome as the caller sees it."""
    failure = outcome.failure
    error = None
    if failure is not None:
        error = OutcomeError(
            code=failure.code.value,
            message=failure.message,
            hint=MEANINGS[failure.code].hint,
            details=msgspec.Raw(canonicalize(failure.details)),
        )
    return OutcomeView(
        ok=outcome.ok,
        output=outcome.output if outcome.output is not None else NO_OUTPUT,
        error=error,
        timed_out=outcome.state is CallState.TIMED_OUT,
        truncated=outcome.truncated,
        limit=outcome.limit,
        duration_ms=outcome.duration_ms,
    )


def attestation_view(attestation: Attestation) -> AttestationView:
    """Return the attestation as the caller sees it, before its place in the log is known."""
    statement = attestation.statement
    return AttestationView(
        attestation_id=statement.attestation_id,
        execution_sha256=statement.execution_sha256,
        executor=statement.executor,
        sandbox_enforcement=statement.sandbox_enforcement,
        observed=statement.observed,
        assurance=statement.assurance,
        log_index=0,
        anchor=statement.anchor,
    )


def call_result(
    subject: Proposal | Malformed,
    decision: Decision,
    *,
    state: CallState,
    answer: Approval | Grant | Rejection | Pending | None = None,
    outcome: Outcome | None = None,
    attestation: Attestation | None = None,
) -> CallResult:
    """Join what is known of a call into the one object every surface gives."""
    return CallResult(
        call_id=subject.call_id,
        tool=subject.tool,
        state=state.value,
        session_id=subject.session_id,
        run_id=subject.run_id,
        call_digest=subject.call_digest,
        plan_digest=subject.plan_digest if isinstance(subject, Proposal) else "",
        decision=decision_view(decision),
        approval=approval_view(answer),
        outcome=outcome_view(outcome) if outcome is not None else None,
        attestation=attestation_view(attestation) if attestation is not None else None,
    )


def with_place(result: CallResult, receipt: Receipt | None, *, index: int = 0) -> CallResult:
    """Return ``result`` with the place of its attestation in the log."""
    if result.attestation is None:
        return result
    index = receipt.index if receipt is not None else index
    view = msgspec.structs.replace(result.attestation, log_index=index, receipt=receipt)
    return msgspec.structs.replace(result, attestation=view)


_encode_ending: Final = msgspec.json.Encoder().encode
_endings: Final = msgspec.json.Decoder(Ending)
