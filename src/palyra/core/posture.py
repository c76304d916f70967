# SPDX-License-Identifier: Apache-2.0
"""Posture: an operator's standing word about one tool, apart from the policies (I1).

It can only make things stricter. Of all that is set for a call the most restrictive wins, whatever
its scope, so that nothing narrow ever lifts something wide.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

import msgspec

from palyra.core.principal import Principal

if TYPE_CHECKING:
    from collections.abc import Iterable


class Posture(StrEnum):
    """What is said of a tool. ``ALWAYS_ALLOW`` withdraws a question of posture's own, no other."""

    ALWAYS_ALLOW = "always_allow"
    ASK_EACH_TIME = "ask_each_time"
    DISABLED = "disabled"


_STRICTNESS: Final = {
    Posture.ALWAYS_ALLOW: 0,
    Posture.ASK_EACH_TIME: 1,
    Posture.DISABLED: 2,
}


class PostureScope(StrEnum):
    """For whom a posture holds."""

    GLOBAL = "global"
    WORKSPACE = "workspace"
    AGENT = "agent"
    SESSION = "session"


class PostureSetting(msgspec.Struct, frozen=True, kw_only=True):
    """One standing word: which tool, for whom, what, since when, by whom and why."""

    tool: str
    scope: PostureScope
    scope_id: str
    """The workspace's or agent's name, or the session's id; empty for ``GLOBAL``."""
    state: Posture
    reason: str
    set_by: Principal
    by_administrator: bool
    """Whether only an administrator may lift it."""
    set_at_ms: int
    expires_at_ms: int | None = None

    def holds_at(self, now_ms: int) -> bool:
        """Say whether it has not expired."""
        return self.expires_at_ms is None or now_ms < self.expires_at_ms


def strictest(settings: Iterable[PostureSetting], *, now_ms: int) -> Posture:
    """Return the most restrictive posture that holds now; without any, nothing is restricted."""
    return max(
        (setting.state for setting in settings if setting.holds_at(now_ms)),
        key=_STRICTNESS.__getitem__,
        default=Posture.ALWAYS_ALLOW,
    )
