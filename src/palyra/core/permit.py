# SPDX-License-Identifier: Apache-2.0
"""The permit: the only thing ``execute()`` accepts, and it can only be built from evidence.

Python cannot forbid constructing an object, so the three constructors demand the evidence itself
(an ALLOW, an Approval, a Grant) and refuse when the digests of the evidence and of what would run
differ. The permit is checked once more at launch.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

from palyra.core.approval import Approval
from palyra.core.decision import Decision, Verdict
from palyra.core.errors import Code, StateConflictError
from palyra.core.obligations import Obligations, combined, unmet_by_plan
from palyra.core.principal import PrincipalKind

if TYPE_CHECKING:
    from palyra.core.approval import Grant
    from palyra.core.digest import CallDigest, PlanDigest
    from palyra.core.ids import ApprovalId, GrantId, PermitId
    from palyra.core.proposal import Proposal


class Basis(StrEnum):
    """What a permit rests on."""

    ALLOW = "allow"
    APPROVAL = "approval"
    GRANT = "grant"


_EVIDENCE: Final = object()


class Permit:
    """The right to launch one exact call under one exact plan."""

    __slots__ = (
        "approval_id",
        "basis",
        "call_digest",
        "expires_at_ms",
        "grant_id",
        "obligations",
        "permit_id",
        "plan_digest",
        "policy_digest",
        "snapshot_digest",
    )

    def __init__(
        self,
        evidence: object,
        *,
        permit_id: PermitId,
        basis: Basis,
        decision: Decision,
        plan_digest: PlanDigest,
        approval_id: ApprovalId | None = None,
        grant_id: GrantId | None = None,
        expires_at_ms: int | None = None,
    ) -> None:
        if evidence is not _EVIDENCE:
            raise TypeError("a permit is built by from_allow, from_approval or from_grant")
        self.permit_id = permit_id
        self.basis = basis
        self.call_digest: CallDigest = decision.call_digest
        self.plan_digest = plan_digest
        self.policy_digest = decision.policy_digest
        self.snapshot_digest = decision.snapshot_digest
        self.obligations = decision.obligations
        self.approval_id = approval_id
        self.grant_id = grant_id
        self.expires_at_ms = expires_at_ms

    @classmethod
    def from_allow(cls, proposal: Proposal, decision: Decision, *, permit_id: PermitId) -> Permit:
        """Permit what policy allows as it stands."""
        _require(decision.verdict is Verdict.ALLOW, "the decision is not ALLOW")
        _require(decision.call_digest == proposal.call_digest, "the decision is for another call")
        _require_met(decision, proposal)
        return cls(
            _EVIDENCE,
            permit_id=permit_id,
            basis=Basis.ALLOW,
            decision=decision,
            plan_digest=proposal.plan_digest,
        )

    @classmethod
    def from_approval(
        cls,
        proposal: Proposal,
        decision: Decision,
        approval: Approval,
        *,
        permit_id: PermitId,
        now_ms: int,
    ) -> Permit:
        """Permit what policy asks about and a named operator agreed to (I4, I6)."""
        _require(decision.verdict is Verdict.ASK, "the decision does not ask")
        _require(decision.call_digest == proposal.call_digest, "the decision is for another call")
        _require_met(decision, proposal)
        _require(approval.call_digest == proposal.call_digest, "the approval is for another call")
        _require(approval.plan_digest == proposal.plan_digest, "the approval is for another plan")
        _require(approval.decided_by.kind is PrincipalKind.OPERATOR, "only operators approve")
        _require(approval.decided_by != proposal.principal, "the requester approved itself")
        _require_quorum(decision, agreed=1)
        _require_unexpired(approval.expires_at_ms, now_ms)
        return cls(
            _EVIDENCE,
            permit_id=permit_id,
            basis=Basis.APPROVAL,
            decision=decision,
            plan_digest=proposal.plan_digest,
            approval_id=approval.approval_id,
            expires_at_ms=approval.expires_at_ms,
        )

    @classmethod
    def from_grant(
        cls,
        proposal: Proposal,
        decision: Decision,
        grant: Grant,
        *,
        permit_id: PermitId,
        now_ms: int,
    ) -> Permit:
        """Permit what policy asks about and a standing grant covers (I4, I6)."""
        _require(decision.verdict is Verdict.ASK, "the decision does not ask")
        _require(decision.call_digest == proposal.call_digest, "the decision is for another call")
        _require_met(decision, proposal)
        _require(grant.principal == proposal.principal, "the grant is for another agent")
        _require(grant.call_digest == proposal.call_digest, "the grant does not cover the call")
        _require(grant.plan_digest == proposal.plan_digest, "the grant does not cover the plan")
        _require(grant.granted_by.kind is PrincipalKind.OPERATOR, "only operators grant")
        _require(grant.granted_by != proposal.principal, "the requester granted itself")
        _require_quorum(decision, agreed=1)
        _require_unexpired(grant.expires_at_ms, now_ms)
        return cls(
            _EVIDENCE,
            permit_id=permit_id,
            basis=Basis.GRANT,
            decision=decision,
            plan_digest=proposal.plan_digest,
            approval_id=grant.approval_id,
            grant_id=grant.grant_id,
            expires_at_ms=grant.expires_at_ms,
        )

    @classmethod
    def from_answer(
        cls,
        proposal: Proposal,
        decision: Decision,
        answer: Approval | Grant | None,
        *,
        permit_id: PermitId,
        now_ms: int,
    ) -> Permit:
        """Permit on the strongest evidence there is: policy's own ALLOW, else the answer."""
        if decision.verdict is Verdict.ALLOW or answer is None:
            return cls.from_allow(proposal, decision, permit_id=permit_id)
        if isinstance(answer, Approval):
            return cls.from_approval(proposal, decision, answer, permit_id=permit_id, now_ms=now_ms)
        return cls.from_grant(proposal, decision, answer, permit_id=permit_id, now_ms=now_ms)

    def check_launch(self, proposal: Proposal, decision_now: Decision, *, now_ms: int) -> None:
        """Refuse unless what would be launched now is exactly what was permitted (I4).

        Raises:
            StateConflictError: another call or plan, a stricter policy, or an expired answer.
        """
        _require(self.call_digest == proposal.call_digest, "the permit is for another call")
        _require(self.plan_digest == proposal.plan_digest, "the permit is for another plan")
        _require(decision_now.call_digest == self.call_digest, "the decision is for another call")
        strictest = Verdict.ALLOW if self.basis is Basis.ALLOW else Verdict.ASK
        if decision_now.verdict > strictest or _demands_more(decision_now, self.obligations):
            raise StateConflictError(Code.POLICY_STRICTER)
        if self.expires_at_ms is not None:
            _require_unexpired(self.expires_at_ms, now_ms)


def _require(condition: bool, otherwise: str) -> None:  # noqa: FBT001 - reads as an assertion
    if not condition:
        raise StateConflictError(Code.PERMIT_MISMATCH, otherwise)


def _require_met(decision: Decision, proposal: Proposal) -> None:
    """Refuse a call whose plan does not give what policy demands."""
    unmet = unmet_by_plan(decision.obligations, proposal.plan)
    if unmet:
        raise StateConflictError(Code.OBLIGATION_UNMET, unmet)


def _require_quorum(decision: Decision, *, agreed: int) -> None:
    wanted = decision.obligations.quorum
    if agreed < wanted:
        raise StateConflictError(
            Code.OBLIGATION_UNMET, f"policy wants {wanted} operators to agree, {agreed} did"
        )


def _demands_more(decision: Decision, than: Obligations) -> bool:
    demands = decision.obligations
    return demands != than and combined((demands, than)) != combined((than,))


def _require_unexpired(expires_at_ms: int, now_ms: int) -> None:
    if now_ms >= expires_at_ms:
        raise StateConflictError(Code.PERMIT_EXPIRED)
