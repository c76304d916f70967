# SPDX-License-Identifier: Apache-2.0
"""The one decoder of untrusted JSON: bytes in, a value that every strict parser agrees on out.

Fast parsers let the last of two equal keys win and read large integers as floats, so what was
checked and what runs could differ. Here a document is taken from the fast parser only when writing
it back gives as many strings with the very same signs and numbers between them: then no duplicate
key was dropped and no number was changed, however the document is spaced and its texts are spelt.
Any other document is read by the careful parser, which refuses by name.
"""

from __future__ import annotations

import json
import math
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec
import orjson

from palyra.core.errors import Code, InputError

if TYPE_CHECKING:
    from palyra.core.canonical import JsonValue

LARGEST_INTEGER = 2**53 - 1
DEEPEST = 200
"""No limit goes deeper: the recursive parsers below would give up."""
_LONGEST_INTEGER = len(str(LARGEST_INTEGER)) + 1
_SHOWN_KEY_CHARACTERS = 64
_SPACES = b" \t\n\r"
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_STEPS = {**dict.fromkeys(b"[{", 1), **dict.fromkeys(b"]}", -1)}


class JsonLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How much untrusted JSON is read at the most (I13)."""

    max_bytes: int = 1 << 20
    max_depth: int = 32


def decode(raw: bytes, *, limits: JsonLimits) -> JsonValue:
    """Return the value of ``raw``, or refuse it.

    Raises:
        InputError: not JSON, a duplicate key, a number that is not finite or beyond 2^53 - 1,
            a lone surrogate, or larger or deeper than ``limits``.
    """
    if len(raw) > limits.max_bytes:
        raise InputError(
            Code.INPUT_TOO_LARGE,
            f"the input has {len(raw)} bytes, more than {limits.max_bytes}",
            details={"bytes": len(raw), "limit": limits.max_bytes},
        )
    deepest = min(limits.max_depth, DEEPEST)
    if raw.count(b"[") + raw.count(b"{") > deepest:
        _refuse_deep(raw, max_depth=deepest)
    try:
        value = orjson.loads(raw)
        written = orjson.dumps(value, option=orjson.OPT_STRICT_INTEGER)
        if written == raw or _between_strings(written) == _between_strings(raw):
            return value  # type: ignore[no-any-return]  # orjson.loads is typed Any
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        pass  # The careful parser says what is wrong.
    return _decode_carefully(raw)


def _decode_carefully(raw: bytes) -> JsonValue:
    try:
        value: JsonValue = json.loads(
            raw.decode("utf-8"),
            object_pairs_hook=_object_without_duplicates,
            parse_int=_integer,
            parse_float=_finite,
            parse_constant=_refuse_constant,
        )
    except UnicodeDecodeError as error:
        raise InputError(Code.INPUT_NOT_JSON, "the input is not UTF-8") from error
    except json.JSONDecodeError as error:
        raise InputError(
            Code.INPUT_NOT_JSON,
            f"the input is not JSON: line {error.lineno}, column {error.colno}",
            details={"line": error.lineno, "column": error.colno},
        ) from error
    try:
        orjson.dumps(value)
    except orjson.JSONEncodeError as error:
        raise InputError(Code.INPUT_SURROGATE) from error
    return value


def _object_without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        shown = ascii(twice[:_SHOWN_KEY_CHARACTERS])
        raise InputError(Code.INPUT_DUPLICATE_KEY, f"an object names the key {shown} twice")
    return members


def _integer(text: str) -> int:
    if len(text) > _LONGEST_INTEGER or abs(int(text)) > LARGEST_INTEGER:
        raise InputError(Code.INPUT_NUMBER)
    return int(text)


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise InputError(Code.INPUT_NUMBER)
    return number


def _refuse_constant(_: str) -> NoReturn:
    raise InputError(Code.INPUT_NUMBER)


def _between_strings(raw: bytes) -> bytes:
    """Return ``raw`` with each of its strings as one quote, and without the spaces between them.

    Exact up to the first byte that is not JSON, and no parser goes further than that.
    """
    if b"\\" in raw:
        raw = raw.replace(b"\\\\", b"__").replace(b'\\"', b"__")
    return b'"'.join(raw.split(b'"')[::2]).translate(None, _SPACES)


def _refuse_deep(raw: bytes, *, max_depth: int) -> None:
    """Refuse ``raw`` if it nests deeper than ``max_depth``, before any recursive parser sees it."""
    brackets = _between_strings(raw).translate(None, _NOT_BRACKETS)
    if max(accumulate(map(_STEPS.__getitem__, brackets)), default=0) > max_depth:
        raise InputError(
            Code.INPUT_TOO_DEEP,
            f"the input nests deeper than {max_depth} levels",
            details={"limit": max_depth},
        )
