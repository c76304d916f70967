# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import msgspec
import pytest

from palyra.core.decision import Decision, Verdict, forbid
from palyra.core.errors import Code
from palyra.core.obligations import NO_OBLIGATIONS
from tests.support.samples import ALLOW, ASK, CALL, POLICY, SNAPSHOT_DIGEST


def test_strictest_verdict_is_the_largest() -> None:
    assert max(Verdict.ALLOW, Verdict.ASK, Verdict.FORBID) is Verdict.FORBID
    assert max(Verdict.ALLOW, Verdict.ASK) is Verdict.ASK


@pytest.mark.parametrize(
    ("verdict", "wire"),
    [(Verdict.ALLOW, "allow"), (Verdict.ASK, "needs_approval"), (Verdict.FORBID, "deny")],
)
def test_names_on_the_wire(verdict: Verdict, wire: str) -> None:
    assert verdict.wire == wire


def test_a_decision_demands_nothing_by_itself() -> None:
    assert (ALLOW.obligations, ALLOW.request, ALLOW.rules_version) == (NO_OBLIGATIONS, None, 0)


@pytest.mark.invariant("I1")
@pytest.mark.parametrize("decision", [ALLOW, ASK])
def test_only_forbid_may_rest_on_no_policy(decision: Decision) -> None:
    with pytest.raises(ValueError, match="only FORBID may rest on no policy"):
        msgspec.structs.replace(decision, policies=())


def test_forbid_rests_on_no_policy() -> None:
    decision = forbid(
        CALL,
        code=Code.BUDGET_EXHAUSTED,
        reason="no calls left",
        hint="open a new run",
        policy_digest=POLICY,
        snapshot_digest=SNAPSHOT_DIGEST,
    )
    assert decision == Decision(
        call_digest=CALL,
        verdict=Verdict.FORBID,
        code=Code.BUDGET_EXHAUSTED,
        reason="no calls left",
        hint="open a new run",
        policies=(),
        policy_digest=POLICY,
        snapshot_digest=SNAPSHOT_DIGEST,
    )
