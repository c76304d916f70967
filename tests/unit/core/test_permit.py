# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from palyra.core.decision import Decision
from palyra.core.digest import CallDigest, PlanDigest
from palyra.core.errors import Code, StateConflictError
from palyra.core.obligations import NO_OBLIGATIONS, Obligations
from palyra.core.permit import Basis, Permit
from palyra.core.plan import SandboxPlan, Tier
from palyra.core.principal import Principal, PrincipalKind
from tests.support.samples import (
    AGENT,
    ALLOW,
    APPROVAL,
    APPROVAL_ID,
    ASK,
    CALL,
    FORBID,
    GRANT,
    GRANT_ID,
    NOW_MS,
    PERMIT_ID,
    PLAN,
    POLICY,
    PROPOSAL,
    SNAPSHOT_DIGEST,
)

OTHER_CALL = CallDigest("0" * 64)
OTHER_PLAN = PlanDigest("0" * 64)
SERVICE = Principal(kind=PrincipalKind.SERVICE, name="cron")
OTHER_AGENT = Principal(kind=PrincipalKind.AGENT, name="eve")
change = msgspec.structs.replace


def from_allow(decision: Decision = ALLOW) -> Permit:
    return Permit.from_allow(PROPOSAL, decision, permit_id=PERMIT_ID)


def from_approval(decision: Decision = ASK, *, now_ms: int = NOW_MS, **changes: Any) -> Permit:  # noqa: ANN401
    return Permit.from_approval(
        PROPOSAL, decision, change(APPROVAL, **changes), permit_id=PERMIT_ID, now_ms=now_ms
    )


def from_grant(decision: Decision = ASK, *, now_ms: int = NOW_MS, **changes: Any) -> Permit:  # noqa: ANN401
    return Permit.from_grant(
        PROPOSAL, decision, change(GRANT, **changes), permit_id=PERMIT_ID, now_ms=now_ms
    )


def bindings(permit: Permit) -> dict[str, Any]:
    return {name: getattr(permit, name) for name in Permit.__slots__}


BOUND = {
    "permit_id": PERMIT_ID,
    "call_digest": CALL,
    "plan_digest": PLAN,
    "policy_digest": POLICY,
    "snapshot_digest": SNAPSHOT_DIGEST,
    "obligations": NO_OBLIGATIONS,
}


def test_permit_from_allow() -> None:
    assert bindings(from_allow()) == BOUND | {
        "basis": Basis.ALLOW,
        "approval_id": None,
        "grant_id": None,
        "expires_at_ms": None,
    }


def test_permit_from_approval() -> None:
    assert bindings(from_approval()) == BOUND | {
        "basis": Basis.APPROVAL,
        "approval_id": APPROVAL_ID,
        "grant_id": None,
        "expires_at_ms": APPROVAL.expires_at_ms,
    }


def test_permit_from_grant() -> None:
    assert bindings(from_grant()) == BOUND | {
        "basis": Basis.GRANT,
        "approval_id": APPROVAL_ID,
        "grant_id": GRANT_ID,
        "expires_at_ms": GRANT.expires_at_ms,
    }


@pytest.mark.invariant("I4")
@pytest.mark.parametrize(
    ("decision", "reason"),
    [
        (ASK, "the decision is not ALLOW"),
        (FORBID, "the decision is not ALLOW"),
        (change(ALLOW, call_digest=OTHER_CALL), "the decision is for another call"),
    ],
)
def test_no_permit_without_an_allow_for_this_call(decision: Decision, reason: str) -> None:
    with pytest.raises(StateConflictError, match=reason) as caught:
        from_allow(decision)
    assert caught.value.code is Code.PERMIT_MISMATCH


@pytest.mark.invariant("I4")
@pytest.mark.parametrize("decision", [ALLOW, FORBID], ids=["allow", "forbid"])
def test_answer_counts_only_where_policy_asks(decision: Decision) -> None:
    with pytest.raises(StateConflictError, match="the decision does not ask"):
        from_approval(decision)
    with pytest.raises(StateConflictError, match="the decision does not ask"):
        from_grant(decision)


@pytest.mark.invariant("I4")
def test_question_must_be_about_this_call() -> None:
    elsewhere = change(ASK, call_digest=OTHER_CALL)
    with pytest.raises(StateConflictError, match="the decision is for another call"):
        from_approval(elsewhere)
    with pytest.raises(StateConflictError, match="the decision is for another call"):
        from_grant(elsewhere)


@pytest.mark.invariant("I4")
@pytest.mark.invariant("I6")
@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"call_digest": OTHER_CALL}, "the approval is for another call"),
        ({"plan_digest": OTHER_PLAN}, "the approval is for another plan"),
        ({"decided_by": OTHER_AGENT}, "only operators approve"),
        ({"decided_by": AGENT}, "only operators approve"),
        ({"decided_by": SERVICE}, "only operators approve"),
    ],
)
def test_approval_of_anything_else_is_refused(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(StateConflictError, match=reason) as caught:
        from_approval(**changes)
    assert caught.value.code is Code.PERMIT_MISMATCH


@pytest.mark.invariant("I4")
@pytest.mark.invariant("I6")
@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"principal": OTHER_AGENT}, "the grant is for another agent"),
        ({"call_digest": OTHER_CALL}, "the grant does not cover the call"),
        ({"plan_digest": OTHER_PLAN}, "the grant does not cover the plan"),
        ({"granted_by": AGENT}, "only operators grant"),
        ({"granted_by": SERVICE}, "only operators grant"),
    ],
)
def test_grant_of_anything_else_is_refused(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(StateConflictError, match=reason) as caught:
        from_grant(**changes)
    assert caught.value.code is Code.PERMIT_MISMATCH


@pytest.mark.invariant("I6")
def test_operator_cannot_approve_or_grant_for_itself() -> None:
    own = change(PROPOSAL, principal=APPROVAL.decided_by)
    with pytest.raises(StateConflictError, match="the requester approved itself"):
        Permit.from_approval(own, ASK, APPROVAL, permit_id=PERMIT_ID, now_ms=NOW_MS)
    grant = change(GRANT, principal=APPROVAL.decided_by)
    with pytest.raises(StateConflictError, match="the requester granted itself"):
        Permit.from_grant(own, ASK, grant, permit_id=PERMIT_ID, now_ms=NOW_MS)


@pytest.mark.invariant("I4")
def test_expired_answer_is_refused_to_the_millisecond() -> None:
    last = APPROVAL.expires_at_ms - 1
    assert from_approval(now_ms=last).basis is Basis.APPROVAL
    assert from_grant(now_ms=last).basis is Basis.GRANT
    for build in (from_approval, from_grant):
        with pytest.raises(StateConflictError) as caught:
            build(now_ms=last + 1)
        assert caught.value.code is Code.PERMIT_EXPIRED


@pytest.mark.parametrize(
    ("decision", "answer", "basis"),
    [
        (ALLOW, None, Basis.ALLOW),
        (ALLOW, APPROVAL, Basis.ALLOW),
        (ASK, APPROVAL, Basis.APPROVAL),
        (ASK, GRANT, Basis.GRANT),
    ],
)
def test_permit_rests_on_the_strongest_evidence(
    decision: Decision,
    answer: Any,  # noqa: ANN401 - an approval, a grant or nothing
    basis: Basis,
) -> None:
    permit = Permit.from_answer(PROPOSAL, decision, answer, permit_id=PERMIT_ID, now_ms=NOW_MS)
    assert permit.basis is basis


@pytest.mark.invariant("I4")
@pytest.mark.parametrize("decision", [ASK, FORBID], ids=["ask", "forbid"])
def test_no_answer_is_no_permit(decision: Decision) -> None:
    with pytest.raises(StateConflictError, match="the decision is not ALLOW"):
        Permit.from_answer(PROPOSAL, decision, None, permit_id=PERMIT_ID, now_ms=NOW_MS)


@pytest.mark.invariant("I4")
@pytest.mark.parametrize("evidence", [None, True, object(), ALLOW, "_EVIDENCE"])
def test_permit_cannot_be_made_directly(evidence: object) -> None:
    with pytest.raises(TypeError, match="a permit is built by"):
        Permit(evidence, permit_id=PERMIT_ID, basis=Basis.ALLOW, decision=ALLOW, plan_digest=PLAN)


@pytest.mark.invariant("I4")
@pytest.mark.parametrize(
    ("permit", "decision", "passes"),
    [
        pytest.param(from_allow(), ALLOW, True, id="still-allowed"),
        pytest.param(from_allow(), ASK, False, id="allowed-then-asked"),
        pytest.param(from_allow(), FORBID, False, id="allowed-then-forbidden"),
        pytest.param(from_approval(), ALLOW, True, id="approved-then-allowed"),
        pytest.param(from_approval(), ASK, True, id="approved-and-still-asked"),
        pytest.param(from_approval(), FORBID, False, id="approved-then-forbidden"),
        pytest.param(from_grant(), ASK, True, id="granted-and-still-asked"),
        pytest.param(from_grant(), FORBID, False, id="granted-then-forbidden"),
    ],
)
def test_launch_needs_a_policy_no_stricter(
    permit: Permit, decision: Decision, *, passes: bool
) -> None:
    if passes:
        permit.check_launch(PROPOSAL, decision, now_ms=NOW_MS)
        return
    with pytest.raises(StateConflictError) as caught:
        permit.check_launch(PROPOSAL, decision, now_ms=NOW_MS)
    assert caught.value.code is Code.POLICY_STRICTER


@pytest.mark.invariant("I4")
@pytest.mark.parametrize(
    ("proposal", "decision", "reason"),
    [
        (change(PROPOSAL, call_digest=OTHER_CALL), ALLOW, "the permit is for another call"),
        (change(PROPOSAL, plan_digest=OTHER_PLAN), ALLOW, "the permit is for another plan"),
        (PROPOSAL, change(ALLOW, call_digest=OTHER_CALL), "the decision is for another call"),
    ],
)
def test_launch_of_anything_else_is_refused(
    proposal: Any,  # noqa: ANN401
    decision: Decision,
    reason: str,
) -> None:
    with pytest.raises(StateConflictError, match=reason) as caught:
        from_allow().check_launch(proposal, decision, now_ms=NOW_MS)
    assert caught.value.code is Code.PERMIT_MISMATCH


@pytest.mark.invariant("I4")
def test_launch_after_the_answer_expired_is_refused() -> None:
    from_approval().check_launch(PROPOSAL, ASK, now_ms=APPROVAL.expires_at_ms - 1)
    with pytest.raises(StateConflictError) as caught:
        from_approval().check_launch(PROPOSAL, ASK, now_ms=APPROVAL.expires_at_ms)
    assert caught.value.code is Code.PERMIT_EXPIRED


BUILDERS = {Basis.ALLOW: (from_allow, ALLOW), Basis.APPROVAL: (from_approval, ASK)}
BUILDERS[Basis.GRANT] = (from_grant, ASK)
DEMAND = Obligations(timeout_ms=10, redact=("/a",))


@pytest.mark.parametrize("basis", Basis)
def test_permit_carries_what_policy_demands(basis: Basis) -> None:
    build, decision = BUILDERS[basis]
    assert build(change(decision, obligations=DEMAND)).obligations == DEMAND


@pytest.mark.invariant("I1")
@pytest.mark.parametrize("basis", Basis)
@pytest.mark.parametrize(
    ("plan", "demand", "passes"),
    [
        pytest.param(SandboxPlan(), Obligations(tiers=(Tier.B,)), False, id="unconfined"),
        pytest.param(SandboxPlan(tier=Tier.C), Obligations(tiers=(Tier.B,)), True, id="confined"),
        pytest.param(SandboxPlan(egress=("*",)), Obligations(egress=()), False, id="reaches-out"),
        pytest.param(SandboxPlan(), Obligations(egress=()), True, id="reaches-nothing"),
    ],
)
def test_no_permit_where_the_plan_does_not_give_what_policy_demands(
    basis: Basis, plan: SandboxPlan, demand: Obligations, *, passes: bool
) -> None:
    proposal = change(PROPOSAL, plan=plan)
    decision = change(BUILDERS[basis][1], obligations=demand)
    answer = {Basis.ALLOW: None, Basis.APPROVAL: APPROVAL, Basis.GRANT: GRANT}[basis]

    def build() -> Permit:
        return Permit.from_answer(proposal, decision, answer, permit_id=PERMIT_ID, now_ms=NOW_MS)

    if passes:
        assert build().basis is basis
        return
    with pytest.raises(StateConflictError, match="policy ") as caught:
        build()
    assert caught.value.code is Code.OBLIGATION_UNMET


@pytest.mark.invariant("I6")
@pytest.mark.parametrize("build", [from_approval, from_grant])
def test_one_answer_is_not_two(build: Callable[..., Permit]) -> None:
    build(change(ASK, obligations=Obligations(quorum=1)))
    with pytest.raises(StateConflictError, match="wants 2 operators to agree, 1 did") as caught:
        build(change(ASK, obligations=Obligations(quorum=2)))
    assert caught.value.code is Code.OBLIGATION_UNMET


def test_nobody_need_agree_to_what_policy_allows() -> None:
    assert from_allow(change(ALLOW, obligations=Obligations(quorum=2))).basis is Basis.ALLOW


@pytest.mark.invariant("I4")
@pytest.mark.parametrize(
    ("demand", "passes"),
    [
        pytest.param(NO_OBLIGATIONS, True, id="nothing"),
        pytest.param(DEMAND, True, id="the-same"),
        pytest.param(Obligations(timeout_ms=20), True, id="less"),
        pytest.param(Obligations(timeout_ms=9), False, id="less-time"),
        pytest.param(Obligations(redact=("/b",)), False, id="another-field-withheld"),
        pytest.param(Obligations(egress=()), False, id="another-demand"),
    ],
)
def test_launch_needs_a_policy_that_demands_no_more(demand: Obligations, *, passes: bool) -> None:
    permit = from_allow(change(ALLOW, obligations=DEMAND))
    now = change(ALLOW, obligations=demand)
    if passes:
        permit.check_launch(PROPOSAL, now, now_ms=NOW_MS)
        return
    with pytest.raises(StateConflictError) as caught:
        permit.check_launch(PROPOSAL, now, now_ms=NOW_MS)
    assert caught.value.code is Code.POLICY_STRICTER


def test_allow_does_not_expire() -> None:
    from_allow().check_launch(PROPOSAL, ALLOW, now_ms=2**52)
