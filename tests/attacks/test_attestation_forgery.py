# SPDX-License-Identifier: Apache-2.0
"""Somebody hands out an attestation that was never given, or not like this."""

from __future__ import annotations

import base64
import copy
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import orjson
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from palyra.core.attestation import STATEMENT_TYPE, Statement, signed_bytes
from palyra.core.canonical import canonicalize
from palyra.core.errors import Code, InputError, IntegrityError
from palyra.flow.seal.envelope import attestation_document, verify_document
from palyra.trust.signing_key import SigningKey
from tests.support.journals import make_home
from tests.support.store import OTHER_KEY, open_archive

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.invariant("I8")

Document = dict[str, Any]


@dataclass(frozen=True)
class Genuine:
    """Documents as they were given, and the key they were signed with."""

    documents: tuple[bytes, ...]
    public_key: bytes
    key: SigningKey

    @property
    def in_a_batch(self) -> bytes:
        """Return a document whose entry was committed together with others after it."""
        return next(each for each in self.documents if orjson.loads(each)["palyra"]["leaves_after"])


@pytest.fixture(scope="module")
def genuine(tmp_path_factory: pytest.TempPathFactory) -> Genuine:
    home = make_home(tmp_path_factory.mktemp("attestations"))
    archive = open_archive(home)
    calls = [entry.subject for entry in archive.entries() if entry.kind.startswith("call.")]
    ended = {
        entry.subject
        for entry in archive.entries()
        if entry.kind in {"call.ended", "call.interrupted"}
    }
    documents = tuple(
        attestation_document(archive, call) for call in dict.fromkeys(calls) if call in ended
    )
    archive.close()
    key = SigningKey.load(home / "keys")
    assert key is not None
    return Genuine(documents, (home / "keys" / "journal.pub").read_bytes(), key)


def is_refused(document: bytes, public_key: bytes) -> bool:
    """Say whether the document is refused, as something that does not verify or is none at all."""
    try:
        verify_document(document, public_key_pem=public_key)
    except IntegrityError as error:
        return error.code is Code.ATTESTATION_INVALID
    except InputError:
        return True
    return False


def test_every_attestation_that_was_given_verifies(genuine: Genuine) -> None:
    statements = [
        verify_document(document, public_key_pem=genuine.public_key)
        for document in genuine.documents
    ]
    states = {statement.outcome.state for statement in statements}
    assert states == {"succeeded", "failed", "denied", "timed_out", "interrupted"}
    assert len({statement.call_id for statement in statements}) == len(genuine.documents)


def test_white_space_between_members_is_no_forgery(genuine: Genuine) -> None:
    for document in genuine.documents[:3]:
        pretty = orjson.dumps(orjson.loads(document), option=orjson.OPT_INDENT_2)
        statement = verify_document(pretty, public_key_pem=genuine.public_key)
        assert statement == verify_document(document, public_key_pem=genuine.public_key)


def test_any_changed_byte_is_refused(genuine: Genuine) -> None:
    chance = random.Random(5)  # noqa: S311 - repeatable
    for document in (genuine.in_a_batch, genuine.documents[0]):
        for position in range(len(document)):
            changed = bytearray(document)
            changed[position] ^= 1 << chance.randrange(8)
            assert is_refused(bytes(changed), genuine.public_key), bytes(changed)


def test_any_letter_of_the_other_case_is_refused(genuine: Genuine) -> None:
    document = genuine.in_a_batch
    for position, character in enumerate(document):
        if chr(character).isalpha():
            changed = bytearray(document)
            changed[position] ^= 0x20
            assert is_refused(bytes(changed), genuine.public_key), position


def test_any_removed_byte_is_refused(genuine: Genuine) -> None:
    document = genuine.in_a_batch
    for position in range(0, len(document), 3):
        shorter = document[:position] + document[position + 1 :]
        assert is_refused(shorter, genuine.public_key), position
        assert is_refused(document[:position], genuine.public_key), position


def places(value: Any, *path: Any) -> list[tuple[Any, ...]]:  # noqa: ANN401 - JSON
    """Return the way to everything within a JSON value."""
    if isinstance(value, dict):
        within = [place for key, each in value.items() for place in places(each, *path, key)]
    elif isinstance(value, list):
        within = [
            place for number, each in enumerate(value) for place in places(each, *path, number)
        ]
    else:
        within = []
    return [path, *within] if path else within


def put(document: Document, path: tuple[Any, ...], value: object) -> Document:
    changed = copy.deepcopy(document)
    container: Any = changed
    for step in path[:-1]:
        container = container[step]
    container[path[-1]] = value
    return changed


def removed(document: Document, path: tuple[Any, ...]) -> Document:
    changed = copy.deepcopy(document)
    container: Any = changed
    for step in path[:-1]:
        container = container[step]
    del container[path[-1]]
    return changed


def test_every_member_is_needed(genuine: Genuine) -> None:
    document = orjson.loads(genuine.in_a_batch)
    for path in places(document):
        assert is_refused(canonicalize(removed(document, path)), genuine.public_key), path


def test_no_member_can_be_another_value(genuine: Genuine) -> None:
    document = orjson.loads(genuine.in_a_batch)
    zeros = "0" * 64
    others: list[Any] = [None, True, -1, 0, 1, 2**53 - 1, 1.5, "", "zz", zeros, [], [zeros], {}]
    for path in places(document):
        for value in others:
            forged = put(document, path, value)
            if forged != document:
                assert is_refused(canonicalize(forged), genuine.public_key), (path, value)


def test_no_member_can_be_added(genuine: Genuine) -> None:
    document = orjson.loads(genuine.in_a_batch)
    for path in [("extra",), *((*path, "extra") for path in places(document))]:
        try:
            forged = put(document, path, "more")
        except (TypeError, IndexError):
            continue
        assert is_refused(canonicalize(forged), genuine.public_key), path


def test_no_member_can_be_there_twice(genuine: Genuine) -> None:
    text = genuine.in_a_batch
    for member in (b'"payload":', b'"payloadType":', b'"palyra":', b'"sig":', b'"index":'):
        assert is_refused(text.replace(member, member + b'"x",' + member, 1), genuine.public_key)


def test_a_receipt_is_for_one_attestation(genuine: Genuine) -> None:
    documents = [orjson.loads(document) for document in genuine.documents]
    for one in documents:
        for other in documents:
            if one is not other:
                mixed = {**one, "palyra": other["palyra"]}
                assert is_refused(canonicalize(mixed), genuine.public_key)


def test_a_signature_is_for_one_statement(genuine: Genuine) -> None:
    one, other = (orjson.loads(document) for document in genuine.documents[:2])
    mixed = {**one, "signatures": other["signatures"]}
    assert is_refused(canonicalize(mixed), genuine.public_key)
    both = {**one, "signatures": one["signatures"] + other["signatures"]}
    assert is_refused(canonicalize(both), genuine.public_key)


def forgeries() -> dict[str, Callable[[dict[str, Any]], None]]:
    def allow(statement: dict[str, Any]) -> None:
        statement["decision"]["verdict"] = "allow"

    def by_another(statement: dict[str, Any]) -> None:
        statement["principal"] = "operator:mallory"

    def with_digest(statement: dict[str, Any]) -> None:
        statement["execution_sha256"] = "0" * 64

    return {
        "a friendlier decision": allow,
        "another caller": by_another,
        "another execution": with_digest,
        "nothing": lambda _: None,
    }


@pytest.mark.parametrize("name", forgeries())
def test_a_statement_signed_by_another_key_is_refused(genuine: Genuine, name: str) -> None:
    document = orjson.loads(genuine.documents[0])
    statement = orjson.loads(base64.b64decode(document["payload"]))
    forgeries()[name](statement)
    payload = canonicalize(statement)
    signature = OTHER_KEY.sign(signed_bytes(STATEMENT_TYPE, payload))
    for key_id in (OTHER_KEY.key_id, genuine.key.key_id):
        forged = {
            **document,
            "payload": base64.b64encode(payload).decode(),
            "signatures": [{"keyid": key_id, "sig": base64.b64encode(signature).decode()}],
        }
        assert is_refused(canonicalize(forged), genuine.public_key)


def test_even_the_owner_of_the_key_cannot_sign_a_wrong_digest(genuine: Genuine) -> None:
    document = orjson.loads(genuine.documents[0])
    statement = orjson.loads(base64.b64decode(document["payload"]))
    statement["execution_sha256"] = "0" * 64
    payload = canonicalize(statement)
    signature = genuine.key.sign(signed_bytes(STATEMENT_TYPE, payload))
    forged = {
        **document,
        "payload": base64.b64encode(payload).decode(),
        "signatures": [{"keyid": genuine.key.key_id, "sig": base64.b64encode(signature).decode()}],
    }
    assert is_refused(canonicalize(forged), genuine.public_key)


def test_a_payload_that_is_not_canonical_is_refused_though_signed(genuine: Genuine) -> None:
    document = orjson.loads(genuine.documents[0])
    statement = orjson.loads(base64.b64decode(document["payload"]))
    payload = orjson.dumps(statement, option=orjson.OPT_INDENT_2)
    assert msgspec.json.decode(payload, type=Statement).tool == statement["tool"]
    signature = genuine.key.sign(signed_bytes(STATEMENT_TYPE, payload))
    forged = {
        **document,
        "payload": base64.b64encode(payload).decode(),
        "signatures": [{"keyid": genuine.key.key_id, "sig": base64.b64encode(signature).decode()}],
    }
    assert is_refused(canonicalize(forged), genuine.public_key)


def pem(private: Ed25519PrivateKey | X25519PrivateKey) -> bytes:
    return private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def test_another_key_refuses_everything(genuine: Genuine) -> None:
    other = pem(Ed25519PrivateKey.generate())
    assert all(is_refused(document, other) for document in genuine.documents)


@pytest.mark.parametrize(
    "key",
    [b"", b"not a key", pem(X25519PrivateKey.generate()), pem(Ed25519PrivateKey.generate())[:-40]],
    ids=["empty", "noise", "of-another-kind", "cut-short"],
)
def test_what_is_no_key_is_a_fault_of_the_caller(genuine: Genuine, key: bytes) -> None:
    with pytest.raises(InputError) as fault:
        verify_document(genuine.documents[0], public_key_pem=key)
    assert fault.value.code is Code.KEY_UNREADABLE


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"\xff\xfe",
        b"null",
        b"[]",
        b"{}",
        b'{"payload":1}',
        b"[" * 1000,
        b'{"payloadType":"\\ud800"}',
        b"9" * 400,
    ],
    ids=repr,
)
def test_what_is_no_document_is_refused_as_such(genuine: Genuine, document: bytes) -> None:
    with pytest.raises(InputError):
        verify_document(document, public_key_pem=genuine.public_key)


def test_a_document_larger_than_any_is_refused_unread(genuine: Genuine) -> None:
    with pytest.raises(InputError) as fault:
        verify_document(b" " * ((1 << 24) + 1), public_key_pem=genuine.public_key)
    assert fault.value.code is Code.INPUT_TOO_LARGE
