# SPDX-License-Identifier: Apache-2.0
"""Identifiers: one ``NewType`` each, all of them ULIDs made from a given time and given entropy."""

from __future__ import annotations

from typing import NewType

CallId = NewType("CallId", str)
SessionId = NewType("SessionId", str)
RunId = NewType("RunId", str)
RequestId = NewType("RequestId", str)
ApprovalId = NewType("ApprovalId", str)
GrantId = NewType("GrantId", str)
PermitId = NewType("PermitId", str)
AttestationId = NewType("AttestationId", str)
InstanceId = NewType("InstanceId", str)
CredentialId = NewType("CredentialId", str)
KeyId = NewType("KeyId", str)
LogId = NewType("LogId", str)

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PAIRS = tuple(high + low for high in _ALPHABET for low in _ALPHABET)
_ULID_LENGTH = 26
_ENTROPY_BYTES = 10
_TIME_BITS = 48
_FIRST_CHARACTER_LIMIT = 8


def ulid(*, time_ms: int, entropy: bytes) -> str:
    """Return the ULID of a millisecond and ten random bytes: 26 characters that sort by time."""
    if len(entropy) != _ENTROPY_BYTES or not 0 <= time_ms < 1 << _TIME_BITS:
        raise ValueError("a ULID takes a 48-bit time and ten bytes of entropy")
    low = int.from_bytes(entropy, "big")
    pair = _PAIRS  # two characters for ten bits, spelled out: every call makes three of these
    return (
        f"{pair[time_ms >> 40]}{pair[time_ms >> 30 & 1023]}{pair[time_ms >> 20 & 1023]}"
        f"{pair[time_ms >> 10 & 1023]}{pair[time_ms & 1023]}"
        f"{pair[low >> 70]}{pair[low >> 60 & 1023]}{pair[low >> 50 & 1023]}"
        f"{pair[low >> 40 & 1023]}{pair[low >> 30 & 1023]}{pair[low >> 20 & 1023]}"
        f"{pair[low >> 10 & 1023]}{pair[low & 1023]}"
    )


def is_ulid(text: str) -> bool:
    """Say whether ``text`` is a ULID in its one canonical spelling (upper case, in range)."""
    return (
        len(text) == _ULID_LENGTH
        and text[0] in _ALPHABET[:_FIRST_CHARACTER_LIMIT]
        and all(character in _ALPHABET for character in text)
    )
