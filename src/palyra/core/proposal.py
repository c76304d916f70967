# SPDX-License-Identifier: Apache-2.0
"""What an agent asks for: first as it came, then as a proposal that every later stage refers to."""

from __future__ import annotations

import msgspec

from palyra.core.digest import CallDigest, PlanDigest
from palyra.core.errors import Code
from palyra.core.execution import Executor
from palyra.core.facts import Facts
from palyra.core.ids import CallId, CredentialId, RequestId, RunId, SessionId
from palyra.core.plan import SandboxPlan
from palyra.core.principal import Principal
from palyra.core.workspace import Workspace


class CallRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A call as the caller sent it. Nothing in it is trusted, least of all names."""

    tool: str
    raw_arguments: bytes
    run_id: RunId
    request_id: RequestId | None = None
    timeout_ms: int | None = None
    """May only shorten the configured time."""


class Proposal(msgspec.Struct, frozen=True, kw_only=True):
    """An authenticated agent, a known tool, schema-valid canonical arguments, and their digest."""

    call_id: CallId
    request_id: RequestId | None
    principal: Principal
    credential_id: CredentialId
    session_id: SessionId
    run_id: RunId
    parent_call_id: CallId | None
    depth: int
    tool: str
    tool_version: str
    capabilities: tuple[str, ...]
    is_sensitive: bool
    executor: Executor
    arguments: msgspec.Raw
    """Canonical JSON: what is hashed, decided and executed are these bytes."""
    journaled_arguments: msgspec.Raw
    """The same with secret fields as keyed commitments and long texts as digests."""
    facts: Facts
    workspace: Workspace | None
    channel: str = ""
    """The surface that the call came by."""
    plan: SandboxPlan = SandboxPlan()
    call_digest: CallDigest
    plan_digest: PlanDigest
    timeout_ms: int
    proposed_at_ms: int


class Malformed(msgspec.Struct, frozen=True, kw_only=True):
    """A call that never became a proposal: unknown tool, or input that does not fit."""

    call_id: CallId
    request_id: RequestId | None
    principal: Principal
    credential_id: CredentialId
    session_id: SessionId
    run_id: RunId
    parent_call_id: CallId | None
    depth: int
    tool: str
    tool_version: str
    call_digest: CallDigest
    """Of the raw bytes: enough to recognise a retry."""
    code: Code
    reason: str
    hint: str
    path: str
    proposed_at_ms: int
