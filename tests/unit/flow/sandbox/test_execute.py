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
from palyra.core.obligations import Obligations
from palyra.core.permit import Permit
from palyra.core.plan import SandboxPlan, Tier
from palyra.core.ports import ExecutionContext
from palyra.flow.sandbox.execute import Runnable, Sandbox
from palyra.flow.sandbox.withhold import WITHHELD
from tests.support.samples import ALLOW, CALL_ID, NOW_MS, PERMIT_ID, PROPOSAL
from tests.support.scripted import FakeClock
from tests.support.simulator import settle_down, travel
from tests.support.workspaces import MemoryEffects, no_nested_call

if TYPE_CHECKING:
    from palyra.core.ports import Clockwork
    from palyra.core.proposal import Proposal
    from palyra.flow.sandbox.tool_call import ToolCall

PERMIT = Permit.from_allow(PROPOSAL, ALLOW, permit_id=PERMIT_ID)
OBSERVED = msgspec.Raw(b'{"confined":false}')
MOST_OUTPUT_BYTES = 64


def obliged(**demands: Any) -> Permit:  # noqa: ANN401 - its fields
    decision = msgspec.structs.replace(ALLOW, obligations=Obligations(**demands))
    return Permit.from_allow(PROPOSAL, decision, permit_id=PERMIT_ID)


class Stop(BaseException):
    """What test runners and other libraries raise past every ``except Exception``."""


class Scene:
    def __init__(
        self,
        body: Any,  # noqa: ANN401
        *,
        problem: str | None = None,
        seen: list[object] | None = None,
    ) -> None:
        def check_output(value: object) -> str | None:
            if seen is not None:
                seen.append(value)
            return problem

        self.clock = FakeClock()
        self.clocks: list[Clockwork] = []
        self.effects = MemoryEffects()
        self.sandbox = Sandbox(
            {
                "palyra.echo": Runnable(
                    body=body,
                    check_output=check_output,
                    executor=Executor.BUILTIN,
                    max_output_bytes=MOST_OUTPUT_BYTES,
                    observed=OBSERVED,
                )
            },
            clock=self.clock,
        )

    async def execute(self, permit: Permit = PERMIT, proposal: Proposal = PROPOSAL) -> Execution:
        context = ExecutionContext(
            effects=self.effects, nested=no_nested_call, on_clock=self.clocks.append
        )
        return await self.sandbox.execute(proposal, permit, context)

    async def outcome(self, **demands: Any) -> Outcome:  # noqa: ANN401 - of the obligations
        return (await self.execute(obliged(**demands))).outcome


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


@pytest.mark.parametrize(
    ("demanded_ms", "given_ms"), [(500, 500), (30_000, 30_000), (10**9, 30_000)]
)
async def test_policy_can_only_shorten_the_time(demanded_ms: int, given_ms: int) -> None:
    async def body(_: ToolCall) -> None:
        await asyncio.Event().wait()

    task = asyncio.create_task(Scene(body).outcome(timeout_ms=demanded_ms))
    await settle_down()
    travel(given_ms / 1000 - 0.1)
    await settle_down()
    assert not task.done()
    travel(0.2)
    assert await task == failed(
        Code.TOOL_TIMED_OUT,
        f"the tool did not end within {given_ms} ms",
        state=CallState.TIMED_OUT,
        limit="execution_timeout_ms",
    )


@pytest.mark.parametrize(
    ("demanded", "most"), [(10, 10), (MOST_OUTPUT_BYTES, MOST_OUTPUT_BYTES), (10**6, 64)]
)
async def test_policy_can_only_lessen_the_output(demanded: int, most: int) -> None:
    fits, exceeds = "x" * (most - 2), "x" * (most - 1)
    assert (await returning(fits).outcome(max_output_bytes=demanded)).ok
    assert await returning(exceeds).outcome(max_output_bytes=demanded) == failed(
        Code.TOOL_OUTPUT_INVALID,
        f"the tool's output has {most + 1} bytes, more than {most}",
        limit="max_output_bytes",
    )


@pytest.mark.invariant("I11")
async def test_what_policy_withholds_is_not_in_the_output() -> None:
    scene = returning({"a": "hush", "b": "u", "c": ["hush", 1]})
    outcome = await scene.outcome(redact=("/a", "/none"))
    assert outcome.output == msgspec.Raw(b'{"a":"%b","b":"u","c":["hush",1]}' % WITHHELD.encode())
    outcome = await scene.outcome(redact=("/a", "/c"))
    assert outcome == Outcome(
        state=CallState.SUCCEEDED,
        output=msgspec.Raw(b'{"a":"%b","b":"u","c":"%b"}' % (2 * (WITHHELD.encode(),))),
        failure=None,
    )


async def test_an_output_is_checked_before_anything_is_withheld_of_it() -> None:
    seen: list[object] = []

    async def body(_: ToolCall) -> dict[str, object]:
        return {"n": 1}

    scene = Scene(body, seen=seen)
    outcome = await scene.outcome(redact=("/n",))
    assert seen == [{"n": 1}]
    assert outcome.output == msgspec.Raw(b'{"n":"%b"}' % WITHHELD.encode())


@pytest.mark.invariant("I13")
async def test_what_stands_for_withheld_values_counts_towards_the_output() -> None:
    outcome = await returning([1, 2, 3]).outcome(redact=("/*",))
    length = 3 * len(f'"{WITHHELD}"') + 4
    assert outcome == failed(
        Code.TOOL_OUTPUT_INVALID,
        f"the tool's output has {length} bytes, more than {MOST_OUTPUT_BYTES}",
        limit="max_output_bytes",
    )


@pytest.mark.invariant("I1")
@pytest.mark.parametrize(
    ("plan", "demand"),
    [
        pytest.param(SandboxPlan(), Obligations(tiers=(Tier.B,)), id="a-tier"),
        pytest.param(SandboxPlan(egress=("*",)), Obligations(egress=()), id="hosts"),
    ],
)
async def test_a_demand_that_the_plan_does_not_meet_runs_nothing(
    plan: SandboxPlan, demand: Obligations
) -> None:
    # No permit is built for such a plan: only a plan that changed afterwards comes this far.
    permit = obliged()
    permit.obligations = demand
    proposal = msgspec.structs.replace(PROPOSAL, plan=plan)
    with pytest.raises(StateConflictError) as caught:
        await raising(AssertionError("it ran")).execute(permit, proposal)
    assert caught.value.code is Code.OBLIGATION_UNMET


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
