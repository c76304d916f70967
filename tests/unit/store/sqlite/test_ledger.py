# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import apsw
import msgspec
import pytest

from palyra.core.errors import Code, IntegrityError, PalyraError, StateConflictError, StoreError
from palyra.core.events import LogOpened
from palyra.core.lifecycle import CallState
from palyra.core.ports import RulesInForce
from palyra.core.session import BudgetLeft, BudgetLimits
from palyra.core.transitions import Admitted, Exhausted, Flooded, Outdated
from palyra.store.head_file import HeadFile, read_kept_head
from palyra.store.sqlite.apply import JOURNALED_OVER_BUDGET
from palyra.store.sqlite.ledger import DATABASE_NAME, HEAD_NAME, Ledger, opening_of
from tests.support.append_only import lifted
from tests.support.samples import AGENT, NOW_MS
from tests.support.store import (
    KEY,
    LIMITS,
    OTHER_KEY,
    POSTURE,
    RUN,
    SESSION,
    WORKSPACE,
    activate,
    add_workspace,
    admission,
    admit,
    call_id,
    end,
    kinds,
    launch,
    ledger_with_run,
    note,
    open_archive,
    open_ledger,
    opening,
    pack_body,
    pack_digest,
    set_posture,
    stage,
    state_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from palyra.core.ports import CallStore, JournalReader, Recorder, RulesStore


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def ledger(home: Path) -> Iterator[Ledger]:
    yield from ledger_with_run(home)


@pytest.fixture
def other(ledger: Ledger, home: Path) -> Iterator[Ledger]:
    """Return a second instance on the same home."""
    assert ledger.anchor.index
    second = open_ledger(home, series=1)
    yield second
    second.close()


def tamper(home: Path, *statements: str) -> None:
    connection = apsw.Connection(str(home / DATABASE_NAME))
    with lifted(connection):
        for statement in statements:
            connection.execute(statement)
    connection.close()


def refusal(home: Path, **options: object) -> PalyraError:
    """Return why the home cannot be opened, and check that nothing stays open or is written."""
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(PalyraError) as refused:
        open_ledger(home, **options)  # type: ignore[arg-type]
    assert len(list(Path("/proc/self/fd").iterdir())) == descriptors
    assert list((home / "instances").iterdir()) == []
    return refused.value


def test_the_ledger_is_what_the_flow_asks_for(ledger: Ledger, home: Path) -> None:
    recorder: Recorder = ledger
    store: CallStore = ledger
    rules: RulesStore = ledger
    archive = open_archive(home)
    reader: JournalReader = archive
    archived_rules: RulesStore = archive
    assert rules.rules_in_force() is archived_rules.rules_in_force() is None
    assert (recorder.anchor.index, store.session(SESSION.session_id)) == (3, SESSION)
    assert reader.size() == 3
    archive.close()


def test_a_new_log_opens_with_its_id_and_key(home: Path) -> None:
    ledger = open_ledger(home)
    opened = opening_of(ledger.reads)
    ledger.close()
    assert opened is not None
    assert opened == LogOpened(
        log_id=opened.log_id, key_id=KEY.key_id, public_key=KEY.public_key.hex()
    )
    kept = read_kept_head(home / HEAD_NAME)
    assert kept is not None
    assert (kept.head.log_id, kept.head.index) == (opened.log_id, 1)


def test_an_opened_log_is_continued(home: Path) -> None:
    open_ledger(home).close()
    again = open_ledger(home, series=1)
    again.record_now(note())
    assert kinds(again) == ["log.opened", "flood.suppressed"]
    again.close()
    assert list((home / "instances").iterdir()) == []


@pytest.mark.invariant("I7")
async def test_records_are_there_once_they_are_told(ledger: Ledger, home: Path) -> None:
    results = await asyncio.gather(*(ledger.record(admit(number)) for number in range(20)))
    archive = open_archive(home)
    by_index = {entry.index: entry for entry in archive.entries()}
    archive.close()
    for number, recorded in enumerate(results):
        assert recorded.receipt is not None
        assert by_index[recorded.receipt.index].subject == call_id(number)


async def test_a_refusal_is_raised(ledger: Ledger) -> None:
    with pytest.raises(StateConflictError):
        await ledger.record(launch(1))
    with pytest.raises(StateConflictError):
        ledger.record_now(launch(1))


async def test_a_lone_producer_does_not_wait(ledger: Ledger) -> None:
    ledger.attend(lambda: True)
    with pytest.raises(StopIteration):
        ledger.record(note()).send(None)


def test_reads_are_passed_on(ledger: Ledger) -> None:
    ledger.record_now(add_workspace())
    ledger.record_now(admit(1, request_id="r"))
    record = ledger.call(call_id(1))
    assert record is not None
    assert ledger.by_request(AGENT, record.request_id) == record  # type: ignore[arg-type]
    assert ledger.workspaces() == (WORKSPACE,)
    assert ledger.run(RUN.run_id) == RUN
    about = [entry.kind for entry in ledger.of_subject(call_id(1))]
    assert about == ["call.decided", "call.launched"]


def test_rules_are_passed_on(ledger: Ledger, home: Path) -> None:
    for transition in (stage(1), activate(1, before=None), set_posture(), stage(2)):
        ledger.record_now(transition)
    archive = open_archive(home)
    for store in (ledger, archive):
        assert store.rules_in_force() == RulesInForce(version=2, policy_digest=pack_digest(1))
        assert store.postures() == (POSTURE,)
        assert {pack.policy_digest for pack in store.packs()} == {pack_digest(1), pack_digest(2)}
        pack = store.pack(pack_digest(1))
        assert pack is not None
        assert (pack.body, pack.was_active) == (pack_body(1), True)
    activated = [entry.subject for entry in archive.of_kind("policy.activated")]
    archive.close()
    assert activated == [pack_digest(1)]


@pytest.mark.invariant("I4")
class TestRulesOfAnotherProcess:
    """Whoever asks after another process's change is told of it."""

    @pytest.fixture
    def other_process(self, ledger: Ledger, home: Path) -> Iterator[Callable[[str], None]]:
        ledger.record_now(stage(1))
        ledger.record_now(activate(1, before=None))
        with subprocess.Popen(
            [sys.executable, "-c", _OTHER_PROCESS, str(home / DATABASE_NAME)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            stdin, stdout = process.stdin, process.stdout
            assert stdin is not None
            assert stdout is not None

            def do(statement: str) -> None:
                stdin.write(f"{statement}\n")
                stdin.flush()
                assert stdout.readline() == "done\n"

            yield do
            stdin.close()

    def test_every_change_is_seen_at_the_next_question(
        self, ledger: Ledger, other_process: Callable[[str], None]
    ) -> None:
        for version in range(2, 60):
            other_process("UPDATE rules SET version = version + 1")
            rules = ledger.rules_in_force()
            assert rules is not None
            assert rules.version == version
            if version % 3 == 0:
                ledger.record_now(note())  # our own commits between them change nothing

    def test_an_unfinished_look_at_the_store_holds_nothing_back(
        self, ledger: Ledger, other_process: Callable[[str], None]
    ) -> None:
        for number in range(2):
            ledger.record_now(admit(number, rules_version=1))
        unfinished = ledger.reads.calls()
        next(unfinished)
        other_process("UPDATE rules SET version = 9")
        other_process(
            "INSERT INTO postures VALUES"
            " ('t', 'global', '', 'disabled', '', 'operator:eve', 0, 1, NULL)"
        )
        rules = ledger.rules_in_force()
        assert rules is not None
        assert (rules.version, len(ledger.postures())) == (9, 1)
        assert next(unfinished)

    def test_a_launch_under_older_rules_is_refused(
        self, ledger: Ledger, other_process: Callable[[str], None]
    ) -> None:
        ledger.record_now(admit(1, CallState.PENDING, rules_version=1))
        other_process("UPDATE rules SET version = 2")
        assert admission(ledger.record_now(admit(2, rules_version=1))) == Outdated(rules_version=2)
        with pytest.raises(StateConflictError) as refused:
            ledger.record_now(launch(1, rules_version=1))
        assert refused.value.code is Code.POLICY_CHANGED
        ledger.record_now(launch(1, rules_version=2))


_OTHER_PROCESS = """
import sys, apsw
connection = apsw.Connection(sys.argv[1])
connection.set_busy_timeout(5000)
for line in sys.stdin:
    connection.execute(line)
    print("done", flush=True)
"""


class TestTwoInstances:
    """Two processes on one home: here two ledgers, which share nothing in memory."""

    @pytest.mark.invariant("I4")
    def test_rules_are_shared(self, ledger: Ledger, other: Ledger) -> None:
        other.record_now(stage(1))
        other.record_now(activate(1, before=None))
        assert ledger.rules_in_force() == RulesInForce(version=1, policy_digest=pack_digest(1))
        ledger.record_now(set_posture())
        assert (other.rules_in_force(), other.postures()) == (ledger.rules_in_force(), (POSTURE,))
        with pytest.raises(StateConflictError):
            other.record_now(set_posture())
        with pytest.raises(StateConflictError):
            ledger.record_now(activate(1, before=None))

    @pytest.mark.invariant("I14")
    def test_budgets_are_shared(self, ledger: Ledger, other: Ledger) -> None:
        limits = BudgetLimits(max_calls_per_run=4)
        turns = [ledger, other] * 3
        admitted = [
            admission(turn.record_now(admit(number, limits=limits)))
            for number, turn in enumerate(turns)
        ]
        assert [type(each) for each in admitted] == [Admitted] * 4 + [Exhausted] * 2

    def test_a_flood_is_counted_together(self, ledger: Ledger, other: Ledger) -> None:
        limits = BudgetLimits(max_calls_per_run=1)
        ledger.record_now(admit(0, limits=limits))
        turns = [ledger, other] * (JOURNALED_OVER_BUDGET // 2 + 2)
        refused = [
            admission(
                turn.record_now(admit(number, CallState.DENIED, limits=limits, over_budget=True))
            )
            for number, turn in enumerate(turns, start=1)
        ]
        assert refused[JOURNALED_OVER_BUDGET:] == [Flooded(count=count) for count in (1, 2, 3, 4)]
        assert kinds(ledger).count("flood.suppressed") == 3

    def test_what_is_known_beforehand_is_ones_own(self, ledger: Ledger, other: Ledger) -> None:
        def left(which: Ledger) -> BudgetLeft:
            return which.budget_left(RUN, limits=LIMITS, at_ms=NOW_MS)

        ledger.record_now(admit(1))
        assert left(ledger) == left(other) == BudgetLeft(run=31, session=1023, agent_hour=4095)
        other.record_now(admit(2))
        other.record_now(admit(3))
        assert (left(ledger).run, left(other).run) == (31, 29)
        admitted = admission(ledger.record_now(admit(4)))
        assert admitted == Admitted(left=BudgetLeft(run=28, session=1020, agent_hour=4092))

    @pytest.mark.invariant("I5")
    def test_one_of_two_resumers_wins(self, ledger: Ledger, other: Ledger) -> None:
        ledger.record_now(admit(1, CallState.PENDING))
        other.record_now(launch(1))
        with pytest.raises(StateConflictError) as lost:
            ledger.record_now(launch(1))
        assert lost.value.code is Code.STATE_CONFLICT
        assert [entry.kind for entry in ledger.of_subject(call_id(1))] == [
            "call.decided",
            "approval.requested",
            "call.redecided",
            "call.launched",
        ]

    @pytest.mark.invariant("I7")
    def test_the_calls_of_a_living_instance_are_no_orphans(
        self, ledger: Ledger, other: Ledger
    ) -> None:
        ledger.record_now(admit(1))
        other.record_now(admit(2))
        assert (ledger.orphans(), other.orphans()) == ((), ())
        other.close()
        assert [orphan.call_id for orphan in ledger.orphans()] == [call_id(2)]

    def test_a_launched_call_without_an_owner_is_an_orphan(
        self, ledger: Ledger, home: Path
    ) -> None:
        ledger.record_now(admit(1))
        tamper(home, "UPDATE calls SET owner = NULL")
        assert [orphan.call_id for orphan in ledger.orphans()] == [call_id(1)]


@pytest.mark.invariant("I8")
@pytest.mark.parametrize(
    ("change", "code"),
    [
        pytest.param(
            lambda home: (home / HEAD_NAME).unlink(),
            Code.JOURNAL_HEAD_MISSING,
            id="the-kept-head-is-gone",
        ),
        pytest.param(
            lambda home: (home / HEAD_NAME).write_bytes(b"x" * 2048),
            Code.JOURNAL_HEAD_MISSING,
            id="the-kept-head-is-noise",
        ),
        pytest.param(
            lambda home: tamper(home, "DELETE FROM journal WHERE seq = 4"),
            Code.JOURNAL_ROLLED_BACK,
            id="the-last-entry-is-gone",
        ),
        pytest.param(
            lambda home: tamper(home, "DELETE FROM journal"),
            Code.JOURNAL_ROLLED_BACK,
            id="all-entries-are-gone",
        ),
        pytest.param(
            lambda home: (home / DATABASE_NAME).unlink(),
            Code.JOURNAL_ROLLED_BACK,
            id="the-database-is-gone",
        ),
        pytest.param(
            lambda home: tamper(home, "UPDATE journal SET link = zeroblob(32) WHERE seq = 4"),
            Code.JOURNAL_ROLLED_BACK,
            id="the-last-entry-is-another",
        ),
        pytest.param(
            lambda home: tamper(home, "UPDATE journal SET kind = 'other' WHERE seq = 1"),
            Code.JOURNAL_BROKEN,
            id="the-first-entry-opens-no-log",
        ),
        pytest.param(
            lambda home: tamper(home, "UPDATE journal SET body = x'00' WHERE seq = 1"),
            Code.JOURNAL_BROKEN,
            id="the-first-entry-cannot-be-read",
        ),
    ],
)
def test_a_store_that_is_not_the_one_that_was_left_is_refused(
    home: Path, change: Callable[[Path], object], code: Code
) -> None:
    left_behind = open_ledger(home)
    left_behind.record_now(opening())
    left_behind.record_now(note())
    left_behind.close()
    for leftover in (f"{DATABASE_NAME}-wal", f"{DATABASE_NAME}-shm"):
        checkpointed = apsw.Connection(str(home / DATABASE_NAME))
        checkpointed.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        checkpointed.close()
        (home / leftover).unlink(missing_ok=True)
    change(home)
    error = refusal(home, series=1)
    assert isinstance(error, IntegrityError)
    assert error.code is code


@pytest.mark.invariant("I8")
def test_another_key_is_refused(home: Path) -> None:
    open_ledger(home).close()
    error = refusal(home, signer=OTHER_KEY, series=1)
    assert (error.code, error.details["expected_key_id"]) == (Code.KEY_REPLACED, KEY.key_id)


@pytest.mark.invariant("I8")
def test_a_kept_head_that_the_key_did_not_sign_is_refused(home: Path) -> None:
    ledger = open_ledger(home)
    ledger.record_now(opening())
    ledger.close()
    kept = read_kept_head(home / HEAD_NAME)
    assert kept is not None
    head = msgspec.structs.replace(kept.head, index=2)
    forged = msgspec.structs.replace(kept, head=head)
    (home / HEAD_NAME).unlink()
    file = HeadFile.open(home / HEAD_NAME)
    file.keep(forged)
    file.close()
    assert refusal(home, series=1).code is Code.JOURNAL_ROLLED_BACK


def test_a_crash_before_the_first_entry_is_continued(home: Path) -> None:
    """The head of nothing was kept, then the process ended."""
    ledger = open_ledger(home)
    opened = opening_of(ledger.reads)
    ledger.close()
    assert opened is not None
    tamper(home, "DELETE FROM journal")
    content = (home / HEAD_NAME).read_bytes()
    (home / HEAD_NAME).write_bytes(content[:1024] + b" " * 1024)
    again = open_ledger(home, series=1)
    continued = opening_of(again.reads)
    again.close()
    assert continued is not None
    assert continued.log_id == opened.log_id


def test_a_crash_between_commit_and_kept_head_is_no_rollback(home: Path) -> None:
    ledger = open_ledger(home)
    ledger.record_now(opening())
    before = (home / HEAD_NAME).read_bytes()
    ledger.record_now(note())
    ledger.close()
    (home / HEAD_NAME).write_bytes(before)
    again = open_ledger(home, series=1)
    again.record_now(note())
    again.close()
    kept = read_kept_head(home / HEAD_NAME)
    assert kept is not None
    assert kept.head.index == 5


class TestArchive:
    """The store opened for reading."""

    def test_it_needs_a_journal(self, home: Path) -> None:
        home.mkdir()
        with pytest.raises(StoreError) as fault:
            open_archive(home)
        assert (fault.value.code, list(home.iterdir())) == (Code.STORE_UNREACHABLE, [])

    def test_it_reads_while_others_write(self, ledger: Ledger, home: Path) -> None:
        archive = open_archive(home)
        ledger.record_now(note())
        assert archive.size() == 4
        kept = archive.kept_head()
        assert kept is not None
        assert kept.head.index == 4
        archive.close()

    def test_a_snapshot_stays_as_it_was(self, ledger: Ledger, home: Path) -> None:
        archive = open_archive(home)
        with archive.snapshot():
            assert archive.size() == 3
            ledger.record_now(note())
            assert archive.size() == 3
        assert archive.size() == 4
        archive.close()

    @pytest.mark.usefixtures("ledger")
    def test_it_has_no_head_where_none_is_kept(self, home: Path) -> None:
        (home / HEAD_NAME).unlink()
        archive = open_archive(home)
        assert archive.kept_head() is None
        archive.close()


def test_ended_calls_are_told_by_state(ledger: Ledger) -> None:
    ledger.record_now(admit(1))
    ledger.record_now(end(1, CallState.LAUNCHED, CallState.FAILED))
    assert state_of(ledger, 1) is CallState.FAILED
    assert state_of(ledger, 2) is None
