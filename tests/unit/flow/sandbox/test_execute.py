# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from palyra.core.digest import CallDigest, PlanDigest
from palyra.core.errors import Code, StateConflictError, StoreError, ToolError
from palyra.core.execution import Enforcement, Execution, Executor, Failure, Outcome
from palyra.core.lifecycle import CallState
from palyra.core.permit import Permit
from palyra.core.ports import ExecutionContext
from palyra.flow.sandbox.execute import Runnable, Sandbox
from tests.support.samples import ALLOW, CALL_ID, NOW_MS, PERMIT_ID, PROPOSAL
from tests.support.scripted import FakeClock
from tests.support.simulator import settle_down, travel
from tests.support.workspaces import MemoryEffects, no_nested_call

if TYPE_CHECKING:
    from palyra.core.ports import Clockwork
    from palyra.flow.sandbox.tool_call import ToolCall

PERMIT = Permit.from_allow(PROPOSAL, ALLOW, permit_id=PERMIT_ID)
OBSERVED = msgspec.Raw(b'{"confined":false}')
MOST_OUTPUT_BYTES = 64


class Stop(BaseException):
    """What test runners and other libraries raise past every ``except Exception``."""


class Scene:
    def __init__(self, body: Any, *, problem: str | None = None) -> None:  # noqa: ANN401
        self.clock = FakeClock()
        self.clocks: list[Clockwork] = []
        self.effects = MemoryEffects()
        self.sandbox = Sandbox(
            {
                "palyra.echo": Runnable(
                    body=body,
                    check_output=lambda _: problem,
                    executor=Executor.BUILTIN,
                    max_output_bytes=MOST_OUTPUT_BYTES,
                    observed=OBSERVED,
                )
            },
            clock=self.clock,
        )

    async def execute(self, permit: Permit = PERMIT) -> Execution:
        context = ExecutionContext(
            effects=self.effects, nested=no_nested_call, on_clock=self.clocks.append
        )
        return await self.sandbox.execute(PROPOSAL, permit, context)

    async def outcome(self) -> Outcome:
        return (await self.execute()).outcome


def failed(code: Code, message: str, **fields: Any) -> Outcome:  # noqa: ANN401 - its fields
    state = fields.pop("state", CallState.FAILED)
    details = fields.pop("details", {})
    failure = Failure(code=code, message=message, details=details)
    return Outcome(state=state, output=None, failure=failure, **fields)


def raising(error: BaseException) -> Scene:
    async def body(_: ToolCall) -> None:
        await asyncio.sleep(0)
        raise error

    return Scene(body)


def returning(value: object, *, problem: str | None = None) -> Scene:
    async def body(_: ToolCall) -> object:
        return value

    return Scene(body, problem=problem)


async def test_an_execution_says_what_ran_when_and_what_was_seen() -> None:
    async def body(call: ToolCall) -> dict[str, object]:
        assert (call.call_id, call.workspace, call.nested) == (CALL_ID, None, no_nested_call)
        assert call.effects is scene.effects
        scene.clock.advance(7)
        return {"z": 1, "a": [call.arguments["text"]]}

    scene = Scene(body)
    assert await scene.execute() == Execution(
        permit_id=PERMIT_ID,
        executor=Executor.BUILTIN,
        enforcement=Enforcement.NONE,
        observed=OBSERVED,
        outcome=Outcome(
            state=CallState.SUCCEEDED,
            output=msgspec.Raw(b'{"a":["hi"],"z":1}'),
            failure=None,
            duration_ms=7,
        ),
        started_at_ms=NOW_MS,
        ended_at_ms=NOW_MS + 7,
    )
    assert len(scene.clocks) == 1


@pytest.mark.invariant("I4")
@pytest.mark.parametrize(
    "other",
    [
        msgspec.structs.replace(PROPOSAL, call_digest=CallDigest("0" * 64)),
        msgspec.structs.replace(PROPOSAL, plan_digest=PlanDigest("0" * 64)),
    ],
    ids=["another-call", "another-plan"],
)
async def test_a_permit_for_something_else_runs_nothing(other: Any) -> None:  # noqa: ANN401
    decision = msgspec.structs.replace(ALLOW, call_digest=other.call_digest)
    permit = Permit.from_allow(other, decision, permit_id=PERMIT_ID)
    with pytest.raises(StateConflictError) as caught:
        await raising(AssertionError("it ran")).execute(permit)
    assert caught.value.code is Code.PERMIT_MISMATCH


@pytest.mark.parametrize(
    ("value", "problem", "message", "limit"),
    [
        pytest.param({1: 2}, None, "the tool's output is not JSON", None, id="a-key"),
        pytest.param(object(), None, "the tool's output is not JSON", None, id="an-object"),
        pytest.param(float("nan"), None, "the tool's output is not JSON", None, id="nan"),
        pytest.param("\ud800", None, "the tool's output is not JSON", None, id="a-surrogate"),
        pytest.param(b"", None, "the tool's output is not JSON", None, id="bytes"),
        pytest.param("ok", "/x: expected less", "/x: expected less", None, id="schema"),
        pytest.param(
            "x" * 63,
            None,
            "the tool's output has 65 bytes, more than 64",
            "max_output_bytes",
            id="too-large",
        ),
    ],
)
async def test_an_output_that_breaks_its_manifest_is_a_failure(
    value: object, problem: str | None, message: str, limit: str | None
) -> None:
    outcome = await returning(value, problem=problem).outcome()
    assert outcome == failed(Code.TOOL_OUTPUT_INVALID, message, limit=limit)


async def test_the_largest_output_is_a_success() -> None:
    assert (await returning("x" * 62).outcome()).ok


@pytest.mark.parametrize(
    "error",
    [
        ValueError("with a secret"),
        KeyError("with a secret"),
        TimeoutError("with a secret"),
        SystemExit("with a secret"),
        Stop("with a secret"),
        asyncio.CancelledError("with a secret"),
        RecursionError(),
        MemoryError(),
        BaseExceptionGroup("with a secret", [Stop()]),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_whatever_a_tool_raises_is_an_outcome_without_its_text(error: BaseException) -> None:
    outcome = await raising(error).outcome()
    assert outcome == failed(Code.TOOL_FAILED, f"the tool raised {type(error).__name__}")


async def test_a_tool_may_fail_in_words_and_with_evidence() -> None:
    error = ToolError(Code.FS_NOT_FOUND, "there is no a.txt", details={"path": "a.txt"})
    assert await raising(error).outcome() == failed(
        Code.FS_NOT_FOUND, "there is no a.txt", details={"path": "a.txt"}
    )


@pytest.mark.invariant("I13")
@pytest.mark.parametrize(
    "details",
    [{"x": object()}, {"x": float("nan")}, {"x": "\ud800"}, {"x": "y" * 20_000}],
    ids=["not-json", "not-a-number", "surrogate", "too-much"],
)
async def test_evidence_that_cannot_be_kept_is_left_out(details: dict[str, object]) -> None:
    error = ToolError(Code.FS_IO, "it failed", details=details)
    assert await raising(error).outcome() == failed(Code.FS_IO, "it failed")


@pytest.mark.invariant("I13")
async def test_a_long_or_broken_message_is_cut_and_escaped() -> None:
    outcome = await raising(ToolError(Code.FS_IO, "\ud800" + "x" * 5000)).outcome()
    assert outcome == failed(Code.FS_IO, "\\ud800" + "x" * 999)


@pytest.mark.parametrize("fault", [StoreError(Code.STORE_FULL), KeyboardInterrupt()])
async def test_what_is_not_the_tools_doing_is_not_its_outcome(fault: BaseException) -> None:
    scene = raising(fault)
    coroutine = scene.execute()
    coroutine.send(None)
    with pytest.raises(type(fault)):
        coroutine.send(None)


async def test_a_tool_is_stopped_when_its_time_is_up() -> None:
    stopped: list[str] = []

    async def body(_: ToolCall) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.append("stopped")

    scene = Scene(body)
    task = asyncio.create_task(scene.outcome())
    await settle_down()
    travel(30.1)
    assert await task == failed(
        Code.TOOL_TIMED_OUT,
        "the tool did not end within 30000 ms",
        state=CallState.TIMED_OUT,
        limit="execution_timeout_ms",
    )
    assert stopped == ["stopped"]


CANCELLED = failed(Code.TOOL_CANCELLED, "the caller cancelled the call", state=CallState.CANCELLED)


@pytest.mark.invariant("I7")
@pytest.mark.parametrize("times", [1, 3])
async def test_a_cancellation_ends_with_the_tool_and_leaves_time_to_record(times: int) -> None:
    async def body(_: ToolCall) -> None:
        await asyncio.Event().wait()

    async def walk() -> Outcome:
        outcome = await Scene(body).outcome()
        await asyncio.sleep(0)  # the record
        return outcome

    task = asyncio.create_task(walk())
    await settle_down()
    for _ in range(times):
        task.cancel()
    assert await task == CANCELLED
    assert not task.cancelling()


@pytest.mark.invariant("I7")
@pytest.mark.parametrize("ignores", [True, False], ids=["ignored", "asked-for-by-the-tool"])
async def test_a_cancellation_that_the_tool_leaves_behind_does_not_reach_the_record(
    ignores: bool,  # noqa: FBT001 - which of the two
) -> None:
    async def body(_: ToolCall) -> str:
        if ignores:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                return "done"
        task.cancel()
        return "done"

    async def walk() -> Outcome:
        outcome = await Scene(body).outcome()
        await asyncio.sleep(0)  # the record
        return outcome

    task = asyncio.create_task(walk())
    await settle_down(1)
    if ignores:
        task.cancel()
    assert (await task).ok
    assert not task.cancelling()
