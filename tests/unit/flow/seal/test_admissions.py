# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from palyra.core.approval import Pending, Rejection
from palyra.core.decision import Verdict
from palyra.core.errors import MEANINGS, Code, NotPermittedError, StateConflictError
from palyra.core.lifecycle import CallState
from palyra.core.obligations import Obligations
from palyra.core.permit import Permit
from palyra.core.result import CallResult, call_result
from palyra.core.session import BudgetLeft
from palyra.core.transitions import (
    Admission,
    Admitted,
    Conflicting,
    Exhausted,
    Flooded,
    Outdated,
    Repeated,
)
from palyra.flow.seal.admissions import Admissions
from tests.support.samples import ALLOW, APPROVAL_ID, CALL_ID, FORBID, PERMIT_ID, PROPOSAL, REQUEST

if TYPE_CHECKING:
    from palyra.core.decision import Decision
    from palyra.core.proposal import Proposal

PERMIT = Permit.from_allow(PROPOSAL, ALLOW, permit_id=PERMIT_ID)
PENDING = Pending(approval_id=APPROVAL_ID)
LEFT = BudgetLeft(run=0, session=1, agent_hour=1)
TOLD = call_result(PROPOSAL, ALLOW, state=CallState.SUCCEEDED)


class Scene:
    """A scribe that finds the store in one mood, and a recall that knows one call."""

    def __init__(self, admission: Admission) -> None:
        self.admission = admission
        self.refusals: list[tuple[Decision, Rejection | None]] = []
        self.admissions = Admissions(
            scribe=self,  # type: ignore[arg-type]  # the three records that are needed
            recall=self,  # type: ignore[arg-type]  # the one answer that is needed
        )

    async def launched(self, *_: object) -> Admission:
        return self.admission

    suspended = launched

    async def refused(
        self,
        subject: Proposal,
        decision: Decision,
        *,
        answer: Rejection | None,
    ) -> CallResult | Admission:
        if isinstance(self.admission, Admitted | Exhausted | Outdated):
            self.refusals.append((decision, answer))
            return call_result(subject, decision, state=CallState.DENIED, answer=answer)
        return self.admission

    async def tell(self, call_id: str) -> CallResult:
        assert call_id == CALL_ID
        return TOLD

    async def put(self, way: str) -> CallResult | None:
        match way:
            case "launch":
                return await self.admissions.launch(PROPOSAL, ALLOW, PERMIT)
            case "suspend":
                return await self.admissions.suspend(PROPOSAL, ALLOW, PENDING)
            case _:
                return await self.admissions.refuse(PROPOSAL, FORBID)


@pytest.mark.parametrize("way", ["launch", "suspend"])
async def test_a_call_that_was_taken_goes_on(way: str) -> None:
    assert await Scene(Admitted(left=LEFT)).put(way) is None


@pytest.mark.parametrize(
    "answer", [None, Rejection(code=Code.APPROVAL_DENIED, reason="no")], ids=["policy", "operator"]
)
async def test_a_refusal_that_was_taken_is_the_result(answer: Rejection | None) -> None:
    scene = Scene(Admitted(left=LEFT))
    result = await scene.admissions.refuse(PROPOSAL, FORBID, answer)
    assert result.state == "denied"
    assert scene.refusals == [(FORBID, answer)]


@pytest.mark.parametrize("way", ["launch", "suspend", "refuse"])
async def test_a_retry_is_told_what_became_of_the_first_attempt(way: str) -> None:
    assert await Scene(Repeated(call_id=CALL_ID)).put(way) == TOLD


@pytest.mark.parametrize("way", ["launch", "suspend", "refuse"])
async def test_a_used_request_id_is_a_conflict(way: str) -> None:
    with pytest.raises(StateConflictError) as caught:
        await Scene(Conflicting(call_id=CALL_ID)).put(way)
    assert caught.value.code is Code.REQUEST_CONFLICT
    assert caught.value.details == {"call_id": CALL_ID}


@pytest.mark.invariant("I13")
@pytest.mark.parametrize("way", ["launch", "suspend", "refuse"])
async def test_a_flood_is_told_how_much_of_it_was_dropped(way: str) -> None:
    with pytest.raises(NotPermittedError) as caught:
        await Scene(Flooded(count=16)).put(way)
    assert caught.value.code is Code.BUDGET_EXHAUSTED
    assert caught.value.details == {"dropped": 16}


def overtaken(code: Code, decision: Decision = ALLOW) -> Decision:
    """Return the refusal in place of a decision that came to nothing."""
    meaning = MEANINGS[code]
    return msgspec.structs.replace(
        decision,
        verdict=Verdict.FORBID,
        code=code,
        reason=meaning.sentence,
        hint=meaning.hint,
        policies=(),
    )


@pytest.mark.invariant("I14")
@pytest.mark.parametrize("way", ["launch", "suspend"])
async def test_a_budget_that_ran_out_meanwhile_refuses(way: str) -> None:
    scene = Scene(Exhausted(left=LEFT))
    result = await scene.put(way)
    assert result is not None
    assert (result.state, result.decision.code) == ("denied", "budget.exhausted")
    assert scene.refusals == [(overtaken(Code.BUDGET_EXHAUSTED), None)]


@pytest.mark.invariant("I4")
@pytest.mark.parametrize("way", ["launch", "suspend"])
async def test_rules_that_changed_meanwhile_refuse(way: str) -> None:
    scene = Scene(Outdated(rules_version=8))
    result = await scene.put(way)
    assert result is not None
    assert (result.state, result.decision.code) == ("denied", "policy.changed")
    assert scene.refusals == [(overtaken(Code.POLICY_CHANGED), None)]


@pytest.mark.invariant("I8")
async def test_a_refusal_for_changed_rules_still_says_what_policy_was_asked() -> None:
    scene = Scene(Outdated(rules_version=8))
    asked = msgspec.structs.replace(
        ALLOW, request=REQUEST, rules_version=7, obligations=Obligations(timeout_ms=5)
    )
    await scene.admissions.launch(PROPOSAL, asked, PERMIT)
    assert scene.refusals == [(overtaken(Code.POLICY_CHANGED, asked), None)]
