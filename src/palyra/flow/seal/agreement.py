# SPDX-License-Identifier: Apache-2.0
"""Whether the state agrees with the journal: what the entries say of calls, against the tables.

The tables are what the gate acts on, the entries what it may be asked about; whoever edits one
without the other is found here. Calls that have ended are looked up one by one, so memory grows
with runs and with calls under way, not with the journal.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import msgspec

from palyra.core.digest import content_sha256
from palyra.core.events import (
    ApprovalRequested,
    CallDecided,
    CallEnded,
    CallInterrupted,
    CallLaunched,
    Event,
)
from palyra.core.lifecycle import TERMINAL, CallState, is_permitted
from palyra.core.result import Ending, read_ending

if TYPE_CHECKING:
    from collections.abc import Iterator

    from palyra.core.ids import CallId
    from palyra.core.ports import CallRecord, JournalReader


class StateAgreement:
    """Follows the entries, then compares what they add up to with the tables."""

    def __init__(self) -> None:
        self._under_way: dict[str, CallState | None] = {}
        self._calls_of_run: Counter[str] = Counter()

    def follow(self, index: int, event: Event) -> str | None:  # noqa: ARG002 - one signature for all
        """Take up one entry; return what is impossible about it."""
        match event:
            case CallDecided():
                self._calls_of_run[event.run_id] += 1
                if event.call_id in self._under_way:
                    return "the call was decided twice"
                self._under_way[event.call_id] = None
            case ApprovalRequested():
                return self._advance(event.call_id, CallState.PENDING)
            case CallLaunched():
                return self._advance(event.call_id, CallState.LAUNCHED)
            case CallEnded() | CallInterrupted():
                return self._advance(
                    event.call_id, CallState(event.attestation.statement.outcome.state)
                )
            case _:
                pass
        return None

    def disagreements(self, reader: JournalReader) -> Iterator[tuple[int, str]]:
        """Yield where the tables differ from what the entries say, with the entry concerned."""
        for record in reader.calls():
            trouble = self._compare(record, reader)
            if trouble is not None:
                yield trouble
        for run_id, calls in reader.calls_of_runs():
            if calls != self._calls_of_run[run_id]:
                yield reader.size(), f"the budget of run {run_id} is not what its entries add up to"

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

    def _compare(self, record: CallRecord, reader: JournalReader) -> tuple[int, str] | None:
        if record.state not in TERMINAL:
            if self._under_way.get(record.call_id) is not record.state:
                return reader.size(), f"the state of call {record.call_id} is not the recorded one"
            return None
        for entry in reversed(reader.of_subject(record.call_id)):
            if entry.kind in (CallEnded.kind, CallInterrupted.kind):
                try:
                    event = msgspec.json.decode(entry.body, type=CallEnded)
                    ending = read_ending(record.ending)
                except msgspec.MsgspecError:
                    return entry.index, f"the ending of call {record.call_id} cannot be read"
                return _compare_ending(record, ending, event, entry.index)
        return reader.size(), f"call {record.call_id} has ended without an entry that says so"


def _compare_ending(
    record: CallRecord, ending: Ending, event: CallEnded, index: int
) -> tuple[int, str] | None:
    attested = event.attestation.statement.outcome
    if attested.state != record.state.value:
        return index, f"the state of call {record.call_id} is not the attested one"
    succeeded = ending.outcome if ending.outcome is not None and ending.outcome.ok else None
    output = bytes(succeeded.output) if succeeded is not None else b""
    if content_sha256(output) != attested.output_sha256:
        return index, f"the output of call {record.call_id} is not the attested one"
    return None
