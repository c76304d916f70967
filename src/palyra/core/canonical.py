# SPDX-License-Identifier: Apache-2.0
"""Canonical JSON (RFC 8785): JSON values in, the only bytes that are ever hashed or signed out.

The ``rfc8785`` package is the definition. ``orjson`` writes the same bytes some twenty times faster
for documents without floats whose text stays inside the Basic Multilingual Plane, so those take
the fast path; everything else goes to the definition. A fuzz test compares the two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import msgspec
import orjson

from palyra.core.errors import Code, InputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

JsonValue: TypeAlias = (
    "Mapping[str, JsonValue] | Sequence[JsonValue] | str | int | float | bool | None"
)

_FAST = (
    orjson.OPT_SORT_KEYS
    | orjson.OPT_STRICT_INTEGER
    | orjson.OPT_PASSTHROUGH_SUBCLASS
    | orjson.OPT_PASSTHROUGH_DATACLASS
    | orjson.OPT_PASSTHROUGH_DATETIME
)
_pack = msgspec.msgpack.Encoder().encode
_encode_record = msgspec.json.Encoder(order="sorted").encode
_dump = orjson.dumps
# MessagePack marks every float with this byte. Its absence proves that there is no float; its
# presence may also be a length or an integer, and then the definition decides.
_FLOAT_MARK = 0xCB
# UTF-8 lead bytes of characters beyond the BMP, where byte order and UTF-16 order part.
_BEYOND_BMP = (b"\xf0", b"\xf1", b"\xf2", b"\xf3", b"\xf4")


def canonicalize(value: JsonValue) -> bytes:
    """Return the RFC 8785 form of ``value``.

    Raises:
        InputError: ``value`` has no canonical form (a number out of range, a lone surrogate,
            a key that is not text, a type JSON does not have).
    """
    try:
        if _FLOAT_MARK not in _pack(value):
            text = _dump(value, None, _FAST)
            if text.isascii() or _is_within_bmp(text):
                return text
    except (TypeError, ValueError, OverflowError, RecursionError, NotImplementedError):
        pass  # The definition below gives the same answer, or the refusal.
    return _by_definition(value)


def canonical_record(record: msgspec.Struct) -> bytes:
    """Return the RFC 8785 form of one of our own records.

    Records hold no floats and no integers beyond 2^53 by their types, and foreign JSON only as
    ``msgspec.Raw`` that is canonical already; a fuzz test compares with :func:`canonicalize`.

    Raises:
        InputError: a text holds a lone surrogate, as the names of strange files do.
    """
    try:
        text = _encode_record(record)
    except UnicodeEncodeError as error:
        raise InputError(Code.INPUT_NOT_CANONICAL) from error
    if text.isascii() or _is_within_bmp(text):
        return text
    return _by_definition(msgspec.json.decode(text))


def _is_within_bmp(text: bytes) -> bool:
    return not any(lead in text for lead in _BEYOND_BMP)


def _by_definition(value: JsonValue) -> bytes:
    import rfc8785  # noqa: PLC0415 - rarely needed, and start-up time is a promise

    try:
        return rfc8785.dumps(value)
    except (ValueError, RecursionError) as error:  # its own errors are ValueErrors, among others
        raise InputError(Code.INPUT_NOT_CANONICAL) from error
