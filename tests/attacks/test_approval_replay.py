# SPDX-License-Identifier: Apache-2.0
"""An answer is used for something else, by someone else, too late, twice, or after a change."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from palyra.core.decision import Verdict
from palyra.core.digest import CallDigest, PlanDigest
from palyra.core.errors import StateConflictError
from palyra.core.ids import CallId
from palyra.core.principal import Principal, PrincipalKind
from tests.support.samples import AGENT, NOW_MS, OPERATOR
from tests.support.scripted import FakeClock, ScriptedPolicy, approval_of, grant_of
from tests.support.simulator import (
    AGENT_CREDENTIAL,
    OPERATOR_CREDENTIAL,
    GateSimulator,
    Probe,
    attested_code,
    output_of,
    settle_down,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from palyra.core.approval import Approval, Grant
    from palyra.core.principal import Credential
    from palyra.core.proposal import Proposal
    from palyra.core.result import CallResult

EXPIRES_MS = NOW_MS + 600_000
SERVICE = Principal(kind=PrincipalKind.SERVICE, name="cron")
OTHER_AGENT = Principal(kind=PrincipalKind.AGENT, name="eve")
OTHER_CALL = CallDigest("0" * 64)
OTHER_PLAN = PlanDigest("0" * 64)

FALSE_APPROVALS = [
    pytest.param({"call_digest": OTHER_CALL}, "permit.mismatch", id="for-another-call"),
    pytest.param({"plan_digest": OTHER_PLAN}, "permit.mismatch", id="for-another-plan"),
    pytest.param({"decided_by": OTHER_AGENT}, "permit.mismatch", id="by-an-agent"),
    pytest.param({"decided_by": AGENT}, "permit.mismatch", id="by-the-agent-itself"),
    pytest.param({"decided_by": SERVICE}, "permit.mismatch", id="by-a-service"),
    pytest.param({"expires_at_ms": NOW_MS}, "permit.expired", id="expired-this-very-moment"),
    pytest.param({"expires_at_ms": 0}, "permit.expired", id="expired-long-ago"),
]
FALSE_GRANTS = [
    pytest.param({"principal": OTHER_AGENT}, "permit.mismatch", id="to-another-agent"),
    pytest.param({"call_digest": OTHER_CALL}, "permit.mismatch", id="for-another-call"),
    pytest.param({"plan_digest": OTHER_PLAN}, "permit.mismatch", id="for-another-plan"),
    pytest.param({"granted_by": OTHER_AGENT}, "permit.mismatch", id="by-an-agent"),
    pytest.param({"granted_by": AGENT}, "permit.mismatch", id="by-the-agent-itself"),
    pytest.param({"expires_at_ms": NOW_MS}, "permit.expired", id="expired-this-very-moment"),
]


class Scene:
    """A gate where every call needs a human, and a tool that counts."""

    def __init__(self, home: Path, *, series: int = 0, probe: Probe | None = None) -> None:
        self.probe = probe or Probe()
        self.policy = ScriptedPolicy(Verdict.ASK)
        self.clock = FakeClock()
        self.simulator = GateSimulator(
            home, tools=[self.probe.tool], policy=self.policy, clock=self.clock, series=series
        )
        self.reviewer = self.simulator.reviewer

    async def propose(self, credential: Credential = AGENT_CREDENTIAL) -> CallId:
        pending = await self.simulator.call("test.probe", wait=False, credential=credential)
        return CallId(str(pending.call_id))

    async def resume(self, call_id: CallId) -> CallResult:
        return await self.simulator.gate.resume(call_id, credential=AGENT_CREDENTIAL)

    def is_refused(self, result: CallResult, *, code: str) -> None:
        assert (result.state, result.outcome) == ("denied", None)
        assert result.attestation is not None
        assert result.attestation.executor == "policy"
        assert attested_code(self.simulator, result) == code
        assert self.probe.begun == 0
        assert "call.launched" not in self.simulator.kinds()
        assert self.simulator.verified().ok


@pytest.mark.invariant("I4")
@pytest.mark.invariant("I6")
@pytest.mark.parametrize(("changes", "code"), FALSE_APPROVALS)
async def test_a_pending_call_is_not_launched_by_an_approval(
    tmp_path: Path, changes: dict[str, Any], code: str
) -> None:
    scene = Scene(tmp_path / "home")
    async with scene.simulator:
        call_id = await scene.propose()
        scene.reviewer.approve(**changes)
        scene.is_refused(await scene.resume(call_id), code=code)
        scene.is_refused(await scene.resume(call_id), code=code)


@pytest.mark.invariant("I4")
@pytest.mark.invariant("I6")
@pytest.mark.parametrize(("changes", "code"), FALSE_APPROVALS)
async def test_a_new_call_is_not_launched_by_an_approval(
    tmp_path: Path, changes: dict[str, Any], code: str
) -> None:
    scene = Scene(tmp_path / "home")
    async with scene.simulator:
        scene.reviewer.at_once = lambda proposal: approval_of(proposal, **changes)
        scene.is_refused(await scene.simulator.call("test.probe"), code=code)


@pytest.mark.invariant("I4")
@pytest.mark.invariant("I6")
@pytest.mark.parametrize(("changes", "code"), FALSE_GRANTS)
async def test_a_call_is_not_launched_by_a_grant(
    tmp_path: Path, changes: dict[str, Any], code: str
) -> None:
    scene = Scene(tmp_path / "home")
    async with scene.simulator:
        scene.reviewer.at_once = lambda proposal: grant_of(proposal, **changes)
        scene.is_refused(await scene.simulator.call("test.probe"), code=code)


@pytest.mark.invariant("I6")
@pytest.mark.parametrize("answer", [approval_of, grant_of], ids=["approval", "grant"])
async def test_an_operator_does_not_answer_the_own_question(
    tmp_path: Path, answer: Callable[[Proposal], Approval | Grant]
) -> None:
    scene = Scene(tmp_path / "home")
    async with scene.simulator:
        scene.reviewer.at_once = answer
        result = await scene.simulator.call("test.probe", credential=OPERATOR_CREDENTIAL)
        scene.is_refused(result, code="permit.mismatch")


@pytest.mark.invariant("I4")
@pytest.mark.parametrize(
    ("waited_ms", "state"), [(599_999, "succeeded"), (600_000, "denied"), (10**9, "denied")]
)
async def test_an_approval_expires_while_nobody_takes_it_up(
    tmp_path: Path, waited_ms: int, state: str
) -> None:
    scene = Scene(tmp_path / "home")
    async with scene.simulator:
        call_id = await scene.propose()
        scene.reviewer.approve(expires_at_ms=EXPIRES_MS)
        scene.clock.advance(waited_ms)
        assert (await scene.resume(call_id)).state == state


@pytest.mark.invariant("I4")
async def test_a_policy_that_became_stricter_wins_over_the_approval(tmp_path: Path) -> None:
    scene = Scene(tmp_path / "home")
    async with scene.simulator:
        call_id = await scene.propose()
        scene.reviewer.approve()
        scene.policy.change_to(Verdict.FORBID)
        result = await scene.resume(call_id)
        scene.is_refused(result, code="permit.mismatch")
        assert result.decision.verdict == "deny"


@pytest.mark.invariant("I4")
async def test_a_policy_that_became_more_lenient_needs_no_approval(tmp_path: Path) -> None:
    scene = Scene(tmp_path / "home")
    async with scene.simulator:
        call_id = await scene.propose()
        scene.policy.change_to(Verdict.ALLOW)
        scene.reviewer.approve()
        assert output_of(await scene.resume(call_id)) == ""
        launched = scene.simulator.journal(about=call_id)[-2]
        assert launched.body["permit"]["basis"] == "allow"


@pytest.mark.invariant("I4")
@pytest.mark.parametrize("answer", [approval_of, grant_of], ids=["approval", "grant"])
async def test_a_policy_that_becomes_stricter_while_the_answer_is_found_refuses(
    tmp_path: Path, answer: Callable[[Proposal], Approval | Grant]
) -> None:
    scene = Scene(tmp_path / "home")

    async def change_meanwhile() -> None:
        scene.policy.change_to(Verdict.FORBID)

    async with scene.simulator:
        scene.reviewer.at_once = answer
        scene.reviewer.on_ask = change_meanwhile
        scene.is_refused(await scene.simulator.call("test.probe"), code="policy.stricter")


@pytest.mark.invariant("I4")
async def test_a_policy_that_becomes_stricter_as_it_allows_refuses(tmp_path: Path) -> None:
    class Fickle(ScriptedPolicy):
        def decide(self, *args: Any, **options: Any) -> Any:  # noqa: ANN401 - as inherited
            decision = super().decide(*args, **options)
            self.change_to(Verdict.ASK)
            return decision

    probe = Probe()
    async with GateSimulator(tmp_path / "home", tools=[probe.tool], policy=Fickle()) as simulator:
        result = await simulator.call("test.probe")
        assert (result.state, probe.begun) == ("denied", 0)
        assert attested_code(simulator, result) == "policy.stricter"
        assert simulator.verified().ok


@pytest.mark.invariant("I5")
async def test_of_many_resumers_one_launches_and_all_are_told_the_same(tmp_path: Path) -> None:
    scene = Scene(tmp_path / "home", probe=Probe(holds=True))
    async with scene.simulator:
        call_id = await scene.propose()
        resumers = [asyncio.create_task(scene.resume(call_id)) for _ in range(8)]
        await settle_down()
        scene.reviewer.approve()
        await scene.probe.until_begun()
        late = asyncio.create_task(scene.resume(call_id))
        await settle_down()
        scene.probe.release.set()
        results = await asyncio.gather(*resumers, late)
        assert {output_of(result) for result in results} == {""}
        assert scene.probe.begun == 1
        assert scene.simulator.kinds().count("call.launched") == 1
        assert scene.simulator.verified().ok


@pytest.mark.invariant("I5")
async def test_of_two_processes_that_resume_one_launches(tmp_path: Path) -> None:
    probe = Probe(holds=True)
    one = Scene(tmp_path / "home", probe=probe)
    two = Scene(tmp_path / "home", probe=probe, series=1)
    async with one.simulator, two.simulator:
        call_id = await one.propose()
        two.reviewer.questions = one.reviewer.questions
        racing = [asyncio.create_task(scene.resume(call_id)) for scene in (one, two)]
        await settle_down()
        one.reviewer.approve()
        await probe.until_begun()
        await settle_down()
        with pytest.raises(StateConflictError, match="launched"):
            await next(task for task in racing if task.done())
        probe.release.set()
        results = await asyncio.gather(*racing, return_exceptions=True)
        states = [getattr(result, "state", "under way") for result in results]
        assert sorted(states) == ["succeeded", "under way"]
        assert probe.begun == 1
        assert one.simulator.kinds().count("call.launched") == 1
        assert one.simulator.verified().ok


@pytest.mark.invariant("I5")
async def test_an_answer_that_comes_twice_changes_nothing(tmp_path: Path) -> None:
    scene = Scene(tmp_path / "home")
    async with scene.simulator:
        call_id = await scene.propose()
        scene.reviewer.approve()
        first = await scene.resume(call_id)
        entries = scene.simulator.journal()
        proposal = scene.reviewer.latest.proposal
        for late in (approval_of(proposal), grant_of(proposal)):
            settled = scene.simulator.gate._settle(proposal, late, AGENT_CREDENTIAL)
            assert (await settled).state == first.state
        assert (scene.probe.begun, scene.simulator.journal()) == (1, entries)


@pytest.mark.invariant("I4")
async def test_an_approval_is_for_the_arguments_as_they_mean_not_as_they_are_spelled(
    tmp_path: Path,
) -> None:
    scene = Scene(tmp_path / "home")
    async with scene.simulator:
        spellings = [b'{"word":"A"}', b'{ "word" : "\\u0041" }', b'{"word":"B"}', b'{"word":""}']
        digests = [
            (await scene.simulator.call("test.probe", raw, wait=False)).call_digest
            for raw in spellings
        ]
        assert digests[0] == digests[1]
        assert len(set(digests)) == 3


async def test_the_operator_is_named_in_the_record(tmp_path: Path) -> None:
    scene = Scene(tmp_path / "home")
    async with scene.simulator:
        call_id = await scene.propose()
        scene.reviewer.approve()
        result = await scene.resume(call_id)
        assert result.approval is not None
        assert result.approval.decided_by == str(OPERATOR)
        launched = scene.simulator.journal(about=call_id)[-2]
        assert launched.body["permit"] == {
            "permit_id": launched.body["permit"]["permit_id"],
            "basis": "approval",
            "approval_id": scene.reviewer.latest.approval_id,
            "grant_id": None,
        }
