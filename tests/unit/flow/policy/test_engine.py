# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec
import pytest

from palyra.core.act import Act
from palyra.core.decision import Verdict
from palyra.core.digest import PolicyDigest
from palyra.core.errors import Code, IntegrityError, StoreError
from palyra.core.ids import CredentialId, SessionId
from palyra.core.pack import Members
from palyra.core.policy_request import EntityUid
from palyra.core.posture import Posture, PostureScope, PostureSetting
from palyra.core.principal import Assurance, Credential
from palyra.core.session import BudgetLeft
from palyra.core.workspace import Workspace
from palyra.flow.policy.engine import CedarPolicy, load_rules
from palyra.flow.policy.inquiry import Inquiries, inquiry_of
from palyra.flow.policy.presets import packaged_pack
from palyra.flow.policy.rules import Rules
from tests.support.policies import HeldRules, pack_of
from tests.support.samples import AGENT, NOW_MS, OPERATOR, PROPOSAL, SNAPSHOT
from tests.support.scripted import FakeClock

if TYPE_CHECKING:
    from palyra.core.principal import Principal
    from palyra.core.proposal import Proposal

LEFT = BudgetLeft(run=1, session=1, agent_hour=1)
FORBID_ECHO = (
    '@id("own.quiet") @reason("no echo today")'
    ' forbid (principal, action, resource == Tool::"palyra.echo");'
)


def engine(store: HeldRules, clock: FakeClock | None = None) -> CedarPolicy:
    return CedarPolicy(
        store=store,
        inquiries=Inquiries(SNAPSHOT, assurance="developer", administrators=frozenset({OPERATOR})),
        snapshot_digest=SNAPSHOT.digest,
        clock=clock or FakeClock(),
        fallback=lambda: Rules(packaged_pack()),
    )


def posture(state: Posture, scope: PostureScope, scope_id: str = "") -> PostureSetting:
    return PostureSetting(
        tool="palyra.echo",
        scope=scope,
        scope_id=scope_id,
        state=state,
        reason="because",
        set_by=OPERATOR,
        by_administrator=True,
        set_at_ms=NOW_MS,
    )


def activation(principal: Principal = OPERATOR) -> Act:
    return Act(
        action="policy.activate",
        credential=Credential(
            credential_id=CredentialId("uid:1"), principal=principal, assurance=Assurance.DEVELOPER
        ),
        resource=EntityUid("PolicyPack", "d" * 64),
        channel="embedded",
        at_ms=NOW_MS,
    )


def test_a_decision_names_the_rules_it_rests_on_and_what_was_asked() -> None:
    store = HeldRules(pack_of())
    decision = engine(store).decide(PROPOSAL, left=LEFT)
    assert (decision.verdict, decision.call_digest) == (Verdict.ALLOW, PROPOSAL.call_digest)
    assert (decision.policy_digest, decision.rules_version) == (store.digest, store.version)
    assert decision.snapshot_digest == SNAPSHOT.digest
    assert decision.hint == ""
    assert decision.request is not None
    assert Rules(pack_of()).judge(inquiry_of(decision.request)).verdict is Verdict.ALLOW


def test_new_rules_are_taken_up_as_a_whole_when_told_to() -> None:
    store = HeldRules(pack_of())
    policy = engine(store)
    before = policy.policy_digest
    store.activate(pack_of(FORBID_ECHO))
    assert policy.decide(PROPOSAL, left=LEFT).policy_digest == before
    policy.refresh()
    decision = policy.decide(PROPOSAL, left=LEFT)
    assert (decision.verdict, decision.policies) == (Verdict.FORBID, ("own.quiet",))
    assert (decision.policy_digest, policy.rules_version) == (store.digest, store.version)
    assert policy.rules is not None


@pytest.mark.parametrize(
    ("setting", "verdict"),
    [
        (posture(Posture.DISABLED, PostureScope.GLOBAL), Verdict.FORBID),
        (posture(Posture.ASK_EACH_TIME, PostureScope.GLOBAL), Verdict.ASK),
        (posture(Posture.ALWAYS_ALLOW, PostureScope.GLOBAL), Verdict.ALLOW),
        (posture(Posture.DISABLED, PostureScope.AGENT, AGENT.name), Verdict.FORBID),
        (posture(Posture.DISABLED, PostureScope.AGENT, "other"), Verdict.ALLOW),
        (posture(Posture.DISABLED, PostureScope.SESSION, PROPOSAL.session_id), Verdict.FORBID),
        (posture(Posture.DISABLED, PostureScope.SESSION, "other"), Verdict.ALLOW),
        (posture(Posture.DISABLED, PostureScope.WORKSPACE, "home"), Verdict.FORBID),
        (posture(Posture.DISABLED, PostureScope.WORKSPACE, "other"), Verdict.ALLOW),
    ],
)
def test_postures_hold_for_whom_they_are_set(setting: PostureSetting, verdict: Verdict) -> None:
    store = HeldRules(pack_of())
    store.set(setting)
    call = msgspec.structs.replace(
        PROPOSAL, workspace=Workspace(name="home", root="/srv", device=1, inode=1)
    )
    assert engine(store).decide(call, left=LEFT).verdict is verdict
    other = msgspec.structs.replace(call, tool="palyra.sleep")
    assert engine(store).decide(other, left=LEFT).code is Code.TOOL_NOT_ALLOWLISTED


def test_a_workspaces_posture_holds_for_a_call_that_only_names_it() -> None:
    store = HeldRules(pack_of())
    store.set(posture(Posture.DISABLED, PostureScope.WORKSPACE, "home"))
    facts = msgspec.structs.replace(PROPOSAL.facts, workspace="home", writes=("a",))
    named = msgspec.structs.replace(PROPOSAL, facts=facts)
    assert engine(store).decide(named, left=LEFT).code is Code.TOOL_DISABLED


def test_the_most_restrictive_posture_wins_whatever_its_scope() -> None:
    store = HeldRules(pack_of())
    store.set(
        posture(Posture.ALWAYS_ALLOW, PostureScope.SESSION, PROPOSAL.session_id),
        posture(Posture.DISABLED, PostureScope.GLOBAL),
        posture(Posture.ASK_EACH_TIME, PostureScope.AGENT, AGENT.name),
    )
    assert engine(store).decide(PROPOSAL, left=LEFT).code is Code.TOOL_DISABLED


def test_an_agents_posture_does_not_concern_an_operator_of_that_name() -> None:
    store = HeldRules(pack_of())
    store.set(posture(Posture.DISABLED, PostureScope.AGENT, OPERATOR.name))
    call = msgspec.structs.replace(PROPOSAL, principal=OPERATOR)
    assert engine(store).decide(call, left=LEFT).verdict is Verdict.ALLOW


def test_always_allow_answers_no_question_of_policy() -> None:
    store = HeldRules(pack_of())
    store.set(posture(Posture.ALWAYS_ALLOW, PostureScope.GLOBAL))
    call = msgspec.structs.replace(PROPOSAL, is_sensitive=True)
    assert engine(store).decide(call, left=LEFT).verdict is Verdict.ASK


def test_a_posture_ends_when_it_expires() -> None:
    store, clock = HeldRules(pack_of()), FakeClock()
    setting = posture(Posture.DISABLED, PostureScope.GLOBAL)
    store.set(msgspec.structs.replace(setting, expires_at_ms=NOW_MS + 10))
    policy = engine(store, clock)
    assert policy.decide(PROPOSAL, left=LEFT).verdict is Verdict.FORBID
    clock.advance(9)
    assert policy.decide(PROPOSAL, left=LEFT).verdict is Verdict.FORBID
    clock.advance(1)
    assert policy.decide(PROPOSAL, left=LEFT).verdict is Verdict.ALLOW


@pytest.mark.invariant("I1")
def test_a_store_that_cannot_be_read_disables_every_tool() -> None:
    store = HeldRules(pack_of())
    policy = engine(store)
    store.fault = StoreError(Code.STORE_UNREACHABLE)
    policy.refresh()
    decision = policy.decide(PROPOSAL, left=LEFT)
    assert (decision.verdict, decision.code) == (Verdict.FORBID, Code.TOOL_DISABLED)
    operators = msgspec.structs.replace(PROPOSAL, principal=OPERATOR)
    assert policy.decide(operators, left=LEFT).verdict is Verdict.FORBID
    store.fault = None
    policy.refresh()
    assert policy.decide(PROPOSAL, left=LEFT).verdict is Verdict.ALLOW


@pytest.mark.invariant("I1")
def test_a_store_that_cannot_be_read_at_the_start_forbids_everything() -> None:
    store = HeldRules(pack_of())
    store.fault = StoreError(Code.STORE_UNREACHABLE)
    policy = engine(store)
    assert policy.decide(PROPOSAL, left=LEFT).verdict is Verdict.FORBID
    assert policy.decide_act(activation()).verdict is Verdict.FORBID


@pytest.mark.invariant("I1")
@pytest.mark.parametrize("harm", ["lost", "edited", "no-pack"])
def test_a_pack_that_cannot_be_loaded_forbids_every_call_but_can_be_replaced(harm: str) -> None:
    store = HeldRules(pack_of())
    body = store.kept[store.digest]
    if harm == "lost":
        del store.kept[store.digest]
    elif harm == "edited":
        store.kept[store.digest] = body.replace(b"forbid (principal", b"permit (principal", 1)
    else:
        store.digest = PolicyDigest("0" * 64)
        store.kept[store.digest] = b"{}"
    policy = engine(store)
    decision = policy.decide(PROPOSAL, left=LEFT)
    assert (decision.verdict, decision.code) == (Verdict.FORBID, Code.POLICY_FAULT)
    assert policy.rules is None
    assert policy.decide_act(activation()).verdict is Verdict.ALLOW
    assert policy.decide_act(activation(AGENT)).verdict is Verdict.FORBID


@pytest.mark.invariant("I1")
def test_before_the_first_start_everything_is_forbidden() -> None:
    class Empty(HeldRules):
        def rules_version(self) -> int:
            return 0

        def rules_in_force(self) -> None:  # type: ignore[override]
            return None

    decision = engine(Empty(pack_of())).decide(PROPOSAL, left=LEFT)
    assert (decision.verdict, decision.rules_version) == (Verdict.FORBID, 0)


@pytest.mark.invariant("I1")
@pytest.mark.parametrize("size", [2**53, 2**63, 2**200])
def test_a_number_beyond_64_bits_is_forbidden_with_a_code(size: int) -> None:
    facts = msgspec.structs.replace(PROPOSAL.facts, size_bytes=size)
    call = msgspec.structs.replace(PROPOSAL, facts=facts)
    decision = engine(HeldRules(pack_of())).decide(call, left=LEFT)
    assert (decision.verdict, decision.code) == (Verdict.FORBID, Code.POLICY_REQUEST_INVALID)
    assert decision.request is None


@pytest.mark.invariant("I1")
def test_a_text_that_is_no_unicode_is_forbidden_with_a_code() -> None:
    facts = msgspec.structs.replace(PROPOSAL.facts, writes=("\ud800",))
    call = msgspec.structs.replace(PROPOSAL, facts=facts)
    decision = engine(HeldRules(pack_of())).decide(call, left=LEFT)
    assert (decision.verdict, decision.code) == (Verdict.FORBID, Code.POLICY_REQUEST_INVALID)


@pytest.mark.invariant("I6")
def test_acts_are_for_operators_with_the_role() -> None:
    store = HeldRules(pack_of(members=Members(roles={"administrator": ("agent:ada",)})))
    policy = engine(store)
    allowed = policy.decide_act(activation())
    assert (allowed.verdict, allowed.policies) == (
        Verdict.ALLOW,
        ("palyra.administrators-manage",),
    )
    agent = policy.decide_act(activation(AGENT))
    assert (agent.verdict, agent.policies) == (Verdict.FORBID, ("palyra.agents-never-manage",))
    other = msgspec.structs.replace(OPERATOR, name="somebody")
    assert policy.decide_act(activation(other)).verdict is Verdict.FORBID
    assert policy.roles_of(OPERATOR) == ("administrator",)
    assert policy.roles_of(AGENT) == ("administrator",)
    assert policy.roles_of(other) == ()


def test_a_body_that_is_not_what_its_digest_says_is_not_loaded() -> None:
    pack = pack_of()
    assert load_rules(pack.encoded(), pack.digest).pack == pack
    with pytest.raises(IntegrityError):
        load_rules(pack.encoded() + b" ", pack.digest)


def test_the_call_and_the_caller_may_change_between_two_decisions() -> None:
    policy = engine(HeldRules(pack_of()))
    calls: list[Proposal] = [
        PROPOSAL,
        msgspec.structs.replace(PROPOSAL, is_sensitive=True),
        msgspec.structs.replace(PROPOSAL, session_id=SessionId("01JCZK5M8N0000000000000077")),
    ]
    verdicts = [policy.decide(call, left=LEFT).verdict for call in (*calls, *reversed(calls))]
    assert verdicts == [*verdicts[:3], *reversed(verdicts[:3])]
    assert verdicts[:3] == [Verdict.ALLOW, Verdict.ASK, Verdict.ALLOW]


async def test_rules_are_looked_up_once_in_a_turn_of_the_event_loop() -> None:
    store = HeldRules(pack_of())
    policy = engine(store)
    policy.refresh()
    store.activate(pack_of(FORBID_ECHO))
    policy.refresh()
    assert policy.decide(PROPOSAL, left=LEFT).verdict is Verdict.ALLOW
    policy.refresh(at_once=True)
    assert policy.decide(PROPOSAL, left=LEFT).verdict is Verdict.FORBID
    assert policy.decide_act(activation()).rules_version == store.version
    store.activate(pack_of())
    await asyncio.sleep(0)
    policy.refresh()
    assert policy.rules_version == store.version


def test_without_an_event_loop_rules_are_looked_up_each_time() -> None:
    store = HeldRules(pack_of())
    policy = engine(store)
    for pack in (pack_of(FORBID_ECHO), pack_of()):
        store.activate(pack)
        policy.refresh()
        assert policy.policy_digest == pack.digest


def test_what_was_fresh_in_a_loop_that_ended_is_not_in_the_next() -> None:
    store = HeldRules(pack_of())
    policy = engine(store)

    async def refresh() -> None:
        policy.refresh()

    asyncio.run(refresh())
    store.activate(pack_of(FORBID_ECHO))
    asyncio.run(refresh())
    assert policy.policy_digest == store.digest
