# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio

import msgspec
import pytest

from palyra.core.approval import Pending, Rejection
from palyra.core.errors import MEANINGS, Code, StoreError
from palyra.core.ids import ApprovalId
from palyra.flow.review.resolve import Resolver
from tests.support.samples import APPROVAL, APPROVAL_ID, ASK, GRANT, PROPOSAL
from tests.support.scripted import ScriptedReviewer

FAULTS = [
    pytest.param(RuntimeError("with a secret"), id="unexpected"),
    pytest.param(StoreError(Code.STORE_BUSY), id="typed"),
    pytest.param(TimeoutError(), id="out-of-time"),
]


def unanswered(approval_id: ApprovalId | None) -> Rejection:
    return Rejection(
        code=Code.APPROVAL_FAULT,
        reason=MEANINGS[Code.APPROVAL_FAULT].sentence,
        approval_id=approval_id,
    )


async def test_a_question_is_put_and_waited_for() -> None:
    reviewer = ScriptedReviewer()
    resolver = Resolver(reviewer)
    pending = await resolver.ask(PROPOSAL, ASK)
    assert isinstance(pending, Pending)
    await resolver.announce(pending)
    assert reviewer.announced == [pending.approval_id]
    approval = msgspec.structs.replace(APPROVAL, approval_id=pending.approval_id)
    reviewer.reply(approval)
    assert await resolver.wait(pending.approval_id) == approval


async def test_an_answer_that_is_known_is_passed_on() -> None:
    reviewer = ScriptedReviewer()
    reviewer.at_once = lambda _: GRANT
    assert await Resolver(reviewer).ask(PROPOSAL, ASK) == GRANT


@pytest.mark.invariant("I1")
@pytest.mark.parametrize("fault", FAULTS)
async def test_a_fault_is_a_no(fault: Exception) -> None:
    reviewer = ScriptedReviewer()
    reviewer.faults = {"ask": fault, "wait": fault}
    assert await Resolver(reviewer).ask(PROPOSAL, ASK) == unanswered(None)
    assert await Resolver(reviewer).wait(APPROVAL_ID) == unanswered(APPROVAL_ID)


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_question_that_nobody_hears_of_stays_a_question(fault: Exception) -> None:
    reviewer = ScriptedReviewer()
    reviewer.faults = {"announce": fault}
    await Resolver(reviewer).announce(Pending(approval_id=APPROVAL_ID))
    assert reviewer.announced == []


@pytest.mark.invariant("I4")
async def test_an_approval_of_another_question_is_no_answer() -> None:
    reviewer = ScriptedReviewer()
    resolver = Resolver(reviewer)
    await resolver.ask(PROPOSAL, ASK)
    asked = reviewer.latest.approval_id
    other = ApprovalId("01JCZK5M8N0000000000000099")
    reviewer.reply(msgspec.structs.replace(APPROVAL, approval_id=other))
    assert await resolver.wait(asked) == unanswered(asked)


async def test_who_stops_waiting_is_not_answered() -> None:
    reviewer = ScriptedReviewer()
    resolver = Resolver(reviewer)
    await resolver.ask(PROPOSAL, ASK)
    task = asyncio.create_task(resolver.wait(reviewer.latest.approval_id))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
