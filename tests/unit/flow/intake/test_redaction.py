# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import copy
import hashlib
import hmac
import json
import re
from types import MappingProxyType
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palyra.core.canonical import canonicalize
from palyra.core.errors import InputError
from palyra.flow.intake.redaction import (
    committed,
    has_secrets,
    journaled,
    keyed_digest,
    secret_depth,
    trails_of,
    veiled,
)
from tests.support.json_values import TEXTS, json_values

if TYPE_CHECKING:
    from palyra.core.canonical import JsonValue

KEY = b"0123456789abcdef0123456789abcdef"
NEEDLE = "s3cr3t-needle"


def commitment(value: object) -> dict[str, str]:
    """Recompute a commitment from its documentation alone."""
    content = json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False).encode()
    parts = (b"palyra.commitment.v1", content)
    framed = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
    return {"$commitment": hmac.new(KEY, framed, hashlib.sha256).hexdigest()}


def elided(content: bytes) -> dict[str, dict[str, object]]:
    return {"$elided": {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}}


@pytest.mark.parametrize(
    ("arguments", "pointers", "kept"),
    [
        pytest.param({"a": 1}, (), {"a": 1}, id="nothing-to-hide"),
        pytest.param({"a": "x", "b": "y"}, ("/a",), {"a": commitment("x"), "b": "y"}, id="a-field"),
        pytest.param(
            {"a": {"b": "x"}}, ("/a",), {"a": commitment({"b": "x"})}, id="an-object-as-a-whole"
        ),
        pytest.param(
            {"a": ["x", "y"]},
            ("/a/*",),
            {"a": [commitment("x"), commitment("y")]},
            id="every-item",
        ),
        pytest.param(
            {"a": ["x", "y"]}, ("/a/1",), {"a": ["x", commitment("y")]}, id="one-item-by-index"
        ),
        pytest.param(
            {"a": [{"p": "x", "q": 1}]},
            ("/a/*/p",),
            {"a": [{"p": commitment("x"), "q": 1}]},
            id="a-field-of-every-item",
        ),
        pytest.param(
            {"env": {"K": "x", "L": "y"}},
            ("/env/*",),
            {"env": {"K": commitment("x"), "L": commitment("y")}},
            id="every-key",
        ),
        pytest.param(
            {"a/b": "x", "c~d": "y"},
            ("/a~1b", "/c~0d"),
            {"a/b": commitment("x"), "c~d": commitment("y")},
            id="escaped-names",
        ),
        pytest.param(
            {"a": {"b": "x"}}, ("/a/b", "/a"), {"a": commitment({"b": "x"})}, id="the-wider-wins"
        ),
        pytest.param({"a": "x"}, ("",), commitment({"a": "x"}), id="the-whole"),
        pytest.param({"a": "x"}, ("/a/b", "/c"), {"a": "x"}, id="pointers-that-lead-nowhere"),
        pytest.param({"a": None}, ("/a",), {"a": commitment(None)}, id="even-null"),
        pytest.param(
            {"$commitment": "x", "$elided": 1, "$$elided": 2, "$other": 3},
            (),
            {"$$commitment": "x", "$$elided": 1, "$$$elided": 2, "$other": 3},
            id="keys-like-ours-are-escaped",
        ),
        pytest.param({"$commitment": "x"}, ("/$commitment",), {"$$commitment": commitment("x")}),
        pytest.param({"a": "x" * 1024}, (), {"a": "x" * 1024}, id="the-longest-text"),
        pytest.param(
            {"a": "é" * 1025}, (), {"a": elided(("é" * 1025).encode())}, id="a-longer-text"
        ),
        pytest.param(
            {"a": "x" * 5000}, ("/a",), {"a": commitment("x" * 5000)}, id="a-long-secret-is-secret"
        ),
        pytest.param(
            {"a": ["x" * 1000] * 20},
            (),
            elided(b'{"a":[' + b",".join([b'"' + b"x" * 1000 + b'"'] * 20) + b"]}"),
            id="a-large-document-is-elided-as-a-whole",
        ),
    ],
)
def test_journal_keeps(arguments: JsonValue, pointers: tuple[str, ...], kept: object) -> None:
    before = copy.deepcopy(arguments)
    assert journaled(arguments, secret_fields=pointers, key=KEY) == kept
    assert arguments == before


def test_document_of_16_kib_is_kept() -> None:
    arguments = {"a": ["x" * 1000] * 16}
    assert journaled(arguments, secret_fields=(), key=KEY) is arguments


def test_same_object_is_returned_where_nothing_is_hidden() -> None:
    arguments: JsonValue = {"a": 1, "b": ["$"]}
    assert journaled(arguments, secret_fields=(), key=KEY) is arguments


def test_elided_digest_does_not_help_to_guess_a_secret() -> None:
    pad: JsonValue = ["x" * 1000] * 20
    kept = journaled({"pin": "1234", "pad": pad}, secret_fields=("/pin",), key=KEY)
    assert kept != elided(canonicalize({"pin": "1234", "pad": pad}))
    assert kept == elided(canonicalize({"pin": commitment("1234"), "pad": pad}))


@given(json_values())
def test_a_committed_document_without_secrets_is_the_document(value: JsonValue) -> None:
    arguments: JsonValue = {"$commitment": 1, "a": [value]}
    assert committed(arguments, secret_fields=("/b", "/a/1"), key=KEY) == arguments


def test_a_committed_document_hides_secrets_and_elides_nothing() -> None:
    text, pad = "x" * 5000, ["x" * 1000] * 20
    arguments: JsonValue = {"pins": ["1234", "5"], "text": text, "pad": pad}
    kept = committed(arguments, secret_fields=("/pins/0",), key=KEY)
    assert kept == {"pins": [commitment("1234"), "5"], "text": text, "pad": pad}


@pytest.mark.invariant("I11")
def test_another_key_gives_another_commitment() -> None:
    one, other = (
        journaled({"pin": "1234"}, secret_fields=("/pin",), key=key) for key in (KEY, KEY[::-1])
    )
    assert one != other


def test_keyed_digests_of_other_domains_differ() -> None:
    assert keyed_digest("a", b"x", key=KEY) != keyed_digest("b", b"x", key=KEY)


@pytest.mark.parametrize(
    ("pointers", "steps", "depth"),
    [
        pytest.param((), ["a"], None, id="no-secrets"),
        pytest.param(("",), ["a"], 0, id="all-is-secret"),
        pytest.param(("/a",), [], None, id="above"),
        pytest.param(("/a",), ["a"], 1, id="at-it"),
        pytest.param(("/a",), ["a", "b", 0], 1, id="below-it"),
        pytest.param(("/a/*/b",), ["a", 3, "b", "c"], 3, id="below-any-item"),
        pytest.param(("/a/1",), ["a", 1], 2, id="an-item-by-index"),
        pytest.param(("/a/b/c", "/a/b"), ["a", "b", "c"], 2, id="the-wider-wins"),
        pytest.param(("/a/b",), ["a", "c", "b"], None, id="beside"),
    ],
)
def test_secret_depth(pointers: tuple[str, ...], steps: list[str | int], depth: int | None) -> None:
    assert secret_depth(steps, trails=trails_of(pointers)) == depth


@pytest.mark.parametrize("odd", [MappingProxyType({"pin": "1"}), {1}, b"1"])
def test_what_is_not_json_is_refused_and_not_passed_through(odd: JsonValue) -> None:
    with pytest.raises(InputError):
        journaled({"a": odd}, secret_fields=("/a/pin",), key=KEY)


def strings_in(value: object) -> list[str]:
    if isinstance(value, dict):
        return [text for pair in value.items() for part in pair for text in strings_in(part)]
    if isinstance(value, list):
        return [text for item in value for text in strings_in(item)]
    return [value] if isinstance(value, str) else []


SECRETS = st.recursive(
    st.just(NEEDLE) | TEXTS.map(lambda text: text + NEEDLE),
    lambda inner: (
        st.lists(inner, min_size=1, max_size=3)
        | st.dictionaries(TEXTS, inner, min_size=1, max_size=3)
    ),
    max_leaves=5,
)


@pytest.mark.invariant("I11")
@given(json_values(), SECRETS, SECRETS, TEXTS)
def test_no_secret_value_is_journaled(
    open_part: JsonValue, one: JsonValue, two: JsonValue, key: str
) -> None:
    arguments: JsonValue = {
        "open": open_part,
        "token": one,
        "list": [{"p": two, "n": 1}],
        "map": {key: one},
    }
    pointers = ("/token", "/list/*/p", "/map/*")
    kept = journaled(arguments, secret_fields=pointers, key=KEY)
    assert not any(NEEDLE in text for text in strings_in(kept))


@given(json_values(), json_values())
def test_different_arguments_are_never_journaled_alike(one: JsonValue, two: JsonValue) -> None:
    kept = [canonicalize(journaled({"a": each}, secret_fields=(), key=KEY)) for each in (one, two)]
    originals = [canonicalize({"a": each}) for each in (one, two)]
    assert (kept[0] == kept[1]) == (originals[0] == originals[1])


@given(json_values())
def test_argument_cannot_pass_for_a_stand_in(value: JsonValue) -> None:
    forged: dict[str, JsonValue] = {
        "a": {"$commitment": "00"},
        "b": {"$elided": {"sha256": "00", "bytes": 1}},
        "c": value,
    }
    kept = journaled(forged, secret_fields=(), key=KEY)
    assert isinstance(kept, dict)
    if "$elided" not in kept:  # not so large that the whole was elided
        assert kept["a"] == {"$$commitment": "00"}
        assert kept["b"] == {"$$elided": {"sha256": "00", "bytes": 1}}


@pytest.mark.parametrize(
    ("arguments", "pointer", "answer"),
    [
        ({"a": 1}, "/a", True),
        ({"a": 1}, "/b", False),
        ({"a": 1}, "/a/b", False),
        ({"a": [{"b": 1}]}, "/a/*/b", True),
        ({"a": [{"b": 1}]}, "/a/0/b", True),
        ({"a": [{"b": 1}]}, "/a/1/b", False),
        ({"a": []}, "/a/*", False),
        ({"a": {"k": None}}, "/a/*", True),
        ({}, "", True),
    ],
)
def test_has_secrets(arguments: JsonValue, pointer: str, *, answer: bool) -> None:
    assert has_secrets(arguments, secret_fields=("/nowhere", pointer)) is answer


@pytest.mark.invariant("I11")
def test_facts_are_drawn_from_a_text_in_place_of_each_secret() -> None:
    arguments: JsonValue = {"host": "example.org", "token": "hunter2", "pins": [1234, 5678]}
    seen = veiled(arguments, secret_fields=("/token", "/pins/*"), key=KEY)
    assert isinstance(seen, dict)
    assert seen["host"] == "example.org"
    texts = [seen["token"], *seen["pins"]]
    assert all(re.fullmatch(r"commitment:[0-9a-f]{64}", text) for text in texts)
    assert len(set(texts)) == 3
    assert seen == veiled(arguments, secret_fields=("/token", "/pins/*"), key=KEY)
    assert seen != veiled(arguments, secret_fields=("/token", "/pins/*"), key=b"x" * 32)
