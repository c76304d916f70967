# SPDX-License-Identifier: Apache-2.0
"""The configuration that governs a call, frozen; its digest is in every decision it shaped."""

from __future__ import annotations

import msgspec

from palyra.core.canonical import canonical_record
from palyra.core.digest import SnapshotDigest, snapshot_digest


class ToolCallPolicySnapshot(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    tag_field="format",
    tag="palyra.snapshot.v1",
):
    """Every setting that can change what is decided or how it runs."""

    allowed_tools: tuple[str, ...]
    allowed_principals: tuple[str, ...] = ()
    """Who may call tools at all, as ``kind:name``; empty means everybody."""
    allowed_channels: tuple[str, ...] = ()
    """By which surfaces tools may be called; empty means by all."""
    allow_sensitive_tools: bool = False
    """Whether sensitive tools run without a human's agreement."""
    max_calls_per_run: int
    max_calls_per_session: int
    max_calls_per_agent_hour: int
    max_depth: int
    execution_timeout_ms: int

    @property
    def digest(self) -> SnapshotDigest:
        """Identify this configuration."""
        return snapshot_digest(canonical_record(self))
