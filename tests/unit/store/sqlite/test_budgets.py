# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from palyra.core.session import BudgetLeft, BudgetLimits
from palyra.store.sqlite import budgets
from palyra.store.sqlite.budgets import Budgets, KnownBudgets, Scopes, read_left, scopes_of
from tests.support.store import memory_database

if TYPE_CHECKING:
    import apsw

HOUR_MS = 3_600_000
LIMITS = BudgetLimits(max_calls_per_run=3, max_calls_per_session=5, max_calls_per_agent_hour=7)
FULL = BudgetLeft(run=3, session=5, agent_hour=7)
SCOPES = scopes_of("R", "S", "agent:ada", at_ms=5 * HOUR_MS)


@pytest.fixture
def connection() -> apsw.Connection:
    return memory_database()


def rows(connection: apsw.Connection) -> dict[str, tuple[int, int]]:
    found = connection.execute("SELECT scope, calls, dropped FROM budgets")
    return {scope: (calls, dropped) for scope, calls, dropped in found}


def test_a_call_is_charged_to_its_run_its_session_and_its_agents_hour() -> None:
    assert Scopes(run="run/R", session="session/S", agent_hour="hour/agent:ada/5") == SCOPES


@pytest.mark.parametrize(
    ("at_ms", "hour"),
    [(0, 0), (HOUR_MS - 1, 0), (HOUR_MS, 1), (5 * HOUR_MS + 1, 5)],
)
def test_an_hour_begins_on_the_hour(at_ms: int, hour: int) -> None:
    assert scopes_of("R", "S", "agent:ada", at_ms=at_ms).agent_hour == f"hour/agent:ada/{hour}"


def test_what_was_never_charged_is_full(connection: apsw.Connection) -> None:
    assert read_left(connection, SCOPES, LIMITS) == FULL
    assert Budgets(connection).left(SCOPES, LIMITS) == FULL


def test_charges_count_at_once_and_are_written_once(connection: apsw.Connection) -> None:
    counters = Budgets(connection)
    counters.charge(SCOPES)
    counters.charge(SCOPES)
    assert counters.left(SCOPES, LIMITS) == BudgetLeft(run=1, session=3, agent_hour=5)
    assert rows(connection) == {}
    counters.write()
    assert rows(connection) == dict.fromkeys(SCOPES, (2, 0))
    assert read_left(connection, SCOPES, LIMITS) == BudgetLeft(run=1, session=3, agent_hour=5)


def test_later_commits_go_on_counting(connection: apsw.Connection) -> None:
    for _ in range(4):
        counters = Budgets(connection)
        counters.charge(SCOPES)
        counters.write()
    assert read_left(connection, SCOPES, LIMITS) == BudgetLeft(run=-1, session=1, agent_hour=3)


def test_two_runs_share_their_session_and_hour(connection: apsw.Connection) -> None:
    other = SCOPES._replace(run="run/other")
    counters = Budgets(connection)
    counters.charge(SCOPES)
    counters.charge(other)
    assert counters.left(other, LIMITS) == BudgetLeft(run=2, session=3, agent_hour=5)


def test_dropped_calls_are_counted_by_agent_and_hour_and_charge_nothing(
    connection: apsw.Connection,
) -> None:
    counters = Budgets(connection)
    assert [counters.drop(SCOPES) for _ in range(3)] == [1, 2, 3]
    counters.write()
    assert Budgets(connection).drop(SCOPES) == 4
    assert rows(connection) == {SCOPES.agent_hour: (0, 3)}


def test_nothing_is_written_when_nothing_was_counted(connection: apsw.Connection) -> None:
    Budgets(connection).write()
    assert rows(connection) == {}


class TestKnownBudgets:
    """What this process remembers of its own commits."""

    @staticmethod
    def charged(connection: apsw.Connection, scopes: Scopes = SCOPES) -> Budgets:
        counters = Budgets(connection)
        counters.charge(scopes)
        return counters

    def test_nothing_is_known_at_first(self) -> None:
        assert KnownBudgets().left(SCOPES, LIMITS) is None

    def test_the_counters_of_a_commit_are_known(self, connection: apsw.Connection) -> None:
        known = KnownBudgets()
        known.update(self.charged(connection))
        assert known.left(SCOPES, LIMITS) == BudgetLeft(run=2, session=4, agent_hour=6)

    def test_all_three_counters_must_be_known(self, connection: apsw.Connection) -> None:
        known = KnownBudgets()
        known.update(self.charged(connection))
        assert known.left(SCOPES._replace(run="run/other"), LIMITS) is None

    @pytest.mark.invariant("I13")
    def test_memory_is_bounded(
        self, connection: apsw.Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(budgets, "_MOST_KNOWN", 6)
        known = KnownBudgets()
        for number in range(4):
            known.update(self.charged(connection, Scopes(f"r{number}", f"s{number}", "hour")))
        assert len(known._calls) == 6
        assert known.left(Scopes("r3", "s3", "hour"), LIMITS) is None  # "hour" is the oldest
        known.update(self.charged(connection, Scopes("r3", "s3", "hour")))
        assert known.left(Scopes("r3", "s3", "hour"), LIMITS) is not None
