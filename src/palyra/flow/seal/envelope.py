# SPDX-License-Identifier: Apache-2.0
"""One attestation as a document of its own: a DSSE envelope with its place in the log.

The envelope is readable by any DSSE tool. The member ``palyra`` beside it holds the receipt: the
way from the attestation's entry to a signed head, so that its place can be checked offline too.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING, Any, Final

import msgspec

from palyra.core.attestation import (
    STATEMENT_TYPE,
    Attestation,
    Statement,
    envelope,
    expected_execution_sha256,
)
from palyra.core.canonical import canonical_record, canonicalize
from palyra.core.chain import GENESIS, Entry, Receipt, SignedHead, link_under_receipt
from palyra.core.errors import Code, InputError, IntegrityError, NotFoundError
from palyra.core.events import CallEnded, CallInterrupted, read_event
from palyra.core.strict_json import JsonLimits, decode
from palyra.flow.seal.signatures import PublicKey

if TYPE_CHECKING:
    from collections.abc import Iterator

    from palyra.core.canonical import JsonValue
    from palyra.core.ports import JournalReader

_LIMITS: Final = JsonLimits(max_bytes=1 << 24, max_depth=32)
_HASH: Final = re.compile("[0-9a-f]{64}")
_ENDINGS: Final = {kind.kind: kind for kind in (CallEnded, CallInterrupted)}


class _Signature(msgspec.Struct, frozen=True):
    keyid: str
    sig: str


class _Document(msgspec.Struct, frozen=True, kw_only=True, rename={"payload_type": "payloadType"}):
    payload_type: str
    payload: str
    signatures: tuple[_Signature, ...]
    palyra: Receipt
    ending_sha256: str


def attestation_document(reader: JournalReader, identifier: str) -> bytes:
    """Return the document of a call's attestation, by call id or attestation id."""
    for entry in _endings(reader, identifier):
        event = read_event(entry, _ENDINGS[entry.kind])
        document = _written(
            event.attestation,
            event.attestation.payload,
            receipt_of(reader, entry),
            ending_sha256=event.ending_sha256,
        )
        return canonicalize(document)
    raise NotFoundError(Code.ATTESTATION_UNKNOWN)


def receipt_of(reader: JournalReader, entry: Entry) -> Receipt:
    """Return the way from ``entry`` to the head of the commit that brought it."""
    _, head = next(reader.heads(first=entry.index), (0, None))
    if head is None:
        raise IntegrityError(
            Code.JOURNAL_BROKEN, f"no signed head can be read for entry {entry.index}"
        )
    before = next(reader.entries(first=entry.index - 1, last=entry.index - 1), None)
    after = reader.entries(first=entry.index + 1, last=head.head.index)
    return Receipt(
        index=entry.index,
        recorded_at_ms=entry.recorded_at_ms,
        kind=entry.kind,
        subject=entry.subject,
        previous=(before.link if before is not None else GENESIS).hex(),
        leaves_after=tuple(following.leaf.hex() for following in after),
        head=head,
    )


def verify_document(document: bytes, *, public_key_pem: bytes) -> Statement:
    """Return the statement if everything about the document holds, with no store at hand.

    Raises:
        IntegrityError: a signature, the digest, or the place in the log does not hold.
        InputError: this is not an attestation document, or not a key.
    """
    key = PublicKey.from_pem(public_key_pem)
    raw = decode(document, limits=_LIMITS)
    parsed = _parse(raw)
    payload = _payload(parsed)
    attestation = _attestation(parsed, payload)
    ending_sha256 = parsed.ending_sha256
    written = _written(attestation, payload, parsed.palyra, ending_sha256=ending_sha256)
    if canonicalize(raw) != canonicalize(written):
        raise _invalid("it is not written as attestation documents are")
    statement = attestation.statement
    if not key.signed_attestation(attestation) or attestation.payload != payload:
        raise _invalid("it is not signed by this key, or was changed since")
    if statement.execution_sha256 != expected_execution_sha256(statement):
        raise _invalid("execution_sha256 does not fit its fields")
    receipt = parsed.palyra
    if not key.signed_head(receipt.head):
        raise _invalid("the head of its receipt is not signed by this key")
    kind = _ENDINGS.get(receipt.kind)
    if kind is None or receipt.subject != statement.call_id:
        raise _invalid("its receipt is for another entry")
    event = kind(call_id=statement.call_id, attestation=attestation, ending_sha256=ending_sha256)
    body = canonical_record(event)
    head = receipt.head.head
    if (
        not all(map(_is_hash, (receipt.previous, *receipt.leaves_after)))
        or receipt.index + len(receipt.leaves_after) != head.index
        or link_under_receipt(receipt, body=body) != head.link
    ):
        raise _invalid("its receipt does not lead to the signed head")
    return statement


def _written(
    attestation: Attestation, payload: bytes, receipt: Receipt, *, ending_sha256: str
) -> dict[str, Any]:
    """Return the one form that a document of these contents has."""
    document: dict[str, Any] = envelope(
        STATEMENT_TYPE, payload, key_id=attestation.key_id, signature=attestation.signature
    )
    document["palyra"] = msgspec.to_builtins(receipt)
    document["ending_sha256"] = ending_sha256
    return document


def _is_hash(text: str) -> bool:
    return _HASH.fullmatch(text) is not None


def head_in(document: bytes) -> SignedHead:
    """Return the signed head in an attestation's receipt, for comparison with a journal.

    Raises:
        InputError: this is not an attestation document.
    """
    return _parse(decode(document, limits=_LIMITS)).palyra.head


def _endings(reader: JournalReader, identifier: str) -> Iterator[Entry]:
    """Yield the entries that end the named call, newest first."""
    for entry in reversed(reader.of_subject(identifier)):
        if entry.kind in _ENDINGS:
            yield entry
    index = reader.attested_at(identifier)
    if index is not None:
        yield from reader.entries(first=index, last=index)


def _parse(raw: JsonValue) -> _Document:
    try:
        return msgspec.convert(raw, _Document)
    except msgspec.ValidationError as error:
        raise InputError(
            Code.INPUT_INVALID, f"this is not an attestation document: {error}"
        ) from error


def _payload(parsed: _Document) -> bytes:
    if parsed.payload_type != STATEMENT_TYPE or len(parsed.signatures) != 1:
        raise _invalid(f"it is not one signature over {STATEMENT_TYPE}")
    try:
        payload = base64.b64decode(parsed.payload, validate=True)
        is_canonical = canonicalize(decode(payload, limits=_LIMITS)) == payload
    except (binascii.Error, ValueError, InputError) as error:
        raise _invalid("its payload is not base64 of JSON") from error
    if not is_canonical:
        raise _invalid("its payload is not canonical")
    return payload


def _attestation(parsed: _Document, payload: bytes) -> Attestation:
    try:
        statement = msgspec.json.decode(payload, type=Statement)
        signature = base64.b64decode(parsed.signatures[0].sig, validate=True).hex()
    except (msgspec.MsgspecError, binascii.Error, ValueError, RecursionError) as error:
        raise _invalid("its statement or signature cannot be read") from error
    return Attestation(
        key_id=parsed.signatures[0].keyid,  # type: ignore[arg-type]  # a claim, checked next
        signature=signature,
        statement=statement,
    )


def _invalid(why: str) -> IntegrityError:
    return IntegrityError(Code.ATTESTATION_INVALID, f"the attestation does not verify: {why}")
