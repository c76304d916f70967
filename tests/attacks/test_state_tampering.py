# SPDX-License-Identifier: Apache-2.0
"""Somebody edits not the journal but the state that the gate acts on; the two no longer agree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import apsw
import pytest

from palyra.store.sqlite.ledger import DATABASE_NAME
from tests.support.journals import Original, make_home
from tests.support.rule_tampering import RULE_ATTACKS
from tests.support.tampering import flipped, missed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.support.journals import Copy
    from tests.support.tampering import Attack

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
    ("packs", "staged_at_ms", ""),
}
"""Columns that no entry speaks of: nothing is decided by the times, the rest is in the docs."""

KEYS: dict[str, tuple[str, ...]] = {
    "calls": ("call_id",),
    "sessions": ("session_id",),
    "runs": ("run_id",),
    "workspaces": ("name",),
    "budgets": ("scope",),
    "packs": ("digest",),
    "rules": ("only",),
    "postures": ("tool", "scope", "scope_id"),
}


INSTEAD_OF_NULL: dict[str, object] = {
    "proposal": b"{}",
    "expires_at_ms": 1,
    "request_id": "other",
    "approval_id": "other",
    "owner": "other",
}


class StateRow:
    """One row of the state, and how it is found again."""

    def __init__(self, table: str, columns: dict[str, Any]) -> None:
        self.table = table
        self.columns = columns
        self.key = tuple(columns[name] for name in KEYS[table])
        self.where = " AND ".join(f"{name} = ?" for name in KEYS[table])


def state_rows(original: Original) -> Iterator[StateRow]:
    """Yield every row of the state."""
    connection = apsw.Connection(str(original.home / DATABASE_NAME))
    for table in KEYS:
        cursor = connection.execute(f"SELECT * FROM {table}")  # noqa: S608 - constants
        names = [name for name, _ in cursor.get_description()]
        for row in cursor.fetchall():
            yield StateRow(table, dict(zip(names, row, strict=True)))
    connection.close()


def lift_constraints(copy: Copy) -> None:
    """Let rows be changed that refer to each other, or are checked by the database."""
    copy.connection.execute("COMMIT")
    copy.connection.pragma("foreign_keys", "off")
    copy.connection.pragma("ignore_check_constraints", "on")
    copy.connection.execute("BEGIN")


def test_the_state_under_attack_holds_all_that_is_attacked(original: Original) -> None:
    assert {row.table for row in state_rows(original)} == set(KEYS)
    packs = [row.columns["was_active"] for row in state_rows(original) if row.table == "packs"]
    assert sorted(packs) == [0, 1, 1]
    assert sum(row.table == "postures" for row in state_rows(original)) == 2


def other_value(value: object) -> object:
    match value:
        case int():
            return value + 1
        case bytes():
            return flipped(value, len(value) // 2) if value else b"{}"
        case _:
            return f"{value}x"


def test_every_change_of_the_state_is_found(original: Original, tmp_path: Path) -> None:
    wrong, tried = [], 0
    for row in state_rows(original):
        state = row.columns.get("state", "")
        for column, value in row.columns.items():
            if (row.table, column, state if column == "owner" else "") in UNCHECKED:
                continue
            if column == "ending" and state == "pending":
                continue  # told while the call waits; what it is told at its end is recorded
            if row.table == "budgets" and str(value).startswith("hour/"):
                continue  # an hour may be taken for another; their sum is compared
            other = other_value(value) if value is not None else INSTEAD_OF_NULL[column]
            with original.tampered(tmp_path / "copy") as copy:
                lift_constraints(copy)
                copy.do(f"UPDATE {row.table} SET {column} = ? WHERE {row.where}", other, *row.key)  # noqa: S608
                tried += 1
                if copy.verify().ok:
                    wrong.append((row.table, column, row.key, value, other))
    assert wrong == []
    assert tried > 230


def test_every_removed_row_of_the_state_is_found(original: Original, tmp_path: Path) -> None:
    wrong: list[object] = []
    for row in state_rows(original):
        if row.table == "packs" and not row.columns["was_active"]:
            continue  # those that were never in force are dropped in time
        with original.tampered(tmp_path / "copy") as copy:
            lift_constraints(copy)
            copy.do(f"DELETE FROM {row.table} WHERE {row.where}", *row.key)  # noqa: S608 - constants
            problems = copy.verify().problems
        if not problems:
            wrong.append((row.table, row.key))
        elif row.table in {"calls", "sessions", "runs", "packs"}:
            first = next(each.seq for each in original.rows if each.subject == row.key[0])
            if problems[0].index not in range(first, original.last + 1):
                wrong.append((row.table, row.key, problems))
    assert wrong == []


def test_every_added_row_of_the_state_is_found(original: Original, tmp_path: Path) -> None:
    wrong = []
    for row in state_rows(original):
        for name in KEYS[row.table]:
            added = {**row.columns, name: other_value(row.columns[name])}
            if row.table == "calls":
                added["request_id"] = None
            if row.table == "workspaces":
                added["root"] = "/srv/added"
            with original.tampered(tmp_path / "copy") as copy:
                lift_constraints(copy)
                places = ", ".join("?" * len(added))
                copy.do(f"INSERT INTO {row.table} VALUES ({places})", *added.values())  # noqa: S608
                if copy.verify().ok:
                    wrong.append((row.table, row.key, name))
    assert wrong == []


@pytest.mark.parametrize("attack", RULE_ATTACKS, ids=lambda attack: attack.__name__)
def test_rules_cannot_be_changed_without_an_entry(
    original: Original, tmp_path: Path, attack: Callable[[Original], Iterator[Attack]]
) -> None:
    attacks = list(attack(original))
    assert attacks
    assert missed(original, tmp_path, iter(attacks)) == []


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
