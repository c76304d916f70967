# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palyra.core.canonical import canonicalize
from palyra.core.digest import (
    CallDigest,
    PlanDigest,
    ViewDigest,
    call_digest,
    consent_digest,
    content_sha256,
    framed,
    framed_sha256,
    plan_digest,
    policy_digest,
    snapshot_digest,
)
from tests.support.vectors import vectors

VECTORS = vectors("digests")


@pytest.mark.parametrize("vector", VECTORS["framed"], ids=lambda vector: vector["sha256"][:8])
def test_framed_sha256(vector: dict[str, Any]) -> None:
    parts = [bytes.fromhex(part) for part in vector["parts_hex"]]
    assert framed_sha256(vector["domain"], *parts).hex() == vector["sha256"]


def test_frame_is_length_then_part() -> None:
    assert framed("ab", b"", b"xyz") == (
        b"\0\0\0\0\0\0\0\x02ab" + b"\0\0\0\0\0\0\0\0" + b"\0\0\0\0\0\0\0\x03xyz"
    )


def test_content() -> None:
    vector = VECTORS["content"]
    assert content_sha256(bytes.fromhex(vector["hex"])) == vector["sha256"]


def test_call() -> None:
    vector = VECTORS["call"]
    assert vector["digest"] == call_digest(
        tool=vector["tool"],
        version=vector["version"],
        canonical_arguments=canonicalize(vector["arguments"]),
    )


def test_plan() -> None:
    vector = VECTORS["plan"]
    assert plan_digest(canonicalize(vector["plan"])) == vector["digest"]


def test_consent() -> None:
    vector = VECTORS["consent"]
    assert vector["digest"] == consent_digest(
        call=CallDigest(vector["call"]),
        plan=PlanDigest(vector["plan"]),
        view=ViewDigest(vector["view"]),
        scope=vector["scope"],
        expires_at_ms=vector["expires_at_ms"],
        policies=tuple(vector["policies"]),
    )


def test_policy() -> None:
    vector = VECTORS["policy"]
    assert policy_digest(canonicalize(vector["policy"])) == vector["digest"]


def test_snapshot() -> None:
    vector = VECTORS["snapshot"]
    assert snapshot_digest(canonicalize(vector["snapshot"])) == vector["digest"]


def test_same_bytes_under_another_name_have_another_digest() -> None:
    digests = {plan_digest(b"{}"), policy_digest(b"{}"), snapshot_digest(b"{}")}
    assert len(digests) == 3


PARTS = st.lists(st.binary(max_size=4), max_size=4)
DOMAINS = st.text(st.characters(codec="ascii"), max_size=4)


@given(st.tuples(DOMAINS, PARTS), st.tuples(DOMAINS, PARTS))
def test_no_two_inputs_share_a_frame(
    one: tuple[str, list[bytes]], two: tuple[str, list[bytes]]
) -> None:
    frames = [framed(domain, *parts) for domain, parts in (one, two)]
    assert (frames[0] == frames[1]) is (one == two)


@given(st.binary(max_size=40), st.binary(max_size=40))
def test_moving_bytes_between_parts_changes_the_digest(one: bytes, two: bytes) -> None:
    whole = one + two
    digests = {framed_sha256("d", whole[:cut], whole[cut:]) for cut in range(len(whole) + 1)}
    assert len(digests) == len(whole) + 1
