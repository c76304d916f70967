# SPDX-License-Identifier: Apache-2.0
"""The configuration that governs a call, frozen; its digest is in every decision it shaped."""

from __future__ import annotations

import msgspec

from palyra.core.canonical import canonical_record
from palyra.core.digest import SnapshotDigest, snapshot_digest


class ToolCallPolicySnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """Every setting that can change what is decided or how it runs."""

    format: str = "palyra.snapshot.v1"
    allowed_tools: tuple[str, ...]
    max_calls_per_run: int
    max_calls_per_session: int
    max_calls_per_agent_hour: int
    max_depth: int
    execution_timeout_ms: int

    @property
    def digest(self) -> SnapshotDigest:
        """Identify this configuration."""
        return snapshot_digest(canonical_record(self))
