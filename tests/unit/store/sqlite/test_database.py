# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import TYPE_CHECKING

import apsw
import pytest

from palyra.core.errors import Code, StoreError
from palyra.store.sqlite.database import (
    as_store_error,
    connect_reader,
    connect_writer,
    store_faults,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "palyra.db"


@pytest.fixture
def writer(path: Path) -> Iterator[apsw.Connection]:
    connection = connect_writer(path, busy_timeout_ms=0)
    connection.execute("CREATE TABLE t (x TEXT)")
    yield connection
    connection.close()


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (apsw.FullError, Code.STORE_FULL),
        (apsw.ReadOnlyError, Code.STORE_READ_ONLY),
        (apsw.PermissionsError, Code.STORE_READ_ONLY),
        (apsw.BusyError, Code.STORE_BUSY),
        (apsw.LockedError, Code.STORE_BUSY),
        (apsw.CorruptError, Code.STORE_CORRUPT),
        (apsw.NotADBError, Code.STORE_CORRUPT),
        (apsw.SQLError, Code.STORE_CORRUPT),
        (apsw.CantOpenError, Code.STORE_UNREACHABLE),
        (apsw.IOError, Code.STORE_UNREACHABLE),
        (apsw.NoMemError, Code.STORE_UNREACHABLE),
    ],
)
def test_every_fault_of_sqlite_has_a_code(path: Path, error: type[apsw.Error], code: Code) -> None:
    fault = as_store_error(error("what happened"), path=path)
    assert (fault.code, fault.message, dict(fault.details)) == (
        code,
        f"{path}: what happened",
        {"path": str(path)},
    )


def test_other_exceptions_pass_unchanged(path: Path) -> None:
    with pytest.raises(ZeroDivisionError), store_faults(path):
        raise ZeroDivisionError


def test_text_that_is_no_text_is_a_corrupt_store(path: Path, writer: apsw.Connection) -> None:
    writer.execute("INSERT INTO t VALUES (CAST(x'ff' AS TEXT))")
    with pytest.raises(StoreError) as fault, store_faults(path):
        writer.execute("SELECT x FROM t").fetchall()
    assert fault.value.code is Code.STORE_CORRUPT


@pytest.mark.invariant("I7")
def test_the_writer_is_durable_at_every_commit(writer: apsw.Connection) -> None:
    full = 2
    assert writer.pragma("journal_mode") == "wal"
    assert writer.pragma("synchronous") == full
    assert writer.pragma("foreign_keys") == 1
    assert writer.pragma("trusted_schema") == 0


def test_the_write_ahead_log_stays_when_the_last_connection_closes(path: Path) -> None:
    connection = connect_writer(path, busy_timeout_ms=0)
    connection.execute("CREATE TABLE t (x)")
    connection.close()
    assert path.with_name("palyra.db-wal").stat().st_size > 0


def test_a_reader_sees_commits_and_changes_nothing(path: Path, writer: apsw.Connection) -> None:
    reader = connect_reader(path, busy_timeout_ms=0)
    writer.execute("INSERT INTO t VALUES ('a')")
    assert reader.execute("SELECT x FROM t").get == "a"
    with pytest.raises(StoreError) as fault, store_faults(path):
        reader.execute("DELETE FROM t")
    reader.close()
    assert fault.value.code is Code.STORE_READ_ONLY


def test_a_reader_creates_no_database(path: Path) -> None:
    with pytest.raises(StoreError) as fault:
        connect_reader(path, busy_timeout_ms=0)
    assert fault.value.code is Code.STORE_UNREACHABLE
    assert not path.exists()


@pytest.mark.parametrize("connect", [connect_reader, connect_writer])
def test_a_file_that_is_no_database_is_corrupt(path: Path, connect: object) -> None:
    assert callable(connect)
    path.write_bytes(b"This is not a database." * 100)
    with pytest.raises(StoreError) as fault, store_faults(path):
        connect(path, busy_timeout_ms=0).execute("SELECT * FROM sqlite_schema").fetchall()
    assert fault.value.code is Code.STORE_CORRUPT


def test_a_folder_is_no_database(tmp_path: Path) -> None:
    with pytest.raises(StoreError) as fault:
        connect_writer(tmp_path, busy_timeout_ms=0)
    assert fault.value.code is Code.STORE_UNREACHABLE


def test_a_held_store_is_busy_after_the_timeout(path: Path, writer: apsw.Connection) -> None:
    other = connect_writer(path, busy_timeout_ms=20)
    writer.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError) as fault, store_faults(path):
        other.execute("BEGIN IMMEDIATE")
    other.close()
    assert fault.value.code is Code.STORE_BUSY
