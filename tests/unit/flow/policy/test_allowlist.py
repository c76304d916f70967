# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from palyra.core.decision import Decision, Verdict
from palyra.core.errors import MEANINGS, Code
from palyra.core.principal import Principal, PrincipalKind
from palyra.core.session import BudgetLeft
from palyra.flow.policy.allowlist import AllowlistPolicy
from tests.support.samples import OPERATOR, PROPOSAL, SNAPSHOT

if TYPE_CHECKING:
    from palyra.core.proposal import Proposal

change = msgspec.structs.replace
PLENTY = BudgetLeft(run=1, session=1, agent_hour=1)
SERVICE = Principal(kind=PrincipalKind.SERVICE, name="cron")
POLICY = AllowlistPolicy(SNAPSHOT)


def decide(proposal: Proposal = PROPOSAL, *, left: BudgetLeft = PLENTY) -> Decision:
    return POLICY.decide(proposal, left=left)


def decision(verdict: Verdict, code: Code, *policies: str, reason: str = "") -> Decision:
    meaning = MEANINGS[code]
    return Decision(
        call_digest=PROPOSAL.call_digest,
        verdict=verdict,
        code=code,
        reason=reason or meaning.sentence,
        hint="" if verdict is Verdict.ALLOW else meaning.hint,
        policies=policies,
        policy_digest=POLICY.policy_digest,
        snapshot_digest=SNAPSHOT.digest,
    )


def test_a_listed_harmless_tool_is_allowed() -> None:
    assert decide() == decision(
        Verdict.ALLOW, Code.TOOL_ALLOWLISTED, "palyra.allowlist.no-sensitive-capability"
    )


@pytest.mark.parametrize("caller", [PROPOSAL.principal, SERVICE], ids=str)
def test_a_listed_sensitive_tool_needs_a_human(caller: Principal) -> None:
    assert decide(change(PROPOSAL, is_sensitive=True, principal=caller)) == decision(
        Verdict.ASK, Code.TOOL_SENSITIVE, "palyra.allowlist.sensitive-asks"
    )


@pytest.mark.invariant("I6")
@pytest.mark.parametrize("is_sensitive", [True, False], ids=["sensitive", "harmless"])
def test_what_an_operator_starts_is_allowed_as_such(is_sensitive: bool) -> None:  # noqa: FBT001
    call = change(PROPOSAL, principal=OPERATOR, is_sensitive=is_sensitive)
    assert decide(call) == decision(
        Verdict.ALLOW, Code.OPERATOR_INITIATED, "palyra.allowlist.operator-initiated"
    )


@pytest.mark.invariant("I1")
@pytest.mark.parametrize("caller", [PROPOSAL.principal, OPERATOR, SERVICE], ids=str)
@pytest.mark.parametrize("name", ["palyra.sleep", "palyra.ech", "palyra.echo.more"])
def test_what_is_not_listed_is_forbidden_to_everyone(name: str, caller: Principal) -> None:
    assert decide(change(PROPOSAL, tool=name, principal=caller)) == decision(
        Verdict.FORBID,
        Code.TOOL_NOT_ALLOWLISTED,
        reason=f"tool {name} is not in tool_call.allowed_tools",
    )


@pytest.mark.invariant("I14")
@pytest.mark.parametrize(
    ("left", "scope"),
    [
        (BudgetLeft(run=0, session=1, agent_hour=1), "run"),
        (BudgetLeft(run=1, session=0, agent_hour=1), "session"),
        (BudgetLeft(run=1, session=1, agent_hour=-5), "agent and hour"),
    ],
)
@pytest.mark.parametrize("caller", [PROPOSAL.principal, OPERATOR], ids=str)
def test_a_used_up_budget_forbids(left: BudgetLeft, scope: str, caller: Principal) -> None:
    assert decide(change(PROPOSAL, principal=caller), left=left) == decision(
        Verdict.FORBID, Code.BUDGET_EXHAUSTED, reason=f"the {scope} has used up its calls"
    )


@pytest.mark.invariant("I3")
def test_nobody_is_asked_about_what_is_forbidden_anyway() -> None:
    call = change(PROPOSAL, is_sensitive=True, tool="palyra.sleep")
    assert decide(call).verdict is Verdict.FORBID
    used_up = BudgetLeft(run=0, session=0, agent_hour=0)
    assert decide(change(PROPOSAL, is_sensitive=True), left=used_up).verdict is Verdict.FORBID


def test_an_empty_list_allows_nothing() -> None:
    policy = AllowlistPolicy(change(SNAPSHOT, allowed_tools=()))
    assert policy.decide(PROPOSAL, left=PLENTY).verdict is Verdict.FORBID


def test_the_policy_is_identified_by_its_list_and_not_by_its_spelling() -> None:
    listed = [("a.b", "c.d"), ("c.d", "a.b"), ("a.b", "c.d", "a.b"), ("a.b",)]
    digests = [
        AllowlistPolicy(change(SNAPSHOT, allowed_tools=tools)).policy_digest for tools in listed
    ]
    assert digests[0] == digests[1] == digests[2] != digests[3]
