# SPDX-License-Identifier: Apache-2.0
"""Every promise that is said to be held is cited where it is enforced and where it is tested."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROMISES = ROOT / "docs" / "explanation" / "invariants.md"
STATES = {"held", "partly", "later"}

ROW = re.compile(r"^\| (I[0-9]+) \| ([a-z]+) \|", re.MULTILINE)
CITED = re.compile(r"(?:\(|# |, )(I[0-9]+)\b(?=[),:;\s]|$)", re.MULTILINE)
MARKED = re.compile(r"""pytest\.mark\.invariant\(["'](I[0-9]+)["']\)""")


def promises(text: str) -> dict[str, str]:
    """Return the state of every promise in a table."""
    return dict(ROW.findall(text))


def occurrences(folder: str, pattern: re.Pattern[str]) -> Counter[str]:
    """Count the numbers that a pattern finds in the Python files below a folder."""
    found: Counter[str] = Counter()
    for path in (ROOT / folder).rglob("*.py"):
        found.update(pattern.findall(path.read_text()))
    return found


TABLE = promises(PROMISES.read_text())
HELD = [number for number, state in TABLE.items() if state == "held"]


def test_promises_are_numbered_without_a_gap_and_each_has_a_state() -> None:
    assert list(TABLE) == [f"I{number}" for number in range(1, len(TABLE) + 1)]
    assert set(TABLE.values()) <= STATES
    assert HELD


@pytest.mark.parametrize("number", HELD)
def test_a_held_promise_is_cited_where_it_is_enforced(number: str) -> None:
    assert occurrences("src", CITED)[number] > 0


@pytest.mark.parametrize("number", HELD)
def test_a_held_promise_is_marked_where_it_is_tested(number: str) -> None:
    assert occurrences("tests", MARKED)[number] > 0


def test_nothing_cites_a_promise_that_nobody_made() -> None:
    cited = occurrences("src", CITED) + occurrences("tests", MARKED)
    assert set(cited) <= set(TABLE)


def test_a_promise_for_later_is_not_claimed_yet() -> None:
    later = {number for number, state in TABLE.items() if state == "later"}
    cited = occurrences("src", CITED) + occurrences("tests", MARKED)
    assert later & set(cited) == set()


@pytest.mark.parametrize(
    ("line", "numbers"),
    [
        ("raise StoreError  # I7", ["I7"]),
        ('"""Durable (I7, I8)."""', ["I7", "I8"]),
        ("if x:  # I6: never an approval", ["I6"]),
        ("# refused and recorded (I1).", ["I1"]),
        ("(bounded: I13)", []),
        ("class I18n: ...", []),
    ],
)
def test_what_counts_as_a_citation(line: str, numbers: list[str]) -> None:
    assert CITED.findall(line) == numbers
