# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import TYPE_CHECKING

import apsw
import pytest

from palyra.core.errors import Code, StoreError
from palyra.store.sqlite.database import APPLICATION_ID, connect_writer
from palyra.store.sqlite.schema import (
    STEPS,
    Difference,
    differences,
    prepare,
    require_tables,
)
from tests.support.ordinary_user import as_ordinary_user

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TABLES = ["budgets", "calls", "journal", "runs", "sessions", "workspaces"]


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
