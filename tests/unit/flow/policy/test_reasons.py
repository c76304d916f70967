# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import dataclasses
from itertools import combinations

import msgspec
import pytest

from palyra.core.decision import Verdict
from palyra.core.errors import MEANINGS, Code
from palyra.core.pack import Effect, Policy
from palyra.core.policy_request import EntityUid
from palyra.core.posture import Posture
from palyra.core.session import BudgetLeft
from palyra.flow.policy.inquiry import Inquiries, Inquiry
from palyra.flow.policy.reasons import PRECEDENCE, reason_for
from tests.support.samples import NOW_MS, PROPOSAL, SNAPSHOT


def asked(**changes: object) -> Inquiry:
    snapshot = msgspec.structs.replace(SNAPSHOT, **changes)
    inquiries = Inquiries(snapshot, assurance="developer", administrators=frozenset())
    left = BudgetLeft(run=1, session=1, agent_hour=1)
    return inquiries.about_call(PROPOSAL, left=left, posture=Posture.ALWAYS_ALLOW, now_ms=NOW_MS)


def policy(policy_id: str, effect: Effect, code: str = "") -> Policy:
    annotations = {"id": policy_id, "reason": f"of {policy_id}"}
    if code:
        annotations["code"] = code
    return Policy(
        policy_id=policy_id,
        effect=effect,
        source="palyra/base.cedar",
        line=1,
        text="",
        principal=("*",),
        action=("*",),
        resource=("*",),
        reads=(),
        annotations=annotations,
    )


NOT_LISTED: dict[Code, dict[str, object]] = {
    Code.PRINCIPAL_NOT_ALLOWED: {"allowed_principals": ("agent:other",)},
    Code.CHANNEL_NOT_ALLOWED: {"allowed_channels": ("grpc",)},
    Code.TOOL_NOT_ALLOWLISTED: {"allowed_tools": ()},
}
FORBIDDING = {
    Code.TOOL_DISABLED: policy("disabled", Effect.FORBID, "tool.disabled"),
    Code.FACTS_INCOMPLETE: policy("incomplete", Effect.FORBID, "facts.incomplete"),
    Code.POLICY_FORBIDDEN: policy("own", Effect.FORBID),
}
_EVERY = (*NOT_LISTED, *FORBIDDING)


@pytest.mark.parametrize("pair", list(combinations(_EVERY, 2)), ids=str)
def test_of_two_reasons_to_forbid_the_foremost_is_told(pair: tuple[Code, Code]) -> None:
    changes = {name: value for code in pair for name, value in NOT_LISTED.get(code, {}).items()}
    policies = [FORBIDDING[code] for code in pair if code in FORBIDDING]
    policies.append(policy("unlisted", Effect.FORBID, "tool.not_allowlisted"))
    reason = reason_for(Verdict.FORBID, policies, asked(**changes))
    assert reason.code is min(pair, key=PRECEDENCE[Verdict.FORBID].index)


def test_what_is_not_listed_is_told_by_its_name() -> None:
    unlisted = [policy("unlisted", Effect.FORBID, "tool.not_allowlisted")]
    told = [
        reason_for(Verdict.FORBID, unlisted, asked(**NOT_LISTED[code])).sentence
        for code in (Code.TOOL_NOT_ALLOWLISTED, Code.PRINCIPAL_NOT_ALLOWED)
    ]
    assert told == [
        "tool palyra.echo is not in tool_call.allowed_tools",
        "agent:ada is not in tool_call.allowed_principals",
    ]


def test_a_skill_that_is_not_listed_is_told_as_that() -> None:
    skill = dataclasses.replace(asked(), action="skill.execute", resource=EntityUid("Skill", "a.b"))
    assert reason_for(Verdict.FORBID, [], skill).code is Code.SKILL_NOT_ALLOWLISTED


def test_reasons_are_told_from_the_caller_to_the_call() -> None:
    order = PRECEDENCE[Verdict.FORBID]
    expected = (
        Code.POLICY_FAULT,
        Code.PRINCIPAL_NOT_ALLOWED,
        Code.CHANNEL_NOT_ALLOWED,
        Code.TOOL_DISABLED,
        Code.POLICY_FORBIDDEN,
        Code.TOOL_NOT_ALLOWLISTED,
        Code.SKILL_NOT_ALLOWLISTED,
        Code.POLICY_NO_PERMIT,
    )
    assert tuple(code for code in order if code in expected) == expected


@pytest.mark.parametrize("verdict", [Verdict.ASK, Verdict.ALLOW])
def test_of_several_policies_the_foremost_code_is_told(verdict: Verdict) -> None:
    effect = Effect.FORBID if verdict is Verdict.ASK else Effect.PERMIT
    codes = PRECEDENCE[verdict]
    for first, second in combinations(codes, 2):
        policies = [policy("b", effect, second.value), policy("a", effect, first.value)]
        assert reason_for(verdict, policies, asked()) == (first, "of a")


def test_a_policy_without_a_code_gives_the_general_one_and_its_own_words() -> None:
    permit, forbid = policy("yes", Effect.PERMIT), policy("no", Effect.FORBID)
    assert reason_for(Verdict.ALLOW, [permit], asked()) == (Code.POLICY_PERMITTED, "of yes")
    assert reason_for(Verdict.ASK, [forbid], asked()) == (Code.POLICY_ASKS, "of no")
    assert reason_for(Verdict.FORBID, [forbid], asked()) == (Code.POLICY_FORBIDDEN, "of no")


def test_what_only_withdrew_a_question_is_told_as_that() -> None:
    waiver, permit = policy("w", Effect.PERMIT), policy("p", Effect.PERMIT, "tool.allowlisted")
    told = reason_for(Verdict.ALLOW, [permit, waiver], asked(), waived=frozenset({"w"}))
    assert told == (Code.POLICY_WAIVED, "of w")


def test_of_equal_reasons_the_first_by_name_is_told() -> None:
    policies = [policy("z", Effect.FORBID), policy("a", Effect.FORBID)]
    assert reason_for(Verdict.FORBID, policies, asked()).sentence == "of a"


def test_where_nothing_applies_it_is_said_that_nothing_permits() -> None:
    sentence = MEANINGS[Code.POLICY_NO_PERMIT].sentence
    assert reason_for(Verdict.FORBID, [], asked()) == (Code.POLICY_NO_PERMIT, sentence)


def test_every_code_belongs_to_one_verdict() -> None:
    codes = [code for each in PRECEDENCE.values() for code in each]
    assert len(codes) == len(set(codes))
