# SPDX-License-Identifier: Apache-2.0
"""Sees one launch to its end: cancellation reaches the tool, and no fault goes unrecorded."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from palyra.core.errors import MEANINGS, Code
from palyra.core.execution import (
    NOT_OBSERVED,
    Enforcement,
    Execution,
    Executor,
    Failure,
    Outcome,
)
from palyra.core.lifecycle import CallState
from palyra.core.ports import Clock, EffectLog, ExecutionContext, NestedCall, ToolExecutor
from palyra.core.trace import trace_of

if TYPE_CHECKING:
    from palyra.core.permit import Permit
    from palyra.core.proposal import Proposal
    from palyra.flow.sandbox.time_limit import RunningClocks
    from palyra.flow.sandbox.walks import Walks

_log: Final = logging.getLogger(__name__)


class Supervisor:
    """Runs permitted calls through an executor."""

    def __init__(
        self, *, executor: ToolExecutor, walks: Walks, clocks: RunningClocks, clock: Clock
    ) -> None:
        self._executor = executor
        self._walks = walks
        self._clocks = clocks
        self._clock = clock

    async def execute(
        self, proposal: Proposal, permit: Permit, *, effects: EffectLog, nested: NestedCall
    ) -> Execution:
        """Return how the launch ended. Never raises for what the tool or the executor does."""
        if self._walks.is_abandoned:
            return self._ended(permit, Executor.POLICY, CallState.CANCELLED, Code.TOOL_CANCELLED)
        context = ExecutionContext(
            effects=effects,
            nested=nested,
            on_clock=lambda clock: self._clocks.started(proposal.call_id, clock),
        )
        try:
            with (
                self._clocks.running(proposal.call_id, parent=proposal.parent_call_id),
                self._walks.cancellable(),
            ):
                return await self._executor.execute(proposal, permit, context)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is a refusal (I1)
            _log.error("call %s failed within the gate: %s", proposal.call_id, trace_of(error))
            # Whether the tool ran before, nobody knows: it is not attested that nobody ran it.
            return self._ended(permit, proposal.executor, CallState.FAILED, Code.GATE_FAULT)

    def _ended(self, permit: Permit, executor: Executor, state: CallState, code: Code) -> Execution:
        now_ms = self._clock.now_ms()
        failure = Failure(code=code, message=MEANINGS[code].sentence)
        return Execution(
            permit_id=permit.permit_id,
            executor=executor,
            enforcement=Enforcement.NONE,
            observed=NOT_OBSERVED,
            outcome=Outcome(state=state, output=None, failure=failure),
            started_at_ms=now_ms,
            ended_at_ms=now_ms,
        )
