# SPDX-License-Identifier: Apache-2.0
"""How far a call would be confined: what policy sees of its plan, and what the executor gives."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

ANYWHERE: Final = "*"
"""Stands for every host or every secret where nothing narrows them down."""


class Tier(StrEnum):
    """What confines a call. ``NONE``: nothing does, it runs in the gate's own process."""

    NONE = "none"
    B = "b"
    C = "c"
    A = "a"


class SandboxPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What a call may reach once it runs; in tier ``NONE``, what the tool declares."""

    tier: Tier = Tier.NONE
    egress: tuple[str, ...] = ()
    """Hosts it may reach; :data:`ANYWHERE` where nothing narrows them down."""
    writes: tuple[str, ...] = ()
    """Workspaces in which its changes last."""
    secrets: tuple[str, ...] = ()
    """Secrets it may read, by name; :data:`ANYWHERE` where nothing narrows them down."""
