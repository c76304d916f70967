# SPDX-License-Identifier: Apache-2.0
"""The tables, and the numbered steps that lead to them."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import apsw

from palyra.core.errors import Code, StoreError
from palyra.store.sqlite.database import APPLICATION_ID, store_faults

if TYPE_CHECKING:
    from pathlib import Path

_FIRST: Final = """
CREATE TABLE journal (
    seq            INTEGER PRIMARY KEY,
    recorded_at_ms INTEGER NOT NULL,
    kind           TEXT    NOT NULL,
    subject        TEXT    NOT NULL,
    body           BLOB    NOT NULL,
    link           BLOB    NOT NULL,
    head           BLOB
) STRICT;
CREATE INDEX journal_by_subject ON journal (subject);
CREATE INDEX journal_configurations ON journal (seq) WHERE kind = 'config.applied';

CREATE TRIGGER journal_is_append_only_update BEFORE UPDATE ON journal
BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END;
CREATE TRIGGER journal_is_append_only_delete BEFORE DELETE ON journal
BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END;

CREATE TABLE sessions (
    session_id   TEXT PRIMARY KEY,
    principal    TEXT NOT NULL,
    credential   TEXT NOT NULL,
    opened_at_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE runs (
    run_id       TEXT PRIMARY KEY,
    session_id   TEXT NOT NULL REFERENCES sessions (session_id),
    opened_at_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE budgets (
    scope   TEXT PRIMARY KEY,
    calls   INTEGER NOT NULL,
    dropped INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE calls (
    call_id     TEXT PRIMARY KEY,
    run_id      TEXT NOT NULL,
    principal   TEXT NOT NULL,
    request_id  TEXT,
    call_digest TEXT NOT NULL,
    state       TEXT NOT NULL,
    approval_id TEXT,
    owner       TEXT,
    proposal    BLOB,
    ending      BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX calls_by_request ON calls (principal, request_id)
    WHERE request_id IS NOT NULL;
CREATE INDEX calls_under_way ON calls (owner) WHERE state = 'launched';

CREATE TABLE workspaces (
    name   TEXT PRIMARY KEY,
    root   TEXT NOT NULL UNIQUE,
    device INTEGER NOT NULL,
    inode  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
"""

_SECOND: Final = """
CREATE TABLE packs (
    digest       TEXT PRIMARY KEY,
    staged_at_ms INTEGER NOT NULL,
    was_active   INTEGER NOT NULL,
    body         BLOB NOT NULL
) STRICT;

CREATE TABLE rules (
    only          INTEGER PRIMARY KEY CHECK (only = 1),
    version       INTEGER NOT NULL,
    policy_digest TEXT NOT NULL REFERENCES packs (digest)
) STRICT;

CREATE TABLE postures (
    tool             TEXT NOT NULL,
    scope            TEXT NOT NULL,
    scope_id         TEXT NOT NULL,
    state            TEXT NOT NULL,
    reason           TEXT NOT NULL,
    set_by           TEXT NOT NULL,
    by_administrator INTEGER NOT NULL,
    set_at_ms        INTEGER NOT NULL,
    expires_at_ms    INTEGER,
    PRIMARY KEY (tool, scope, scope_id)
) STRICT, WITHOUT ROWID;
"""

_ROOM_BYTES: Final = 4 << 20

STEPS: Final[tuple[str, ...]] = (_FIRST, _SECOND)
"""Step n takes the schema from version n to n + 1. Published steps never change."""


class Difference(NamedTuple):
    """Something of the schema that is not as it should be."""

    kind: str
    """``table``, ``index``, ``trigger`` or ``view``."""
    name: str


def differences(connection: apsw.Connection) -> tuple[Difference, ...]:
    """Return what was added to, taken from or changed in the schema, tables first."""
    found = _schema_of(connection)
    expected = _expected_schema()
    changed = {
        part for part in found.keys() | expected.keys() if found.get(part) != expected.get(part)
    }
    return tuple(sorted((Difference(*part) for part in changed), key=_tables_first))


def require_tables(connection: apsw.Connection, *, path: Path) -> None:
    """Refuse a database whose tables are not ours: what is read from it could be anything.

    Raises:
        StoreError: a table was changed, replaced or taken away, or is of another version.
    """
    with store_faults(path):
        _require_version(connection, path=path)
        changed = [each for each in differences(connection) if each.kind in ("table", "view")]
    if changed:
        raise _changed(changed[0], path=path)


def _require_version(connection: apsw.Connection, *, path: Path) -> None:
    """Tell an older or newer store apart from one that somebody has changed."""
    version = int(connection.pragma("user_version"))
    if version == len(STEPS) or int(connection.pragma("application_id")) != APPLICATION_ID:
        return
    if version > len(STEPS):
        raise _newer(version, path=path)
    raise StoreError(
        Code.STORE_VERSION,
        f"{path} has schema version {version} of an older Palyra",
        hint="the next 'palyra call' brings it up to date; nothing in it is lost",
        details={"path": str(path), "version": version},
    )


def _newer(version: int, *, path: Path) -> StoreError:
    return StoreError(
        Code.STORE_VERSION,
        f"{path} has schema version {version}, this Palyra knows {len(STEPS)}",
        details={"path": str(path), "version": version},
    )


def _changed(difference: Difference, *, path: Path) -> StoreError:
    kind, name = difference
    return StoreError(
        Code.STORE_CORRUPT,
        f"{path}: {kind} {name[:64]!r} is not as Palyra made it",
        details={"path": str(path)},
    )


def _tables_first(difference: Difference) -> tuple[bool, Difference]:
    return difference.kind not in ("table", "view"), difference


def _schema_of(connection: apsw.Connection) -> dict[tuple[str, str], str]:
    rows: list[Any] = connection.execute(
        "SELECT type, name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite~_%' ESCAPE '~'"
    ).fetchall()
    return {(str(kind), str(name)): str(sql) for kind, name, sql in rows}


@lru_cache(maxsize=1)
def _expected_schema() -> dict[tuple[str, str], str]:
    memory = apsw.Connection(":memory:")
    try:
        for step in STEPS:
            memory.execute(step)
        return _schema_of(memory)
    finally:
        memory.close()


def prepare(connection: apsw.Connection, *, path: Path) -> None:
    """Bring the database to the current version, in one transaction.

    Raises:
        StoreError: the file is another program's database, or a newer Palyra's.
    """
    with store_faults(path):
        connection.execute("BEGIN IMMEDIATE")
        try:
            is_new = _step_up(connection, path=path)
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")
        if is_new:
            _make_room(connection)
        changed = differences(connection)
    if changed:
        raise _changed(changed[0], path=path)


def _make_room(connection: apsw.Connection) -> None:
    """Let the write-ahead log reach its usual size once, before it matters.

    A commit that makes the file grow waits for the file system's own journal too, which takes
    more than twice as long as overwriting what is there.
    """
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("CREATE TABLE room (filler BLOB)")
    connection.execute("INSERT INTO room VALUES (zeroblob(?))", (_ROOM_BYTES,))
    connection.execute("DROP TABLE room")
    connection.execute("COMMIT")
    connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_RESTART)


def _step_up(connection: apsw.Connection, *, path: Path) -> bool:
    version = int(connection.pragma("user_version"))
    application_id = int(connection.pragma("application_id"))
    is_empty = not connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchone()
    if not is_empty and application_id != APPLICATION_ID:
        raise StoreError(
            Code.STORE_CORRUPT, f"{path} is not a Palyra database", details={"path": str(path)}
        )
    if version > len(STEPS):
        raise _newer(version, path=path)
    if version == len(STEPS):
        return False
    for step in STEPS[version:]:
        connection.execute(step)
    connection.pragma("application_id", APPLICATION_ID)
    connection.pragma("user_version", len(STEPS))
    return is_empty
