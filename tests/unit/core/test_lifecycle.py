# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import itertools

import pytest

from palyra.core.lifecycle import PERMITTED, TERMINAL, CallState, is_permitted

ALLOWED = {
    (None, CallState.PENDING),
    (None, CallState.LAUNCHED),
    (None, CallState.DENIED),
    (CallState.PENDING, CallState.LAUNCHED),
    (CallState.PENDING, CallState.DENIED),
    (CallState.PENDING, CallState.CANCELLED),
    (CallState.LAUNCHED, CallState.SUCCEEDED),
    (CallState.LAUNCHED, CallState.FAILED),
    (CallState.LAUNCHED, CallState.TIMED_OUT),
    (CallState.LAUNCHED, CallState.CANCELLED),
    (CallState.LAUNCHED, CallState.INTERRUPTED),
}


@pytest.mark.invariant("I5")
@pytest.mark.parametrize(
    ("before", "after"),
    list(itertools.product([None, *CallState], CallState)),
    ids=lambda state: str(state or "new"),
)
def test_every_pair_of_states(before: CallState | None, after: CallState) -> None:
    assert is_permitted(before, after) is ((before, after) in ALLOWED)


def test_every_state_has_a_row() -> None:
    assert set(PERMITTED) == {None, *CallState}


@pytest.mark.invariant("I5")
def test_terminal_is_terminal() -> None:
    assert frozenset(CallState) - {CallState.PENDING, CallState.LAUNCHED} == TERMINAL
    assert not any(is_permitted(before, after) for before in TERMINAL for after in CallState)


@pytest.mark.invariant("I5")
def test_only_a_launched_call_has_an_outcome() -> None:
    outcomes = {CallState.SUCCEEDED, CallState.FAILED, CallState.TIMED_OUT, CallState.INTERRUPTED}
    sources = {before for before in PERMITTED for after in outcomes if is_permitted(before, after)}
    assert sources == {CallState.LAUNCHED}
