# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import TYPE_CHECKING

import apsw
import msgspec
import pytest

from palyra.core.canonical import canonical_record
from palyra.core.chain import GENESIS, SignedHead, leaf_hash, link_hash, link_under_receipt
from palyra.core.errors import Code, IntegrityError, PalyraError, StoreError
from palyra.core.ids import InstanceId, LogId
from palyra.core.lifecycle import CallState
from palyra.core.ports import Recorded, RulesInForce
from palyra.core.session import BudgetLimits
from palyra.core.transitions import Admitted, Exhausted, Note, Outdated, Transition
from palyra.store.head_file import HeadFile
from palyra.store.sqlite.appender import Appender, is_own_head
from palyra.store.sqlite.reads import Reads
from tests.support.samples import NOW_MS
from tests.support.scripted import FakeClock
from tests.support.store import (
    KEY,
    OTHER_KEY,
    RUN,
    WORKSPACE,
    activate,
    add_workspace,
    admit,
    another_run,
    call_id,
    clear_posture,
    end,
    launch,
    memory_database,
    note,
    opening,
    pack_digest,
    set_posture,
    stage,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from palyra.core.chain import Receipt

LOG = LogId("01JLOG")


class Journal:
    """An appender on a database in memory, and what it wrote."""

    def __init__(self, folder: Path, *, connection: apsw.Connection | None = None) -> None:
        self.clock = FakeClock()
        self.connection = connection or memory_database()
        self.head_file = HeadFile.open(folder / "journal.head")
        self.reads = Reads(self.connection, path=folder / "palyra.db")
        self.appender = Appender(
            self.connection,
            path=folder / "palyra.db",
            head_file=self.head_file,
            signer=KEY,
            clock=self.clock,
            log_id=LOG,
            owner=InstanceId("01JOWNER"),
        )

    def commit(self, *transitions: Transition) -> list[Recorded | PalyraError]:
        return self.appender.commit(transitions)

    def kinds(self) -> list[str]:
        return [entry.kind for entry in self.reads.entries()]

    def heads(self) -> list[SignedHead]:
        return [signed for _, signed in self.reads.heads() if signed is not None]


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path)


def codes(results: Sequence[Recorded | PalyraError]) -> list[Code | None]:
    return [result.code if isinstance(result, PalyraError) else None for result in results]


def receipts(results: Sequence[Recorded | PalyraError]) -> list[Receipt]:
    found = [result.receipt for result in results if isinstance(result, Recorded)]
    return [receipt for receipt in found if receipt is not None]


@pytest.mark.invariant("I8")
def test_every_entry_is_linked_to_the_one_before(journal: Journal) -> None:
    journal.commit(opening())
    journal.clock.advance(5)
    journal.commit(note(1), note(2))
    previous = GENESIS
    for index, entry in enumerate(journal.reads.entries(), start=1):
        assert entry.index == index
        assert entry.recorded_at_ms == NOW_MS + (5 if index > 2 else 0)
        leaf = leaf_hash(
            index=entry.index,
            recorded_at_ms=entry.recorded_at_ms,
            kind=entry.kind,
            subject=entry.subject,
            body=entry.body,
        )
        assert entry.link == link_hash(previous=previous, leaf=leaf)
        previous = entry.link


@pytest.mark.invariant("I8")
def test_every_commit_is_signed_to_its_end(journal: Journal) -> None:
    journal.commit(opening())
    journal.commit(note(1), note(2), note(3))
    journal.commit(note(4))
    places = [(signed.head.first, signed.head.index) for signed in journal.heads()]
    assert places == [(1, 2), (3, 5), (6, 6)]
    links = [entry.link.hex() for entry in journal.reads.entries()]
    assert all(signed.head.link == links[signed.head.index - 1] for signed in journal.heads())
    assert all(is_own_head(signed, KEY) and signed.head.log_id == LOG for signed in journal.heads())
    assert journal.head_file.read() == journal.heads()[-1]


def test_a_receipt_leads_from_its_entry_to_the_head(journal: Journal) -> None:
    journal.commit(opening())
    transitions = [note(number) for number in range(1, 6)]
    given = receipts(journal.commit(*transitions))
    assert [receipt.index for receipt in given] == [3, 4, 5, 6, 7]
    for receipt, transition in zip(given, transitions, strict=True):
        body = canonical_record(transition.events[0])
        assert link_under_receipt(receipt, body=body) == receipt.head.head.link
        assert len(receipt.leaves_after) == receipt.head.head.index - receipt.index
        assert receipt.head == journal.heads()[-1]


def test_the_receipt_of_two_entries_is_for_the_last_one(journal: Journal) -> None:
    (receipt,) = receipts(journal.commit(opening()))
    assert (receipt.index, receipt.kind, receipt.subject) == (2, "run.opened", RUN.run_id)


def test_the_anchor_is_the_latest_place_seen_durable(journal: Journal) -> None:
    assert (journal.appender.anchor.index, journal.appender.anchor.link) == (0, GENESIS.hex())
    journal.commit(note())
    head = journal.heads()[-1].head
    assert (journal.appender.anchor.index, journal.appender.anchor.link) == (1, head.link)


@pytest.mark.invariant("I5")
def test_a_refused_transition_leaves_the_others_of_its_commit_standing(journal: Journal) -> None:
    journal.commit(opening())
    results = journal.commit(
        admit(1, CallState.PENDING), launch(1), launch(1), launch(9), add_workspace(), note()
    )
    conflict = Code.STATE_CONFLICT
    assert codes(results) == [None, None, conflict, conflict, None, None]
    assert journal.kinds()[2:] == [
        "call.decided",
        "approval.requested",
        "call.redecided",
        "call.launched",
        "workspace.added",
        "flood.suppressed",
    ]
    assert len(journal.heads()) == 2


@pytest.mark.parametrize(
    ("broken", "code"),
    [
        pytest.param(admit(1), Code.STORE_UNREACHABLE, id="a-call-id-used-before"),
        pytest.param(
            another_run(msgspec.structs.replace(RUN, run_id="R2", session_id="S2")),
            Code.STORE_UNREACHABLE,
            id="a-run-without-its-session",
        ),
        pytest.param(
            add_workspace(msgspec.structs.replace(WORKSPACE, root="/srv/\udcff")),
            Code.INPUT_NOT_CANONICAL,
            id="text-that-is-not-unicode",
        ),
    ],
)
def test_a_transition_that_cannot_be_written_fails_alone(
    journal: Journal, broken: Transition, code: Code
) -> None:
    journal.commit(opening(), admit(1))
    before = journal.kinds()
    assert codes(journal.commit(note(1), broken, note(2))) == [None, code, None]
    assert journal.kinds() == [*before, "flood.suppressed", "flood.suppressed"]
    assert codes(journal.commit(broken)) == [code]


def test_a_commit_without_entries_writes_counters_only(journal: Journal) -> None:
    journal.commit(opening())
    limits = BudgetLimits(max_calls_per_run=1)
    journal.commit(admit(1, limits=limits))
    before = journal.kinds()
    (result,) = journal.commit(admit(2, limits=limits))
    assert isinstance(result, Recorded)
    assert (type(result.admission), result.receipt) == (Exhausted, None)
    assert journal.kinds() == before


def test_calls_of_one_commit_share_the_budget(journal: Journal) -> None:
    journal.commit(opening())
    limits = BudgetLimits(max_calls_per_run=3)
    results = journal.commit(*(admit(number, limits=limits) for number in range(5)))
    admissions = [result.admission for result in results if isinstance(result, Recorded)]
    assert [type(each) for each in admissions] == [Admitted] * 3 + [Exhausted] * 2


@pytest.mark.invariant("I4")
def test_a_change_of_the_rules_holds_for_the_rest_of_its_commit(journal: Journal) -> None:
    journal.commit(opening(), stage(1), activate(1, before=None))
    results = journal.commit(
        admit(1, rules_version=1),
        set_posture(),
        admit(2, rules_version=1),
        admit(3, CallState.PENDING, rules_version=2),
        clear_posture(),
        launch(3, rules_version=2),
        launch(3, rules_version=3),
    )
    assert codes(results) == [None, None, None, None, None, Code.POLICY_CHANGED, None]
    admissions = [result.admission for result in results if isinstance(result, Recorded)]
    assert [type(each) for each in admissions if each is not None] == [Admitted, Outdated, Admitted]
    results = journal.commit(
        admit(4, rules_version=3), activate(1, before=1), admit(5, rules_version=3)
    )
    admissions = [result.admission for result in results if isinstance(result, Recorded)]
    assert [type(each) for each in admissions] == [Admitted, type(None), Outdated]


@pytest.mark.invariant("I7")
def test_a_change_of_the_rules_that_fails_changes_nothing(journal: Journal) -> None:
    journal.commit(opening(), stage(1), activate(1, before=None), stage(2))

    def fail(_: object, statement: str, __: object) -> bool:
        if statement == "COMMIT":
            raise apsw.FullError("database or disk is full")
        return True

    journal.connection.exec_trace = fail
    results = journal.commit(activate(2, before=1), set_posture())
    journal.connection.exec_trace = None
    assert codes(results) == [Code.STORE_FULL, Code.STORE_FULL]
    assert journal.reads.rules_in_force() == RulesInForce(version=1, policy_digest=pack_digest(1))
    assert codes(journal.commit(activate(2, before=1), set_posture())) == [None, None]


def test_refused_changes_of_the_rules_leave_the_others_standing(journal: Journal) -> None:
    broken = msgspec.structs.replace(stage(2), body=b"other")
    results = journal.commit(
        stage(1), broken, activate(9, before=None), set_posture(), activate(1, before=None)
    )
    assert codes(results) == [
        None,
        Code.POLICY_INVALID,
        Code.POLICY_UNKNOWN,
        Code.STATE_CONFLICT,
        None,
    ]
    assert journal.kinds() == ["policy.staged", "policy.activated"]


@pytest.mark.invariant("I7")
@pytest.mark.parametrize("when", ["BEGIN", "INSERT INTO journal", "COMMIT"])
def test_a_fault_of_the_store_fails_all_and_leaves_nothing(journal: Journal, when: str) -> None:
    journal.commit(opening())
    before = journal.kinds(), journal.head_file.read()

    def fail(_: object, statement: str, __: object) -> bool:
        if statement.startswith(when):
            raise apsw.FullError("database or disk is full")
        return True

    journal.connection.exec_trace = fail
    results = journal.commit(admit(1), note())
    journal.connection.exec_trace = None
    assert codes(results) == [Code.STORE_FULL, Code.STORE_FULL]
    assert (journal.kinds(), journal.head_file.read()) == before
    assert not journal.connection.in_transaction
    assert journal.reads.call(call_id(1)) is None
    assert codes(journal.commit(admit(1))) == [None]


def test_a_fault_of_ours_is_rolled_back_and_raised(journal: Journal) -> None:
    journal.commit(opening())

    class Unwritable(msgspec.Struct, frozen=True):
        kind: str = "unknown"
        subject: str = "nothing"
        value: object = object()

    with pytest.raises(TypeError):
        journal.commit(Note(events=(Unwritable(),)))  # type: ignore[arg-type]  # that is the fault
    assert not journal.connection.in_transaction
    assert codes(journal.commit(note())) == [None]


def test_a_head_that_cannot_be_kept_is_a_fault(journal: Journal, tmp_path: Path) -> None:
    journal.commit(opening())
    with (tmp_path / "journal.head").open("rb") as unwritable:
        journal.appender._head_file = HeadFile(unwritable.fileno(), path=tmp_path)
        assert codes(journal.commit(note())) == [Code.STORE_FULL]


class TestAnotherWriter:
    """Two processes append to one journal."""

    def test_they_continue_each_others_entries(self, journal: Journal, tmp_path: Path) -> None:
        other = Journal(tmp_path, connection=journal.connection)
        journal.commit(opening())
        other.commit(note(1))
        journal.commit(note(2))
        places = [(signed.head.first, signed.head.index) for signed in journal.heads()]
        assert places == [(1, 2), (3, 3), (4, 4)]

    @pytest.mark.invariant("I8")
    @pytest.mark.parametrize("head", ["none", "torn", "of an earlier entry", "of another key"])
    def test_what_was_added_without_the_key_is_not_signed_afterwards(
        self, journal: Journal, head: str
    ) -> None:
        journal.commit(opening())
        body = canonical_record(note(7).events[0])
        leaf = leaf_hash(
            index=3, recorded_at_ms=NOW_MS, kind="flood.suppressed", subject="agent:ada", body=body
        )
        last = journal.heads()[-1]
        link = link_hash(previous=bytes.fromhex(last.head.link), leaf=leaf)
        claim = msgspec.structs.replace(last.head, first=3, index=3, link=link.hex())
        forged = {
            "none": None,
            "torn": b'{"head":',
            "of an earlier entry": msgspec.json.encode(last, order="sorted"),
            "of another key": msgspec.json.encode(
                SignedHead(
                    head=claim,
                    key_id=KEY.key_id,
                    signature=OTHER_KEY.sign(claim.signed_bytes).hex(),
                ),
                order="sorted",
            ),
        }[head]
        journal.connection.execute(
            "INSERT INTO journal VALUES (3, ?, 'flood.suppressed', 'agent:ada', ?, ?, ?)",
            (NOW_MS, body, link, forged),
        )
        (result,) = journal.commit(admit(1))
        assert isinstance(result, IntegrityError)
        assert result.code is Code.JOURNAL_BROKEN
        assert len(journal.kinds()) == 3


def test_the_end_of_a_call_clears_what_only_a_waiting_call_needs(journal: Journal) -> None:
    journal.commit(opening(), admit(1, CallState.PENDING))
    pending = journal.reads.call(call_id(1))
    journal.commit(end(1, CallState.PENDING, CallState.CANCELLED))
    ended = journal.reads.call(call_id(1))
    assert pending is not None
    assert pending.kept_proposal is not None
    assert ended is not None
    assert (ended.kept_proposal, ended.owner) == (None, None)


def test_a_busy_store_is_named(tmp_path: Path, journal: Journal) -> None:
    journal.connection.execute("BEGIN")
    (result,) = journal.commit(note())
    assert isinstance(result, StoreError)
    assert str(tmp_path / "palyra.db") in result.message
