# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import msgspec
import pytest

from palyra.core.attestation import (
    Anchor,
    Attestation,
    DecisionRecord,
    OutcomeRecord,
    PermitRecord,
    Statement,
    expected_execution_sha256,
)
from palyra.core.digest import content_sha256
from palyra.core.errors import Code
from palyra.core.execution import Enforcement, Execution, Executor, Failure, Outcome
from palyra.core.ids import AttestationId, CredentialId
from palyra.core.lifecycle import CallState
from palyra.core.obligations import Obligations
from palyra.core.permit import Permit
from palyra.core.principal import Assurance
from palyra.flow.seal.attest import Attestor, decision_record, permit_record
from palyra.flow.seal.signatures import PublicKey
from tests.support.samples import (
    ALLOW,
    APPROVAL,
    ASK,
    CALL,
    CALL_ID,
    CREDENTIAL_ID,
    DECISION_RECORD,
    FORBID,
    GRANT,
    MALFORMED,
    NOW_MS,
    PERMIT_ID,
    PERMIT_RECORD,
    PLAN,
    PROPOSAL,
    RUN_ID,
    SESSION_ID,
)
from tests.support.scripted import CountedIds, FakeClock
from tests.support.store import KEY, decided, launched

ANCHOR = Anchor(index=4, link="b" * 64)
PERMIT = Permit.from_allow(PROPOSAL, ALLOW, permit_id=PERMIT_ID)
FIRST_ID = AttestationId(CountedIds(FakeClock()).ulid())
OBSERVED = msgspec.Raw(b'{"confined":false}')
NOTHING = content_sha256(b"")
SUCCEEDED = Execution(
    permit_id=PERMIT_ID,
    executor=Executor.BUILTIN,
    enforcement=Enforcement.NONE,
    observed=OBSERVED,
    outcome=Outcome(
        state=CallState.SUCCEEDED, output=msgspec.Raw(b'{"echo":"hi"}'), failure=None, duration_ms=3
    ),
    started_at_ms=NOW_MS + 1,
    ended_at_ms=NOW_MS + 4,
)
UNREADABLE = msgspec.structs.replace(MALFORMED, reason="no", hint="", path="")
STATEMENT = Statement(
    attestation_id=FIRST_ID,
    call_id=CALL_ID,
    principal="agent:ada",
    credential_id=CREDENTIAL_ID,
    session_id=SESSION_ID,
    run_id=RUN_ID,
    parent_call_id=None,
    depth=0,
    tool="palyra.echo",
    tool_version="1.0.0",
    call_digest=CALL,
    plan_digest=PLAN,
    decision=decision_record(ALLOW),
    permit=PERMIT_RECORD,
    executor="builtin",
    sandbox_enforcement="none",
    observed=OBSERVED,
    assurance="launched",
    outcome=OutcomeRecord(
        state="succeeded",
        output_sha256=content_sha256(b'{"echo":"hi"}'),
        output_bytes=13,
        error_code="",
        truncated=False,
        limit="",
        duration_ms=3,
    ),
    started_at_ms=NOW_MS + 1,
    ended_at_ms=NOW_MS + 4,
    anchor=ANCHOR,
    execution_sha256="",
)
change = msgspec.structs.replace


def attestor() -> Attestor:
    return Attestor(signer=KEY, ids=CountedIds(FakeClock()), assurance=Assurance.LAUNCHED)


def check(attestation: Attestation, expected: Statement) -> None:
    """Compare the whole statement; its own digest is the one documented for its fields."""
    whole = change(expected, execution_sha256=expected_execution_sha256(expected))
    assert attestation.statement == whole
    assert PublicKey(KEY.public_key).signed_attestation(attestation)


@pytest.mark.invariant("I9")
def test_a_success_is_attested_as_it_was_seen() -> None:
    check(attestor().executed(PROPOSAL, ALLOW, PERMIT, SUCCEEDED, anchor=ANCHOR), STATEMENT)


@pytest.mark.invariant("I9")
def test_what_policy_demanded_is_attested_with_its_decision() -> None:
    demand = Obligations(timeout_ms=5, redact=("/token",))
    decision = change(ALLOW, obligations=demand)
    expected = change(STATEMENT, decision=change(DECISION_RECORD, obligations=demand))
    check(attestor().executed(PROPOSAL, decision, PERMIT, SUCCEEDED, anchor=ANCHOR), expected)


@pytest.mark.parametrize("state", [CallState.FAILED, CallState.TIMED_OUT, CallState.CANCELLED])
def test_a_failure_is_attested_by_its_code(state: CallState) -> None:
    failure = Failure(code=Code.TOOL_FAILED, message="its words stay out")
    outcome = Outcome(state=state, output=None, failure=failure, truncated=True, limit="bytes")
    execution = change(SUCCEEDED, outcome=outcome)
    expected = OutcomeRecord(
        state=state.value,
        output_sha256=NOTHING,
        output_bytes=0,
        error_code="tool.failed",
        truncated=True,
        limit="bytes",
        duration_ms=0,
    )
    check(
        attestor().executed(PROPOSAL, ALLOW, PERMIT, execution, anchor=ANCHOR),
        change(STATEMENT, outcome=expected),
    )


NOTHING_RAN = change(
    STATEMENT,
    decision=decision_record(FORBID),
    permit=None,
    executor="policy",
    observed=msgspec.Raw(b"{}"),
    outcome=OutcomeRecord(
        state="denied",
        output_sha256=NOTHING,
        output_bytes=0,
        error_code="tool.not_allowlisted",
        truncated=False,
        limit="",
        duration_ms=0,
    ),
    started_at_ms=NOW_MS,
    ended_at_ms=NOW_MS + 9,
)


def test_a_refusal_is_attested_without_a_permit() -> None:
    attestation = attestor().not_executed(
        PROPOSAL,
        FORBID,
        state=CallState.DENIED,
        code=Code.TOOL_NOT_ALLOWLISTED,
        at_ms=NOW_MS + 9,
        anchor=ANCHOR,
    )
    check(attestation, NOTHING_RAN)


def test_a_malformed_call_is_attested_without_a_plan() -> None:
    attestation = attestor().not_executed(
        UNREADABLE,
        FORBID,
        state=CallState.DENIED,
        code=Code.TOOL_NOT_ALLOWLISTED,
        at_ms=NOW_MS + 9,
        anchor=ANCHOR,
    )
    check(attestation, change(NOTHING_RAN, plan_digest=""))


@pytest.mark.invariant("I7")
def test_an_interruption_is_attested_from_the_journal() -> None:
    attestation = attestor().interrupted(
        decided(1),
        launched(1),
        credential_id=CredentialId("uid:1"),
        launched_at_ms=NOW_MS,
        at_ms=NOW_MS + 9,
        anchor=ANCHOR,
    )
    outcome = change(NOTHING_RAN.outcome, state="interrupted", error_code="tool.interrupted")
    expected = change(
        STATEMENT,
        call_id=decided(1).call_id,
        credential_id=CredentialId("uid:1"),
        decision=DECISION_RECORD,
        observed=msgspec.Raw(b"{}"),
        outcome=outcome,
        started_at_ms=NOW_MS,
        ended_at_ms=NOW_MS + 9,
    )
    check(attestation, expected)


@pytest.mark.parametrize(
    ("decision", "verdict"), [(ALLOW, "allow"), (ASK, "needs_approval"), (FORBID, "deny")]
)
def test_a_decision_is_recorded_whole(decision: object, verdict: str) -> None:
    assert decision_record(decision) == DecisionRecord(  # type: ignore[arg-type]
        verdict=verdict,
        code=decision.code.value,  # type: ignore[attr-defined]
        reason="the tool is allowlisted",
        policies=("allowlist",),
        policy_digest=ALLOW.policy_digest,
        snapshot_digest=ALLOW.snapshot_digest,
    )


@pytest.mark.invariant("I4")
def test_a_permit_is_recorded_with_what_it_rests_on() -> None:
    granted = change(GRANT, call_digest=PROPOSAL.call_digest)
    permits = [
        PERMIT,
        Permit.from_approval(PROPOSAL, ASK, APPROVAL, permit_id=PERMIT_ID, now_ms=NOW_MS),
        Permit.from_grant(PROPOSAL, ASK, granted, permit_id=PERMIT_ID, now_ms=NOW_MS),
    ]
    assert [permit_record(permit) for permit in permits] == [
        PermitRecord(permit_id=PERMIT_ID, basis="allow", approval_id=None, grant_id=None),
        PermitRecord(
            permit_id=PERMIT_ID,
            basis="approval",
            approval_id=APPROVAL.approval_id,
            grant_id=None,
        ),
        PermitRecord(
            permit_id=PERMIT_ID,
            basis="grant",
            approval_id=GRANT.approval_id,
            grant_id=GRANT.grant_id,
        ),
    ]
