# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import apsw
import pytest

from palyra.core.digest import content_sha256
from palyra.core.errors import Code, StoreError
from palyra.core.lifecycle import CallState
from palyra.store.sqlite.database import APPLICATION_ID, connect_writer
from palyra.store.sqlite.ledger import DATABASE_NAME
from palyra.store.sqlite.schema import (
    STEPS,
    Difference,
    differences,
    prepare,
    require_tables,
)
from tests.support.ordinary_user import as_ordinary_user
from tests.support.store import (
    activate,
    add_workspace,
    admit,
    open_archive,
    open_ledger,
    opening,
    stage,
    state_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TABLES = [
    "budgets",
    "calls",
    "journal",
    "packs",
    "postures",
    "rules",
    "runs",
    "sessions",
    "workspaces",
]
FIRST_STEP_SHA256 = "e96d6deba869f113ba260b8fadaff7b6a1cd954ed6b3893df5228d29e10c87a2"
"""Published steps never change: homes out there were made by this one."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "palyra.db"


@pytest.fixture
def connection(path: Path) -> Iterator[apsw.Connection]:
    connection = connect_writer(path, busy_timeout_ms=0)
    yield connection
    connection.close()


def tables(connection: apsw.Connection) -> list[str]:
    sql = "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name"
    return [name for (name,) in connection.execute(sql)]


def refusal(connection: apsw.Connection, path: Path) -> Code:
    with pytest.raises(StoreError) as fault:
        prepare(connection, path=path)
    assert str(path) in fault.value.message
    return fault.value.code


def test_a_new_database_gets_every_table(connection: apsw.Connection, path: Path) -> None:
    prepare(connection, path=path)
    assert tables(connection) == TABLES
    assert connection.pragma("user_version") == len(STEPS)
    assert connection.pragma("application_id") == APPLICATION_ID


def test_preparing_again_changes_nothing(connection: apsw.Connection, path: Path) -> None:
    prepare(connection, path=path)
    before = connection.execute("SELECT * FROM sqlite_schema").fetchall()
    prepare(connection, path=path)
    assert connection.execute("SELECT * FROM sqlite_schema").fetchall() == before


def test_every_table_is_strict_about_types(connection: apsw.Connection, path: Path) -> None:
    prepare(connection, path=path)
    listed = connection.execute("SELECT name, strict FROM pragma_table_list").fetchall()
    assert {name: strict for name, strict in listed if name in TABLES} == dict.fromkeys(TABLES, 1)


def test_the_write_ahead_log_has_room_from_the_start(
    connection: apsw.Connection, path: Path
) -> None:
    prepare(connection, path=path)
    assert path.with_name("palyra.db-wal").stat().st_size > 4 << 20


@pytest.mark.invariant("I8")
@pytest.mark.parametrize(
    "statement", ["UPDATE journal SET body = x'00'", "DELETE FROM journal", "REPLACE INTO journal"]
)
def test_entries_can_only_be_added(connection: apsw.Connection, path: Path, statement: str) -> None:
    prepare(connection, path=path)
    connection.pragma("recursive_triggers", True)  # noqa: FBT003 - apsw's own signature
    row = "VALUES (1, 2, 'kind', 'subject', x'', x'', NULL)"
    connection.execute(f"INSERT INTO journal {row}")
    with pytest.raises(apsw.ConstraintError, match="append-only"):
        connection.execute(f"{statement} {row}" if "REPLACE" in statement else statement)


def test_another_programs_database_is_refused(connection: apsw.Connection, path: Path) -> None:
    connection.execute("CREATE TABLE theirs (x)")
    assert refusal(connection, path) is Code.STORE_CORRUPT
    assert tables(connection) == ["theirs"]


def test_another_programs_mark_is_refused(connection: apsw.Connection, path: Path) -> None:
    prepare(connection, path=path)
    connection.pragma("application_id", 1)
    assert refusal(connection, path) is Code.STORE_CORRUPT


def test_a_newer_schema_is_refused(connection: apsw.Connection, path: Path) -> None:
    prepare(connection, path=path)
    connection.pragma("user_version", len(STEPS) + 1)
    assert refusal(connection, path) is Code.STORE_VERSION


def test_a_held_database_is_busy(connection: apsw.Connection, path: Path) -> None:
    other = connect_writer(path, busy_timeout_ms=0)
    other.execute("BEGIN IMMEDIATE")
    assert refusal(connection, path) is Code.STORE_BUSY
    other.close()


def test_the_published_step_is_unchanged() -> None:
    assert content_sha256(STEPS[0].encode()) == FIRST_STEP_SHA256


class TestOlderStores:
    """A home that an earlier version made."""

    @pytest.fixture
    def older(self, tmp_path: Path) -> Path:
        """Return a home of schema version 1, with entries, a call under way and a workspace."""
        home = tmp_path / "home"
        ledger = open_ledger(home)
        for transition in (opening(), add_workspace(), admit(1), admit(2, CallState.PENDING)):
            ledger.record_now(transition)
        ledger.close()
        connection = apsw.Connection(str(home / DATABASE_NAME))
        for table in ("postures", "rules", "packs"):
            connection.execute(f"DROP TABLE {table}")
        connection.pragma("user_version", 1)
        made = apsw.Connection(":memory:")
        made.execute(STEPS[0])
        schema = "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY name"
        assert connection.execute(schema).fetchall() == made.execute(schema).fetchall()
        connection.close()
        return home

    @staticmethod
    def content(home: Path) -> dict[str, list[Any]]:
        connection = apsw.Connection(str(home / DATABASE_NAME))
        names = tables(connection)
        content = {
            name: list(connection.execute(f"SELECT * FROM {name}").fetchall())  # noqa: S608
            for name in names
        }
        connection.close()
        return content

    def test_it_is_brought_up_to_date_with_everything_in_it(self, older: Path) -> None:
        before = self.content(older)
        assert len(before["journal"]) == 8
        connection = connect_writer(older / DATABASE_NAME, busy_timeout_ms=0)
        prepare(connection, path=older / DATABASE_NAME)
        assert differences(connection) == ()
        assert (connection.pragma("user_version"), tables(connection)) == (len(STEPS), TABLES)
        connection.close()
        assert self.content(older) == {**before, "packs": [], "rules": [], "postures": []}

    def test_it_goes_on_being_written(self, older: Path) -> None:
        ledger = open_ledger(older, series=1)
        for transition in (stage(1), activate(1, before=None), admit(3, rules_version=1)):
            ledger.record_now(transition)
        assert ledger.rules_in_force() is not None
        assert state_of(ledger, 2) is CallState.PENDING
        ledger.close()
        archive = open_archive(older)
        assert list(archive.damage()) == []
        archive.close()

    def test_two_processes_may_bring_it_up_to_date(self, older: Path) -> None:
        writers = [connect_writer(older / DATABASE_NAME, busy_timeout_ms=0) for _ in range(2)]
        for writer in writers:
            prepare(writer, path=older / DATABASE_NAME)
            assert differences(writer) == ()
        for writer in writers:
            writer.close()

    def test_a_reader_says_that_it_is_older(self, older: Path) -> None:
        with pytest.raises(StoreError) as fault:
            open_archive(older)
        assert (fault.value.code, fault.value.details["version"]) == (Code.STORE_VERSION, 1)
        assert "brings it up to date" in fault.value.hint

    def test_one_that_only_says_it_is_older_is_refused(self, tmp_path: Path) -> None:
        open_ledger(tmp_path / "home").close()
        connection = connect_writer(tmp_path / "home" / DATABASE_NAME, busy_timeout_ms=0)
        connection.pragma("user_version", 1)
        assert refusal(connection, tmp_path) is Code.STORE_CORRUPT
        connection.close()


@pytest.mark.parametrize("opened", ["to be written", "to be read"])
def test_a_newer_store_is_told_as_such(
    connection: apsw.Connection, path: Path, opened: str
) -> None:
    prepare(connection, path=path)
    connection.execute("CREATE TABLE newer (x)")
    connection.pragma("user_version", len(STEPS) + 1)
    with pytest.raises(StoreError) as fault:
        (prepare if opened == "to be written" else require_tables)(connection, path=path)
    assert fault.value.code is Code.STORE_VERSION


@pytest.mark.parametrize("offset", [0, 20, 100])
def test_a_corrupt_header_is_refused(path: Path, offset: int) -> None:
    connection = connect_writer(path, busy_timeout_ms=0)
    prepare(connection, path=path)
    connection.close()
    for leftover in ("palyra.db-wal", "palyra.db-shm"):
        path.with_name(leftover).unlink(missing_ok=True)
    content = bytearray(path.read_bytes())
    content[offset : offset + 30] = bytes(30)
    path.write_bytes(content)
    with pytest.raises(StoreError) as fault:
        prepare(connect_writer(path, busy_timeout_ms=0), path=path)
    assert fault.value.code is Code.STORE_CORRUPT


@pytest.mark.parametrize(
    ("file_mode", "folder_mode"),
    [
        pytest.param(0o400, 0o700, id="the-file-is-read-only"),
        pytest.param(0o600, 0o500, id="the-folder-is-read-only"),
        pytest.param(0o400, 0o500, id="both-are-read-only"),
        pytest.param(0o000, 0o700, id="the-file-is-closed"),
    ],
)
def test_a_database_that_cannot_be_written_is_refused(file_mode: int, folder_mode: int) -> None:
    with as_ordinary_user() as folder:
        path = folder / "palyra.db"
        connection = connect_writer(path, busy_timeout_ms=0)
        prepare(connection, path=path)
        connection.close()
        for leftover in ("palyra.db-wal", "palyra.db-shm"):
            path.with_name(leftover).unlink(missing_ok=True)
        path.chmod(file_mode)
        folder.chmod(folder_mode)
        with pytest.raises(StoreError) as fault:
            prepare(connect_writer(path, busy_timeout_ms=0), path=path)
        folder.chmod(0o700)
    assert fault.value.code in {Code.STORE_READ_ONLY, Code.STORE_UNREACHABLE}


@pytest.mark.invariant("I8")
@pytest.mark.parametrize(
    ("change", "kind", "name"),
    [
        ("DROP TRIGGER journal_is_append_only_delete", "trigger", "journal_is_append_only_delete"),
        ("DROP INDEX calls_by_request", "index", "calls_by_request"),
        ("CREATE TABLE more (x)", "table", "more"),
        ("ALTER TABLE calls ADD COLUMN more TEXT", "table", "calls"),
        ("CREATE VIEW more AS SELECT 1", "view", "more"),
        ("DROP TABLE postures", "table", "postures"),
        ("ALTER TABLE rules ADD COLUMN more TEXT", "table", "rules"),
    ],
)
def test_a_schema_that_is_not_as_it_was_made_is_refused(
    tmp_path: Path, change: str, kind: str, name: str
) -> None:
    path = tmp_path / "palyra.db"
    connection = connect_writer(path, busy_timeout_ms=100)
    prepare(connection, path=path)
    require_tables(connection, path=path)
    assert differences(connection) == ()
    connection.execute(change)
    assert differences(connection) == (Difference(kind=kind, name=name),)
    with pytest.raises(StoreError) as caught:
        prepare(connection, path=path)
    assert (caught.value.code, name in caught.value.message) == (Code.STORE_CORRUPT, True)
    if kind in ("table", "view"):
        with pytest.raises(StoreError):
            require_tables(connection, path=path)
    else:
        require_tables(connection, path=path)  # readers go on, and tell it among other problems
    connection.close()
