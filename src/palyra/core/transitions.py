# SPDX-License-Identifier: Apache-2.0
"""State changes with the entries that record them: each is one transaction, or nothing.

The store applies a transition, checks the state it starts from, and appends its events. A lost
race is a value (:class:`Admission`) or a ``StateConflictError``; it never half happens (I5, I7).
"""

from __future__ import annotations

import msgspec

from palyra.core.digest import CallDigest, PolicyDigest
from palyra.core.events import (
    ApprovalRequested,
    CallDecided,
    CallEnded,
    CallInterrupted,
    CallLaunched,
    CallRedecided,
    EffectPlanned,
    Event,
    PolicyActivated,
    PolicyStaged,
    PostureChanged,
    RunOpened,
    SessionOpened,
    WorkspaceAdded,
    WorkspaceRemoved,
)
from palyra.core.ids import ApprovalId, CallId, RequestId, RunId, SessionId
from palyra.core.lifecycle import CallState
from palyra.core.posture import PostureScope, PostureSetting
from palyra.core.principal import Principal
from palyra.core.proposal import Proposal
from palyra.core.session import BudgetLeft, BudgetLimits, Run, Session
from palyra.core.workspace import Workspace


class OpenSession(msgspec.Struct, frozen=True, kw_only=True):
    """Issue a session and its first run."""

    session: Session
    run: Run
    events: tuple[SessionOpened, RunOpened]


class OpenRun(msgspec.Struct, frozen=True, kw_only=True):
    """Issue another run within a session."""

    run: Run
    events: tuple[RunOpened]


class Admit(msgspec.Struct, frozen=True, kw_only=True):
    """Record a decided call, charge its budgets, and put it into its first state."""

    call_id: CallId
    principal: Principal
    session_id: SessionId
    run_id: RunId
    request_id: RequestId | None
    call_digest: CallDigest
    at_ms: int
    limits: BudgetLimits
    state: CallState
    """``LAUNCHED``, ``PENDING`` or ``DENIED``."""
    rules_version: int
    """The rules it was decided by: it is not launched once others are in force (I4)."""
    over_budget: bool = False
    """Record although the budget is exhausted: the call is refused for just that."""
    approval_id: ApprovalId | None = None
    kept_proposal: Proposal | None = None
    """What ``resume()`` needs, kept only while the call is pending."""
    ending: bytes = b""
    events: tuple[CallDecided | CallLaunched | ApprovalRequested | CallEnded, ...]


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """Take a pending call to launched: exactly one resumer wins (I5)."""

    call_id: CallId
    rules_version: int
    """The rules it was decided by: it is not launched once others are in force (I4)."""
    events: tuple[CallRedecided, CallLaunched]


class PlanEffect(msgspec.Struct, frozen=True, kw_only=True):
    """Record the changes a launched call is about to make."""

    call_id: CallId
    events: tuple[EffectPlanned]


class End(msgspec.Struct, frozen=True, kw_only=True):
    """Take a call to a terminal state with its attestation and ending."""

    call_id: CallId
    before: CallState
    after: CallState
    ending: bytes
    events: tuple[CallRedecided | CallEnded | CallInterrupted, ...]


class AddWorkspace(msgspec.Struct, frozen=True, kw_only=True):
    """Register a workspace."""

    workspace: Workspace
    events: tuple[WorkspaceAdded]


class RemoveWorkspace(msgspec.Struct, frozen=True, kw_only=True):
    """Forget a workspace."""

    name: str
    events: tuple[WorkspaceRemoved]


class StagePack(msgspec.Struct, frozen=True, kw_only=True):
    """Keep a checked policy pack, so that it can be activated by its digest."""

    policy_digest: PolicyDigest
    body: bytes
    at_ms: int
    events: tuple[PolicyStaged]


class ActivatePack(msgspec.Struct, frozen=True, kw_only=True):
    """Put a staged pack into force, if ``before`` still is the one in force."""

    policy_digest: PolicyDigest
    before: PolicyDigest | None
    """``None``: there is none yet."""
    rules_version: int | None = None
    """The rules that permitted it: if others are in force by now, nothing is changed (I4)."""
    events: tuple[PolicyActivated]


class SetPosture(msgspec.Struct, frozen=True, kw_only=True):
    """Set a posture, in place of any for the same tool and scope."""

    setting: PostureSetting
    before: PostureSetting | None
    """What the change was decided on: if it is no longer so, nothing is changed."""
    rules_version: int | None = None
    """The rules that permitted it: if others are in force by now, nothing is changed (I4)."""
    events: tuple[PostureChanged]


class ClearPosture(msgspec.Struct, frozen=True, kw_only=True):
    """Remove a posture."""

    tool: str
    scope: PostureScope
    scope_id: str
    before: PostureSetting
    """What the change was decided on: if it is no longer so, nothing is changed."""
    rules_version: int | None = None
    """The rules that permitted it: if others are in force by now, nothing is changed (I4)."""
    events: tuple[PostureChanged]


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """Record an event that changes no state."""

    events: tuple[Event, ...]


Transition = (
    OpenSession
    | OpenRun
    | Admit
    | Launch
    | PlanEffect
    | End
    | AddWorkspace
    | RemoveWorkspace
    | StagePack
    | ActivatePack
    | SetPosture
    | ClearPosture
    | Note
)


class Admitted(msgspec.Struct, frozen=True, kw_only=True):
    """The call was recorded; these are the budgets after it."""

    left: BudgetLeft


class Repeated(msgspec.Struct, frozen=True, kw_only=True):
    """The request id was used before, for the same content: this is that call."""

    call_id: CallId


class Conflicting(msgspec.Struct, frozen=True, kw_only=True):
    """The request id was used before, for other content."""

    call_id: CallId


class Exhausted(msgspec.Struct, frozen=True, kw_only=True):
    """A budget is used up; nothing was recorded."""

    left: BudgetLeft


class Flooded(msgspec.Struct, frozen=True, kw_only=True):
    """So many calls came after the budget was used up that they are only counted."""

    count: int


class Outdated(msgspec.Struct, frozen=True, kw_only=True):
    """Policies or postures have changed since the call was decided; nothing was recorded."""

    rules_version: int


Admission = Admitted | Repeated | Conflicting | Exhausted | Flooded | Outdated
