# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import msgspec
import pytest

from palyra.core.attestation import Anchor
from palyra.core.canonical import canonical_record
from palyra.core.chain import Entry
from palyra.core.errors import MEANINGS, Code, IntegrityError
from palyra.core.events import CallInterrupted, CallLaunched, Event, read_event
from palyra.core.lifecycle import CallState
from palyra.core.obligations import Obligations
from palyra.core.principal import Assurance
from palyra.core.result import NO_OUTPUT, OutcomeError, OutcomeView, read_ending
from palyra.core.transitions import End
from palyra.flow.seal.attest import Attestor
from palyra.flow.seal.interrupt import interruption, planned_effect
from tests.support.samples import CREDENTIAL_ID, DECISION_RECORD, NOW_MS, REQUEST
from tests.support.scripted import CountedIds, FakeClock
from tests.support.store import KEY, call_id, decided, launched, plan

ANCHOR = Anchor(index=1, link="a" * 64)
PLANNED = plan(1).events[0]


def entries(*events: Event) -> list[Entry]:
    return [
        Entry(
            index=index,
            recorded_at_ms=NOW_MS + index,
            kind=event.kind,
            subject=event.subject,
            body=canonical_record(event),
            link=b"",
        )
        for index, event in enumerate(events, start=1)
    ]


def interrupted(found: list[Entry]) -> object:
    return interruption(
        call_id(1),
        found,
        attestor=Attestor(signer=KEY, ids=CountedIds(FakeClock()), assurance=Assurance.DEVELOPER),
        credential_id=CREDENTIAL_ID,
        anchor=ANCHOR,
        at_ms=NOW_MS + 9,
    )


@pytest.mark.invariant("I7")
def test_a_launch_without_an_outcome_ends_as_interrupted() -> None:
    end = interruption(
        call_id(1),
        entries(decided(1), launched(1), PLANNED),
        attestor=Attestor(signer=KEY, ids=CountedIds(FakeClock()), assurance=Assurance.DEVELOPER),
        credential_id=CREDENTIAL_ID,
        anchor=ANCHOR,
        at_ms=NOW_MS + 9,
    )
    (event,) = end.events
    assert isinstance(event, CallInterrupted)
    statement = event.attestation.statement
    assert (end.call_id, end.before, end.after) == (
        call_id(1),
        CallState.LAUNCHED,
        CallState.INTERRUPTED,
    )
    assert (statement.started_at_ms, statement.ended_at_ms) == (NOW_MS + 2, NOW_MS + 9)
    assert statement.permit == launched(1).permit
    meaning = MEANINGS[Code.TOOL_INTERRUPTED]
    assert read_ending(end.ending).outcome == OutcomeView(
        ok=False,
        output=NO_OUTPUT,
        error=OutcomeError(code="tool.interrupted", message=meaning.sentence, hint=meaning.hint),
        timed_out=False,
        truncated=False,
        limit=None,
        duration_ms=0,
    )


def test_an_interrupted_call_is_attested_with_what_was_demanded_of_it() -> None:
    demand = Obligations(timeout_ms=5)
    record = msgspec.structs.replace(DECISION_RECORD, obligations=demand)
    obliged = msgspec.structs.replace(decided(1), request=REQUEST, decision=record)
    end = interrupted(entries(obliged, launched(1)))
    assert isinstance(end, End)
    (event,) = end.events
    assert isinstance(event, CallInterrupted)
    assert event.attestation.statement.decision == record


@pytest.mark.parametrize(
    "found",
    [
        pytest.param([], id="nothing"),
        pytest.param(entries(decided(1)), id="no-launch"),
        pytest.param(entries(launched(1)), id="no-decision"),
        pytest.param(
            [
                msgspec.structs.replace(entry, body=b"{}")
                for entry in entries(decided(1), launched(1))
            ],
            id="entries-that-cannot-be-read",
        ),
    ],
)
@pytest.mark.invariant("I8")
def test_a_launch_that_the_journal_does_not_tell_is_no_guess(found: list[Entry]) -> None:
    with pytest.raises(IntegrityError) as fault:
        interrupted(found)
    assert fault.value.code is Code.JOURNAL_BROKEN


def test_the_plan_of_an_effect_is_found_if_there_is_one() -> None:
    assert planned_effect(entries(decided(1), launched(1), PLANNED)) == PLANNED
    assert planned_effect(entries(decided(1), launched(1))) is None


@pytest.mark.parametrize("body", [b"", b"{}", b"\xff", b'{"call_id":1}'])
def test_an_entry_that_is_not_its_kind_is_a_fault(body: bytes) -> None:
    (entry,) = entries(launched(1))
    assert read_event(entry, CallLaunched) == launched(1)
    with pytest.raises(IntegrityError) as fault:
        read_event(msgspec.structs.replace(entry, body=body), CallLaunched)
    assert fault.value.message == "entry 1 is not a call.launched event"
