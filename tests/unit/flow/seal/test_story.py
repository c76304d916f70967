# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from palyra.core.chain import Entry
from palyra.core.errors import MEANINGS, Code, IntegrityError, NotFoundError
from palyra.core.events import (
    ApprovalRequested,
    CallDecided,
    CallInterrupted,
    EffectPlanned,
    EffectRecovered,
    Event,
    PlannedChange,
)
from palyra.core.obligations import Obligations
from palyra.daemon.embedded import EmbeddedGate
from palyra.flow.seal.story import Changed, Effect, Recovery, Story, tell
from palyra.store.sqlite.ledger import Archive

if TYPE_CHECKING:
    from pathlib import Path

    from palyra.core.ids import CallId
    from palyra.core.ports import JournalReader


class Journal:
    """The entries of one call, and nothing else."""

    def __init__(self, entries: tuple[Entry, ...]) -> None:
        self.entries = entries

    def of_subject(self, subject: str) -> tuple[Entry, ...]:
        return tuple(entry for entry in self.entries if entry.subject == subject)

    def plus(self, *events: Event) -> Journal:
        more = tuple(
            Entry(
                index=100 + place,
                recorded_at_ms=1000,
                kind=event.kind,
                subject=event.subject,
                body=msgspec.json.encode(event),
                link=b"",
            )
            for place, event in enumerate(events)
        )
        return Journal((*self.entries, *more))

    def without(self, kind: str) -> Journal:
        return Journal(tuple(entry for entry in self.entries if entry.kind != kind))

    def tell(self, call_id: str) -> Story:
        reader: JournalReader = self  # type: ignore[assignment]  # of which one method is used
        return tell(call_id, journal=reader)


async def recorded(home: Path, tool: str, arguments: bytes) -> tuple[CallId, Journal]:
    async with EmbeddedGate.open(home, environ={}) as gate:
        result = await gate.call(tool, arguments, agent="demo", request_id="r")
    assert result.call_id is not None
    archive = Archive(home, busy_timeout_ms=1000)
    try:
        return result.call_id, Journal(archive.of_subject(result.call_id))
    finally:
        archive.close()


async def test_a_call_that_succeeded(tmp_path: Path) -> None:
    call_id, journal = await recorded(tmp_path / "state", "palyra.echo", b'{"text":"hi"}')
    story = journal.tell(call_id)
    assert (story.tool, story.principal, story.request_id) == ("palyra.echo", "agent:demo", "r")
    assert bytes(story.arguments) == b'{"text":"hi"}'
    assert story.launched is not None
    assert story.ended is not None
    assert story.entry < story.launched.entry < story.ended.entry
    assert (story.code, story.is_refused_or_failed) == ("tool.allowlisted", False)
    assert (story.effects, story.recoveries, story.approval_id) == ((), (), None)


async def test_the_decision_is_told_with_what_it_demands(tmp_path: Path) -> None:
    call_id, journal = await recorded(tmp_path / "state", "palyra.echo", b'{"text":"hi"}')
    first = journal.entries[0]
    decided = msgspec.json.decode(first.body, type=CallDecided)
    assert decided.request is not None
    assert str(decided.request.resource) == 'Tool::"palyra.echo"'
    demand = Obligations(max_output_bytes=100)
    record = msgspec.structs.replace(decided.decision, obligations=demand)
    body = msgspec.json.encode(msgspec.structs.replace(decided, decision=record))
    obliged = Journal((msgspec.structs.replace(first, body=body), *journal.entries[1:]))
    assert obliged.tell(call_id).decision == record


async def test_a_call_that_was_refused(tmp_path: Path) -> None:
    call_id, journal = await recorded(tmp_path / "state", "palyra.echo", b"[]")
    story = journal.tell(call_id)
    assert (story.launched, story.is_refused_or_failed) == (None, True)
    assert (story.code, story.hint) == ("input.invalid", MEANINGS[Code.INPUT_INVALID].hint)


async def test_a_call_that_waits(tmp_path: Path) -> None:
    call_id, journal = await recorded(tmp_path / "state", "palyra.echo", b'{"text":"hi"}')
    waiting = journal.without("call.ended").without("call.launched")
    story = waiting.plus(ApprovalRequested(call_id=call_id, approval_id="A")).tell(call_id)
    assert (story.approval_id, story.launched, story.ended) == ("A", None, None)
    assert not story.is_refused_or_failed


async def test_a_call_that_a_crash_cut_off(tmp_path: Path) -> None:
    call_id, journal = await recorded(tmp_path / "state", "palyra.echo", b'{"text":"hi"}')
    ended = msgspec.json.decode(journal.entries[-1].body, type=CallInterrupted)
    change = PlannedChange(path="a", before_sha256="", after_sha256="x", mode=0o644)
    story = (
        journal.without("call.ended")
        .plus(
            EffectPlanned(call_id=call_id, workspace="w", staging=".s", changes=(change,)),
            ended,
            EffectRecovered(call_id=call_id, result="undone", paths=("a",)),
        )
        .tell(call_id)
    )
    changed = Changed(path="a", before_sha256="", after_sha256="x")
    assert story.effects == (Effect(entry=100, at_ms=1000, workspace="w", changes=(changed,)),)
    assert story.ended is not None
    assert story.ended.entry == 101
    assert story.recoveries == (Recovery(entry=102, at_ms=1000, result="undone", paths=("a",)),)


async def test_a_code_of_a_newer_palyra_has_no_hint(tmp_path: Path) -> None:
    call_id, journal = await recorded(tmp_path / "state", "palyra.echo", b'{"text":"hi"}')
    story = journal.tell(call_id)
    newer = msgspec.structs.replace(story.decision, code="tool.not_invented_yet")
    assert msgspec.structs.replace(story, decision=newer).hint == ""


def test_a_call_that_is_none() -> None:
    with pytest.raises(NotFoundError) as caught:
        Journal(()).tell("none")
    assert caught.value.code is Code.CALL_UNKNOWN


@pytest.mark.invariant("I8")
async def test_a_damaged_entry_is_not_glossed_over(tmp_path: Path) -> None:
    call_id, journal = await recorded(tmp_path / "state", "palyra.echo", b'{"text":"hi"}')
    damaged = msgspec.structs.replace(journal.entries[-1], body=b"{}")
    with pytest.raises(IntegrityError):
        Journal((*journal.entries[:-1], damaged)).tell(call_id)
