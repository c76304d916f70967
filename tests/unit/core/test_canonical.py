# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import struct
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from palyra.core.canonical import canonical_record, canonicalize
from palyra.core.errors import Code, InputError
from tests.support.json_values import SCALARS, TEXTS, json_values
from tests.support.vectors import vectors

if TYPE_CHECKING:
    from palyra.core.canonical import JsonValue

VECTORS = vectors("canonical")


def double(bits: str) -> float:
    number: float = struct.unpack(">d", bytes.fromhex(bits))[0]
    return number


@pytest.mark.parametrize("vector", VECTORS["numbers"], ids=lambda vector: vector["ieee754"])
def test_numbers_of_the_rfc(vector: dict[str, str]) -> None:
    assert canonicalize(double(vector["ieee754"])) == vector["canonical"].encode()


@pytest.mark.parametrize("bits", VECTORS["refused_numbers"])
def test_numbers_the_rfc_refuses(bits: str) -> None:
    with pytest.raises(InputError) as caught:
        canonicalize(double(bits))
    assert caught.value.code is Code.INPUT_NOT_CANONICAL


@pytest.mark.parametrize("vector", VECTORS["documents"], ids=lambda vector: vector["name"])
def test_documents_of_the_rfc(vector: dict[str, str]) -> None:
    assert canonicalize(json.loads(vector["input"])) == vector["canonical"].encode()


class Text(str):
    __slots__ = ()


class Colour(StrEnum):
    RED = "r\u00e9d"


class Level(IntEnum):
    HIGH = 3


#: What Python code may hand over besides plain JSON, and what must be refused.
HOSTILE_SCALARS = (
    SCALARS
    | st.integers()
    | st.floats()
    | st.text(max_size=4)
    | st.characters(categories=["Cs"])
    | TEXTS.map(Text)
    | st.sampled_from([Colour.RED, Level.HIGH, b"bytes", {1, 2}, object(), 2**53 - 1, 2**53, 203])
)


def by_the_definition(value: Any) -> bytes | None:  # noqa: ANN401 - hostile on purpose
    try:
        return rfc8785.dumps(value)
    except ValueError:
        return None


def by_us(value: JsonValue) -> bytes | None:
    try:
        return canonicalize(value)
    except InputError:
        return None


@given(json_values())
def test_json_is_written_as_the_definition_writes_it(value: JsonValue) -> None:
    assert canonicalize(value) == by_the_definition(value)


@given(json_values(HOSTILE_SCALARS) | st.tuples(HOSTILE_SCALARS, HOSTILE_SCALARS))
def test_what_the_definition_refuses_is_refused(value: Any) -> None:  # noqa: ANN401
    assert by_us(value) == by_the_definition(value)


@pytest.mark.parametrize("key", [1, None, b"a", 1.5, ("a",)])
def test_keys_are_texts(key: object) -> None:
    with pytest.raises(InputError):
        canonicalize({key: 1})  # type: ignore[dict-item]


def test_deep_value_is_refused_and_does_not_crash() -> None:
    value: JsonValue = []
    for _ in range(100_000):
        value = [value]
    with pytest.raises(InputError):
        canonicalize(value)


def test_integer_too_long_to_be_written_is_refused() -> None:
    with pytest.raises(InputError):
        canonicalize([10**5000])


def test_integer_that_looks_like_a_float_to_the_fast_path() -> None:
    assert canonicalize([0xCB, 0xCBCB, -0x35]) == b"[203,52171,-53]"


class Sheet(msgspec.Struct, frozen=True, kw_only=True):
    zeta: str
    alpha: dict[str, str]
    omitted: tuple[int, ...]
    raw: msgspec.Raw


@given(
    TEXTS, st.dictionaries(TEXTS, TEXTS, max_size=5), st.lists(st.integers(-(2**53) + 1, 2**53 - 1))
)
def test_record_is_written_like_its_value(
    text: str, members: dict[str, str], numbers: list[int]
) -> None:
    sheet = Sheet(
        zeta=text, alpha=members, omitted=tuple(numbers), raw=msgspec.Raw(canonicalize(members))
    )
    value: JsonValue = {"zeta": text, "alpha": members, "omitted": numbers, "raw": members}
    assert canonical_record(sheet) == canonicalize(value) == by_the_definition(value)


def test_record_with_a_lone_surrogate_is_refused() -> None:
    sheet = Sheet(zeta="\udce9", alpha={}, omitted=(), raw=msgspec.Raw(b"{}"))
    with pytest.raises(InputError) as caught:
        canonical_record(sheet)
    assert caught.value.code is Code.INPUT_NOT_CANONICAL
