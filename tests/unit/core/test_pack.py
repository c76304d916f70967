# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palyra.core.canonical import canonicalize
from palyra.core.digest import policy_digest
from palyra.core.pack import NOBODY, Effect, Members, read_pack
from tests.support.json_values import TEXTS
from tests.support.samples import PACK
from tests.support.vectors import vectors

change = msgspec.structs.replace
RULE = PACK.policies[0]
OTHERWISE: tuple[dict[str, Any], ...] = (
    {"policy_id": "other"},
    {"effect": Effect.FORBID},
    {"source": "other.cedar"},
    {"line": 9},
    {"text": "permit (principal, action, resource);"},
    {"principal": ("is Operator",)},
    {"action": ("*",)},
    {"resource": ("*",)},
    {"reads": None},
    {"reads": ()},
    {"annotations": {}},
)


def test_digest_is_that_of_the_vector() -> None:
    vector = vectors("digests")["pack"]
    assert PACK.encoded() == canonicalize(vector["pack"])
    assert PACK.digest == vector["digest"]


def test_a_pack_is_read_back_as_it_was_kept() -> None:
    assert read_pack(PACK.encoded()) == PACK
    assert read_pack(PACK.encoded()).digest == PACK.digest


@pytest.mark.invariant("I4")
@pytest.mark.parametrize(
    "changes",
    [
        {"format": "palyra.pack.v2"},
        {"preset": "boxed"},
        {"schema_sha256": "0" * 64},
        {"policies": ()},
        {"policies": (RULE, RULE)},
        {"members": NOBODY},
        *({"policies": (change(RULE, **each),)} for each in OTHERWISE),
    ],
    ids=str,
)
def test_everything_that_is_gone_by_is_in_the_digest(changes: dict[str, Any]) -> None:
    assert change(PACK, **changes).digest != PACK.digest


def test_no_field_is_left_out_above() -> None:
    assert (len(PACK.__struct_fields__), len(RULE.__struct_fields__)) == (5, 10)


def test_digest_is_of_the_stored_bytes() -> None:
    assert PACK.digest == policy_digest(PACK.encoded())


def test_a_policy_tells_its_reason() -> None:
    assert RULE.reason == "reading is harmless"
    assert change(RULE, annotations={"id": "reads"}).reason == ""


def test_members_are_written_as_far_as_there_are_any() -> None:
    assert msgspec.json.encode(NOBODY) == b"{}"
    some = Members(groups={"team": ("agent:ada",)})
    assert msgspec.json.encode(some) == b'{"groups":{"team":["agent:ada"]}}'


@given(st.dictionaries(TEXTS, st.lists(TEXTS).map(tuple), max_size=3), TEXTS)
def test_any_text_in_a_pack_survives(roles: dict[str, tuple[str, ...]], text: str) -> None:
    pack = change(PACK, members=Members(roles=roles), policies=(change(RULE, text=text),))
    assert read_pack(pack.encoded()) == pack


@pytest.mark.invariant("I1")
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"{}",
        PACK.encoded()[:-1],
        PACK.encoded().replace(b'"permit"', b'"allow"'),
        PACK.encoded().replace(b'"line":3', b'"line":"3"'),
    ],
    ids=["nothing", "half", "a-list", "no-fields", "cut", "another-effect", "a-text-for-a-number"],
)
def test_what_is_no_pack_is_not_read(body: bytes) -> None:
    with pytest.raises(msgspec.MsgspecError):
        read_pack(body)


def test_two_packs_do_not_share_what_they_name() -> None:
    assert NOBODY.roles == {}
    assert Members(roles={"a": ("agent:ada",)}) != NOBODY
