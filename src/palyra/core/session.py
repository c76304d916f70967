# SPDX-License-Identifier: Apache-2.0
"""Sessions and runs: issued by Palyra, bound to the credential that opened them (I14)."""

from __future__ import annotations

import msgspec

from palyra.core.ids import CredentialId, RunId, SessionId
from palyra.core.principal import Principal


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """One agent's (or operator's) conversation with the gate."""

    session_id: SessionId
    principal: Principal
    credential_id: CredentialId
    opened_at_ms: int


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One task within a session, with a budget of its own."""

    run_id: RunId
    session_id: SessionId
    principal: Principal
    credential_id: CredentialId
    opened_at_ms: int


class BudgetLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How many calls may be made; refused calls count too."""

    max_calls_per_run: int = 32
    max_calls_per_session: int = 1024
    max_calls_per_agent_hour: int = 4096


class BudgetLeft(msgspec.Struct, frozen=True, kw_only=True):
    """How many calls each scope still has."""

    run: int
    session: int
    agent_hour: int

    @property
    def is_exhausted(self) -> bool:
        """Whether any scope has none left."""
        return min(self.run, self.session, self.agent_hour) <= 0

    @property
    def exhausted_scope(self) -> str:
        """Return the narrowest scope with nothing left, as people name it."""
        if self.run <= 0:
            return "run"
        return "session" if self.session <= 0 else "agent and hour"
