# SPDX-License-Identifier: Apache-2.0
"""Typed facts that a manifest draws from a call's arguments, for policy, risk and prompts (I2)."""

from __future__ import annotations

from typing import Final

import msgspec

from palyra.core.canonical import canonicalize
from palyra.core.digest import content_sha256

MOST_PATHS: Final = 64
LARGEST_FACTS_BYTES: Final = 16 * 1024


class Facts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a call is about to touch. Paths are as asked for, below the named workspace."""

    workspace: str | None = None
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    protected: tuple[str, ...] = ()
    size_bytes: int = 0
    duration_ms: int = 0
    more_paths: int = 0
    """How many paths were left out of the three lists: see :func:`bounded`.

    A rule about paths must take a call with any for one that may touch everything.
    """
    paths_sha256: str = ""
    """Where paths were left out: of the canonical JSON object of the three lists in full."""


NO_FACTS = Facts()


def bounded(facts: Facts) -> Facts:
    """Return ``facts`` with at most 64 paths in each list and 16 KiB in all (I13).

    Protected paths are kept before written ones, and those before read ones.

    Raises:
        ValueError: they are too large even without any path.
    """
    full = {"protected": facts.protected, "writes": facts.writes, "reads": facts.reads}
    if max(map(len, full.values())) <= MOST_PATHS and _size(facts) <= LARGEST_FACTS_BYTES:
        return facts
    bare = msgspec.structs.replace(
        facts,
        **dict.fromkeys(full, ("",)),  # names and brackets count
        more_paths=sum(map(len, full.values())),
        paths_sha256=content_sha256(canonicalize(full)),
    )
    room_bytes = LARGEST_FACTS_BYTES - _size(bare)
    if room_bytes < 0:
        raise ValueError("the facts are too large without any path")
    kept: dict[str, tuple[str, ...]] = {}
    for name, paths in full.items():
        taken = []
        for path in paths[:MOST_PATHS]:
            room_bytes -= _size(path) + 1
            if room_bytes < 0:
                break
            taken.append(path)
        kept[name] = tuple(taken)
    left_out = bare.more_paths - sum(map(len, kept.values()))
    return msgspec.structs.replace(bare, **kept, more_paths=left_out)


def _size(value: object) -> int:
    return len(msgspec.json.encode(value))
