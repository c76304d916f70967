# SPDX-License-Identifier: Apache-2.0
"""One transition, as SQL: checks the state it starts from, then changes it.

Every function checks before it writes, so that a refusal leaves nothing behind and the other
transitions of the same commit stand (I5).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, assert_never

import msgspec

from palyra.core.errors import Code, NotFoundError, StateConflictError
from palyra.core.events import Event, FloodSuppressed
from palyra.core.lifecycle import TERMINAL, CallState, is_permitted
from palyra.core.session import BudgetLeft
from palyra.core.transitions import (
    ActivatePack,
    AddWorkspace,
    Admission,
    Admit,
    Admitted,
    ClearPosture,
    Conflicting,
    End,
    Exhausted,
    Flooded,
    Launch,
    Note,
    OpenRun,
    OpenSession,
    Outdated,
    PlanEffect,
    RemoveWorkspace,
    Repeated,
    SetPosture,
    StagePack,
    Transition,
)
from palyra.store.sqlite.budgets import Budgets, scopes_of

if TYPE_CHECKING:
    import apsw

    from palyra.core.ids import CallId, InstanceId
    from palyra.store.sqlite.rules import Rules

JOURNALED_OVER_BUDGET: Final = 8
"""Refusals for an exhausted budget that are journaled one by one, for each run (I13)."""

_LAUNCHED: Final = CallState.LAUNCHED  # a member of an enum takes longer to find than a name
_encode_proposal = msgspec.json.Encoder().encode  # its arguments are JSON already


class Applied(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a transition: events to append, and the admission if it was one."""

    events: tuple[Event, ...]
    admission: Admission | None = None


def apply(  # noqa: C901, PLR0911 - one return for each kind of transition
    connection: apsw.Connection,
    transition: Transition,
    *,
    owner: InstanceId,
    budgets: Budgets,
    rules: Rules,
) -> Applied:
    """Change the state as ``transition`` says, within the open transaction."""
    match transition:
        case Admit():
            return _admit(connection, transition, owner=owner, budgets=budgets, rules=rules)
        case End():
            return _end(connection, transition)
        case Launch():
            return _launch(connection, transition, owner=owner, rules=rules)
        case PlanEffect():
            return _plan_effect(connection, transition)
        case OpenSession():
            return _open_session(connection, transition)
        case OpenRun():
            return _open_run(connection, transition)
        case AddWorkspace():
            return _add_workspace(connection, transition)
        case RemoveWorkspace():
            return _remove_workspace(connection, transition)
        case StagePack() | ActivatePack() | SetPosture() | ClearPosture():
            return _change_rules(rules, transition)
        case Note():
            return Applied(events=transition.events)
        case _:
            assert_never(transition)


def _admit(
    connection: apsw.Connection,
    admit: Admit,
    *,
    owner: InstanceId,
    budgets: Budgets,
    rules: Rules,
) -> Applied:
    if not is_permitted(None, admit.state):
        raise StateConflictError(Code.STATE_CONFLICT, f"no call begins as {admit.state}")
    principal = str(admit.principal)
    if admit.request_id is not None:
        earlier = connection.execute(
            "SELECT call_id, call_digest FROM calls WHERE principal = ? AND request_id = ?",
            (principal, admit.request_id),
        ).fetchone()
        if earlier is not None:
            call_id, call_digest = earlier
            same = call_digest == admit.call_digest
            repeated = Repeated(call_id=call_id) if same else Conflicting(call_id=call_id)
            return Applied(events=(), admission=repeated)
    # A refusal stands whatever has changed since; only what may run must rest on the rules of now.
    if admit.rules_version != rules.version and admit.state is not CallState.DENIED:
        return Applied(events=(), admission=Outdated(rules_version=rules.version))
    scopes = scopes_of(admit.run_id, admit.session_id, principal, at_ms=admit.at_ms)
    left = budgets.left(scopes, admit.limits)
    if left.is_exhausted:
        if not admit.over_budget:
            return Applied(events=(), admission=Exhausted(left=left))
        if min(left.run, left.session, left.agent_hour) <= -JOURNALED_OVER_BUDGET:
            return _dropped(admit, budgets.drop(scopes))
    budgets.charge(scopes)
    kept = admit.kept_proposal
    connection.execute(
        "INSERT INTO calls VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            admit.call_id,
            admit.run_id,
            principal,
            admit.request_id,
            admit.call_digest,
            admit.state.value,
            admit.approval_id,
            owner if admit.state is _LAUNCHED else None,
            _encode_proposal(kept) if kept is not None else None,
            admit.ending,
        ),
    )
    after = BudgetLeft(run=left.run - 1, session=left.session - 1, agent_hour=left.agent_hour - 1)
    return Applied(events=admit.events, admission=Admitted(left=after))


def _dropped(admit: Admit, count: int) -> Applied:
    """Refuse without an entry; journal the count each time it doubles (I13)."""
    events: tuple[Event, ...] = ()
    if count & (count - 1) == 0:
        flood = FloodSuppressed(
            principal=str(admit.principal), code=Code.BUDGET_EXHAUSTED.value, count=count
        )
        events = (flood,)
    return Applied(events=events, admission=Flooded(count=count))


def _launch(
    connection: apsw.Connection, launch: Launch, *, owner: InstanceId, rules: Rules
) -> Applied:
    if launch.rules_version != rules.version:
        raise StateConflictError(
            Code.POLICY_CHANGED,
            details={"rules_version": rules.version, "decided_by": launch.rules_version},
        )
    connection.execute(
        "UPDATE calls SET state = 'launched', owner = ?, proposal = NULL, ending = x''"
        " WHERE call_id = ? AND state = 'pending'",
        (owner, launch.call_id),
    )
    _require_one(connection, launch.call_id, expected=CallState.PENDING)
    return Applied(events=launch.events)


def _plan_effect(connection: apsw.Connection, plan: PlanEffect) -> Applied:
    state = connection.execute("SELECT state FROM calls WHERE call_id = ?", (plan.call_id,)).get
    if state != CallState.LAUNCHED.value:
        raise StateConflictError(
            Code.STATE_CONFLICT, f"call {plan.call_id} is not launched, so it may not change files"
        )
    return Applied(events=plan.events)


def _end(connection: apsw.Connection, end: End) -> Applied:
    if end.after not in TERMINAL or not is_permitted(end.before, end.after):
        raise StateConflictError(
            Code.STATE_CONFLICT, f"a call does not go from {end.before} to {end.after}"
        )
    connection.execute(
        "UPDATE calls SET state = ?, owner = NULL, proposal = NULL, ending = ?"
        " WHERE call_id = ? AND state = ?",
        (end.after.value, end.ending, end.call_id, end.before.value),
    )
    _require_one(connection, end.call_id, expected=end.before)
    return Applied(events=end.events)


def _require_one(connection: apsw.Connection, call_id: CallId, *, expected: CallState) -> None:
    if connection.changes() != 1:
        raise StateConflictError(Code.STATE_CONFLICT, f"call {call_id} is no longer {expected}")


def _open_session(connection: apsw.Connection, opening: OpenSession) -> Applied:
    session = opening.session
    connection.execute(
        "INSERT INTO sessions VALUES (?, ?, ?, ?)",
        (
            session.session_id,
            str(session.principal),
            session.credential_id,
            session.opened_at_ms,
        ),
    )
    _insert_run(connection, opening)
    return Applied(events=opening.events)


def _open_run(connection: apsw.Connection, opening: OpenRun) -> Applied:
    _insert_run(connection, opening)
    return Applied(events=opening.events)


def _insert_run(connection: apsw.Connection, opening: OpenSession | OpenRun) -> None:
    run = opening.run
    connection.execute(
        "INSERT INTO runs VALUES (?, ?, ?)", (run.run_id, run.session_id, run.opened_at_ms)
    )


def _add_workspace(connection: apsw.Connection, adding: AddWorkspace) -> Applied:
    workspace = adding.workspace
    taken = connection.execute(
        "SELECT name FROM workspaces WHERE name = ? OR root = ?", (workspace.name, workspace.root)
    ).fetchone()
    if taken is not None:
        raise StateConflictError(
            Code.WORKSPACE_EXISTS, f"workspace {taken[0]!r} has this name or this folder"
        )
    connection.execute(
        "INSERT INTO workspaces VALUES (?, ?, ?, ?)",
        (workspace.name, workspace.root, workspace.device, workspace.inode),
    )
    return Applied(events=adding.events)


def _remove_workspace(connection: apsw.Connection, removing: RemoveWorkspace) -> Applied:
    connection.execute("DELETE FROM workspaces WHERE name = ?", (removing.name,))
    if connection.changes() != 1:
        raise NotFoundError(Code.WORKSPACE_UNKNOWN, f"no workspace is named {removing.name[:64]!r}")
    return Applied(events=removing.events)


def _change_rules(
    rules: Rules, change: StagePack | ActivatePack | SetPosture | ClearPosture
) -> Applied:
    match change:
        case StagePack():
            rules.stage(change)
        case ActivatePack():
            rules.activate(change)
        case SetPosture():
            rules.set_posture(change)
        case ClearPosture():
            rules.clear_posture(change)
        case _:
            assert_never(change)
    return Applied(events=change.events)
