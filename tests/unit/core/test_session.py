# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from palyra.core.session import BudgetLeft, BudgetLimits, Run, Session
from tests.support.samples import AGENT, CREDENTIAL_ID, NOW_MS, RUN_ID, SESSION_ID


@pytest.mark.parametrize(
    ("left", "exhausted", "scope"),
    [
        ((1, 1, 1), False, None),
        ((0, 1, 1), True, "run"),
        ((1, 0, 1), True, "session"),
        ((1, 1, 0), True, "agent and hour"),
        ((0, 0, 0), True, "run"),
        ((-1, 5, 5), True, "run"),
        ((5, 0, 0), True, "session"),
    ],
)
def test_narrowest_exhausted_scope_is_named(
    left: tuple[int, int, int], *, exhausted: bool, scope: str | None
) -> None:
    run, session, agent_hour = left
    budget = BudgetLeft(run=run, session=session, agent_hour=agent_hour)
    assert budget.is_exhausted is exhausted
    if scope is not None:
        assert budget.exhausted_scope == scope


def test_default_limits() -> None:
    assert BudgetLimits() == BudgetLimits(
        max_calls_per_run=32, max_calls_per_session=1024, max_calls_per_agent_hour=4096
    )


@pytest.mark.invariant("I14")
def test_session_and_run_cannot_change_hands() -> None:
    session = Session(
        session_id=SESSION_ID, principal=AGENT, credential_id=CREDENTIAL_ID, opened_at_ms=NOW_MS
    )
    run = Run(
        run_id=RUN_ID,
        session_id=SESSION_ID,
        principal=AGENT,
        credential_id=CREDENTIAL_ID,
        opened_at_ms=NOW_MS,
    )
    for word in (session, run):
        with pytest.raises(AttributeError):
            word.credential_id = "other"  # type: ignore[misc,assignment]
