# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from palyra.core.approval import Rejection
from palyra.core.digest import CallDigest
from palyra.core.errors import Code
from palyra.core.obligations import Obligations
from palyra.core.permit import Basis, Permit
from palyra.core.plan import SandboxPlan, Tier
from palyra.flow.review.permits import Permits
from tests.support.samples import ALLOW, APPROVAL, ASK, FORBID, GRANT, NOW_MS, PROPOSAL

if TYPE_CHECKING:
    from palyra.core.approval import Answer
    from palyra.core.decision import Decision


class FixedClock:
    def now_ms(self) -> int:
        return NOW_MS

    def monotonic_ms(self) -> int:
        return 0


class OneId:
    def ulid(self) -> str:
        return "01JCZK5M8N0000000000000005"


PERMITS = Permits(clock=FixedClock(), ids=OneId())


@pytest.mark.parametrize(
    ("decision", "answer", "basis"),
    [
        pytest.param(ALLOW, None, Basis.ALLOW, id="policy-allows-it"),
        pytest.param(ASK, APPROVAL, Basis.APPROVAL, id="an-operator-agreed"),
        pytest.param(ASK, GRANT, Basis.GRANT, id="a-grant-covers-it"),
    ],
)
def test_evidence_gives_a_permit(decision: Decision, answer: Answer | None, basis: Basis) -> None:
    permit = PERMITS.build(PROPOSAL, decision, answer, still=decision)
    assert isinstance(permit, Permit)
    assert (permit.basis, permit.call_digest) == (basis, PROPOSAL.call_digest)


@pytest.mark.invariant("I4")
@pytest.mark.parametrize(
    ("decision", "answer", "still", "code"),
    [
        pytest.param(ASK, None, ASK, Code.PERMIT_MISMATCH, id="nobody-answered"),
        pytest.param(FORBID, APPROVAL, FORBID, Code.PERMIT_MISMATCH, id="policy-forbids-it"),
        pytest.param(ALLOW, None, ASK, Code.POLICY_STRICTER, id="policy-would-ask-now"),
        pytest.param(ASK, APPROVAL, FORBID, Code.POLICY_STRICTER, id="policy-would-forbid-now"),
        pytest.param(
            ASK,
            msgspec.structs.replace(APPROVAL, call_digest=CallDigest("0" * 64)),
            ASK,
            Code.PERMIT_MISMATCH,
            id="the-answer-is-for-another-call",
        ),
        pytest.param(
            ASK,
            msgspec.structs.replace(APPROVAL, expires_at_ms=NOW_MS),
            ASK,
            Code.PERMIT_EXPIRED,
            id="the-answer-is-too-old",
        ),
    ],
)
def test_anything_else_gives_none(
    decision: Decision, answer: Answer | None, still: Decision, code: Code
) -> None:
    refusal = PERMITS.build(PROPOSAL, decision, answer, still=still)
    assert isinstance(refusal, Rejection)
    assert refusal.code is code


def demanding(decision: Decision, **demands: Any) -> Decision:  # noqa: ANN401 - its fields
    return msgspec.structs.replace(decision, obligations=Obligations(**demands))


@pytest.mark.invariant("I4")
@pytest.mark.parametrize(
    ("decision", "answer"),
    [(ALLOW, None), (ASK, APPROVAL), (ASK, GRANT)],
    ids=["allowed", "approved", "granted"],
)
def test_what_is_demanded_now_counts_as_well_as_what_was(
    decision: Decision, answer: Answer | None
) -> None:
    was = demanding(decision, timeout_ms=10, redact=("/a",))
    now = demanding(decision, timeout_ms=20, redact=("/b",), max_output_bytes=5)
    both = Obligations(timeout_ms=10, redact=("/a", "/b"), max_output_bytes=5)
    for earlier, later in ((was, now), (now, was)):
        permit = PERMITS.build(PROPOSAL, earlier, answer, still=later)
        assert isinstance(permit, Permit)
        assert permit.obligations == both


@pytest.mark.parametrize("still", [ALLOW, demanding(ALLOW, timeout_ms=10)], ids=["less", "same"])
def test_a_demand_does_not_lapse_because_policy_became_laxer(still: Decision) -> None:
    permit = PERMITS.build(PROPOSAL, demanding(ALLOW, timeout_ms=10), None, still=still)
    assert isinstance(permit, Permit)
    assert permit.obligations == Obligations(timeout_ms=10)


@pytest.mark.invariant("I1")
@pytest.mark.parametrize(
    ("was", "now", "answer"),
    [
        pytest.param(demanding(ALLOW, tiers=(Tier.B,)), ALLOW, None, id="a-tier-before"),
        pytest.param(ALLOW, demanding(ALLOW, tiers=(Tier.B,)), None, id="a-tier-since"),
        pytest.param(ASK, demanding(ASK, tiers=(Tier.A,)), GRANT, id="a-tier-since-a-grant"),
        pytest.param(demanding(ASK, quorum=2), demanding(ASK, quorum=2), APPROVAL, id="quorum"),
        pytest.param(ASK, demanding(ASK, quorum=2), APPROVAL, id="a-quorum-since"),
        pytest.param(demanding(ASK, quorum=2), ASK, GRANT, id="a-quorum-for-a-grant"),
    ],
)
def test_a_demand_that_cannot_be_met_gives_none(
    was: Decision, now: Decision, answer: Answer | None
) -> None:
    refusal = PERMITS.build(PROPOSAL, was, answer, still=now)
    assert isinstance(refusal, Rejection)
    assert refusal.code is Code.OBLIGATION_UNMET
    assert refusal.reason.startswith(("policy demands sandbox tier", "policy wants 2 operators"))


def test_hosts_that_nothing_would_enforce_give_none() -> None:
    proposal = msgspec.structs.replace(PROPOSAL, plan=SandboxPlan(egress=("*",)))
    limited = demanding(ALLOW, egress=("a.example",))
    refusal = PERMITS.build(proposal, limited, None, still=limited)
    assert isinstance(refusal, Rejection)
    assert refusal.code is Code.OBLIGATION_UNMET


def test_a_no_stays_a_no_whatever_policy_says() -> None:
    no = Rejection(code=Code.APPROVAL_DENIED, reason="no")
    assert PERMITS.build(PROPOSAL, ALLOW, no, still=ALLOW) is no
