# SPDX-License-Identifier: Apache-2.0
"""Runs a permitted call: a permit in, an execution out, however the tool ends.

Nothing a tool does escapes as an exception: a failure, a timeout, a cancellation and an output
that breaks its manifest each become an outcome, which the gate records.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import msgspec
import orjson

from palyra.core.canonical import JsonValue, canonicalize
from palyra.core.errors import (
    MEANINGS,
    Code,
    InputError,
    PalyraError,
    StateConflictError,
    StoreError,
)
from palyra.core.execution import Enforcement, Execution, Executor, Failure, Outcome
from palyra.core.lifecycle import CallState
from palyra.core.obligations import unmet_by_plan
from palyra.core.trace import trace_of
from palyra.flow.sandbox.time_limit import TimeLimit
from palyra.flow.sandbox.tool_call import ToolCall
from palyra.flow.sandbox.withhold import withheld

if TYPE_CHECKING:
    from palyra.core.permit import Permit
    from palyra.core.ports import Clock, ExecutionContext
    from palyra.core.proposal import Proposal

ToolBody = Callable[[ToolCall], Awaitable[JsonValue]]
OutputCheck = Callable[[object], str | None]

_log: Final = logging.getLogger(__name__)
_LONGEST_MESSAGE: Final = 1000
_MOST_DETAILS_BYTES: Final = 16 * 1024


class Runnable(msgspec.Struct, frozen=True, kw_only=True):
    """A tool's body, and how its output is checked against the manifest."""

    body: ToolBody
    check_output: OutputCheck
    executor: Executor
    max_output_bytes: int
    observed: msgspec.Raw


class Sandbox:
    """The executor of every tool there is a body for."""

    def __init__(self, tools: Mapping[str, Runnable], *, clock: Clock) -> None:
        self._tools = dict(tools)
        self._clock = clock

    async def execute(
        self, proposal: Proposal, permit: Permit, context: ExecutionContext
    ) -> Execution:
        """Run the call under its permit and say what was observed."""
        if (permit.call_digest, permit.plan_digest) != (proposal.call_digest, proposal.plan_digest):
            raise StateConflictError(Code.PERMIT_MISMATCH)  # I4
        unmet = unmet_by_plan(permit.obligations, proposal.plan)
        if unmet:
            raise StateConflictError(Code.OBLIGATION_UNMET, unmet)
        runnable = self._tools[proposal.tool]
        started_at_ms = self._clock.now_ms()
        started = self._clock.monotonic_ms()
        outcome = await self._run(_obliged(runnable, permit), proposal, permit, context)
        await _end_cancellation()
        outcome = msgspec.structs.replace(outcome, duration_ms=self._clock.monotonic_ms() - started)
        return Execution(
            permit_id=permit.permit_id,
            executor=runnable.executor,
            enforcement=Enforcement.NONE,
            observed=runnable.observed,
            outcome=outcome,
            started_at_ms=started_at_ms,
            ended_at_ms=self._clock.now_ms(),
        )

    async def _run(
        self, runnable: Runnable, proposal: Proposal, permit: Permit, context: ExecutionContext
    ) -> Outcome:
        call = ToolCall(
            arguments=orjson.loads(bytes(proposal.arguments)),
            call_id=proposal.call_id,
            workspace=proposal.workspace,
            effects=context.effects,
            nested=context.nested,
        )
        timeout_ms = proposal.timeout_ms
        if permit.obligations.timeout_ms is not None:
            timeout_ms = min(timeout_ms, permit.obligations.timeout_ms)
        limit = TimeLimit(timeout_ms)
        try:
            async with limit:
                context.on_clock(limit)
                value = await runnable.body(call)
            return _accept(value, runnable, withhold=permit.obligations.redact)
        except StoreError:
            raise  # The plan of an effect could not be recorded: a fault of ours, not the tool's.
        except PalyraError as error:
            return _failed(CallState.FAILED, error.code, error.message, details=_details_of(error))
        except (KeyboardInterrupt, GeneratorExit):
            raise  # Somebody ends this process, or this loop: not the tool's doing.
        except BaseException as error:  # noqa: BLE001 - a tool may raise anything, also SystemExit
            if isinstance(error, TimeoutError) and limit.has_expired:
                return _timed_out(timeout_ms)
            if isinstance(error, asyncio.CancelledError) and _is_cancelled():
                return _failed(CallState.CANCELLED, Code.TOOL_CANCELLED)
            # The type is ours or the author's; the text may hold anything and stays in the log.
            _log.error("tool %s raised: %s", proposal.tool, trace_of(error))
            return _failed(
                CallState.FAILED, Code.TOOL_FAILED, f"the tool raised {type(error).__name__}"
            )


def _obliged(runnable: Runnable, permit: Permit) -> Runnable:
    """Return the tool as policy lets it run."""
    most = permit.obligations.max_output_bytes
    if most is None or most >= runnable.max_output_bytes:
        return runnable
    return msgspec.structs.replace(runnable, max_output_bytes=most)


def _accept(value: JsonValue, runnable: Runnable, *, withhold: tuple[str, ...]) -> Outcome:
    try:
        output = canonicalize(value)
    except InputError:
        return _failed(CallState.FAILED, Code.TOOL_OUTPUT_INVALID, "the tool's output is not JSON")
    if len(output) > runnable.max_output_bytes:
        return _too_large(output, runnable)
    problem = runnable.check_output(value)
    if problem is not None:
        return _failed(CallState.FAILED, Code.TOOL_OUTPUT_INVALID, problem)
    if withhold:
        output = canonicalize(withheld(value, withhold))
        if len(output) > runnable.max_output_bytes:  # what stands for a value may be longer (I13)
            return _too_large(output, runnable)
    return Outcome(state=CallState.SUCCEEDED, output=msgspec.Raw(output), failure=None)


def _too_large(output: bytes, runnable: Runnable) -> Outcome:
    return _failed(
        CallState.FAILED,
        Code.TOOL_OUTPUT_INVALID,
        f"the tool's output has {len(output)} bytes, more than {runnable.max_output_bytes}",
        limit="max_output_bytes",
    )


def _timed_out(timeout_ms: int) -> Outcome:
    return _failed(
        CallState.TIMED_OUT,
        Code.TOOL_TIMED_OUT,
        f"the tool did not end within {timeout_ms} ms",
        limit="execution_timeout_ms",
    )


def _failed(
    state: CallState,
    code: Code,
    message: str = "",
    *,
    limit: str | None = None,
    details: dict[str, Any] | None = None,
) -> Outcome:
    shown = message[:_LONGEST_MESSAGE].encode("utf-8", "backslashreplace").decode()
    failure = Failure(code=code, message=shown or MEANINGS[code].sentence, details=details or {})
    return Outcome(state=state, output=None, failure=failure, limit=limit)


def _details_of(error: PalyraError) -> dict[str, Any]:
    """Return the evidence of a tool's error, unless it is not JSON or too much of it (I13)."""
    details: dict[str, Any] = dict(error.details)
    try:
        return details if len(canonicalize(details)) <= _MOST_DETAILS_BYTES else {}
    except InputError:
        return {}


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def _end_cancellation() -> None:
    """End any cancellation here: it was for the tool alone, and the outcome is still recorded.

    Also one that the tool ignored, and one that it asked for itself and that has yet to arrive.
    """
    task = asyncio.current_task()
    while task is not None and task.cancelling():
        task.uncancel()
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(0)
