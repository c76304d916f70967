# SPDX-License-Identifier: Apache-2.0
"""Typed facts that a manifest draws from a call's arguments, for policy, risk and prompts (I2)."""

from __future__ import annotations

from typing import Final

import msgspec

from palyra.core.canonical import canonicalize
from palyra.core.digest import content_sha256

MOST_ITEMS: Final = 64
LARGEST_FACTS_BYTES: Final = 16 * 1024


class Facts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a call is about to touch. Paths are as asked for, below the named workspace."""

    workspace: str | None = None
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    protected: tuple[str, ...] = ()
    outside: tuple[str, ...] = ()
    """Paths beyond the workspace, absolute."""
    executable: str = ""
    """The program's resolved path."""
    argv: tuple[str, ...] = ()
    """The program's arguments in order, the program itself first."""
    hosts: tuple[str, ...] = ()
    ports: tuple[int, ...] = ()
    methods: tuple[str, ...] = ()
    size_bytes: int = 0
    duration_ms: int = 0
    left_out: int = 0
    """How many items were left out of the lists: see :func:`bounded`.

    A rule about a list must take a call with any for one that may touch everything.
    """
    lists_sha256: str = ""
    """Where items were left out: of the canonical JSON object of the lists in full."""


NO_FACTS = Facts()
_LISTS: Final = ("protected", "outside", "writes", "reads", "hosts", "ports", "methods", "argv")
"""What is kept first where not all can be."""


def bounded(facts: Facts) -> Facts:
    """Return ``facts`` with at most 64 items in each list and 16 KiB in all (I13).

    Raises:
        ValueError: they are too large even without any list.
    """
    full: dict[str, tuple[str | int, ...]] = {name: getattr(facts, name) for name in _LISTS}
    if max(map(len, full.values())) <= MOST_ITEMS and _size(facts) <= LARGEST_FACTS_BYTES:
        return facts
    present = {name: items for name, items in full.items() if items}
    bare = msgspec.structs.replace(
        facts,
        **dict.fromkeys(present, ("",)),  # names and brackets count
        left_out=facts.left_out + sum(map(len, present.values())),
        lists_sha256=content_sha256(canonicalize(full)),
    )
    room_bytes = LARGEST_FACTS_BYTES - _size(bare)
    if room_bytes < 0:
        raise ValueError("the facts are too large without any list")
    kept: dict[str, tuple[str | int, ...]] = {}
    for name, items in present.items():
        taken: list[str | int] = []
        for item in items[:MOST_ITEMS]:
            room_bytes -= _size(item) + 1
            if room_bytes < 0:
                break
            taken.append(item)
        kept[name] = tuple(taken)
    left_out = bare.left_out - sum(map(len, kept.values()))
    return msgspec.structs.replace(bare, **kept, left_out=left_out)


def _size(value: object) -> int:
    return len(msgspec.json.encode(value))
