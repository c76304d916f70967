# SPDX-License-Identifier: Apache-2.0
"""Budgets within one commit: each counter is read once, charged in memory and written once.

Only valid inside the transaction it was made for: the write lock keeps every other process out.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final, NamedTuple

from palyra.core.session import BudgetLeft, BudgetLimits

if TYPE_CHECKING:
    from collections.abc import Iterator

    import apsw

_HOUR_MS: Final = 3_600_000
_MOST_KNOWN: Final = 12_288


class Scopes(NamedTuple):
    """The three counters that a call is charged to."""

    run: str
    session: str
    agent_hour: str


def scopes_of(run_id: str, session_id: str, principal: str, *, at_ms: int) -> Scopes:
    """Return the counters of a call."""
    return Scopes(
        run=f"run/{run_id}",
        session=f"session/{session_id}",
        agent_hour=f"hour/{principal}/{at_ms // _HOUR_MS}",
    )


def read_left(connection: apsw.Connection, scopes: Scopes, limits: BudgetLimits) -> BudgetLeft:
    """Return what each counter still allows, as the last commit left it."""
    used = dict(
        connection.execute("SELECT scope, calls FROM budgets WHERE scope IN (?, ?, ?)", scopes)
    )
    return _left(
        (used.get(scopes.run, 0), used.get(scopes.session, 0), used.get(scopes.agent_hour, 0)),
        limits,
    )


class KnownBudgets:
    """The counters as this process's own commits last left them (bounded: I13).

    Policy looks at them beforehand, where a read of the database would cost as much as the rest of
    the decision; another process may have charged them since. The commit decides on the truth.
    """

    def __init__(self) -> None:
        self._calls: OrderedDict[str, int] = OrderedDict()

    def left(self, scopes: Scopes, limits: BudgetLimits) -> BudgetLeft | None:
        """Return what each counter still allowed, or ``None`` if one of them is not known."""
        run, session, agent_hour = (self._calls.get(scope) for scope in scopes)
        if run is None or session is None or agent_hour is None:
            return None
        return _left((run, session, agent_hour), limits)

    def update(self, budgets: Budgets) -> None:
        """Take up the counters of a commit that is durable."""
        for scope, calls in budgets.counters():
            self._calls[scope] = calls
        while len(self._calls) > _MOST_KNOWN:
            self._calls.popitem(last=False)


class Budgets:
    """The counters that one commit touches."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._counters: dict[str, list[int]] = {}

    def left(self, scopes: Scopes, limits: BudgetLimits) -> BudgetLeft:
        """Return what each counter still allows, charges of this commit included."""
        run, session, agent_hour = (self._counter(scope)[0] for scope in scopes)
        return _left((run, session, agent_hour), limits)

    def charge(self, scopes: Scopes) -> None:
        """Count one call."""
        for scope in scopes:
            self._counter(scope)[0] += 1

    def drop(self, scopes: Scopes) -> int:
        """Count one refusal that is not journaled, and return how many the agent had this hour.

        Counted by the widest scope: a new run for each call would begin each count anew.
        """
        counter = self._counter(scopes.agent_hour)
        counter[1] += 1
        return counter[1]

    def counters(self) -> Iterator[tuple[str, int]]:
        """Yield the counters with this commit's charges."""
        for scope, (calls, _) in self._counters.items():
            yield scope, calls

    def write(self) -> None:
        """Write the counters back."""
        if self._counters:
            self._connection.executemany(
                "INSERT INTO budgets VALUES (?1, ?2, ?3)"
                " ON CONFLICT (scope) DO UPDATE SET calls = ?2, dropped = ?3",
                [(scope, calls, dropped) for scope, (calls, dropped) in self._counters.items()],
            )

    def _counter(self, scope: str) -> list[int]:
        counter = self._counters.get(scope)
        if counter is None:
            row = self._connection.execute(
                "SELECT calls, dropped FROM budgets WHERE scope = ?", (scope,)
            ).fetchone()
            counter = self._counters[scope] = list(row) if row is not None else [0, 0]
        return counter


def _left(used: tuple[int, int, int], limits: BudgetLimits) -> BudgetLeft:
    run, session, agent_hour = used
    return BudgetLeft(
        run=limits.max_calls_per_run - run,
        session=limits.max_calls_per_session - session,
        agent_hour=limits.max_calls_per_agent_hour - agent_hour,
    )
