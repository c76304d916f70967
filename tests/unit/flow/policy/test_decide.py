# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from palyra.core.decision import Decision, Verdict
from palyra.core.digest import CallDigest, SnapshotDigest
from palyra.core.errors import MEANINGS, Code, StoreError
from palyra.core.session import BudgetLeft, BudgetLimits
from palyra.flow.policy.decide import Decider
from tests.support.samples import (
    CALL,
    MALFORMED,
    NOW_MS,
    PROPOSAL,
)
from tests.support.scripted import ScriptedPolicy

if TYPE_CHECKING:
    from palyra.core.proposal import Proposal
    from palyra.core.session import Run

LIMITS = BudgetLimits(max_calls_per_run=3, max_calls_per_session=4, max_calls_per_agent_hour=5)


class Purse:
    """What is left, whatever was asked."""

    def __init__(self, left: BudgetLeft, *, fault: Exception | None = None) -> None:
        self._left = left
        self._fault = fault
        self.asked: list[tuple[object, BudgetLimits, int]] = []

    def budget_left(
        self, subject: Run | Proposal, *, limits: BudgetLimits, at_ms: int
    ) -> BudgetLeft:
        self.asked.append((subject, limits, at_ms))
        if self._fault is not None:
            raise self._fault
        return self._left


class Scene:
    def __init__(
        self, policy: ScriptedPolicy | None = None, *, left: BudgetLeft | None = None
    ) -> None:
        self.policy = policy or ScriptedPolicy()
        self.purse = Purse(left or BudgetLeft(run=3, session=4, agent_hour=5))
        self.decider = Decider(
            engine=self.policy,
            store=self.purse,  # type: ignore[arg-type]  # the one read that is needed
            limits=LIMITS,
        )

    def forbidden(self, code: Code, reason: str, *, hint: str = "", path: str = "") -> Decision:
        return Decision(
            call_digest=CALL,
            verdict=Verdict.FORBID,
            code=code,
            reason=reason,
            hint=hint or MEANINGS[code].hint,
            path=path,
            policies=(),
            policy_digest=self.policy.policy_digest,
            snapshot_digest=self.policy.snapshot_digest,
        )


@pytest.mark.parametrize("verdict", list(Verdict), ids=lambda verdict: verdict.wire)
def test_the_engine_decides_with_the_budget_before_it(verdict: Verdict) -> None:
    scene = Scene(ScriptedPolicy(verdict))
    assert scene.decider.decide(PROPOSAL).verdict is verdict
    assert scene.purse.asked == [(PROPOSAL, LIMITS, NOW_MS)]
    assert scene.policy.decided == [("palyra.echo", BudgetLeft(run=3, session=4, agent_hour=5))]


@pytest.mark.invariant("I1")
def test_what_is_malformed_is_forbidden_without_asking_anyone() -> None:
    scene = Scene()
    assert scene.decider.decide(MALFORMED) == scene.forbidden(
        Code.INPUT_INVALID, "/text: expected a string", hint="send one", path="/text"
    )
    assert (scene.policy.decided, scene.purse.asked) == ([], [])


@pytest.mark.invariant("I1")
def test_an_engine_that_fails_forbids() -> None:
    scene = Scene()
    scene.policy.fault = RuntimeError("with a secret")
    assert scene.decider.decide(PROPOSAL) == scene.forbidden(
        Code.POLICY_FAULT, MEANINGS[Code.POLICY_FAULT].sentence
    )


@pytest.mark.invariant("I1")
def test_a_decision_about_another_call_forbids() -> None:
    class Confused(ScriptedPolicy):
        def decide(self, proposal: Proposal, *, left: BudgetLeft) -> Decision:
            decided = super().decide(proposal, left=left)
            return msgspec.structs.replace(decided, call_digest=CallDigest("0" * 64))

    scene = Scene(Confused())
    assert scene.decider.decide(PROPOSAL) == scene.forbidden(
        Code.POLICY_FAULT, "policy decided about another call"
    )


def test_a_store_that_fails_is_not_a_verdict() -> None:
    scene = Scene()
    scene.purse._fault = StoreError(Code.STORE_BUSY)
    with pytest.raises(StoreError):
        scene.decider.decide(PROPOSAL)


@pytest.mark.parametrize(
    ("left", "seen"),
    [
        pytest.param((2, 3, 4), (3, 4, 5), id="its-own-unit-back"),
        pytest.param((0, 0, 0), (1, 1, 1), id="the-last-unit-was-its-own"),
        pytest.param((-8, -8, 0), (1, 1, 1), id="refusals-since-do-not-count"),
    ],
)
def test_a_call_that_was_charged_before_is_not_charged_again(
    left: tuple[int, int, int], seen: tuple[int, int, int]
) -> None:
    run, session, agent_hour = left
    scene = Scene(left=BudgetLeft(run=run, session=session, agent_hour=agent_hour))
    scene.decider.decide(PROPOSAL, is_charged=True)
    ((_, given),) = scene.policy.decided
    assert (given.run, given.session, given.agent_hour) == seen


@pytest.mark.invariant("I4")
def test_a_decision_holds_while_policy_and_configuration_are_the_same() -> None:
    scene = Scene()
    decision = scene.decider.decide(PROPOSAL)
    assert scene.decider.confirm(PROPOSAL, decision) is decision
    assert len(scene.policy.decided) == 1


@pytest.mark.invariant("I4")
def test_a_changed_policy_or_configuration_decides_anew() -> None:
    scene = Scene()
    decision = scene.decider.decide(PROPOSAL)
    scene.policy.change_to(Verdict.FORBID)
    assert scene.decider.confirm(PROPOSAL, decision).verdict is Verdict.FORBID
    decision = scene.decider.decide(PROPOSAL)
    scene.policy.snapshot_digest = SnapshotDigest("0" * 64)
    confirmed = scene.decider.confirm(PROPOSAL, decision)
    assert confirmed.snapshot_digest == SnapshotDigest("0" * 64)


@pytest.mark.invariant("I1")
def test_rules_that_cannot_be_looked_up_forbid() -> None:
    class Broken(ScriptedPolicy):
        def refresh(self, *, at_once: bool = False) -> None:
            raise MemoryError(at_once)

    scene = Scene(Broken())
    expected = scene.forbidden(Code.POLICY_FAULT, MEANINGS[Code.POLICY_FAULT].sentence)
    assert scene.decider.decide(PROPOSAL) == expected
    allowed = ScriptedPolicy().decide(PROPOSAL, left=BudgetLeft(run=1, session=1, agent_hour=1))
    assert allowed.verdict is Verdict.ALLOW
    assert scene.decider.confirm(PROPOSAL, allowed) == expected
