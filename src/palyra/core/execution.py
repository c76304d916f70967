# SPDX-License-Identifier: Apache-2.0
"""What came of a launch: the outcome, and the confinement that was observed (I9)."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Final

import msgspec

from palyra.core.errors import Code
from palyra.core.ids import PermitId
from palyra.core.lifecycle import CallState


class Executor(StrEnum):
    """Who runs a call. ``POLICY`` is the executor of what was refused: nobody ran it."""

    BUILTIN = "builtin"
    WORKSPACE = "workspace"
    POLICY = "policy"


class Enforcement(StrEnum):
    """How far the network was confined, as the contract names it."""

    NONE = "none"
    PREFLIGHT = "preflight"
    STRICT = "strict"


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """Why a launched tool gave no result."""

    code: Code
    message: str
    details: dict[str, Any] = msgspec.field(default_factory=dict)


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """How a launched call ended."""

    state: CallState
    output: msgspec.Raw | None
    """Canonical JSON, valid under the tool's output schema; ``None`` unless it succeeded."""
    failure: Failure | None
    truncated: bool = False
    limit: str | None = None
    duration_ms: int = 0

    @property
    def ok(self) -> bool:
        """Whether the tool did what it was asked."""
        return self.state is CallState.SUCCEEDED


NOT_OBSERVED: Final = msgspec.Raw(b"{}")


class Execution(msgspec.Struct, frozen=True, kw_only=True):
    """One launch under one permit, and what was seen of it."""

    permit_id: PermitId
    executor: Executor
    enforcement: Enforcement
    observed: msgspec.Raw
    """Canonical JSON: what the kernel was seen to enforce, never a wish."""
    outcome: Outcome
    started_at_ms: int
    ended_at_ms: int
