# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from palyra.core.errors import MEANINGS, Code, StoreError
from palyra.core.execution import (
    NOT_OBSERVED,
    Enforcement,
    Execution,
    Executor,
    Failure,
    Outcome,
)
from palyra.core.lifecycle import CallState
from palyra.core.permit import Permit
from palyra.flow.sandbox.supervise import Supervisor
from palyra.flow.sandbox.time_limit import RunningClocks
from palyra.flow.sandbox.walks import Walks
from tests.support.samples import ALLOW, CALL_ID, NOW_MS, PERMIT_ID, PROPOSAL
from tests.support.scripted import FakeClock
from tests.support.simulator import settle_down
from tests.support.workspaces import MemoryEffects, no_nested_call

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from palyra.core.ports import ExecutionContext

PERMIT = Permit.from_allow(PROPOSAL, ALLOW, permit_id=PERMIT_ID)
DONE = Execution(
    permit_id=PERMIT_ID,
    executor=Executor.BUILTIN,
    enforcement=Enforcement.NONE,
    observed=msgspec.Raw(b"{}"),
    outcome=Outcome(state=CallState.SUCCEEDED, output=msgspec.Raw(b"1"), failure=None),
    started_at_ms=NOW_MS,
    ended_at_ms=NOW_MS,
)


class Pendulum:
    """A clock that says what was done to it."""

    def __init__(self) -> None:
        self.acts: list[str] = []

    def pause(self) -> None:
        self.acts.append("pause")

    def resume(self) -> None:
        self.acts.append("resume")


class Scene:
    def __init__(self, act: Callable[[ExecutionContext], Awaitable[Execution]]) -> None:
        self._act = act
        self.launched = 0
        self.walks = Walks()
        self.clocks = RunningClocks()
        self.supervisor = Supervisor(
            executor=self, walks=self.walks, clocks=self.clocks, clock=FakeClock()
        )

    async def execute(self, _: object, __: object, context: ExecutionContext) -> Execution:
        self.launched += 1
        return await self._act(context)

    async def supervise(self) -> Execution:
        return await self.supervisor.execute(
            PROPOSAL, PERMIT, effects=MemoryEffects(), nested=no_nested_call
        )


def ended(executor: Executor, state: CallState, code: Code) -> Execution:
    return Execution(
        permit_id=PERMIT_ID,
        executor=executor,
        enforcement=Enforcement.NONE,
        observed=NOT_OBSERVED,
        outcome=Outcome(
            state=state,
            output=None,
            failure=Failure(code=code, message=MEANINGS[code].sentence),
        ),
        started_at_ms=NOW_MS,
        ended_at_ms=NOW_MS,
    )


async def test_an_execution_is_passed_on_and_its_clock_is_known_meanwhile() -> None:
    pendulum = Pendulum()

    async def act(context: ExecutionContext) -> Execution:
        context.on_clock(pendulum)
        with scene.clocks.standing(CALL_ID):
            pass
        return DONE

    scene = Scene(act)
    assert await scene.walks.drive(scene.supervise()) == DONE
    with scene.clocks.standing(CALL_ID):
        pass
    assert pendulum.acts == ["pause", "resume"]


@pytest.mark.invariant("I1")
@pytest.mark.parametrize(
    "fault", [RuntimeError("with a secret"), StoreError(Code.STORE_FULL)], ids=["any", "typed"]
)
async def test_a_fault_of_the_executor_is_an_outcome_and_says_who_was_to_run_it(
    fault: Exception,
) -> None:
    async def act(_: ExecutionContext) -> Execution:
        raise fault

    scene = Scene(act)
    assert await scene.walks.drive(scene.supervise()) == ended(
        Executor.BUILTIN, CallState.FAILED, Code.GATE_FAULT
    )


@pytest.mark.invariant("I7")
async def test_a_call_that_nobody_waits_for_any_more_is_not_run() -> None:
    async def act(_: ExecutionContext) -> Execution:
        return DONE

    scene, go = Scene(act), asyncio.Event()
    executions: list[Execution] = []

    async def walk() -> None:
        await go.wait()
        executions.append(await scene.supervise())

    caller = asyncio.create_task(scene.walks.drive(walk()))
    await settle_down()
    caller.cancel()
    await settle_down()
    go.set()
    await asyncio.wait([caller])
    assert executions == [ended(Executor.POLICY, CallState.CANCELLED, Code.TOOL_CANCELLED)]
    assert scene.launched == 0


async def test_a_cancellation_reaches_the_executor() -> None:
    seen: list[Any] = []

    async def act(_: ExecutionContext) -> Execution:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append("cancelled")
        return DONE

    scene = Scene(act)
    caller = asyncio.create_task(scene.walks.drive(scene.supervise()))
    await settle_down()
    caller.cancel()
    await asyncio.wait([caller])
    assert seen == ["cancelled"]
