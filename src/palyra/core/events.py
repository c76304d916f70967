# SPDX-License-Identifier: Apache-2.0
"""Every kind of journal entry, one type each. Only the flow and the store may name them (I8)."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, TypeVar

import msgspec

from palyra.core.attestation import Attestation, DecisionRecord, PermitRecord
from palyra.core.errors import Code, IntegrityError
from palyra.core.facts import Facts
from palyra.core.ids import CallId, CredentialId, KeyId, LogId, RunId, SessionId
from palyra.core.policy_request import PolicyRequest
from palyra.core.snapshot import ToolCallPolicySnapshot

if TYPE_CHECKING:
    from palyra.core.chain import Entry


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """The body of an entry; its canonical form is what is hashed."""

    kind: ClassVar[str]
    about: ClassVar[str] = "call_id"
    """The field that names the entry's subject."""

    @property
    def subject(self) -> str:
        """What the entry is about, as it can be looked up."""
        return str(getattr(self, self.about))


class LogOpened(Event, frozen=True, kw_only=True):
    """The first entry: which log this is, and whose signatures it carries."""

    kind: ClassVar[str] = "log.opened"
    about: ClassVar[str] = "log_id"
    log_id: LogId
    key_id: KeyId
    public_key: str


class ConfigApplied(Event, frozen=True, kw_only=True):
    """A configuration came into force; decisions refer to it by digest."""

    kind: ClassVar[str] = "config.applied"
    about: ClassVar[str] = "snapshot_digest"
    snapshot_digest: str
    policy_digest: str
    assurance: str
    snapshot: ToolCallPolicySnapshot


class SessionOpened(Event, frozen=True, kw_only=True):
    """A credential opened a session."""

    kind: ClassVar[str] = "session.opened"
    about: ClassVar[str] = "session_id"
    session_id: SessionId
    principal: str
    credential_id: CredentialId


class RunOpened(Event, frozen=True, kw_only=True):
    """A run began within a session."""

    kind: ClassVar[str] = "run.opened"
    about: ClassVar[str] = "run_id"
    run_id: RunId
    session_id: SessionId
    principal: str


class CallDecided(Event, frozen=True, kw_only=True):
    """What was proposed and what policy said."""

    kind: ClassVar[str] = "call.decided"
    call_id: CallId
    request_id: str | None
    principal: str
    session_id: SessionId
    run_id: RunId
    parent_call_id: CallId | None
    depth: int
    tool: str
    tool_version: str
    arguments: msgspec.Raw
    facts: Facts
    call_digest: str
    plan_digest: str
    request: PolicyRequest | None = None
    """What policy was asked; ``None`` where the call was refused before that."""
    decision: DecisionRecord


class CallRedecided(Event, frozen=True, kw_only=True):
    """What policy said of a pending call once its question was answered: that is what counted."""

    kind: ClassVar[str] = "call.redecided"
    call_id: CallId
    request: PolicyRequest | None
    decision: DecisionRecord


class ApprovalRequested(Event, frozen=True, kw_only=True):
    """A question was put to a human; the call waits and is not executable (I5)."""

    kind: ClassVar[str] = "approval.requested"
    call_id: CallId
    approval_id: str


class CallLaunched(Event, frozen=True, kw_only=True):
    """The intent, durable before the act (I7)."""

    kind: ClassVar[str] = "call.launched"
    call_id: CallId
    executor: str
    permit: PermitRecord


class PlannedChange(msgspec.Struct, frozen=True, kw_only=True):
    """One file's change: content digests before and after, empty where there is no file."""

    path: str
    before_sha256: str
    after_sha256: str
    mode: int


class EffectPlanned(Event, frozen=True, kw_only=True):
    """The exact changes about to be made to a workspace: what recovery finishes or undoes."""

    kind: ClassVar[str] = "effect.planned"
    call_id: CallId
    workspace: str
    staging: str
    changes: tuple[PlannedChange, ...]


class EffectRecovered(Event, frozen=True, kw_only=True):
    """What was done about a plan that a crash had left half applied."""

    kind: ClassVar[str] = "effect.recovered"
    call_id: CallId
    result: str
    paths: tuple[str, ...]
    kept: str = ""
    """The staging folder that still holds what was there before, after a conflict."""


class _Ended(Event, frozen=True, kw_only=True):
    call_id: CallId
    attestation: Attestation
    ending_sha256: str
    """Of what the store keeps beside the journal to tell the result again."""


class CallEnded(_Ended, frozen=True, kw_only=True):
    """The outcome and its signed attestation."""

    kind: ClassVar[str] = "call.ended"


class CallInterrupted(_Ended, frozen=True, kw_only=True):
    """A launch whose outcome nobody saw; found at the next start (I7)."""

    kind: ClassVar[str] = "call.interrupted"


class WorkspaceAdded(Event, frozen=True, kw_only=True):
    """A folder was registered as a workspace."""

    kind: ClassVar[str] = "workspace.added"
    about: ClassVar[str] = "name"
    principal: str
    name: str
    root: str
    folder: str
    """Which folder that is, whatever stands there later: ``device:inode``."""


class WorkspaceRemoved(Event, frozen=True, kw_only=True):
    """A workspace was removed; its files were not touched."""

    kind: ClassVar[str] = "workspace.removed"
    about: ClassVar[str] = "name"
    principal: str
    name: str


class PolicyStaged(Event, frozen=True, kw_only=True):
    """A policy pack was checked and may be activated; it is not in force."""

    kind: ClassVar[str] = "policy.staged"
    about: ClassVar[str] = "policy_digest"
    policy_digest: str
    principal: str
    preset: str
    policies: int
    sources: tuple[str, ...]


class PolicyActivated(Event, frozen=True, kw_only=True):
    """A policy pack came into force: every later decision rests on it."""

    kind: ClassVar[str] = "policy.activated"
    about: ClassVar[str] = "policy_digest"
    policy_digest: str
    before_digest: str
    """The pack it replaced; empty at the first start."""
    principal: str
    credential_id: CredentialId
    reason: str
    request: PolicyRequest | None
    decision: DecisionRecord | None
    """Why it was permitted; ``None`` at the first start, when there was nothing to decide by."""


class PostureChanged(Event, frozen=True, kw_only=True):
    """An operator changed their standing word about a tool."""

    kind: ClassVar[str] = "posture.changed"
    about: ClassVar[str] = "tool"
    tool: str
    scope: str
    scope_id: str
    before: str
    after: str
    """``always_allow``, ``ask_each_time``, ``disabled``; empty where nothing is set."""
    principal: str
    credential_id: CredentialId
    by_administrator: bool
    reason: str
    set_at_ms: int
    expires_at_ms: int | None
    request: PolicyRequest | None
    decision: DecisionRecord


class ActionRefused(Event, frozen=True, kw_only=True):
    """Policy did not permit somebody to manage something; nothing was changed."""

    kind: ClassVar[str] = "action.refused"
    about: ClassVar[str] = "action"
    action: str
    principal: str
    credential_id: CredentialId
    request: PolicyRequest | None
    decision: DecisionRecord


class FloodSuppressed(Event, frozen=True, kw_only=True):
    """A caller proposed faster than is journaled one by one; this counts what was dropped."""

    kind: ClassVar[str] = "flood.suppressed"
    about: ClassVar[str] = "principal"
    principal: str
    code: str
    count: int


EVENT_TYPES: dict[str, type[Event]] = {
    event.kind: event
    for event in (
        LogOpened,
        ConfigApplied,
        SessionOpened,
        RunOpened,
        CallDecided,
        CallRedecided,
        ApprovalRequested,
        CallLaunched,
        EffectPlanned,
        EffectRecovered,
        CallEnded,
        CallInterrupted,
        WorkspaceAdded,
        WorkspaceRemoved,
        PolicyStaged,
        PolicyActivated,
        PostureChanged,
        ActionRefused,
        FloodSuppressed,
    )
}

E = TypeVar("E", bound=Event)


def read_event(entry: Entry, kind: type[E]) -> E:
    """Return the event of an entry of a known kind.

    Raises:
        IntegrityError: the entry does not hold one.
    """
    try:
        return msgspec.json.decode(entry.body, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise IntegrityError(
            Code.JOURNAL_BROKEN, f"entry {entry.index} is not a {kind.kind} event"
        ) from error
