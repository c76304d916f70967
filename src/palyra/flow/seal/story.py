# SPDX-License-Identifier: Apache-2.0
"""The story of one call: its journal entries in, what happened in order out. Decides nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from palyra.core.attestation import DecisionRecord, PermitRecord, Statement
from palyra.core.errors import MEANINGS, Code, NotFoundError
from palyra.core.events import (
    ApprovalRequested,
    CallDecided,
    CallEnded,
    CallInterrupted,
    CallLaunched,
    CallRedecided,
    EffectPlanned,
    EffectRecovered,
    read_event,
)
from palyra.core.facts import Facts
from palyra.core.ids import CallId, RunId, SessionId

if TYPE_CHECKING:
    from palyra.core.chain import Entry
    from palyra.core.ports import JournalReader


class Redecided(msgspec.Struct, frozen=True, kw_only=True):
    """What policy said once the question was answered."""

    entry: int
    at_ms: int
    decision: DecisionRecord


class Launched(msgspec.Struct, frozen=True, kw_only=True):
    """The intent, as it was recorded before the act."""

    entry: int
    at_ms: int
    executor: str
    permit: PermitRecord


class Changed(msgspec.Struct, frozen=True, kw_only=True):
    """One file that was to change; digests are empty where there was or is no file."""

    path: str
    before_sha256: str
    after_sha256: str


class Effect(msgspec.Struct, frozen=True, kw_only=True):
    """The changes a call planned to a workspace."""

    entry: int
    at_ms: int
    workspace: str
    changes: tuple[Changed, ...]


class Recovery(msgspec.Struct, frozen=True, kw_only=True):
    """What was done later about a plan that a crash had left half applied."""

    entry: int
    at_ms: int
    result: str
    paths: tuple[str, ...]


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """How it ended, as it was signed."""

    entry: int
    at_ms: int
    statement: Statement


class Story(msgspec.Struct, frozen=True, kw_only=True):
    """Everything the journal holds of one call."""

    call_id: CallId
    tool: str
    tool_version: str
    principal: str
    session_id: SessionId
    run_id: RunId
    request_id: str | None
    parent_call_id: CallId | None
    depth: int
    arguments: msgspec.Raw
    """As journaled: secret fields and long texts are digests."""
    facts: Facts
    entry: int
    at_ms: int
    decision: DecisionRecord
    approval_id: str | None
    redecided: Redecided | None
    launched: Launched | None
    effects: tuple[Effect, ...]
    recoveries: tuple[Recovery, ...]
    ended: Ended | None

    @property
    def code(self) -> str:
        """The code that settled the call: of its end where that has one, else of its decision."""
        if self.ended is not None and self.ended.statement.outcome.error_code:
            return self.ended.statement.outcome.error_code
        return self.decision.code

    @property
    def hint(self) -> str:
        """What would change the answer; nothing for a code that a newer Palyra wrote."""
        return next((MEANINGS[code].hint for code in Code if code.value == self.code), "")

    @property
    def is_refused_or_failed(self) -> bool:
        """Whether it ended, and not as its caller wished."""
        return self.ended is not None and self.ended.statement.outcome.state != "succeeded"


def tell(call_id: str, *, journal: JournalReader) -> Story:
    """Return the story of a call.

    Raises:
        NotFoundError: the journal holds no such call.
        IntegrityError: an entry is not what its kind says.
    """
    entries = journal.of_subject(call_id)
    decided = next((entry for entry in entries if entry.kind == CallDecided.kind), None)
    if decided is None:
        raise NotFoundError(Code.CALL_UNKNOWN)
    event = read_event(decided, CallDecided)
    approval_id: str | None = None
    redecided: Redecided | None = None
    launched: Launched | None = None
    ended: Ended | None = None
    effects: list[Effect] = []
    recoveries: list[Recovery] = []
    for entry in entries:
        match entry.kind:
            case ApprovalRequested.kind:
                approval_id = read_event(entry, ApprovalRequested).approval_id
            case CallRedecided.kind:
                redecided = _redecided(entry)
            case CallLaunched.kind:
                launched = _launched(entry)
            case EffectPlanned.kind:
                effects.append(_effect(entry))
            case EffectRecovered.kind:
                recoveries.append(_recovery(entry))
            case CallEnded.kind:
                ended = _ended(entry, read_event(entry, CallEnded))
            case CallInterrupted.kind:
                ended = _ended(entry, read_event(entry, CallInterrupted))
            case _:
                pass  # the decision itself, read above
    return Story(
        call_id=event.call_id,
        tool=event.tool,
        tool_version=event.tool_version,
        principal=event.principal,
        session_id=event.session_id,
        run_id=event.run_id,
        request_id=event.request_id,
        parent_call_id=event.parent_call_id,
        depth=event.depth,
        arguments=event.arguments,
        facts=event.facts,
        entry=decided.index,
        at_ms=decided.recorded_at_ms,
        decision=event.decision,
        approval_id=approval_id,
        redecided=redecided,
        launched=launched,
        effects=tuple(effects),
        recoveries=tuple(recoveries),
        ended=ended,
    )


def _redecided(entry: Entry) -> Redecided:
    again = read_event(entry, CallRedecided)
    return Redecided(entry=entry.index, at_ms=entry.recorded_at_ms, decision=again.decision)


def _launched(entry: Entry) -> Launched:
    launched = read_event(entry, CallLaunched)
    return Launched(
        entry=entry.index,
        at_ms=entry.recorded_at_ms,
        executor=launched.executor,
        permit=launched.permit,
    )


def _effect(entry: Entry) -> Effect:
    planned = read_event(entry, EffectPlanned)
    changes = tuple(
        Changed(
            path=change.path,
            before_sha256=change.before_sha256,
            after_sha256=change.after_sha256,
        )
        for change in planned.changes
    )
    return Effect(
        entry=entry.index,
        at_ms=entry.recorded_at_ms,
        workspace=planned.workspace,
        changes=changes,
    )


def _recovery(entry: Entry) -> Recovery:
    recovered = read_event(entry, EffectRecovered)
    return Recovery(
        entry=entry.index,
        at_ms=entry.recorded_at_ms,
        result=recovered.result,
        paths=recovered.paths,
    )


def _ended(entry: Entry, event: CallEnded | CallInterrupted) -> Ended:
    return Ended(
        entry=entry.index,
        at_ms=entry.recorded_at_ms,
        statement=event.attestation.statement,
    )
