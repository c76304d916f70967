# SPDX-License-Identifier: Apache-2.0
"""What can answer a question: an approval, a grant that covers the call, or a rejection."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from palyra.core.digest import CallDigest, ConsentDigest, PlanDigest, ViewDigest
from palyra.core.errors import Code
from palyra.core.ids import ApprovalId, GrantId
from palyra.core.principal import Principal


class Scope(StrEnum):
    """How far an answer reaches."""

    ONCE = "once"
    SESSION = "session"
    TIMEBOXED = "timeboxed"


class Approval(msgspec.Struct, frozen=True, kw_only=True):
    """A named operator agreed to one exact call under one exact plan (I4)."""

    approval_id: ApprovalId
    call_digest: CallDigest
    plan_digest: PlanDigest
    view_digest: ViewDigest
    consent_digest: ConsentDigest
    scope: Scope
    decided_by: Principal
    decided_at_ms: int
    expires_at_ms: int


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """A standing answer. Its shape is the exact call; wider shapes are named when they exist."""

    grant_id: GrantId
    approval_id: ApprovalId
    principal: Principal
    call_digest: CallDigest
    plan_digest: PlanDigest
    granted_by: Principal
    expires_at_ms: int


class Rejection(msgspec.Struct, frozen=True, kw_only=True):
    """The question was answered with no, could not be asked, or ran out of time."""

    code: Code
    reason: str
    approval_id: ApprovalId | None = None
    decided_by: Principal | None = None


class Pending(msgspec.Struct, frozen=True, kw_only=True):
    """The question is asked and durable; nothing is executable meanwhile (I5)."""

    approval_id: ApprovalId


Answer = Approval | Grant | Rejection
