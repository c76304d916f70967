# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import VerificationError
from securesystemslib.signer._key import SSlibKey

from palyra.core.attestation import (
    HEAD_TYPE,
    STATEMENT_TYPE,
    Attestation,
    DecisionRecord,
    OutcomeRecord,
    PermitRecord,
    Statement,
    envelope,
    expected_execution_sha256,
    signed_bytes,
)
from palyra.core.canonical import canonical_record, canonicalize
from palyra.core.ids import KeyId
from palyra.core.obligations import NO_OBLIGATIONS, Obligations
from palyra.core.plan import Tier
from tests.support.samples import PERMIT_RECORD, STATEMENT
from tests.support.vectors import vectors

VECTOR = vectors("attestation")
ATTESTED = Attestation(
    key_id=KeyId(VECTOR["key_id"]),
    signature=VECTOR["signature_hex"],
    statement=msgspec.json.decode(VECTOR["payload_utf8"], type=Statement),
)
KEY = SSlibKey(VECTOR["key_id"], "ed25519", "ed25519", {"public": VECTOR["public_key_hex"]})
change = msgspec.structs.replace


def test_statement_is_written_as_in_the_vector() -> None:
    assert ATTESTED.payload == VECTOR["payload_utf8"].encode()
    assert ATTESTED.payload == canonicalize(VECTOR["statement"])


def test_statement_says_what_was_demanded() -> None:
    vector = VECTOR["obliged"]
    obliged = msgspec.json.decode(vector["payload_utf8"], type=Statement)
    assert obliged.decision.obligations == Obligations(
        tiers=(Tier.B,), timeout_ms=5000, redact=("/token",)
    )
    assert canonical_record(obliged) == vector["payload_utf8"].encode()
    assert expected_execution_sha256(obliged) == vector["execution_sha256"]


def test_statement_is_silent_where_nothing_was_demanded() -> None:
    assert ATTESTED.statement.decision.obligations == NO_OBLIGATIONS
    assert b"obligations" not in ATTESTED.payload


def test_the_reference_names_every_field_that_is_signed() -> None:
    page = Path(__file__).resolve().parents[3] / "docs" / "reference" / "attestation.md"
    reference = page.read_text("utf-8")
    for record in (Statement, DecisionRecord, PermitRecord, OutcomeRecord, Obligations):
        for field in record.__struct_fields__:
            assert f"`{field}`" in reference


def test_execution_digest_is_that_of_the_vector() -> None:
    assert expected_execution_sha256(ATTESTED.statement) == VECTOR["execution_sha256"]


def test_signature_of_the_vector_is_over_the_pre_authentication_encoding() -> None:
    public_key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(VECTOR["public_key_hex"]))
    message = signed_bytes(VECTOR["payload_type"], ATTESTED.payload)
    public_key.verify(bytes.fromhex(VECTOR["signature_hex"]), message)
    with pytest.raises(InvalidSignature):
        public_key.verify(
            bytes.fromhex(VECTOR["signature_hex"]), signed_bytes(HEAD_TYPE, ATTESTED.payload)
        )


def as_envelope(payload: bytes, payload_type: str = STATEMENT_TYPE) -> Envelope:
    document = envelope(payload_type, payload, key_id=ATTESTED.key_id, signature=ATTESTED.signature)
    return Envelope.from_dict(dict(document))


def test_other_tools_read_and_verify_the_envelope() -> None:
    read = as_envelope(ATTESTED.payload)
    assert read.payload == ATTESTED.payload
    assert read.payload_type == VECTOR["payload_type"]
    assert list(read.verify([KEY], 1)) == [KEY.keyid]


@pytest.mark.parametrize(
    "forged",
    [
        pytest.param(
            as_envelope(ATTESTED.payload.replace(b"succeeded", b"denied")), id="another-payload"
        ),
        pytest.param(as_envelope(ATTESTED.payload, HEAD_TYPE), id="another-type"),
    ],
)
def test_other_tools_find_a_forgery(forged: Envelope) -> None:
    with pytest.raises(VerificationError):
        forged.verify([KEY], 1)


def test_pre_authentication_encoding_is_that_of_other_tools() -> None:
    assert as_envelope(ATTESTED.payload).pae() == signed_bytes(STATEMENT_TYPE, ATTESTED.payload)


def test_statement_without_a_permit_has_a_digest_too() -> None:
    refused = change(STATEMENT, permit=None)
    assert expected_execution_sha256(refused) != expected_execution_sha256(STATEMENT)


@pytest.mark.parametrize(
    "changes",
    [
        {"call_id": "x"},
        {"call_digest": "x"},
        {"plan_digest": "x"},
        {"decision": change(STATEMENT.decision, policy_digest="x")},
        {"decision": change(STATEMENT.decision, snapshot_digest="x")},
        {"permit": change(PERMIT_RECORD, permit_id="x")},
        {"executor": "x"},
        {"sandbox_enforcement": "x"},
        {"outcome": change(STATEMENT.outcome, state="x")},
        {"outcome": change(STATEMENT.outcome, output_sha256="x")},
        {"outcome": change(STATEMENT.outcome, error_code="x")},
        {"ended_at_ms": 0},
    ],
)
def test_every_documented_field_is_in_the_execution_digest(changes: dict[str, Any]) -> None:
    changed = change(STATEMENT, **changes)
    assert expected_execution_sha256(changed) != expected_execution_sha256(STATEMENT)


@pytest.mark.parametrize("field", Statement.__struct_fields__)
def test_every_field_is_signed(field: str) -> None:
    assert f'"{field}":'.encode() in ATTESTED.payload


def test_every_field_of_the_outcome_is_signed() -> None:
    outcome = msgspec.json.decode(ATTESTED.payload)["outcome"]
    assert sorted(outcome) == sorted(OutcomeRecord.__struct_fields__)
