# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from palyra.core.events import (
    ApprovalRequested,
    CallDecided,
    CallEnded,
    ConfigApplied,
    Event,
    PolicyActivated,
    PostureChanged,
)
from palyra.core.posture import Posture, PostureScope
from palyra.flow.seal.rules_agreement import RulesAgreement
from palyra.store.sqlite.reads import Reads
from palyra.store.sqlite.rules import Rules
from tests.support.samples import APPROVAL_ID, ATTESTATION, DECISION_RECORD, NO_ENDING, SNAPSHOT
from tests.support.store import (
    POSTURE,
    activate,
    call_id,
    clear_posture,
    decided,
    launched,
    memory_database,
    note,
    pack_digest,
    set_posture,
    stage,
)

if TYPE_CHECKING:
    from palyra.core.ports import JournalReader
    from palyra.core.posture import PostureSetting
    from palyra.core.transitions import ActivatePack, ClearPosture, SetPosture, StagePack

    Change = StagePack | ActivatePack | SetPosture | ClearPosture

change = msgspec.structs.replace
pytestmark = pytest.mark.invariant("I8")

ASK = change(POSTURE, state=Posture.ASK_EACH_TIME, expires_at_ms=None)
GLOBAL = change(POSTURE, scope=PostureScope.GLOBAL, scope_id="", by_administrator=False)
FIRST: tuple[Change, ...] = (stage(1), activate(1, before=None))
SECOND: tuple[Change, ...] = (*FIRST, stage(2), activate(2, before=1))


def decided_on(pack: int, number: int = 1, **changes: Any) -> CallDecided:  # noqa: ANN401 - fields
    decision = change(DECISION_RECORD, policy_digest=pack_digest(pack), **changes)
    return change(decided(number), decision=decision)


def asked(number: int = 1) -> ApprovalRequested:
    return ApprovalRequested(call_id=call_id(number), approval_id=APPROVAL_ID)


def ended(number: int = 1) -> CallEnded:
    return CallEnded(call_id=call_id(number), attestation=ATTESTATION, ending_sha256=NO_ENDING)


def configured(digest: str) -> ConfigApplied:
    return ConfigApplied(
        snapshot_digest="s", policy_digest=digest, assurance="developer", snapshot=SNAPSHOT
    )


def entries(*changes: Change | Event) -> list[Event]:
    return [
        event for each in changes for event in ((each,) if isinstance(each, Event) else each.events)
    ]


def troubles(*changes: Change | Event) -> list[str | None]:
    agreement = RulesAgreement()
    return [
        agreement.follow(index, event) for index, event in enumerate(entries(*changes), start=1)
    ]


def activation(**changes: Any) -> PolicyActivated:  # noqa: ANN401 - fields
    (event,) = activate(2, before=1).events
    return change(event, **changes)


def posture_entry(
    setting: PostureSetting = POSTURE, *, before: PostureSetting | None = None, **changes: object
) -> PostureChanged:
    (event,) = set_posture(setting, before=before).events
    return change(event, **changes)


UNKNOWN = f"it rests on policies {pack_digest(9)[:16]!r} that were never in force"
WENT_ON = "the call went on although its policies were no longer in force"


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param((decided(1), configured("any")), id="before-the-first-activation"),
        pytest.param((*FIRST, decided_on(1), launched(1), ended()), id="on-those-in-force"),
        pytest.param(
            (*FIRST, decided_on(1), asked(), stage(2), activate(2, before=1), launched(1)),
            id="asked-before-and-decided-anew-after",
        ),
        pytest.param((*SECOND, decided_on(1), ended()), id="refused-on-those-of-just-before"),
        pytest.param(
            (*FIRST, decided_on(9, verdict="deny", policies=()), ended()),
            id="refused-on-none",
        ),
        pytest.param((*SECOND, configured(pack_digest(1)), configured("")), id="configurations"),
        pytest.param((*SECOND, activate(1, before=2)), id="an-earlier-pack-again"),
        pytest.param((*FIRST, set_posture(), clear_posture(), set_posture()), id="set-and-cleared"),
        pytest.param((*FIRST, set_posture(), set_posture(ASK, before=POSTURE)), id="set-anew"),
        pytest.param((*FIRST, set_posture(POSTURE), set_posture(GLOBAL)), id="two-scopes"),
        pytest.param((*FIRST, note().events[0]), id="what-is-about-no-rules"),
        pytest.param(
            (*SECOND, decided_on(1, 1), ended(1), decided_on(2, 1), launched(1)),
            id="what-ended-is-forgotten",
        ),
    ],
)
def test_what_can_happen_is_no_trouble(changes: tuple[Change | Event, ...]) -> None:
    assert troubles(*changes) == [None] * len(changes)


@pytest.mark.parametrize(
    ("changes", "trouble"),
    [
        pytest.param((*FIRST, decided_on(9)), UNKNOWN, id="a-call-on-unknown-policies"),
        pytest.param(
            (*FIRST, decided_on(9, verdict="deny", policies=("p",))),
            UNKNOWN,
            id="a-refusal-on-unknown-policies",
        ),
        pytest.param((*FIRST, stage(9), decided_on(9)), UNKNOWN, id="staged-is-not-in-force"),
        pytest.param((*FIRST, configured(pack_digest(9))), UNKNOWN, id="a-configuration"),
        pytest.param((*SECOND, decided_on(1), launched(1)), WENT_ON, id="launched-on-old-ones"),
        pytest.param((*SECOND, decided_on(1), asked()), WENT_ON, id="asked-on-old-ones"),
        pytest.param(
            (*FIRST, decided_on(9, verdict="deny", policies=()), launched(1)),
            WENT_ON,
            id="launched-on-none",
        ),
        pytest.param(
            (*FIRST, activate(2, before=1)), "the policies were never staged", id="not-staged"
        ),
        pytest.param(
            (*SECOND, stage(3), activate(3, before=1)),
            "the policies it replaced were not the ones in force",
            id="another-one-was-in-force",
        ),
        pytest.param(
            (*FIRST, stage(2), activation(before_digest="")),
            "the policies it replaced were not the ones in force",
            id="a-second-first-start",
        ),
        pytest.param(
            (stage(2), activation()),
            "the policies it replaced were not the ones in force",
            id="none-were-in-force",
        ),
        pytest.param(
            (*FIRST, posture_entry(before=ASK)),
            "the posture was not set like this before",
            id="no-posture-was-set",
        ),
        pytest.param(
            (*FIRST, set_posture(), posture_entry(ASK)),
            "the posture was not set like this before",
            id="a-posture-was-set",
        ),
        pytest.param(
            (*FIRST, set_posture(), posture_entry(GLOBAL, before=POSTURE)),
            "the posture was not set like this before",
            id="of-another-scope",
        ),
        pytest.param(
            (*FIRST, set_posture(), clear_posture(), clear_posture()),
            "the posture was not set like this before",
            id="cleared-twice",
        ),
    ],
)
def test_what_cannot_happen_is_told_at_its_entry(
    changes: tuple[Change | Event, ...], trouble: str
) -> None:
    assert troubles(*changes) == [None] * (len(changes) - 1) + [trouble]


class Book:
    """A journal about rules, and the tables beside it."""

    def __init__(self, *changes: Change) -> None:
        self.connection = memory_database()
        self.connection.pragma("foreign_keys", False)  # noqa: FBT003 - to be tampered with
        self.agreement = RulesAgreement()
        rules = Rules(self.connection)
        for each in changes:
            self._apply(rules, each)
        for index, event in enumerate(entries(*changes), start=1):
            assert self.agreement.follow(index, event) is None
            self.connection.execute(
                "INSERT INTO journal VALUES (?, 1, ?, ?, x'', x'', NULL)",
                (index, event.kind, event.subject),
            )

    @staticmethod
    def _apply(rules: Rules, each: Change) -> None:
        apply = {
            "StagePack": rules.stage,
            "ActivatePack": rules.activate,
            "SetPosture": rules.set_posture,
            "ClearPosture": rules.clear_posture,
        }[type(each).__name__]
        apply(each)  # type: ignore[operator]  # each takes its own kind

    def disagreements(self, *tampering: str) -> list[tuple[int, str]]:
        for statement in tampering:
            self.connection.execute(statement)
        reads: Any = Reads(self.connection, path=Path("palyra.db"))
        reader: JournalReader = reads
        return list(self.agreement.disagreements(reader))


ALL: tuple[Change, ...] = (
    *SECOND,  # 1 to 4
    stage(3),  # 5
    set_posture(POSTURE),  # 6
    set_posture(GLOBAL),  # 7
    set_posture(ASK, before=POSTURE),  # 8
    clear_posture(GLOBAL),  # 9
    set_posture(change(GLOBAL, tool="palyra.fs.write")),  # 10
)
ONE, TWO, THREE = (repr(pack_digest(number)[:16]) for number in (1, 2, 3))
ECHO = "the posture of 'palyra.echo' for 'workspace site'"
WRITE = "the posture of 'palyra.fs.write' for 'global'"


@pytest.mark.parametrize("changes", [(), FIRST, SECOND, ALL], ids=["none", "one", "two", "all"])
def test_rules_that_agree_are_no_trouble(changes: tuple[Change, ...]) -> None:
    assert Book(*changes).disagreements() == []


def test_a_staged_pack_that_was_dropped_is_no_trouble() -> None:
    """The store drops those that were never in force, once there are too many."""
    dropped = f"DELETE FROM packs WHERE digest = '{pack_digest(3)}'"  # noqa: S608 - a constant
    assert Book(*ALL).disagreements(dropped) == []


@pytest.mark.parametrize(
    ("tampering", "trouble"),
    [
        ("DELETE FROM rules", (10, "the rules in force are no longer in the state")),
        (
            "UPDATE rules SET version = version - 1",
            (10, "the version of the rules is not 7, as its changes count"),
        ),
        (
            "UPDATE rules SET version = version + 1",
            (10, "the version of the rules is not 7, as its changes count"),
        ),
        ("UPDATE rules SET version = 0", (10, "the row of the rules in force cannot be read")),
        (
            "UPDATE rules SET policy_digest = '{1}'",
            (10, "the policies in force are not those that were activated last"),
        ),
        (
            "UPDATE postures SET state = 'always_allow' WHERE tool = 'palyra.echo'",
            (8, f"{ECHO} is not as it was set"),
        ),
        (
            "UPDATE postures SET reason = '' WHERE tool = 'palyra.fs.write'",
            (10, f"{WRITE} is not as it was set"),
        ),
        (
            "UPDATE postures SET set_by = 'operator:eve' WHERE tool = 'palyra.echo'",
            (8, f"{ECHO} is not as it was set"),
        ),
        (
            "UPDATE postures SET by_administrator = 0 WHERE tool = 'palyra.echo'",
            (8, f"{ECHO} is not as it was set"),
        ),
        (
            "UPDATE postures SET set_at_ms = 1 WHERE tool = 'palyra.echo'",
            (8, f"{ECHO} is not as it was set"),
        ),
        (
            "UPDATE postures SET expires_at_ms = 1 WHERE tool = 'palyra.echo'",
            (8, f"{ECHO} is not as it was set"),
        ),
        (
            "UPDATE postures SET expires_at_ms = NULL WHERE tool = 'palyra.fs.write'",
            (10, f"{WRITE} is not as it was set"),
        ),
        (
            "DELETE FROM postures WHERE tool = 'palyra.echo'",
            (8, f"{ECHO} is no longer set, but was not cleared"),
        ),
        (
            "UPDATE postures SET state = 'maybe' WHERE tool = 'palyra.echo'",
            (10, f"{ECHO} cannot be read"),
        ),
        (
            "INSERT INTO postures VALUES ('t', 'agent', 'ada', 'disabled', '', 'agent:a', 0, 1, 2)",
            (10, "the posture of 't' for 'agent ada' is set, but no entry has set it"),
        ),
        (
            "DELETE FROM packs WHERE digest = '{1}'",
            (2, f"the pack of policies {ONE} is no longer kept"),
        ),
        (
            "UPDATE packs SET body = x'00' WHERE digest = '{2}'",
            (4, f"the pack of policies {TWO} is not what its digest says"),
        ),
        (
            "UPDATE packs SET body = x'00' WHERE digest = '{3}'",
            (10, f"the pack of policies {THREE} is not what its digest says"),
        ),
        (
            "UPDATE packs SET was_active = 0 WHERE digest = '{1}'",
            (2, f"the pack of policies {ONE} was in force, which the state has otherwise"),
        ),
        (
            "UPDATE packs SET was_active = 1 WHERE digest = '{3}'",
            (10, f"the pack of policies {THREE} was never in force, which the state has otherwise"),
        ),
        (
            "UPDATE packs SET was_active = 7 WHERE digest = '{3}'",
            (10, f"the row of policies {pack_digest(3)!r} cannot be read"),
        ),
    ],
    ids=lambda each: each if isinstance(each, str) else str(each[0]),
)
def test_tables_that_differ_from_the_entries_are_found(
    tampering: str, trouble: tuple[int, str]
) -> None:
    digests = [pack_digest(number) for number in range(4)]
    assert Book(*ALL).disagreements(tampering.format(*digests)) == [trouble]


def test_rules_that_no_entry_brought_are_found() -> None:
    found = Book(stage(1)).disagreements(
        f"INSERT INTO rules VALUES (1, 1, '{pack_digest(1)}')"  # noqa: S608 - a constant
    )
    assert found == [(1, "rules are in force, but no entry has brought them")]


def test_a_pack_that_no_entry_staged_is_found() -> None:
    book = Book(*FIRST)
    Rules(book.connection).stage(stage(2))
    sentence = f"the pack of policies {TWO} is kept, but no entry has staged it"
    assert book.disagreements() == [(2, sentence)]


def test_every_table_is_compared_though_one_cannot_be_read() -> None:
    found = Book(*ALL).disagreements(
        "UPDATE rules SET version = 0",
        "UPDATE postures SET state = 'maybe'",
        "UPDATE packs SET body = x'00'",
    )
    assert len(found) == 5
