# SPDX-License-Identifier: Apache-2.0
"""The one decoder of untrusted JSON: bytes in, a value that every strict parser agrees on out.

Fast parsers let the last of two equal keys win and read large integers as floats, so what was
checked and what runs could differ. Here a document is taken from the fast parser only when writing
it back gives the very same bytes: then it had no duplicate key, no lossy number and no odd
spelling. Any other document is read by the careful parser, which refuses by name.
"""

from __future__ import annotations

import json
import math
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
_BACKSLASH, _QUOTE = b'\\"'


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
        if orjson.dumps(value, option=orjson.OPT_STRICT_INTEGER) == raw:
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


def _refuse_deep(raw: bytes, *, max_depth: int) -> None:
    """Refuse ``raw`` if it nests deeper than ``max_depth``, before any recursive parser sees it."""
    depth = 0
    in_string = False
    position = 0
    while position < len(raw):
        byte = raw[position]
        if in_string:
            if byte == _BACKSLASH:  # it also takes the next byte
                position += 1
            elif byte == _QUOTE:
                in_string = False
        elif byte == _QUOTE:
            in_string = True
        elif byte in b"[{":
            depth += 1
            if depth > max_depth:
                raise InputError(
                    Code.INPUT_TOO_DEEP,
                    f"the input nests deeper than {max_depth} levels",
                    details={"limit": max_depth},
                )
        elif byte in b"]}":
            depth -= 1
        position += 1
