# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from palyra.core.approval import Rejection
from palyra.core.digest import CallDigest
from palyra.core.errors import Code
from palyra.core.permit import Basis, Permit
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


def test_a_no_stays_a_no_whatever_policy_says() -> None:
    no = Rejection(code=Code.APPROVAL_DENIED, reason="no")
    assert PERMITS.build(PROPOSAL, ALLOW, no, still=ALLOW) is no
