# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import msgspec
import pytest

from palyra.core.approval import Pending, Rejection, Scope
from palyra.core.chain import Head, Receipt, SignedHead
from palyra.core.errors import MEANINGS, Code
from palyra.core.events import CallDecided
from palyra.core.execution import Failure, Outcome
from palyra.core.ids import KeyId, LogId
from palyra.core.lifecycle import CallState
from palyra.core.obligations import Obligations
from palyra.core.result import (
    ApprovalView,
    CallResult,
    DecisionView,
    Ending,
    approval_view,
    call_result,
    ending_of,
    read_ending,
    recorded_result,
    with_place,
)
from tests.support.samples import (
    AGENT,
    ALLOW,
    APPROVAL,
    APPROVAL_ID,
    ATTESTATION,
    CALL,
    CALL_ID,
    DECISION_RECORD,
    FORBID,
    GRANT,
    MALFORMED,
    NOW_MS,
    OPERATOR,
    PLAN,
    POLICY,
    PROPOSAL,
    RUN_ID,
    SESSION_ID,
    SNAPSHOT_DIGEST,
    STATEMENT,
)

SUCCESS = Outcome(
    state=CallState.SUCCEEDED, output=msgspec.Raw(b'{"echo":"hi"}'), failure=None, duration_ms=3
)
TIMEOUT = Outcome(
    state=CallState.TIMED_OUT,
    output=None,
    failure=Failure(code=Code.TOOL_TIMED_OUT, message="too slow", details={"limit_ms": 5}),
    truncated=True,
    limit="time",
    duration_ms=5,
)
UNREADABLE = msgspec.structs.replace(
    MALFORMED,
    tool="palyra.ecko",
    tool_version="",
    code=Code.TOOL_UNKNOWN,
    reason="no such tool",
    hint="",
    path="/tool",
)
RECEIPT = Receipt(
    index=9,
    recorded_at_ms=NOW_MS,
    kind="call.ended",
    subject=CALL_ID,
    previous="0" * 64,
    leaves_after=(),
    head=SignedHead(
        head=Head(log_id=LogId("log"), first=9, index=9, link="1" * 64, recorded_at_ms=NOW_MS),
        key_id=KeyId("key"),
        signature="2" * 128,
    ),
)


def plain(value: object) -> Any:  # noqa: ANN401 - the JSON that a caller reads
    return msgspec.json.decode(msgspec.json.encode(value))


def test_result_of_a_call_that_succeeded() -> None:
    result = call_result(
        PROPOSAL, ALLOW, state=CallState.SUCCEEDED, outcome=SUCCESS, attestation=ATTESTATION
    )
    assert plain(result) == {
        "call_id": CALL_ID,
        "tool": "palyra.echo",
        "state": "succeeded",
        "session_id": SESSION_ID,
        "run_id": RUN_ID,
        "call_digest": CALL,
        "plan_digest": PLAN,
        "decision": {
            "verdict": "allow",
            "code": "tool.allowlisted",
            "reason": "the tool is allowlisted",
            "hint": "",
            "path": "",
            "policies": ["allowlist"],
            "policy_digest": POLICY,
            "snapshot_digest": SNAPSHOT_DIGEST,
            "obligations": {},
        },
        "approval": None,
        "outcome": {
            "ok": True,
            "output": {"echo": "hi"},
            "error": None,
            "timed_out": False,
            "truncated": False,
            "limit": None,
            "duration_ms": 3,
        },
        "attestation": {
            "attestation_id": STATEMENT.attestation_id,
            "execution_sha256": STATEMENT.execution_sha256,
            "executor": "builtin",
            "sandbox_enforcement": "none",
            "observed": {},
            "assurance": "developer",
            "log_index": 0,
            "anchor": {"index": 7, "link": "a" * 64},
            "receipt": None,
        },
    }


def test_outcome_of_a_call_that_timed_out() -> None:
    result = call_result(PROPOSAL, ALLOW, state=CallState.TIMED_OUT, outcome=TIMEOUT)
    assert plain(result.outcome) == {
        "ok": False,
        "output": None,
        "error": {
            "code": "tool.timed_out",
            "message": "too slow",
            "hint": MEANINGS[Code.TOOL_TIMED_OUT].hint,
            "details": {"limit_ms": 5},
        },
        "timed_out": True,
        "truncated": True,
        "limit": "time",
        "duration_ms": 5,
    }


def test_refused_call_has_no_outcome_and_a_malformed_one_no_plan() -> None:
    result = call_result(UNREADABLE, FORBID, state=CallState.DENIED)
    assert (result.plan_digest, result.outcome, result.attestation) == ("", None, None)
    assert (result.decision.verdict, result.tool) == ("deny", "palyra.ecko")


@pytest.mark.parametrize(
    ("answer", "view"),
    [
        (None, None),
        (
            Pending(approval_id=APPROVAL_ID),
            ApprovalView(approval_id=APPROVAL_ID, state="pending"),
        ),
        (
            Rejection(code=Code.APPROVAL_NO_OPERATOR, reason="nobody is here"),
            ApprovalView(
                approval_id=None,
                state="denied",
                decision="deny",
                code="approval.no_operator",
                reason="nobody is here",
            ),
        ),
        (
            Rejection(
                code=Code.APPROVAL_DENIED, reason="no", approval_id=APPROVAL_ID, decided_by=OPERATOR
            ),
            ApprovalView(
                approval_id=APPROVAL_ID,
                state="denied",
                decision="deny",
                decided_by="operator:grace",
                code="approval.denied",
                reason="no",
            ),
        ),
        (
            APPROVAL,
            ApprovalView(
                approval_id=APPROVAL_ID,
                state="allowed",
                decision="allow",
                scope=Scope.ONCE.value,
                decided_by="operator:grace",
                view_digest=APPROVAL.view_digest,
            ),
        ),
        (
            GRANT,
            ApprovalView(
                approval_id=APPROVAL_ID,
                state="allowed",
                decision="allow",
                scope=Scope.SESSION.value,
                decided_by="operator:grace",
            ),
        ),
    ],
    ids=["unasked", "pending", "unanswered", "denied", "approved", "granted"],
)
def test_approval_view(answer: Any, view: ApprovalView | None) -> None:  # noqa: ANN401
    assert approval_view(answer) == view


def attested() -> CallResult:
    return call_result(
        PROPOSAL, ALLOW, state=CallState.SUCCEEDED, outcome=SUCCESS, attestation=ATTESTATION
    )


def test_place_comes_from_the_receipt() -> None:
    view = with_place(attested(), RECEIPT, index=3).attestation
    assert view is not None
    assert (view.log_index, view.receipt) == (9, RECEIPT)


def test_place_without_a_receipt_is_the_index() -> None:
    view = with_place(attested(), None, index=3).attestation
    assert view is not None
    assert (view.log_index, view.receipt) == (3, None)


def test_result_without_an_attestation_has_no_place() -> None:
    result = call_result(UNREADABLE, FORBID, state=CallState.DENIED)
    assert with_place(result, RECEIPT) is result


DECIDED = CallDecided(
    call_id=CALL_ID,
    request_id=None,
    principal=str(AGENT),
    session_id=SESSION_ID,
    run_id=RUN_ID,
    parent_call_id=None,
    depth=0,
    tool="palyra.echo",
    tool_version="1.0.0",
    arguments=msgspec.Raw(b"{}"),
    facts=PROPOSAL.facts,
    call_digest=CALL,
    plan_digest=PLAN,
    request=None,
    decision=DECISION_RECORD,
)


def test_result_can_be_told_again_from_what_is_kept() -> None:
    result = attested()
    again = recorded_result(
        DECIDED,
        read_ending(ending_of(result)),
        state=CallState.SUCCEEDED,
        attestation=ATTESTATION,
    )
    assert plain(again) == plain(result)


def test_what_was_demanded_is_told_at_once_and_again() -> None:
    demand = Obligations(timeout_ms=5000, redact=("/token",))
    result = call_result(
        PROPOSAL, msgspec.structs.replace(ALLOW, obligations=demand), state=CallState.DENIED
    )
    told = {"redact": ["/token"], "timeout_ms": 5000}
    assert plain(result)["decision"]["obligations"] == told
    decided = msgspec.structs.replace(
        DECIDED, decision=msgspec.structs.replace(DECISION_RECORD, obligations=demand)
    )
    again = recorded_result(
        decided, read_ending(ending_of(result)), state=CallState.DENIED, attestation=None
    )
    assert plain(again) == plain(result)


def test_pending_call_is_told_from_its_decision_alone() -> None:
    ending = Ending(hint="ask", approval=ApprovalView(approval_id=APPROVAL_ID, state="pending"))
    again = recorded_result(DECIDED, ending, state=CallState.PENDING, attestation=None)
    assert again.state == "pending"
    assert again.attestation is None
    assert again.decision == DecisionView(
        verdict="allow",
        code="tool.allowlisted",
        reason="the tool is allowlisted",
        hint="ask",
        policies=("allowlist",),
        policy_digest=POLICY,
        snapshot_digest=SNAPSHOT_DIGEST,
    )


@pytest.mark.parametrize("damaged", [b"", b"{", b'{"hint":1}', b"[]"])
def test_damaged_ending_is_not_read(damaged: bytes) -> None:
    with pytest.raises(msgspec.MsgspecError):
        read_ending(damaged)
