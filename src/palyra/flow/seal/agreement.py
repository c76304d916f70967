# SPDX-License-Identifier: Apache-2.0
"""Whether the state agrees with the journal: what the entries say, against the tables.

The tables are what the gate acts on, the entries what it may be asked about; whoever edits one
without the other is found here. Rows are compared with their entries one by one, so memory grows
with runs, workspaces, rules and calls under way, not with the journal.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from palyra.core.attestation import OutcomeRecord
from palyra.core.digest import call_digest, content_sha256
from palyra.core.events import (
    ApprovalRequested,
    CallDecided,
    CallEnded,
    CallInterrupted,
    CallLaunched,
    CallRedecided,
    Event,
    RunOpened,
    SessionOpened,
    WorkspaceAdded,
    WorkspaceRemoved,
)
from palyra.core.lifecycle import TERMINAL, CallState, is_permitted
from palyra.core.result import NO_OUTPUT, Ending, OutcomeView, read_ending
from palyra.flow.seal.rules_agreement import RulesAgreement, Trouble

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from palyra.core.attestation import Statement
    from palyra.core.chain import Entry
    from palyra.core.ids import CallId
    from palyra.core.ports import CallRecord, JournalReader
    from palyra.core.proposal import Proposal
    from palyra.core.session import Run, Session

R = TypeVar("R", bound=msgspec.Struct)

_questions = msgspec.json.Decoder(ApprovalRequested)
_decided = msgspec.json.Decoder(CallDecided)
_ended = msgspec.json.Decoder(CallEnded)
_sessions = msgspec.json.Decoder(SessionOpened)
_runs = msgspec.json.Decoder(RunOpened)
_UNREADABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_LEADS_TO: Final = {
    ApprovalRequested.kind: CallState.PENDING,
    CallLaunched.kind: CallState.LAUNCHED,
}
_ENDINGS: Final = (CallEnded.kind, CallInterrupted.kind)


class StateAgreement:
    """Follows the entries, then compares what they add up to with the tables."""

    def __init__(self) -> None:
        self._under_way: dict[str, CallState | None] = {}
        self._charged: Counter[tuple[str, str]] = Counter()
        self._rows: Counter[str] = Counter()
        self._workspaces: dict[str, tuple[int, tuple[str, str]]] = {}
        self._rules = RulesAgreement()

    def follow(self, index: int, event: Event) -> str | None:
        """Take up one entry; return what is impossible about it."""
        about_rules = self._rules.follow(index, event)
        return self._follow_state(index, event) or about_rules

    def _follow_state(self, index: int, event: Event) -> str | None:
        match event:
            case CallDecided():
                return self._decide(event)
            case ApprovalRequested() | CallLaunched():
                return self._advance(event.call_id, _LEADS_TO[event.kind])
            case CallRedecided() if self._under_way.get(event.call_id) is not CallState.PENDING:
                return "a call that was not pending was decided again"
            case CallEnded() | CallInterrupted():
                return self._end(event)
            case SessionOpened() | RunOpened():
                self._rows[event.kind] += 1
            case WorkspaceAdded() | WorkspaceRemoved():
                return self._register(index, event)
            case _:
                pass
        return None

    def disagreements(self, reader: JournalReader) -> Iterator[Trouble]:
        """Yield where the tables differ from what the entries say, with the entry concerned."""
        yield from self._table(reader, CallDecided.kind, reader.calls, self._call_trouble)
        yield from self._table(reader, SessionOpened.kind, reader.sessions, _session_trouble)
        yield from self._table(reader, RunOpened.kind, reader.runs, _run_trouble)
        yield from self._workspace_troubles(reader)
        yield from self._budget_troubles(reader)
        yield from self._rules.disagreements(reader)

    def _decide(self, event: CallDecided) -> str | None:
        self._rows[event.kind] += 1
        self._charged["run", event.run_id] += 1
        self._charged["session", event.session_id] += 1
        self._charged["agent", event.principal] += 1
        if event.call_id in self._under_way:
            return "the call was decided twice"
        self._under_way[event.call_id] = None
        return None

    def _register(self, index: int, event: WorkspaceAdded | WorkspaceRemoved) -> str | None:
        was_there = self._workspaces.pop(event.name, None) is not None
        if isinstance(event, WorkspaceRemoved):
            return None if was_there else "the workspace was not there"
        self._workspaces[event.name] = index, (event.root, event.folder)
        return "the workspace was added twice" if was_there else None

    def _end(self, event: CallEnded | CallInterrupted) -> str | None:
        try:
            after = CallState(event.attestation.statement.outcome.state)
        except ValueError:
            return "the call ended in a state that there is not"
        return self._advance(event.call_id, after)

    def _advance(self, call_id: CallId, after: CallState) -> str | None:
        if call_id not in self._under_way:
            return "the call was not decided, or had ended before"
        before = self._under_way[call_id]
        if not is_permitted(before, after):
            return f"no call goes from {before or 'decided'} to {after}"
        if after in TERMINAL:
            del self._under_way[call_id]
        else:
            self._under_way[call_id] = after
        return None

    def _table(
        self,
        reader: JournalReader,
        kind: str,
        rows: Callable[[], Iterator[R | str]],
        compare: Callable[[R, Sequence[Entry]], Trouble | None],
    ) -> Iterator[Trouble]:
        """Compare every row of a table with its entries, then look for rows that are missing."""
        found = 0
        for row in rows():
            found += 1
            identifier = row if isinstance(row, str) else str(getattr(row, _KEYS[kind]))
            entries = reader.of_subject(identifier)
            if not any(entry.kind == kind for entry in entries):
                yield reader.size(), f"{identifier} is in the state, but no entry has brought it"
            elif isinstance(row, str):
                yield entries[-1].index, f"the state of {identifier} cannot be read"
            else:
                trouble = compare(row, entries)
                if trouble is not None:
                    yield trouble
        if found < self._rows[kind]:
            yield from _missing(reader, kind, rows)

    def _call_trouble(self, record: CallRecord, entries: Sequence[Entry]) -> Trouble | None:
        decision, last = _last(entries, CallDecided.kind), entries[-1]
        try:
            is_decided = _is_as_decided(record, _decided.decode(decision.body))
            if not is_decided or record.approval_id != _approval_id(entries):
                return decision.index, f"call {record.call_id} is not in the state as decided"
            what = self._state_trouble(record, last)
        except _UNREADABLE:
            return last.index, f"the record of call {record.call_id} cannot be read"
        if what is None:
            return None
        return last.index, f"{what} of call {record.call_id} is not the recorded one"

    def _state_trouble(self, record: CallRecord, last: Entry) -> str | None:
        if record.state not in TERMINAL:
            is_recorded = self._under_way.get(record.call_id) is record.state
            is_owned = record.state is CallState.LAUNCHED or record.owner is None
            return None if is_recorded and is_owned else "the state"
        if last.kind not in _ENDINGS:
            return "the end"
        ended = _ended.decode(last.body)
        difference = _difference(record, read_ending(record.ending), ended.attestation.statement)
        if difference is None and content_sha256(record.ending) != ended.ending_sha256:
            return "what was told"
        return difference

    def _workspace_troubles(self, reader: JournalReader) -> Iterator[Trouble]:
        left = dict(self._workspaces)
        for workspace in reader.workspaces():
            index, place = left.pop(workspace.name, (reader.size(), ("", "")))
            if place != (workspace.root, workspace.folder):
                yield index, f"workspace {workspace.name} is not registered as it was added"
        for name, (index, _) in left.items():
            yield index, f"workspace {name} is no longer registered, but was not removed"

    def _budget_troubles(self, reader: JournalReader) -> Iterator[Trouble]:
        left = dict(self._charged)
        for kind, name, calls in reader.charges():
            if calls != left.pop((kind, name), 0):
                yield reader.size(), f"the budget of {kind} {name} is not what its calls add up to"
        for kind, name in left:
            yield reader.size(), f"the budget of {kind} {name} is missing"


_KEYS: Final = {
    CallDecided.kind: "call_id",
    SessionOpened.kind: "session_id",
    RunOpened.kind: "run_id",
}


def _missing(
    reader: JournalReader, kind: str, rows: Callable[[], Iterator[R | str]]
) -> Iterator[Trouble]:
    """Yield the entries whose row is gone: a second reading, only once something is wrong."""
    present = {row if isinstance(row, str) else getattr(row, _KEYS[kind]) for row in rows()}
    for entry in reader.entries():
        if entry.kind == kind and entry.subject not in present:
            yield entry.index, f"{entry.subject} is no longer in the state"


def _last(entries: Sequence[Entry], kind: str) -> Entry:
    return next(entry for entry in reversed(entries) if entry.kind == kind)


def _session_trouble(session: Session, entries: Sequence[Entry]) -> Trouble | None:
    entry = _last(entries, SessionOpened.kind)
    try:
        opened = _sessions.decode(entry.body)
    except _UNREADABLE:
        return entry.index, f"the record of session {session.session_id} cannot be read"
    if (opened.principal, opened.credential_id) == (str(session.principal), session.credential_id):
        return None
    return entry.index, f"session {session.session_id} is not in the state as it was opened"


def _run_trouble(run: Run, entries: Sequence[Entry]) -> Trouble | None:
    entry = _last(entries, RunOpened.kind)
    try:
        opened = _runs.decode(entry.body)
    except _UNREADABLE:
        return entry.index, f"the record of run {run.run_id} cannot be read"
    if opened.session_id == run.session_id:
        return None
    return entry.index, f"run {run.run_id} is not in the state as it was opened"


def _is_as_decided(record: CallRecord, decided: CallDecided) -> bool:
    return (
        str(record.principal) == decided.principal
        and record.session_id == decided.session_id
        and record.run_id == decided.run_id
        and record.request_id == decided.request_id
        and record.call_digest == decided.call_digest
        and (record.kept_proposal is None or _is_kept(record.kept_proposal, decided))
    )


def _approval_id(entries: Sequence[Entry]) -> str | None:
    asked = (entry for entry in entries if entry.kind == ApprovalRequested.kind)
    question = next(asked, None)
    return _questions.decode(question.body).approval_id if question is not None else None


def _is_kept(proposal: Proposal, decided: CallDecided) -> bool:
    """Say whether what ``resume()`` would run is what was decided."""
    journaled = bytes(decided.arguments)
    digest = call_digest(
        tool=proposal.tool,
        version=proposal.tool_version,
        canonical_arguments=bytes(proposal.arguments),
    )
    # The digest over secrets takes a key that a verifier lacks: resume() computes that one anew.
    is_keyed = b'"$commitment":' in journaled or journaled.startswith(b'{"$elided":')
    return (
        proposal.call_id == decided.call_id
        and str(proposal.principal) == decided.principal
        and proposal.run_id == decided.run_id
        and bytes(proposal.journaled_arguments) == journaled
        and proposal.call_digest == decided.call_digest
        and (is_keyed or digest == decided.call_digest)
        and proposal.plan_digest == decided.plan_digest
    )


def _difference(record: CallRecord, ending: Ending, statement: Statement) -> str | None:
    """Name what the stored ending has otherwise than the attestation."""
    told = ending.outcome
    if statement.outcome.state != record.state.value:
        return "the state"
    if record.owner is not None or record.kept_proposal is not None:
        return "the owner or the proposal"  # of an ended call there is none
    if msgspec.json.encode(ending) != record.ending:
        return "the form of the end"
    is_attested = statement.permit is None if told is None else statement.permit is not None
    if told is not None:
        is_attested = is_attested and _outcome(told, record.state) == statement.outcome
    return None if is_attested else "the outcome"


def _outcome(told: OutcomeView, state: CallState) -> OutcomeRecord:
    """Return what would have been attested of an outcome that was told like this."""
    output = b"" if not told.ok and told.output == NO_OUTPUT else bytes(told.output)
    fits = (told.ok, told.timed_out) == (state is CallState.SUCCEEDED, state is CallState.TIMED_OUT)
    return OutcomeRecord(
        state=state.value if fits else "",
        output_sha256=content_sha256(output),
        output_bytes=len(output),
        error_code=told.error.code if told.error is not None else "",
        truncated=told.truncated,
        limit=told.limit or "",
        duration_ms=told.duration_ms,
    )
