# SPDX-License-Identifier: Apache-2.0
"""The journal's hash links: entries in, links out; pure, so that anyone can recompute them.

Each entry has a leaf (the hash of all its columns) and a link (the hash of the link before it and
its leaf). A signed head names the last index and its link, and thereby everything before.
"""

from __future__ import annotations

from hashlib import sha256
from struct import Struct

import msgspec

from palyra.core.attestation import HEAD_TYPE, signed_bytes
from palyra.core.canonical import canonical_record
from palyra.core.digest import framed
from palyra.core.ids import KeyId, LogId

GENESIS = bytes(32)
_LEAF = framed("palyra.journal.leaf.v1")
_LINK = framed("palyra.journal.link.v1")
_pack_numbers = Struct(">qqQ").pack
_pack_length = Struct(">Q").pack


def leaf_hash(*, index: int, recorded_at_ms: int, kind: str, subject: str, body: bytes) -> bytes:
    """Hash every column of an entry: a length-prefixed frame, spelled out because it is hot.

    Numbers are taken as signed only so that whatever a tampered store holds has a hash.
    """
    name = kind.encode()
    about = subject.encode()
    return sha256(
        b"".join(
            (
                _LEAF,
                _pack_numbers(index, recorded_at_ms, len(name)),
                name,
                _pack_length(len(about)),
                about,
                _pack_length(len(body)),
                body,
            )
        )
    ).digest()


def link_hash(*, previous: bytes, leaf: bytes) -> bytes:
    """Hash an entry's leaf onto the link before it."""
    return sha256(_LINK + previous + leaf).digest()


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the journal, as stored."""

    index: int
    recorded_at_ms: int
    kind: str
    subject: str
    body: bytes
    link: bytes

    @property
    def leaf(self) -> bytes:
        """The hash of this entry's columns."""
        return leaf_hash(
            index=self.index,
            recorded_at_ms=self.recorded_at_ms,
            kind=self.kind,
            subject=self.subject,
            body=self.body,
        )


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """Where the journal ends: signed, it vouches for every entry up to ``index``.

    ``first`` is the first entry of the commit that it closes. Heads therefore follow each other
    like entries do: one that was taken away is missed, and so is one that was never there.
    """

    format: str = "palyra.journal-head.v1"
    log_id: LogId
    first: int
    index: int
    link: str
    recorded_at_ms: int

    @property
    def payload(self) -> bytes:
        """The canonical bytes of the head."""
        return canonical_record(self)

    @property
    def signed_bytes(self) -> bytes:
        """What its signature is over."""
        return signed_bytes(HEAD_TYPE, self.payload)


class SignedHead(msgspec.Struct, frozen=True, kw_only=True):
    """A head and its signature."""

    head: Head
    key_id: KeyId
    signature: str


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """Proof that an entry is durable: its place, and the way from it to a signed head."""

    index: int
    recorded_at_ms: int
    kind: str
    subject: str
    previous: str
    leaves_after: tuple[str, ...]
    """Leaves of the entries between this one and the head, at most one commit's worth."""
    head: SignedHead


def link_under_receipt(receipt: Receipt, *, body: bytes) -> str:
    """Return the head link that ``receipt`` leads to for an entry with this ``body``."""
    leaf = leaf_hash(
        index=receipt.index,
        recorded_at_ms=receipt.recorded_at_ms,
        kind=receipt.kind,
        subject=receipt.subject,
        body=body,
    )
    link = link_hash(previous=bytes.fromhex(receipt.previous), leaf=leaf)
    for following in receipt.leaves_after:
        link = link_hash(previous=link, leaf=bytes.fromhex(following))
    return link.hex()
