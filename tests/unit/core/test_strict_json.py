# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palyra.core.errors import Code, InputError
from palyra.core.strict_json import DEEPEST, JsonLimits, _decode_carefully, decode
from tests.support.json_values import FLOATS, INTEGERS, TEXTS, json_values

if TYPE_CHECKING:
    from palyra.core.canonical import JsonValue

LIMITS = JsonLimits()


def refusal(raw: bytes, limits: JsonLimits = LIMITS) -> InputError:
    with pytest.raises(InputError) as caught:
        decode(raw, limits=limits)
    return caught.value


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        (b"{}", {}),
        (b" { } ", {}),
        (b'{"a":1}', {"a": 1}),
        (b'{ "a" : [ 1 , 2.50 , true , null ] }', {"a": [1, 2.5, True, None]}),
        (b'"\\u00e9\\n\\/"', "\u00e9\n/"),
        (b'"\\ud83d\\ude00"', "\U0001f600"),
        (b"9007199254740991", 2**53 - 1),
        (b"-9007199254740991", -(2**53) + 1),
        (b"-0", 0),
        (b"-0.0", -0.0),
        (b"1e5", 100_000.0),
        (b"1E-400", 0.0),
        (b'{"a":{"b":1},"c":{"b":1}}', {"a": {"b": 1}, "c": {"b": 1}}),
        (b'{"[{[{":"]\\"}]"}', {"[{[{": ']"}]'}),
        ("\u2028\U0001f600".join('""').encode(), "\u2028\U0001f600"),
    ],
)
def test_sound_documents(raw: bytes, value: object) -> None:
    decoded = decode(raw, limits=LIMITS)
    assert decoded == value
    assert type(decoded) is type(value)


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        pytest.param(b"", Code.INPUT_NOT_JSON, id="nothing"),
        pytest.param(b"{", Code.INPUT_NOT_JSON, id="cut-short"),
        pytest.param(b"{} {}", Code.INPUT_NOT_JSON, id="two-documents"),
        pytest.param(b"{'a':1}", Code.INPUT_NOT_JSON, id="single-quotes"),
        pytest.param(b'{"a":1,}', Code.INPUT_NOT_JSON, id="trailing-comma"),
        pytest.param(b"[1] // x", Code.INPUT_NOT_JSON, id="comment"),
        pytest.param(b"01", Code.INPUT_NOT_JSON, id="leading-zero"),
        pytest.param(b"+1", Code.INPUT_NOT_JSON, id="plus-sign"),
        pytest.param(b".5", Code.INPUT_NOT_JSON, id="bare-fraction"),
        pytest.param(b"0x10", Code.INPUT_NOT_JSON, id="hexadecimal"),
        pytest.param(b'"\\x41"', Code.INPUT_NOT_JSON, id="odd-escape"),
        pytest.param(b'"a\nb"', Code.INPUT_NOT_JSON, id="raw-newline"),
        pytest.param(b'"a\x00b"', Code.INPUT_NOT_JSON, id="raw-null"),
        pytest.param(b"\xef\xbb\xbf{}", Code.INPUT_NOT_JSON, id="byte-order-mark"),
        pytest.param(b'"\xff"', Code.INPUT_NOT_JSON, id="not-utf-8"),
        pytest.param(b'"\xc0\xaf"', Code.INPUT_NOT_JSON, id="overlong-utf-8"),
        pytest.param(b'"\xed\xa0\x80"', Code.INPUT_NOT_JSON, id="surrogate-in-utf-8"),
        pytest.param("{}".encode("utf-16"), Code.INPUT_NOT_JSON, id="utf-16"),
        pytest.param(b'{"a":1,"a":1}', Code.INPUT_DUPLICATE_KEY, id="twice-the-same"),
        pytest.param(b'{"a":1,"\\u0061":2}', Code.INPUT_DUPLICATE_KEY, id="twice-in-disguise"),
        pytest.param(b'{"a":1,"b":2,"a":3}', Code.INPUT_DUPLICATE_KEY, id="twice-apart"),
        pytest.param(b'{ "a": 1,\n "a": 1 }', Code.INPUT_DUPLICATE_KEY, id="twice-spaced"),
        pytest.param(b'{"\\\\":1, "\\\\":2}', Code.INPUT_DUPLICATE_KEY, id="twice-a-backslash"),
        pytest.param(b'{"\\"":1, "\\"":2}', Code.INPUT_DUPLICATE_KEY, id="twice-a-quote"),
        pytest.param(b'[{"x":[{"a":1,"a":1}]}]', Code.INPUT_DUPLICATE_KEY, id="twice-deep-down"),
        pytest.param(b'{"":1,"":1}', Code.INPUT_DUPLICATE_KEY, id="twice-the-empty-key"),
        pytest.param(b"NaN", Code.INPUT_NUMBER, id="nan"),
        pytest.param(b"[Infinity]", Code.INPUT_NUMBER, id="infinity"),
        pytest.param(b"[-Infinity]", Code.INPUT_NUMBER, id="minus-infinity"),
        pytest.param(b"1e400", Code.INPUT_NUMBER, id="a-float-too-large"),
        pytest.param(b"-1e400", Code.INPUT_NUMBER, id="a-float-too-small"),
        pytest.param(b"9007199254740992", Code.INPUT_NUMBER, id="2^53"),
        pytest.param(b"-9007199254740992", Code.INPUT_NUMBER, id="-2^53"),
        pytest.param(b'[ "\\"", 9007199254740993 ]', Code.INPUT_NUMBER, id="2^53-spaced"),
        pytest.param(b"18446744073709551616", Code.INPUT_NUMBER, id="2^64"),
        pytest.param(b"9" * 100_000, Code.INPUT_NUMBER, id="a-huge-integer"),
        pytest.param(b'"\\ud800"', Code.INPUT_SURROGATE, id="half-a-pair"),
        pytest.param(b'"\\ude00\\ud83d"', Code.INPUT_SURROGATE, id="a-pair-the-wrong-way"),
        pytest.param(b'{"\\udc00":1}', Code.INPUT_SURROGATE, id="half-a-pair-in-a-key"),
    ],
)
def test_hostile_documents_are_refused_by_name(raw: bytes, code: Code) -> None:
    assert refusal(raw).code is code


def test_place_of_the_fault_is_named() -> None:
    error = refusal(b'{\n "a": x}')
    assert error.message == "the input is not JSON: line 2, column 7"
    assert error.details == {"line": 2, "column": 7}


def test_duplicate_key_is_shown_short_and_escaped() -> None:
    key = "\u202e" + "x" * 1000
    error = refusal(json.dumps({"a": 0})[:-1].encode() + f',"{key}":1,"{key}":2}}'.encode())
    assert error.message == f"an object names the key '\\u202e{'x' * 63}' twice"


def test_values_are_never_shown() -> None:
    for raw in (b'{"a":"hunter2","a":"hunter2"}', b'{"a":"hunter2",}', b'["hunter2",NaN]'):
        assert "hunter2" not in str(refusal(raw))


@pytest.mark.invariant("I13")
def test_size_has_a_bound() -> None:
    limits = JsonLimits(max_bytes=8)
    assert decode(b'"123456"', limits=limits) == "123456"
    error = refusal(b'"1234567"', limits)
    assert error.code is Code.INPUT_TOO_LARGE
    assert error.details == {"bytes": 9, "limit": 8}


@pytest.mark.invariant("I13")
@pytest.mark.parametrize(
    ("raw", "too_deep"),
    [
        (b"[[1]]", False),
        (b"[[[1]]]", True),
        (b'{"a":{"b":1}}', False),
        (b'{"a":{"b":{}}}', True),
        (b'{"a":[{}]}', True),
        (b"[[],[],[],[]]", False),
        (b'["[[[[", "\\"[[[["]', False),
        (b'["\\\\",[["]"]]]', True),
        (b"[" * 100_000, True),
        (b'"' + b'\\"' * 100 + b"[" * 100 + b'"', False),
        (b'{"a":' * 100_000, True),
    ],
)
def test_depth_has_a_bound(raw: bytes, *, too_deep: bool) -> None:
    limits = JsonLimits(max_depth=2)
    if too_deep:
        error = refusal(raw, limits)
        assert error.code is Code.INPUT_TOO_DEEP
        assert error.details == {"limit": 2}
    else:
        assert decode(raw, limits=limits) == json.loads(raw)


def test_no_limit_is_deeper_than_the_parsers_can_go() -> None:
    limits = JsonLimits(max_depth=10**9)
    deepest = b"[ " * DEEPEST + b"]" * DEEPEST
    assert decode(deepest, limits=limits) == json.loads(deepest)
    assert refusal(b"[" + deepest + b"]", limits).code is Code.INPUT_TOO_DEEP


SPACES = st.text(" \t\r\n", max_size=2)


@st.composite
def spellings(draw: st.DrawFn, values: st.SearchStrategy[Any]) -> tuple[bytes, Any]:
    """Draw a JSON value and one of the many ways to spell it."""

    def spelt_text(text: str) -> str:
        characters = [
            json.dumps(character)[1:-1] if draw(st.booleans()) or character < " " else character
            for character in text
        ]
        return '"' + "".join(json.dumps(c)[1:-1] if c in '"\\' else c for c in characters) + '"'

    def spelt(value: object) -> str:
        space = draw(SPACES)
        if isinstance(value, dict):
            members = (f"{spelt_text(k)}{space}:{spelt(v)}" for k, v in value.items())
            return f"{space}{{{','.join(members)}{space}}}"
        if isinstance(value, list):
            return f"[{space}{','.join(map(spelt, value))}]{space}"
        if isinstance(value, str):
            return spelt_text(value)
        return f"{space}{json.dumps(value)}{space}"

    value = draw(values)
    return spelt(value).encode(), value


@given(spellings(json_values()))
def test_any_spelling_gives_the_same_value(drawn: tuple[bytes, JsonValue]) -> None:
    raw, value = drawn
    assert decode(raw, limits=LIMITS) == json.loads(raw) == value


@given(json_values(), st.sampled_from([None, 1, 4]), st.booleans())
def test_fast_and_careful_path_agree(
    value: JsonValue,
    indent: int | None,
    ensure_ascii: bool,  # noqa: FBT001 - drawn
) -> None:
    raw = json.dumps(value, indent=indent, ensure_ascii=ensure_ascii).encode()
    decoded = decode(raw, limits=LIMITS)
    assert decoded == _decode_carefully(raw)
    assert repr(decoded) == repr(json.loads(raw))


@given(
    st.dictionaries(TEXTS, INTEGERS | FLOATS, min_size=1, max_size=4),
    st.data(),
    st.integers(min_value=0, max_value=3),
)
def test_duplicate_is_found_at_any_depth(
    members: dict[str, float], data: st.DataObject, depth: int
) -> None:
    twice = data.draw(st.sampled_from(sorted(members)))
    pairs = [*members.items(), (twice, data.draw(INTEGERS))]
    text = ",".join(f"{json.dumps(key)}:{json.dumps(value)}" for key, value in pairs)
    raw = '[{"a":' * depth + "{" + text + "}" + "}]" * depth
    assert refusal(raw.encode()).code is Code.INPUT_DUPLICATE_KEY


FRAGMENTS = st.lists(
    st.sampled_from(
        [
            *(b"{", b"}", b"[", b"]", b",", b":", b'"', b"'", b"\\", b" ", b"\n", b"\x00", b"\xff"),
            *(b'"a"', b'"\\u0061"', b"\\ud800", b"\xf0\x9f\x98\x80", b"true", b"null", b"NaN"),
            *(b"1", b"-", b"0", b".", b"e", b"9007199254740993", b"1e999", b"1e-999"),
        ]
    ),
    max_size=12,
).map(b"".join)
NOT_JSON_TO_ANYONE = {Code.INPUT_NOT_JSON, Code.INPUT_SURROGATE}


def by_orjson(raw: bytes) -> tuple[Any] | None:
    try:
        return (orjson.loads(raw),)
    except orjson.JSONDecodeError:
        return None


def by_us(raw: bytes) -> tuple[Any] | Code:
    try:
        return (decode(raw, limits=LIMITS),)
    except InputError as error:
        return error.code


@given(FRAGMENTS | st.binary(max_size=16))
def test_acceptance_is_that_of_orjson_less_what_we_refuse(raw: bytes) -> None:
    ours, theirs = by_us(raw), by_orjson(raw)
    if theirs is None:
        assert not isinstance(ours, tuple)
    elif isinstance(ours, tuple):
        assert ours == theirs
    else:
        assert ours not in NOT_JSON_TO_ANYONE
