# SPDX-License-Identifier: Apache-2.0
"""Connections to the database file, and the one translation of SQLite's faults into ours."""

from __future__ import annotations

import ctypes
import os
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

import apsw

from palyra.core.errors import Code, StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

APPLICATION_ID: Final = 0x50414C59  # "PALY": what `file` and we recognise the database by

_WRITING: Final = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE

_CODES: Final[tuple[tuple[type[apsw.Error], Code], ...]] = (
    (apsw.FullError, Code.STORE_FULL),
    (apsw.ReadOnlyError, Code.STORE_READ_ONLY),
    (apsw.PermissionsError, Code.STORE_READ_ONLY),
    (apsw.BusyError, Code.STORE_BUSY),
    (apsw.LockedError, Code.STORE_BUSY),
    (apsw.CorruptError, Code.STORE_CORRUPT),
    (apsw.SQLError, Code.STORE_CORRUPT),  # a table or a column that should be there is not
    (apsw.NotADBError, Code.STORE_CORRUPT),
)


@contextmanager
def store_faults(path: Path) -> Iterator[None]:
    """Turn any SQLite error into a ``StoreError`` that names the database."""
    try:
        yield
    except apsw.Error as error:
        raise as_store_error(error, path=path) from error
    except UnicodeDecodeError as error:
        raise StoreError(
            Code.STORE_CORRUPT, f"{path}: a text in it is not UTF-8", details={"path": str(path)}
        ) from error


def as_store_error(error: apsw.Error, *, path: Path) -> StoreError:
    """Return the typed fault of a SQLite error."""
    code = next((code for kind, code in _CODES if isinstance(error, kind)), Code.STORE_UNREACHABLE)
    return StoreError(code, f"{path}: {error}", details={"path": str(path)})


def connect_writer(path: Path, *, busy_timeout_ms: int) -> apsw.Connection:
    """Open the database for writing: WAL, and every commit on disk before it returns (I7)."""
    _create_private(path)
    with store_faults(path), _opened(path, flags=_WRITING) as connection:
        if connection.readonly("main"):  # SQLite falls back to reading, and says so only later
            raise apsw.ReadOnlyError("the file cannot be written")
        connection.set_busy_timeout(busy_timeout_ms)
        connection.pragma("journal_mode", "wal")
        connection.pragma("synchronous", "full")
        connection.pragma("secure_delete", "fast")  # what a pending call held is overwritten
        connection.pragma("foreign_keys", True)  # noqa: FBT003 - apsw's own signature
        connection.pragma("trusted_schema", False)  # noqa: FBT003
        _keep_log_file(connection)
    return connection


@contextmanager
def _opened(path: Path, *, flags: int) -> Iterator[apsw.Connection]:
    """Open a connection, and close it if it cannot be set up."""
    connection = apsw.Connection(str(path), flags=flags)
    try:
        yield connection
    except BaseException:
        connection.close()
        raise


def _create_private(path: Path) -> None:
    """Create the file for its owner alone; SQLite gives its log files the same rights."""
    with suppress(OSError):  # it exists, or SQLite will say what is wrong with it
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def _keep_log_file(connection: apsw.Connection) -> None:
    """Leave the write-ahead log in place, at its size, when the last connection closes."""
    yes = ctypes.c_int(1)
    connection.file_control("main", apsw.SQLITE_FCNTL_PERSIST_WAL, ctypes.addressof(yes))


def connect_reader(path: Path, *, busy_timeout_ms: int) -> apsw.Connection:
    """Open the database for reading only."""
    with store_faults(path), _opened(path, flags=apsw.SQLITE_OPEN_READONLY) as connection:
        connection.set_busy_timeout(busy_timeout_ms)
        connection.pragma("query_only", True)  # noqa: FBT003
        connection.pragma("trusted_schema", False)  # noqa: FBT003
    return connection
