# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import itertools
from typing import Any

import apsw
import msgspec
import pytest

from palyra.core.digest import CallDigest
from palyra.core.errors import Code, NotFoundError, PalyraError, StateConflictError
from palyra.core.events import FloodSuppressed
from palyra.core.ids import InstanceId, RequestId
from palyra.core.lifecycle import PERMITTED, TERMINAL, CallState
from palyra.core.session import BudgetLeft, BudgetLimits
from palyra.core.transitions import (
    Admitted,
    Conflicting,
    Exhausted,
    Flooded,
    Outdated,
    Repeated,
    Transition,
)
from palyra.store.sqlite.apply import JOURNALED_OVER_BUDGET, Applied, apply
from palyra.store.sqlite.budgets import Budgets
from palyra.store.sqlite.rules import Rules
from tests.support.samples import AGENT, OPERATOR
from tests.support.store import (
    RUN,
    WORKSPACE,
    activate,
    add_workspace,
    admit,
    another_run,
    call_id,
    clear_posture,
    end,
    launch,
    memory_database,
    note,
    opening,
    plan,
    remove_workspace,
    set_posture,
    stage,
)

OWNER = InstanceId("01JOWNER")
ONE_CALL = BudgetLimits(max_calls_per_run=1, max_calls_per_session=9, max_calls_per_agent_hour=9)
REQUEST = RequestId("request-1")


@pytest.fixture
def connection() -> apsw.Connection:
    connection = memory_database()
    do(connection, opening())
    return connection


def do(connection: apsw.Connection, transition: Transition) -> Applied:
    budgets = Budgets(connection)
    applied = apply(connection, transition, owner=OWNER, budgets=budgets, rules=Rules(connection))
    budgets.write()
    return applied


def refusal(connection: apsw.Connection, transition: Transition) -> PalyraError:
    """Return the refusal, and check that it left nothing behind."""
    before = everything(connection)
    with pytest.raises((StateConflictError, NotFoundError)) as refused:
        do(connection, transition)
    assert everything(connection) == before
    return refused.value


def everything(connection: apsw.Connection) -> dict[str, list[Any]]:
    tables = (
        "journal",
        "sessions",
        "runs",
        "calls",
        "budgets",
        "workspaces",
        "packs",
        "rules",
        "postures",
    )
    return {
        table: connection.execute(f"SELECT * FROM {table}").fetchall()  # noqa: S608 - constants
        for table in tables
    }


def row(connection: apsw.Connection, number: int) -> tuple[object, ...]:
    found = connection.execute(
        "SELECT state, owner, proposal IS NOT NULL, ending FROM calls WHERE call_id = ?",
        (call_id(number),),
    ).fetchone()
    assert isinstance(found, tuple)
    return found


def bring_to(connection: apsw.Connection, number: int, state: CallState | None) -> None:
    """Take a new call to ``state`` the permitted way."""
    if state is None:
        return
    if state in PERMITTED[None]:
        do(connection, admit(number, state))
        return
    do(connection, admit(number, CallState.LAUNCHED))
    do(connection, end(number, CallState.LAUNCHED, state))


@pytest.mark.invariant("I5")
@pytest.mark.parametrize("state", CallState)
def test_a_call_begins_only_in_a_first_state(connection: apsw.Connection, state: CallState) -> None:
    if state in PERMITTED[None]:
        applied = do(connection, admit(1, state))
        assert isinstance(applied.admission, Admitted)
    else:
        assert refusal(connection, admit(1, state)).code is Code.STATE_CONFLICT


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (CallState.LAUNCHED, ("launched", OWNER, 0, b"")),
        (CallState.PENDING, ("pending", None, 1, b"{}")),
        (CallState.DENIED, ("denied", None, 0, b"{}")),
    ],
)
def test_what_is_kept_of_a_new_call(
    connection: apsw.Connection, state: CallState, expected: tuple[object, ...]
) -> None:
    do(connection, admit(1, state))
    assert row(connection, 1) == expected


@pytest.mark.invariant("I5")
@pytest.mark.parametrize(
    ("actual", "before", "after"),
    list(itertools.product([None, *CallState], CallState, CallState)),
    ids=str,
)
def test_an_end_is_a_compare_and_set(
    connection: apsw.Connection, actual: CallState | None, before: CallState, after: CallState
) -> None:
    bring_to(connection, 1, actual)
    transition = end(1, before, after, ending=b'{"hint":""}')
    if actual is before and after in PERMITTED[before] & TERMINAL:
        assert do(connection, transition).events == transition.events
        assert row(connection, 1) == (after.value, None, 0, b'{"hint":""}')
    else:
        assert refusal(connection, transition).code is Code.STATE_CONFLICT


@pytest.mark.invariant("I5")
@pytest.mark.parametrize("actual", [None, *CallState])
def test_only_a_pending_call_is_launched(
    connection: apsw.Connection, actual: CallState | None
) -> None:
    bring_to(connection, 1, actual)
    if actual is CallState.PENDING:
        assert do(connection, launch(1)).events == launch(1).events
        assert row(connection, 1) == ("launched", OWNER, 0, b"")
    else:
        assert refusal(connection, launch(1)).code is Code.STATE_CONFLICT


@pytest.mark.invariant("I5")
def test_a_pending_call_is_launched_once(connection: apsw.Connection) -> None:
    do(connection, admit(1, CallState.PENDING))
    do(connection, launch(1))
    assert refusal(connection, launch(1)).code is Code.STATE_CONFLICT


@pytest.mark.invariant("I7")
@pytest.mark.parametrize("actual", [None, *CallState])
def test_only_a_launched_call_may_change_files(
    connection: apsw.Connection, actual: CallState | None
) -> None:
    bring_to(connection, 1, actual)
    if actual is CallState.LAUNCHED:
        assert do(connection, plan(1)).events == plan(1).events
    else:
        assert refusal(connection, plan(1)).code is Code.STATE_CONFLICT


class TestBudgets:
    """Every recorded call is charged, until nothing is left."""

    def test_an_admitted_call_is_charged(self, connection: apsw.Connection) -> None:
        admissions = [do(connection, admit(number)).admission for number in (1, 2)]
        assert admissions == [
            Admitted(left=BudgetLeft(run=31, session=1023, agent_hour=4095)),
            Admitted(left=BudgetLeft(run=30, session=1022, agent_hour=4094)),
        ]

    def test_refused_calls_are_charged_too(self, connection: apsw.Connection) -> None:
        do(connection, admit(1, CallState.DENIED, limits=ONE_CALL))
        assert do(connection, admit(2, limits=ONE_CALL)).admission == Exhausted(
            left=BudgetLeft(run=0, session=8, agent_hour=8)
        )

    @pytest.mark.parametrize(
        "limits",
        [
            ONE_CALL,
            BudgetLimits(max_calls_per_session=1),
            BudgetLimits(max_calls_per_agent_hour=1),
        ],
        ids=["run", "session", "agent-and-hour"],
    )
    def test_the_tightest_budget_decides_and_nothing_is_recorded(
        self, connection: apsw.Connection, limits: BudgetLimits
    ) -> None:
        do(connection, admit(1, limits=limits))
        before = everything(connection)
        applied = do(connection, admit(2, limits=limits))
        assert (applied.events, type(applied.admission)) == ((), Exhausted)
        assert everything(connection) == before

    def test_the_next_hour_is_a_new_budget(self, connection: apsw.Connection) -> None:
        limits = BudgetLimits(max_calls_per_agent_hour=1)
        first = admit(1, limits=limits)
        do(connection, first)
        later = admit(2, limits=limits, at_ms=first.at_ms + 3_600_000)
        assert isinstance(do(connection, later).admission, Admitted)

    def test_another_run_has_a_budget_of_its_own(self, connection: apsw.Connection) -> None:
        run = msgspec.structs.replace(RUN, run_id="R2")
        do(connection, another_run(run))
        do(connection, admit(1, limits=ONE_CALL))
        assert isinstance(do(connection, admit(2, run=run, limits=ONE_CALL)).admission, Admitted)

    @pytest.mark.invariant("I13")
    def test_a_flood_is_counted_and_journaled_each_time_it_doubles(
        self, connection: apsw.Connection
    ) -> None:
        do(connection, admit(0, limits=ONE_CALL))
        refused = [
            do(connection, admit(number, CallState.DENIED, limits=ONE_CALL, over_budget=True))
            for number in range(1, JOURNALED_OVER_BUDGET + 10)
        ]
        recorded, dropped = refused[:JOURNALED_OVER_BUDGET], refused[JOURNALED_OVER_BUDGET:]
        assert all(isinstance(each.admission, Admitted) for each in recorded)
        assert [each.admission for each in dropped] == [Flooded(count=n) for n in range(1, 10)]
        assert [event for each in dropped for event in each.events] == [
            FloodSuppressed(principal=str(AGENT), code="budget.exhausted", count=count)
            for count in (1, 2, 4, 8)
        ]


class TestRequestIds:
    """The same id is the same call, or a conflict."""

    def test_the_same_content_is_the_earlier_call(self, connection: apsw.Connection) -> None:
        do(connection, admit(1, request_id=REQUEST))
        before = everything(connection)
        assert do(connection, admit(2, request_id=REQUEST)) == Applied(
            events=(), admission=Repeated(call_id=call_id(1))
        )
        assert everything(connection) == before

    def test_other_content_is_a_conflict(self, connection: apsw.Connection) -> None:
        do(connection, admit(1, request_id=REQUEST))
        other = admit(2, request_id=REQUEST, call_digest=CallDigest("9" * 64))
        assert do(connection, other).admission == Conflicting(call_id=call_id(1))

    def test_another_caller_may_use_the_same_id(self, connection: apsw.Connection) -> None:
        do(connection, admit(1, request_id=REQUEST))
        other = admit(2, request_id=REQUEST, principal=OPERATOR)
        assert isinstance(do(connection, other).admission, Admitted)

    def test_a_retry_is_told_even_when_the_budget_is_used_up(
        self, connection: apsw.Connection
    ) -> None:
        do(connection, admit(1, request_id=REQUEST, limits=ONE_CALL))
        again = admit(2, request_id=REQUEST, limits=ONE_CALL)
        assert do(connection, again).admission == Repeated(call_id=call_id(1))


@pytest.mark.invariant("I4")
class TestRulesThatChanged:
    """What was decided by other rules than those in force does not go on."""

    @pytest.fixture(autouse=True)
    def activated(self, connection: apsw.Connection) -> None:
        do(connection, stage(1))
        do(connection, activate(1, before=None))

    @pytest.mark.parametrize("state", [CallState.LAUNCHED, CallState.PENDING])
    @pytest.mark.parametrize("version", [0, 2, -1])
    def test_a_call_decided_by_others_is_not_admitted(
        self, connection: apsw.Connection, state: CallState, version: int
    ) -> None:
        before = everything(connection)
        assert do(connection, admit(1, state, rules_version=version)) == Applied(
            events=(), admission=Outdated(rules_version=1)
        )
        assert everything(connection) == before

    @pytest.mark.parametrize("state", [CallState.LAUNCHED, CallState.PENDING])
    def test_a_call_decided_by_them_is_admitted(
        self, connection: apsw.Connection, state: CallState
    ) -> None:
        assert isinstance(do(connection, admit(1, state, rules_version=1)).admission, Admitted)

    def test_a_refusal_stands_whatever_it_was_decided_by(self, connection: apsw.Connection) -> None:
        refused = do(connection, admit(1, CallState.DENIED, rules_version=0))
        assert isinstance(refused.admission, Admitted)

    def test_a_retry_is_told_of_the_earlier_call(self, connection: apsw.Connection) -> None:
        do(connection, admit(1, request_id=REQUEST, rules_version=1))
        again = do(connection, admit(2, request_id=REQUEST, rules_version=0))
        assert again.admission == Repeated(call_id=call_id(1))

    def test_a_pending_call_is_launched_by_the_rules_of_now(
        self, connection: apsw.Connection
    ) -> None:
        do(connection, admit(1, CallState.PENDING, rules_version=1))
        do(connection, set_posture())
        refused = refusal(connection, launch(1, rules_version=1))
        assert (refused.code, refused.details) == (
            Code.POLICY_CHANGED,
            {"rules_version": 2, "decided_by": 1},
        )
        assert row(connection, 1) == ("pending", None, 1, b"{}")
        do(connection, launch(1, rules_version=2))

    @pytest.mark.parametrize(
        "change", [activate(1, before=1), set_posture()], ids=["policies", "a-posture"]
    )
    def test_every_change_counts(self, connection: apsw.Connection, change: Transition) -> None:
        do(connection, change)
        outdated = do(connection, admit(1, rules_version=1)).admission
        assert outdated == Outdated(rules_version=2)

    def test_staging_changes_no_rules(self, connection: apsw.Connection) -> None:
        do(connection, stage(2))
        assert isinstance(do(connection, admit(1, rules_version=1)).admission, Admitted)


@pytest.mark.parametrize(
    "transition",
    [stage(2), activate(1, before=1), set_posture(), clear_posture()],
    ids=["stage", "activate", "set-posture", "clear-posture"],
)
def test_changes_of_the_rules_bring_their_entries(
    connection: apsw.Connection, transition: Transition
) -> None:
    do(connection, stage(1))
    do(connection, activate(1, before=None))
    if transition == clear_posture():
        do(connection, set_posture())
    before = everything(connection)
    assert do(connection, transition) == Applied(events=transition.events)
    assert everything(connection) != before


class TestWorkspaces:
    """Names and folders are registered once."""

    def test_one_is_added_and_removed(self, connection: apsw.Connection) -> None:
        assert do(connection, add_workspace()).events == add_workspace().events
        assert everything(connection)["workspaces"] == [("site", "/srv/site", 1, 2)]
        assert do(connection, remove_workspace()).events == remove_workspace().events
        assert everything(connection)["workspaces"] == []

    @pytest.mark.parametrize("changes", [{"name": "other"}, {"root": "/srv/other"}, {}])
    def test_a_name_or_folder_in_use_is_refused(
        self, connection: apsw.Connection, changes: dict[str, str]
    ) -> None:
        do(connection, add_workspace())
        other = add_workspace(msgspec.structs.replace(WORKSPACE, **changes))
        assert refusal(connection, other).code is Code.WORKSPACE_EXISTS

    def test_an_unknown_one_is_not_removed(self, connection: apsw.Connection) -> None:
        assert refusal(connection, remove_workspace()).code is Code.WORKSPACE_UNKNOWN


def test_a_note_changes_no_state(connection: apsw.Connection) -> None:
    before = everything(connection)
    assert do(connection, note()) == Applied(events=note().events)
    assert everything(connection) == before


def test_a_run_needs_its_session(connection: apsw.Connection) -> None:
    stray = msgspec.structs.replace(RUN, run_id="R2", session_id="S2")
    with pytest.raises(apsw.ConstraintError):
        do(connection, another_run(stray))
