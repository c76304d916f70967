# SPDX-License-Identifier: Apache-2.0
"""The signed statement of what was decided and what ran, and the bytes it is reproducible from.

The format is documented in ``docs/reference/attestation.md``; ``tests/vectors/attestation.json``
lets others re-implement it. Signatures are over the DSSE pre-authentication encoding, so that an
attestation is a DSSE envelope as it stands.
"""

from __future__ import annotations

import base64

import msgspec

from palyra.core.canonical import canonical_record
from palyra.core.digest import framed_sha256
from palyra.core.ids import AttestationId, CallId, CredentialId, KeyId, PermitId, RunId, SessionId
from palyra.core.obligations import NO_OBLIGATIONS, Obligations

STATEMENT_FORMAT = "palyra.attestation.v1"
STATEMENT_TYPE = "application/vnd.palyra.attestation.v1+json"
HEAD_TYPE = "application/vnd.palyra.journal-head.v1+json"


class DecisionRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The decision as it is signed; without ``obligations`` where nothing is demanded."""

    verdict: str
    code: str
    reason: str
    policies: tuple[str, ...]
    policy_digest: str
    snapshot_digest: str
    obligations: Obligations = NO_OBLIGATIONS


class PermitRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The permit as it is signed."""

    permit_id: PermitId
    basis: str
    approval_id: str | None
    grant_id: str | None


class OutcomeRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome as it is signed: the output by its digest, so that it can be withheld."""

    state: str
    output_sha256: str
    output_bytes: int
    error_code: str
    truncated: bool
    limit: str
    duration_ms: int


class Anchor(msgspec.Struct, frozen=True, kw_only=True):
    """A place in the journal that existed when the statement was signed, and its link."""

    index: int
    link: str


class Statement(msgspec.Struct, frozen=True, kw_only=True):
    """Everything an attestation claims. Every field is signed."""

    format: str = STATEMENT_FORMAT
    attestation_id: AttestationId
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
    decision: DecisionRecord
    permit: PermitRecord | None
    executor: str
    sandbox_enforcement: str
    observed: msgspec.Raw
    assurance: str
    outcome: OutcomeRecord
    started_at_ms: int
    ended_at_ms: int
    anchor: Anchor
    execution_sha256: str


class Attestation(msgspec.Struct, frozen=True, kw_only=True):
    """A statement with its signature: exactly the body of its journal entry."""

    key_id: KeyId
    signature: str
    statement: Statement

    @property
    def payload(self) -> bytes:
        """The canonical bytes of the statement."""
        return canonical_record(self.statement)


def execution_sha256(  # noqa: PLR0913 - the documented fields, one each
    *,
    call_id: str,
    call_digest: str,
    plan_digest: str,
    policy_digest: str,
    snapshot_digest: str,
    permit_id: str,
    executor: str,
    sandbox_enforcement: str,
    state: str,
    output_sha256: str,
    error_code: str,
    ended_at_ms: int,
) -> str:
    """Identify one execution: what was called, under which rules, by whom run, with what result."""
    return framed_sha256(
        "palyra.execution.v1",
        call_id.encode(),
        call_digest.encode(),
        plan_digest.encode(),
        policy_digest.encode(),
        snapshot_digest.encode(),
        permit_id.encode(),
        executor.encode(),
        sandbox_enforcement.encode(),
        state.encode(),
        output_sha256.encode(),
        error_code.encode(),
        str(ended_at_ms).encode(),
    ).hex()


def expected_execution_sha256(statement: Statement) -> str:
    """Recompute ``execution_sha256`` from the statement's own fields."""
    return execution_sha256(
        call_id=statement.call_id,
        call_digest=statement.call_digest,
        plan_digest=statement.plan_digest,
        policy_digest=statement.decision.policy_digest,
        snapshot_digest=statement.decision.snapshot_digest,
        permit_id=statement.permit.permit_id if statement.permit else "",
        executor=statement.executor,
        sandbox_enforcement=statement.sandbox_enforcement,
        state=statement.outcome.state,
        output_sha256=statement.outcome.output_sha256,
        error_code=statement.outcome.error_code,
        ended_at_ms=statement.ended_at_ms,
    )


def signed_bytes(payload_type: str, payload: bytes) -> bytes:
    """Return the DSSE pre-authentication encoding: what a signature is over."""
    kind = payload_type.encode("ascii")
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def envelope(
    payload_type: str, payload: bytes, *, key_id: str, signature: str
) -> dict[str, object]:
    """Return the DSSE envelope, as other tools read it."""
    return {
        "payloadType": payload_type,
        "payload": base64.b64encode(payload).decode("ascii"),
        "signatures": [
            {"keyid": key_id, "sig": base64.b64encode(bytes.fromhex(signature)).decode("ascii")}
        ],
    }
