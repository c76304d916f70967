# SPDX-License-Identifier: Apache-2.0
"""Typed facts that a manifest draws from a call's arguments, for policy, risk and prompts (I2)."""

from __future__ import annotations

import msgspec


class Facts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a call is about to touch. Paths are as asked for, below the named workspace."""

    workspace: str | None = None
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    protected: tuple[str, ...] = ()
    size_bytes: int = 0
    duration_ms: int = 0


NO_FACTS = Facts()
