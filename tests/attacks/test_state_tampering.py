# SPDX-License-Identifier: Apache-2.0
"""Somebody edits not the journal but the state that the gate acts on; the two no longer agree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import apsw
import pytest

from palyra.store.sqlite.ledger import DATABASE_NAME
from tests.support.journals import Original, make_home
from tests.support.tampering import flipped

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.invariant("I8")


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Original:
    folder = tmp_path_factory.mktemp("state")
    return Original.of(make_home(folder), at=folder / "original")


UNCHECKED = {
    ("calls", "owner", "launched"),
    ("sessions", "opened_at_ms", ""),
    ("runs", "opened_at_ms", ""),
    ("budgets", "dropped", ""),
}
"""Columns that no entry speaks of: nothing is decided by the times, the rest is in the docs."""


def state_rows(original: Original) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield every row of the state with its table and key."""
    connection = apsw.Connection(str(original.home / DATABASE_NAME))
    for table, key in (
        ("calls", "call_id"),
        ("sessions", "session_id"),
        ("runs", "run_id"),
        ("workspaces", "name"),
        ("budgets", "scope"),
    ):
        cursor = connection.execute(f"SELECT * FROM {table}")  # noqa: S608 - constants
        names = [name for name, _ in cursor.get_description()]
        for row in cursor.fetchall():
            yield table, key, dict(zip(names, row, strict=True))
    connection.close()


def other_value(value: object) -> object:
    match value:
        case int():
            return value + 1
        case bytes():
            return flipped(value, len(value) // 2) if value else b"{}"
        case None:
            return "other"
        case _:
            return f"{value}x"


def test_every_change_of_the_state_is_found(original: Original, tmp_path: Path) -> None:
    wrong, tried = [], 0
    for table, key, row in state_rows(original):
        for column, value in row.items():
            if (table, column, row.get("state", "") if column == "owner" else "") in UNCHECKED:
                continue
            if column == "ending" and row["state"] == "pending":
                continue  # told while the call waits; what it is told at its end is recorded
            if column == "scope" and value.startswith("hour/"):
                continue  # an hour may be taken for another; their sum is compared
            other = b"{}" if column == "proposal" and value is None else other_value(value)
            with original.tampered(tmp_path / "copy") as copy:
                copy.connection.pragma("foreign_keys", "off")
                copy.do(f"UPDATE {table} SET {column} = ? WHERE {key} = ?", other, row[key])  # noqa: S608
                tried += 1
                if copy.verify().ok:
                    wrong.append((table, column, row[key], value, other))
    assert wrong == []
    assert tried > 200


def test_every_removed_row_of_the_state_is_found(original: Original, tmp_path: Path) -> None:
    wrong: list[object] = []
    for table, key, row in state_rows(original):
        with original.tampered(tmp_path / "copy") as copy:
            copy.connection.pragma("foreign_keys", "off")
            copy.do(f"DELETE FROM {table} WHERE {key} = ?", row[key])  # noqa: S608 - constants
            problems = copy.verify().problems
        if not problems:
            wrong.append((table, row[key]))
        elif table in {"calls", "sessions", "runs"}:
            first = next(each.seq for each in original.rows if each.subject == row[key])
            if problems[0].index not in range(first, original.last + 1):
                wrong.append((table, row[key], problems))
    assert wrong == []


def test_every_added_row_of_the_state_is_found(original: Original, tmp_path: Path) -> None:
    wrong = []
    for table, key, row in state_rows(original):
        added = {**row, key: f"{row[key]}x"}
        if table == "calls":
            added["request_id"] = None
        if table == "workspaces":
            added["root"] = "/srv/added"
        with original.tampered(tmp_path / "copy") as copy:
            places = ", ".join("?" * len(added))
            copy.do(f"INSERT INTO {table} VALUES ({places})", *added.values())  # noqa: S608
            if copy.verify().ok:
                wrong.append((table, row[key]))
    assert wrong == []


OUTCOMES = [
    ('"ok":true', '"ok":false'),
    ('"ok":false', '"ok":true'),
    ('"timed_out":true', '"timed_out":false'),
    ('"truncated":false', '"truncated":true'),
    ('"limit":null', '"limit":"bytes"'),
    ('"duration_ms":', '"duration_ms":1'),
    ('"code":"tool.failed"', '"code":"tool.output_invalid"'),
    ('"output":{"echo":"hi"}', '"output":{"echo":"ho"}'),
    ('"output":null', '"output":{"echo":"hi"}'),
]


@pytest.mark.parametrize(("told", "retold"), OUTCOMES, ids=[told for told, _ in OUTCOMES])
def test_an_outcome_cannot_be_retold(
    original: Original, tmp_path: Path, told: str, retold: str
) -> None:
    connection = apsw.Connection(str(original.home / DATABASE_NAME))
    endings: list[Any] = connection.execute("SELECT call_id, ending FROM calls").fetchall()
    connection.close()
    found = [(call, ending) for call, ending in endings if told.encode() in ending]
    assert found
    for call, ending in found:
        with original.tampered(tmp_path / "copy") as copy:
            changed = ending.replace(told.encode(), retold.encode())
            copy.do("UPDATE calls SET ending = ? WHERE call_id = ?", changed, call)
            assert not copy.verify().ok, call


def test_a_damaged_index_is_found(original: Original, tmp_path: Path) -> None:
    with original.tampered(tmp_path / "copy") as copy:
        copy.connection.pragma("writable_schema", "on")
        copy.do(
            "UPDATE sqlite_schema SET sql = 'CREATE INDEX journal_by_subject ON journal (kind)'"
            " WHERE name = 'journal_by_subject'"
        )
        assert not copy.verify().ok
