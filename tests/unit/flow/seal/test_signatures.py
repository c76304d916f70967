# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed448 import Ed448PrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from palyra.core.attestation import STATEMENT_TYPE, Attestation, signed_bytes
from palyra.core.canonical import canonical_record
from palyra.core.chain import Head, SignedHead
from palyra.core.errors import Code, InputError
from palyra.core.ids import KeyId, LogId
from palyra.flow.seal.signatures import PublicKey
from tests.support.samples import STATEMENT
from tests.support.store import KEY, OTHER_KEY

PUBLIC = PublicKey(KEY.public_key)
SIGNATURE = KEY.sign(b"message").hex()
HEAD = Head(log_id=LogId("log"), first=1, index=2, link="a" * 64, recorded_at_ms=1)
SIGNED_HEAD = SignedHead(head=HEAD, key_id=KEY.key_id, signature=KEY.sign(HEAD.signed_bytes).hex())
ATTESTATION = Attestation(
    key_id=KEY.key_id,
    signature=KEY.sign(signed_bytes(STATEMENT_TYPE, canonical_record(STATEMENT))).hex(),
    statement=STATEMENT,
)
change = msgspec.structs.replace


def test_a_key_is_known_by_the_digest_of_its_bytes() -> None:
    assert PUBLIC.key_id == KEY.key_id != OTHER_KEY.key_id


@pytest.mark.parametrize("raw", [b"", b"short", bytes(33)])
def test_what_is_no_key_is_refused(raw: bytes) -> None:
    with pytest.raises(InputError) as refused:
        PublicKey(raw)
    assert refused.value.code is Code.KEY_UNREADABLE


def test_a_pem_file_is_read() -> None:
    private = Ed25519PrivateKey.generate()
    pem = private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    key = PublicKey.from_pem(pem)
    assert key.signed(b"message", private.sign(b"message").hex())


@pytest.mark.parametrize(
    "pem",
    [
        b"",
        b"-----BEGIN PUBLIC KEY-----\n-----END PUBLIC KEY-----\n",
        Ed448PrivateKey.generate()
        .public_key()
        .public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
    ],
    ids=["empty", "nothing-in-it", "of-another-kind"],
)
def test_another_pem_file_is_refused(pem: bytes) -> None:
    with pytest.raises(InputError) as refused:
        PublicKey.from_pem(pem)
    assert refused.value.code is Code.KEY_UNREADABLE


@pytest.mark.invariant("I8")
@pytest.mark.parametrize(
    ("message", "signature", "is_signed"),
    [
        pytest.param(b"message", SIGNATURE, True, id="as-it-was-signed"),
        pytest.param(b"another", SIGNATURE, False, id="another-message"),
        pytest.param(b"message", OTHER_KEY.sign(b"message").hex(), False, id="another-key"),
        pytest.param(b"message", SIGNATURE.upper(), False, id="another-spelling"),
        pytest.param(b"message", f" {SIGNATURE}", False, id="blanks-that-hex-allows"),
        pytest.param(b"message", SIGNATURE[:-2], False, id="cut-short"),
        pytest.param(b"message", "zz", False, id="not-hex"),
        pytest.param(b"message", "", False, id="nothing"),
    ],
)
def test_a_signature_has_one_form(message: bytes, signature: str, *, is_signed: bool) -> None:
    assert PUBLIC.signed(message, signature) is is_signed


@pytest.mark.parametrize(
    ("signed", "holds"),
    [
        pytest.param(SIGNED_HEAD, True, id="as-it-was-signed"),
        pytest.param(change(SIGNED_HEAD, key_id=OTHER_KEY.key_id), False, id="another-key-named"),
        pytest.param(change(SIGNED_HEAD, head=change(HEAD, index=3)), False, id="another-index"),
        pytest.param(change(SIGNED_HEAD, head=change(HEAD, first=2)), False, id="another-first"),
    ],
)
def test_a_head_is_signed_with_its_key_named(signed: SignedHead, *, holds: bool) -> None:
    assert PUBLIC.signed_head(signed) is holds


@pytest.mark.parametrize(
    ("attestation", "holds"),
    [
        pytest.param(ATTESTATION, True, id="as-it-was-signed"),
        pytest.param(change(ATTESTATION, key_id=KeyId("0" * 64)), False, id="another-key-named"),
        pytest.param(
            change(ATTESTATION, statement=change(STATEMENT, depth=1)), False, id="another-field"
        ),
    ],
)
def test_an_attestation_is_signed_with_its_key_named(
    attestation: Attestation, *, holds: bool
) -> None:
    assert PUBLIC.signed_attestation(attestation) is holds


OTHER_VALUES: dict[str, object] = {
    "permit": None,
    "observed": msgspec.Raw(b'{"a":1}'),
    "decision": change(STATEMENT.decision, reason="another"),
    "outcome": change(STATEMENT.outcome, error_code="another"),
    "anchor": change(STATEMENT.anchor, index=99),
    "depth": 99,
    "started_at_ms": 99,
    "ended_at_ms": 99,
}


@pytest.mark.invariant("I8")
@pytest.mark.parametrize("field", STATEMENT.__struct_fields__)
def test_every_field_of_a_statement_is_signed(field: str) -> None:
    other = OTHER_VALUES.get(field, "another")
    forged = change(ATTESTATION, statement=change(STATEMENT, **{field: other}))
    assert not PUBLIC.signed_attestation(forged)
