# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

from palyra.core.chain import Head, SignedHead
from palyra.core.digest import PolicyDigest
from palyra.core.errors import Code, InputError, IntegrityError, StoreError
from palyra.core.events import ConfigApplied
from palyra.core.ids import CallId, InstanceId, LogId, RequestId, RunId, SessionId
from palyra.core.lifecycle import CallState
from palyra.core.ports import CallRecord, RulesInForce, StagedPack
from palyra.core.posture import PostureScope
from palyra.core.principal import Principal, PrincipalKind
from palyra.core.session import BudgetLeft
from palyra.core.transitions import Note
from palyra.store.sqlite import reads as reads_module
from palyra.store.sqlite.apply import apply
from palyra.store.sqlite.budgets import Budgets
from palyra.store.sqlite.reads import Reads, principal_of
from palyra.store.sqlite.rules import Rules
from tests.support.samples import AGENT, APPROVAL_ID, CALL, NOW_MS, PROPOSAL, SNAPSHOT
from tests.support.store import (
    LIMITS,
    POSTURE,
    RUN,
    SESSION,
    WORKSPACE,
    activate,
    add_workspace,
    admit,
    call_id,
    end,
    memory_database,
    opening,
    pack_body,
    pack_digest,
    set_posture,
    stage,
)

if TYPE_CHECKING:
    import apsw

    from palyra.core.transitions import Transition

OWNER = InstanceId("01JOWNER")
CONFIGURATION = ConfigApplied(
    snapshot_digest="s", policy_digest="p", assurance="developer", snapshot=SNAPSHOT
)


@pytest.fixture
def connection() -> apsw.Connection:
    connection = memory_database()
    put(connection, opening())
    return connection


@pytest.fixture
def reads(connection: apsw.Connection) -> Reads:
    return Reads(connection, path=Path("palyra.db"))


def put(connection: apsw.Connection, *transitions: Transition) -> None:
    """Apply transitions, without a journal."""
    budgets = Budgets(connection)
    for transition in transitions:
        apply(connection, transition, owner=OWNER, budgets=budgets, rules=Rules(connection))
    budgets.write()


def enter(
    connection: apsw.Connection,
    seq: int,
    kind: str,
    subject: str,
    body: bytes,
    *,
    head: bytes | None = None,
) -> None:
    connection.execute(
        "INSERT INTO journal VALUES (?, ?, ?, ?, ?, ?, ?)",
        (seq, NOW_MS, kind, subject, body, bytes(32), head),
    )


@pytest.mark.parametrize("principal", [AGENT, Principal(kind=PrincipalKind.OPERATOR, name="a.b")])
def test_a_principal_is_read_as_it_was_written(principal: Principal) -> None:
    assert principal_of(str(principal)) == principal


@pytest.mark.parametrize("text", ["", "agent", "robot:ada", "agent:", "agent:a b"])
def test_what_is_no_principal_is_refused(text: str) -> None:
    with pytest.raises((ValueError, InputError)):
        principal_of(text)


def test_sessions_and_runs_are_read_as_they_were_issued(reads: Reads) -> None:
    assert reads.session(SESSION.session_id) == SESSION
    assert reads.run(RUN.run_id) == RUN
    assert list(reads.sessions()) == [SESSION]
    assert list(reads.runs()) == [RUN]


def test_what_was_not_issued_is_not_there(reads: Reads) -> None:
    assert reads.session(SessionId("other")) is None
    assert reads.run(RunId("other")) is None
    assert reads.call(CallId("other")) is None
    assert reads.by_request(AGENT, RequestId("other")) is None


def test_calls_are_read_as_they_were_recorded(connection: apsw.Connection, reads: Reads) -> None:
    put(connection, admit(1, request_id=RequestId("r")), admit(2, CallState.PENDING))
    launched = CallRecord(
        call_id=call_id(1),
        principal=AGENT,
        session_id=RUN.session_id,
        run_id=RUN.run_id,
        state=CallState.LAUNCHED,
        approval_id=None,
        request_id=RequestId("r"),
        call_digest=CALL,
        owner=OWNER,
        kept_proposal=None,
        ending=b"",
    )
    pending = msgspec.structs.replace(
        launched,
        call_id=call_id(2),
        state=CallState.PENDING,
        approval_id=APPROVAL_ID,
        request_id=None,
        owner=None,
        kept_proposal=msgspec.structs.replace(PROPOSAL, call_id=call_id(2)),
        ending=b"{}",
    )
    assert reads.call(call_id(1)) == launched
    assert reads.call(call_id(2)) == pending
    assert reads.by_request(AGENT, RequestId("r")) == launched
    assert list(reads.calls()) == [launched, pending]
    assert reads.launched() == (launched,)


def test_an_ended_call_is_not_under_way(connection: apsw.Connection, reads: Reads) -> None:
    put(connection, admit(1), end(1, CallState.LAUNCHED, CallState.SUCCEEDED, ending=b"[]"))
    assert reads.launched() == ()
    ended = reads.call(call_id(1))
    assert ended is not None
    assert (ended.state, ended.ending) == (CallState.SUCCEEDED, b"[]")


def test_budgets_and_charges_add_up(connection: apsw.Connection, reads: Reads) -> None:
    later = admit(3, at_ms=NOW_MS + 3_600_000)
    put(connection, admit(1), admit(2, CallState.DENIED), later)
    assert reads.budget_left(RUN, limits=LIMITS, at_ms=NOW_MS) == BudgetLeft(
        run=29, session=1021, agent_hour=4094
    )
    assert sorted(reads.charges()) == [
        ("agent", "agent:ada", 3),
        ("run", RUN.run_id, 3),
        ("session", RUN.session_id, 3),
    ]


def test_workspaces_come_by_name(connection: apsw.Connection, reads: Reads) -> None:
    second = msgspec.structs.replace(WORKSPACE, name="a", root="/srv/a")
    put(connection, add_workspace(), add_workspace(second))
    assert reads.workspaces() == (second, WORKSPACE)


class TestRules:
    """Policies and postures, as they were put into force."""

    def test_none_are_in_force_before_the_first_start(self, reads: Reads) -> None:
        assert (reads.rules_in_force(), reads.packs(), reads.postures()) == (None, (), ())
        assert reads.pack(pack_digest(1)) is None

    def test_the_rules_in_force_are_those_activated_last(
        self, connection: apsw.Connection, reads: Reads
    ) -> None:
        put(connection, stage(1), activate(1, before=None))
        assert reads.rules_in_force() == RulesInForce(version=1, policy_digest=pack_digest(1))
        put(connection, set_posture(), stage(2), activate(2, before=1))
        assert reads.rules_in_force() == RulesInForce(version=3, policy_digest=pack_digest(2))

    def test_a_pack_is_read_as_it_was_staged(
        self, connection: apsw.Connection, reads: Reads
    ) -> None:
        put(connection, stage(1), activate(1, before=None))
        assert reads.pack(pack_digest(1)) == StagedPack(
            policy_digest=pack_digest(1), staged_at_ms=NOW_MS, was_active=True, body=pack_body(1)
        )

    def test_packs_come_without_their_bodies_the_latest_first(
        self, connection: apsw.Connection, reads: Reads
    ) -> None:
        put(connection, *(stage(number, at_ms=NOW_MS + number) for number in (2, 1, 3)))
        assert reads.packs() == tuple(
            StagedPack(
                policy_digest=pack_digest(number),
                staged_at_ms=NOW_MS + number,
                was_active=False,
                body=b"",
            )
            for number in (3, 2, 1)
        )

    def test_postures_are_read_as_they_were_set(
        self, connection: apsw.Connection, reads: Reads
    ) -> None:
        lasting = msgspec.structs.replace(
            POSTURE,
            scope=PostureScope.GLOBAL,
            scope_id="",
            by_administrator=False,
            expires_at_ms=None,
        )
        put(connection, stage(1), activate(1, before=None))
        put(connection, set_posture(POSTURE), set_posture(lasting))
        assert reads.postures() == (lasting, POSTURE)

    @pytest.mark.parametrize(
        "damage",
        [
            "UPDATE rules SET version = 0",
            "UPDATE rules SET version = -1",
            "UPDATE rules SET only = 2",
            "INSERT INTO rules SELECT 2, version, policy_digest FROM rules",
        ],
    )
    def test_rules_that_cannot_be_read_are_named(
        self, connection: apsw.Connection, reads: Reads, damage: str
    ) -> None:
        put(connection, stage(1), activate(1, before=None))
        connection.pragma("ignore_check_constraints", True)  # noqa: FBT003 - apsw's own signature
        connection.execute(damage)
        with pytest.raises(IntegrityError) as fault:
            reads.rules_in_force()
        assert (fault.value.code, fault.value.message) == (
            Code.JOURNAL_BROKEN,
            "the row of the rules in force cannot be read",
        )

    @pytest.mark.parametrize(
        "damage",
        ["DROP TABLE rules", "UPDATE rules SET policy_digest = CAST(x'ff' AS TEXT)"],
        ids=["no-table", "no-text"],
    )
    def test_a_fault_of_the_store_is_named(
        self, connection: apsw.Connection, reads: Reads, damage: str
    ) -> None:
        put(connection, stage(1), activate(1, before=None))
        connection.pragma("foreign_keys", False)  # noqa: FBT003 - apsw's own signature
        connection.execute(damage)
        with pytest.raises(StoreError) as fault:
            reads.rules_in_force()
        assert fault.value.code is Code.STORE_CORRUPT

    def test_a_pack_that_cannot_be_read_is_named(
        self, connection: apsw.Connection, reads: Reads
    ) -> None:
        put(connection, stage(1))
        connection.execute("UPDATE packs SET was_active = 2")
        for read in (reads.packs, lambda: reads.pack(PolicyDigest(pack_digest(1)))):
            with pytest.raises(IntegrityError) as fault:
                read()
            assert (fault.value.code, pack_digest(1) in fault.value.message) == (
                Code.JOURNAL_BROKEN,
                True,
            )

    @pytest.mark.parametrize(
        "damage",
        [
            "scope = 'galaxy'",
            "state = 'maybe'",
            "set_by = 'robot:ada'",
            "by_administrator = 2",
        ],
    )
    def test_a_posture_that_cannot_be_read_is_named(
        self, connection: apsw.Connection, reads: Reads, damage: str
    ) -> None:
        put(connection, stage(1), activate(1, before=None), set_posture())
        connection.execute(f"UPDATE postures SET {damage}")  # noqa: S608 - constants
        with pytest.raises(IntegrityError) as fault:
            reads.postures()
        assert fault.value.code is Code.JOURNAL_BROKEN
        assert fault.value.message.startswith("the posture of 'palyra.echo' for ")


class TestDamagedRows:
    """A row that cannot be read is named, never guessed."""

    @pytest.mark.parametrize(
        "damage",
        [
            "state = 'flying'",
            "principal = 'robot:ada'",
            "proposal = x'00'",
            "run_id = 'other'",
        ],
    )
    def test_a_call(self, connection: apsw.Connection, reads: Reads, damage: str) -> None:
        put(connection, admit(1, CallState.PENDING))
        connection.execute(f"UPDATE calls SET {damage}")  # noqa: S608 - constants
        assert list(reads.calls()) == [call_id(1)]
        with pytest.raises(IntegrityError) as fault:
            reads.call(call_id(1))
        assert (fault.value.code, fault.value.message) == (
            Code.JOURNAL_BROKEN,
            f"the state of {call_id(1)} cannot be read",
        )

    def test_a_session_and_its_run(self, connection: apsw.Connection, reads: Reads) -> None:
        connection.execute("UPDATE sessions SET principal = 'robot:ada'")
        assert list(reads.sessions()) == [SESSION.session_id]
        assert list(reads.runs()) == [RUN.run_id]
        with pytest.raises(IntegrityError):
            reads.session(SESSION.session_id)
        with pytest.raises(IntegrityError):
            reads.run(RUN.run_id)

    def test_a_run_without_its_session(self, connection: apsw.Connection, reads: Reads) -> None:
        connection.pragma("foreign_keys", False)  # noqa: FBT003 - apsw's own signature
        connection.execute("DELETE FROM sessions")
        assert list(reads.runs()) == [RUN.run_id]
        assert reads.run(RUN.run_id) is None

    def test_the_configuration(self, connection: apsw.Connection, reads: Reads) -> None:
        enter(connection, 1, "config.applied", "s", b"{}")
        with pytest.raises(IntegrityError) as fault:
            reads.latest_configuration()
        assert fault.value.code is Code.JOURNAL_BROKEN

    def test_an_entry_is_read_all_the_same(self, connection: apsw.Connection, reads: Reads) -> None:
        connection.execute(
            "INSERT INTO journal VALUES (1, -1, CAST(x'ff61' AS TEXT), '', x'', x'01', NULL)"
        )
        (entry,) = reads.entries()
        assert (entry.kind, entry.recorded_at_ms, entry.link) == ("\ufffda", -1, b"\x01")


class TestEntries:
    """The journal in order, a page at a time."""

    @pytest.fixture(autouse=True)
    def small_pages(self, monkeypatch: pytest.MonkeyPatch, connection: apsw.Connection) -> None:
        monkeypatch.setattr(reads_module, "_PAGE", 2)
        for seq in range(1, 6):
            enter(connection, seq, f"kind.{seq}", f"subject-{seq % 2}", b"{}")

    @pytest.mark.parametrize(
        ("first", "last", "expected"),
        [(1, None, [1, 2, 3, 4, 5]), (2, 3, [2, 3]), (4, None, [4, 5]), (6, None, []), (3, 2, [])],
    )
    def test_any_stretch_is_read(
        self, reads: Reads, first: int, last: int | None, expected: list[int]
    ) -> None:
        assert [entry.index for entry in reads.entries(first=first, last=last)] == expected

    def test_an_entry_at_either_end_of_all_numbers_is_read(
        self, connection: apsw.Connection, reads: Reads
    ) -> None:
        largest, smallest = (1 << 63) - 1, -(1 << 63)
        enter(connection, largest, "kind", "subject", b"{}")
        enter(connection, smallest, "kind", "subject", b"{}")
        indices = [entry.index for entry in reads.entries(first=smallest)]
        assert indices == [smallest, 1, 2, 3, 4, 5, largest]

    def test_entries_are_found_by_subject(self, reads: Reads) -> None:
        assert [entry.index for entry in reads.of_subject("subject-1")] == [1, 3, 5]
        assert reads.of_subject("other") == ()

    @pytest.mark.parametrize("count", [0, 1, 2, 3, 4])
    def test_entries_are_found_by_kind(
        self, connection: apsw.Connection, reads: Reads, count: int
    ) -> None:
        for seq in range(10, 10 + count):
            enter(connection, seq, "kind.x", "subject", b"{}")
            enter(connection, seq + 10, "kind.y", "subject", b"{}")
        assert [entry.index for entry in reads.of_kind("kind.x")] == list(range(10, 10 + count))
        assert [entry.index for entry in reads.of_kind("kind.2")] == [2]
        assert list(reads.of_kind("kind")) == []

    def test_entries_of_a_kind_are_found_since_a_time(
        self, connection: apsw.Connection, reads: Reads
    ) -> None:
        for seq, at_ms in ((10, 5), (11, 9), (12, 7), (13, 9), (14, 8)):  # clocks go back
            connection.execute(
                "INSERT INTO journal VALUES (?, ?, 'kind.x', 'subject', x'', x'', NULL)",
                (seq, at_ms),
            )
        assert [entry.index for entry in reads.of_kind("kind.x", since_ms=8)] == [11, 13, 14]

    def test_an_entry_at_the_end_of_all_numbers_ends_a_kind(
        self, connection: apsw.Connection, reads: Reads
    ) -> None:
        for seq in ((1 << 63) - 2, (1 << 63) - 1):
            enter(connection, seq, "kind.x", "subject", b"{}")
        assert len(list(reads.of_kind("kind.x"))) == 2

    def test_the_size_is_the_last_index(self, reads: Reads) -> None:
        assert reads.size() == 5


def test_an_empty_journal_has_size_zero(reads: Reads) -> None:
    assert (reads.size(), list(reads.entries()), list(reads.heads())) == (0, [], [])


class TestHeads:
    """Heads are read beside their entries; one not written our way is none of ours."""

    SIGNED = SignedHead(
        head=Head(log_id=LogId("log"), first=1, index=2, link="a" * 64, recorded_at_ms=1),
        key_id="k",  # type: ignore[arg-type]
        signature="f" * 128,
    )
    TEXT = msgspec.json.encode(SIGNED, order="sorted")

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            pytest.param(TEXT, SIGNED, id="as-written"),
            pytest.param(TEXT + b" ", None, id="a-blank-more"),
            pytest.param(TEXT.replace(b'"format"', b'"fprmat"'), None, id="a-default-would-fit"),
            pytest.param(b"{}", None, id="nothing-in-it"),
            pytest.param(b"\xff", None, id="not-json"),
            pytest.param(b"", None, id="empty"),
        ],
    )
    def test_a_head(
        self,
        connection: apsw.Connection,
        reads: Reads,
        text: bytes,
        expected: SignedHead | None,
    ) -> None:
        enter(connection, 1, "kind", "subject", b"{}")
        enter(connection, 2, "kind", "subject", b"{}", head=text)
        assert list(reads.heads()) == [(2, expected)]
        assert list(reads.heads(first=3)) == []


def test_the_latest_configuration_is_the_last_recorded(
    connection: apsw.Connection, reads: Reads
) -> None:
    assert reads.latest_configuration() is None
    for seq, digest in enumerate(("one", "two"), start=1):
        applied = msgspec.structs.replace(CONFIGURATION, policy_digest=digest)
        enter(connection, seq, applied.kind, applied.subject, msgspec.json.encode(applied))
    assert reads.latest_configuration() == ("s", "two")
    assert Note(events=(CONFIGURATION,)).events[0].subject == "s"


def test_an_attestation_is_found_by_its_id(connection: apsw.Connection, reads: Reads) -> None:
    body = b'{"attestation":{"statement":{"attestation_id":"A1"}}}'
    enter(connection, 1, "call.decided", "c", body)
    enter(connection, 2, "call.ended", "c", body)
    assert (reads.attested_at("A1"), reads.attested_at("A2")) == (2, None)


def test_a_sound_database_has_no_damage(reads: Reads) -> None:
    assert list(reads.damage()) == []


def test_a_damaged_index_is_told(connection: apsw.Connection, reads: Reads) -> None:
    enter(connection, 1, "kind", "subject", b"{}")
    connection.pragma("writable_schema", True)  # noqa: FBT003 - apsw's own signature
    connection.execute(
        "UPDATE sqlite_schema SET sql = 'CREATE INDEX journal_by_subject ON journal (kind)'"
        " WHERE name = 'journal_by_subject'"
    )
    connection.pragma("writable_schema", "reset")
    told = list(reads.damage())
    assert told[0] == "index 'journal_by_subject' of the database is not as Palyra made it"
    assert told[1:]
    assert all(sentence.startswith("the database is damaged:") for sentence in told[1:])
