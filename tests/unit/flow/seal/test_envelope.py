# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import apsw
import orjson
import pytest
from securesystemslib.dsse import Envelope
from securesystemslib.signer._key import SSlibKey

from palyra.core.attestation import STATEMENT_TYPE, signed_bytes
from palyra.core.canonical import canonicalize
from palyra.core.chain import link_under_receipt
from palyra.core.errors import Code, IntegrityError, NotFoundError
from palyra.flow.seal.envelope import (
    attestation_document,
    head_in,
    receipt_of,
    verify_document,
)
from palyra.store.sqlite.ledger import DATABASE_NAME, Archive
from palyra.trust.signing_key import SigningKey
from tests.support.append_only import lifted
from tests.support.journals import make_home
from tests.support.store import open_archive

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from palyra.core.chain import Entry


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_home(tmp_path_factory.mktemp("envelope"))


@pytest.fixture
def archive(home: Path) -> Iterator[Archive]:
    archive = open_archive(home)
    yield archive
    archive.close()


@pytest.fixture
def public_key(home: Path) -> bytes:
    return (home / "keys" / "journal.pub").read_bytes()


def endings(archive: Archive) -> list[Entry]:
    kinds = {"call.ended", "call.interrupted"}
    return [entry for entry in archive.entries() if entry.kind in kinds]


def test_a_document_is_found_by_call_and_by_attestation(
    archive: Archive, public_key: bytes
) -> None:
    for entry in endings(archive):
        document = attestation_document(archive, entry.subject)
        statement = verify_document(document, public_key_pem=public_key)
        assert statement.call_id == entry.subject
        assert attestation_document(archive, statement.attestation_id) == document


def test_a_document_is_canonical(archive: Archive) -> None:
    document = attestation_document(archive, endings(archive)[0].subject)
    assert canonicalize(orjson.loads(document)) == document


def test_other_tools_read_the_envelope(archive: Archive, public_key: bytes) -> None:
    document = orjson.loads(attestation_document(archive, endings(archive)[0].subject))
    signature = document["signatures"][0]
    key = SSlibKey(signature["keyid"], "ed25519", "ed25519", {"public": _raw(public_key).hex()})
    signature["sig"] = base64.b64encode(base64.b64decode(signature["sig"])).decode()
    envelope = Envelope.from_dict(
        {key: value for key, value in document.items() if key != "palyra"}
    )
    assert envelope.payload_type == STATEMENT_TYPE
    assert envelope.verify([key], threshold=1)


def _raw(pem: bytes) -> bytes:
    return base64.b64decode(b"".join(pem.splitlines()[1:-1]))[-32:]


@pytest.mark.parametrize("identifier", ["", "01J00000000000000000000009", "' OR 1=1 --"])
def test_an_unknown_attestation_is_not_found(archive: Archive, identifier: str) -> None:
    with pytest.raises(NotFoundError) as fault:
        attestation_document(archive, identifier)
    assert fault.value.code is Code.ATTESTATION_UNKNOWN


def test_a_call_under_way_has_no_attestation_yet(archive: Archive) -> None:
    ended = {entry.subject for entry in endings(archive)}
    waiting = next(
        entry.subject
        for entry in archive.entries()
        if entry.kind == "call.decided" and entry.subject not in ended
    )
    with pytest.raises(NotFoundError):
        attestation_document(archive, waiting)


@pytest.mark.invariant("I8")
def test_a_receipt_can_be_made_for_every_entry(archive: Archive) -> None:
    for entry in archive.entries():
        receipt = receipt_of(archive, entry)
        assert link_under_receipt(receipt, body=entry.body) == receipt.head.head.link


@pytest.mark.parametrize(
    ("damage", "code"),
    [
        ("UPDATE journal SET head = NULL", Code.JOURNAL_BROKEN),
        ("UPDATE journal SET head = x'00'", Code.JOURNAL_BROKEN),
        ("UPDATE journal SET body = x'ff' WHERE kind = 'call.ended'", Code.JOURNAL_BROKEN),
    ],
)
def test_a_damaged_journal_gives_no_document(tmp_path: Path, damage: str, code: Code) -> None:
    home = make_home(tmp_path)
    connection = apsw.Connection(str(home / DATABASE_NAME))
    with lifted(connection):
        connection.execute(damage)
    connection.close()
    archive = open_archive(home)
    subject = next(entry.subject for entry in archive.entries() if entry.kind == "call.ended")
    with pytest.raises(IntegrityError) as fault:
        attestation_document(archive, subject)
    archive.close()
    assert fault.value.code is code


def other(value: str) -> str:
    """Return another text of the same form."""
    return ("0" if value[0] != "0" else "1") + value[1:]


class TestVerification:
    """Why a document does not verify; that no forgery does is in ``tests/attacks``."""

    @pytest.fixture
    def documents(self, archive: Archive) -> list[dict[str, Any]]:
        return [
            orjson.loads(attestation_document(archive, entry.subject)) for entry in endings(archive)
        ]

    @staticmethod
    def reason(document: dict[str, Any], public_key: bytes) -> str:
        with pytest.raises(IntegrityError) as fault:
            verify_document(canonicalize(document), public_key_pem=public_key)
        assert fault.value.code is Code.ATTESTATION_INVALID
        return fault.value.message.removeprefix("the attestation does not verify: ")

    @pytest.mark.parametrize(
        ("changes", "why"),
        [
            ({"payloadType": "other"}, f"it is not one signature over {STATEMENT_TYPE}"),
            ({"signatures": []}, f"it is not one signature over {STATEMENT_TYPE}"),
            ({"payload": "!"}, "its payload is not base64 of JSON"),
            ({"payload": "e30"}, "its payload is not base64 of JSON"),
            ({"payload": "eyB9"}, "its payload is not canonical"),
            ({"payload": "e30="}, "its statement or signature cannot be read"),
            (
                {"signatures": [{"keyid": "k", "sig": "!"}]},
                "its statement or signature cannot be read",
            ),
            (
                {"signatures": [{"keyid": "k", "sig": "AAAA"}]},
                "it is not signed by this key, or was changed since",
            ),
            ({"more": 1}, "it is not written as attestation documents are"),
        ],
    )
    def test_of_the_envelope(
        self,
        documents: list[dict[str, Any]],
        public_key: bytes,
        changes: dict[str, Any],
        why: str,
    ) -> None:
        assert self.reason({**documents[0], **changes}, public_key) == why

    def test_of_the_head(self, documents: list[dict[str, Any]], public_key: bytes) -> None:
        document = documents[0]
        document["palyra"]["head"]["head"]["link"] = "0" * 64
        why = "the head of its receipt is not signed by this key"
        assert self.reason(document, public_key) == why

    @pytest.mark.parametrize(
        ("field", "why"),
        [
            ("subject", "its receipt is for another entry"),
            ("previous", "its receipt does not lead to the signed head"),
        ],
    )
    def test_of_the_receipt(
        self, documents: list[dict[str, Any]], public_key: bytes, field: str, why: str
    ) -> None:
        document = documents[0]
        document["palyra"][field] = other(document["palyra"][field])
        assert self.reason(document, public_key) == why

    def test_of_a_receipt_for_something_that_is_no_end(
        self, documents: list[dict[str, Any]], public_key: bytes
    ) -> None:
        document = documents[0]
        document["palyra"]["kind"] = "call.decided"
        assert self.reason(document, public_key) == "its receipt is for another entry"

    def test_of_a_receipt_with_a_leaf_too_many(
        self, documents: list[dict[str, Any]], public_key: bytes
    ) -> None:
        document = documents[0]
        document["palyra"]["leaves_after"].append("0" * 64)
        why = "its receipt does not lead to the signed head"
        assert self.reason(document, public_key) == why

    def test_of_the_digest(self, home: Path, documents: list[dict[str, Any]]) -> None:
        key = SigningKey.load(home / "keys")
        assert key is not None
        document = documents[0]
        statement = orjson.loads(base64.b64decode(document["payload"]))
        statement["execution_sha256"] = "0" * 64
        payload = canonicalize(statement)
        signature = key.sign(signed_bytes(STATEMENT_TYPE, payload))
        document["payload"] = base64.b64encode(payload).decode()
        document["signatures"][0]["sig"] = base64.b64encode(signature).decode()
        public_key = (home / "keys" / "journal.pub").read_bytes()
        assert self.reason(document, public_key) == "execution_sha256 does not fit its fields"


def test_the_head_of_a_document_can_be_held_against_a_journal(archive: Archive) -> None:
    entry = endings(archive)[0]
    document = attestation_document(archive, entry.subject)
    assert head_in(document) == receipt_of(archive, entry).head
