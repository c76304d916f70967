# SPDX-License-Identifier: Apache-2.0
"""The one table of a call's states and permitted transitions. Terminal is terminal."""

from __future__ import annotations

from enum import StrEnum


class CallState(StrEnum):
    """Where a call is. Only ``LAUNCHED`` may have effects under way (I5)."""

    PENDING = "pending"
    LAUNCHED = "launched"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"
    DENIED = "denied"
    INTERRUPTED = "interrupted"


PERMITTED: dict[CallState | None, frozenset[CallState]] = {
    None: frozenset({CallState.PENDING, CallState.LAUNCHED, CallState.DENIED}),
    CallState.PENDING: frozenset({CallState.LAUNCHED, CallState.DENIED, CallState.CANCELLED}),
    CallState.LAUNCHED: frozenset(
        {
            CallState.SUCCEEDED,
            CallState.FAILED,
            CallState.TIMED_OUT,
            CallState.CANCELLED,
            CallState.INTERRUPTED,
        }
    ),
    CallState.SUCCEEDED: frozenset(),
    CallState.FAILED: frozenset(),
    CallState.TIMED_OUT: frozenset(),
    CallState.CANCELLED: frozenset(),
    CallState.DENIED: frozenset(),
    CallState.INTERRUPTED: frozenset(),
}
"""State before (``None``: the call is new) to the states that may follow it."""

TERMINAL = frozenset(state for state, following in PERMITTED.items() if state and not following)


def is_permitted(before: CallState | None, after: CallState) -> bool:
    """Say whether a call may go from ``before`` to ``after``."""
    return after in PERMITTED[before]
