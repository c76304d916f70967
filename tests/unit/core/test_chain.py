# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from hypothesis import given
from hypothesis import strategies as st

from palyra.core.chain import (
    GENESIS,
    Entry,
    Receipt,
    SignedHead,
    leaf_hash,
    link_hash,
    link_under_receipt,
)
from tests.support.vectors import vectors

VECTORS = vectors("journal")
ENTRIES = [
    Entry(
        index=entry["index"],
        recorded_at_ms=entry["recorded_at_ms"],
        kind=entry["kind"],
        subject=entry["subject"],
        body=entry["body_utf8"].encode(),
        link=bytes.fromhex(entry["link"]),
    )
    for entry in VECTORS["entries"]
]
HEAD = msgspec.convert(VECTORS["signed_head"], SignedHead)
RECEIPT = msgspec.convert(VECTORS["receipt"], Receipt)
BODY = ENTRIES[2].body
change = msgspec.structs.replace


@pytest.mark.parametrize("position", range(len(ENTRIES)))
def test_leaves_and_links_are_those_of_the_vector(position: int) -> None:
    entry, vector = ENTRIES[position], VECTORS["entries"][position]
    previous = ENTRIES[position - 1].link if position else GENESIS
    assert entry.leaf.hex() == vector["leaf"]
    assert link_hash(previous=previous, leaf=entry.leaf).hex() == vector["link"]


def test_head_is_signed_over_its_pre_authentication_encoding() -> None:
    assert HEAD.head.link == VECTORS["entries"][-1]["link"]
    public_key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(VECTORS["public_key_hex"]))
    public_key.verify(bytes.fromhex(HEAD.signature), HEAD.head.signed_bytes)


def test_receipt_leads_to_the_head() -> None:
    assert link_under_receipt(RECEIPT, body=BODY) == HEAD.head.link


@pytest.mark.invariant("I8")
@pytest.mark.parametrize(
    "forged",
    [
        change(RECEIPT, index=4),
        change(RECEIPT, recorded_at_ms=0),
        change(RECEIPT, kind="call.ended"),
        change(RECEIPT, subject="01JCZK5M8N0000000000000009"),
        change(RECEIPT, previous="00" * 32),
        change(RECEIPT, leaves_after=RECEIPT.leaves_after[:1]),
        change(RECEIPT, leaves_after=RECEIPT.leaves_after[::-1]),
        change(RECEIPT, leaves_after=()),
    ],
)
def test_forged_receipt_leads_elsewhere(forged: Receipt) -> None:
    assert link_under_receipt(forged, body=BODY) != HEAD.head.link


@pytest.mark.invariant("I8")
def test_receipt_for_another_body_leads_elsewhere() -> None:
    assert link_under_receipt(RECEIPT, body=BODY + b" ") != HEAD.head.link


def test_receipt_of_the_last_entry_needs_no_leaves() -> None:
    last = ENTRIES[-1]
    receipt = Receipt(
        index=last.index,
        recorded_at_ms=last.recorded_at_ms,
        kind=last.kind,
        subject=last.subject,
        previous=ENTRIES[-2].link.hex(),
        leaves_after=(),
        head=HEAD,
    )
    assert link_under_receipt(receipt, body=last.body) == HEAD.head.link


COLUMNS = st.fixed_dictionaries(
    {
        "index": st.integers(0, 2**40),
        "recorded_at_ms": st.integers(0, 2**48),
        "kind": st.text(max_size=4),
        "subject": st.text(max_size=4),
        "body": st.binary(max_size=4),
    }
)


@pytest.mark.invariant("I8")
@given(COLUMNS, COLUMNS)
def test_different_entries_have_different_leaves(one: dict[str, Any], two: dict[str, Any]) -> None:
    assert (leaf_hash(**one) == leaf_hash(**two)) is (one == two)


def test_moving_text_between_columns_changes_the_leaf() -> None:
    fixed = {"index": 1, "recorded_at_ms": 2, "body": b""}
    one = leaf_hash(kind="ab", subject="c", **fixed)  # type: ignore[arg-type]
    two = leaf_hash(kind="a", subject="bc", **fixed)  # type: ignore[arg-type]
    assert one != two
