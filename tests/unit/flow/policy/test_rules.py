# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import msgspec
import pytest

from palyra.core.decision import Verdict
from palyra.core.errors import Code
from palyra.core.obligations import Obligations
from palyra.core.pack import Members
from palyra.core.plan import SandboxPlan, Tier
from palyra.core.posture import Posture
from palyra.core.session import BudgetLeft
from palyra.flow.policy import rules as rules_module
from palyra.flow.policy.inquiry import Inquiries
from palyra.flow.policy.rules import Judgement, Rules
from tests.support.policies import bare_pack, rules_of
from tests.support.samples import NOW_MS, OPERATOR, PROPOSAL, SNAPSHOT

if TYPE_CHECKING:
    from palyra.core.proposal import Proposal
    from palyra.flow.policy.inquiry import Inquiry

LEFT = BudgetLeft(run=1, session=1, agent_hour=1)
WRITE = msgspec.structs.replace(
    PROPOSAL, tool="palyra.fs.write", capabilities=("filesystem_write",), is_sensitive=True
)
RUN = msgspec.structs.replace(
    PROPOSAL, tool="palyra.process.run", capabilities=("process_exec",), is_sensitive=True
)
TOOLS = ("palyra.echo", "palyra.fs.write", "palyra.process.run")


def ask(
    proposal: Proposal = PROPOSAL,
    *,
    left: BudgetLeft = LEFT,
    posture: Posture = Posture.ALWAYS_ALLOW,
    now_ms: int = NOW_MS,
    **changes: object,
) -> Inquiry:
    changes = {"allowed_tools": TOOLS} | changes
    inquiries = Inquiries(
        msgspec.structs.replace(SNAPSHOT, **changes),
        assurance="developer",
        administrators=frozenset({OPERATOR}),
    )
    return inquiries.about_call(proposal, left=left, posture=posture, now_ms=now_ms)


def judge(rules: Rules, inquiry: Inquiry) -> Judgement:
    """Judge twice, so that what is remembered is held against what is fresh."""
    first = rules.judge(inquiry)
    assert rules.judge(inquiry) == first == rules.judge(inquiry, afresh=True)
    return first


def own(policy: str, *, policy_id: str = "own") -> str:
    return f'@id("{policy_id}") @reason("because") {policy}'


@pytest.mark.invariant("I3")
def test_a_call_as_it_stands_then_as_if_approved_gives_three_verdicts() -> None:
    rules = rules_of()
    allowed, asked = judge(rules, ask()), judge(rules, ask(WRITE))
    refused = judge(rules, ask(msgspec.structs.replace(WRITE, tool="other.tool")))
    assert (allowed.verdict, allowed.code) == (Verdict.ALLOW, Code.TOOL_ALLOWLISTED)
    assert (asked.verdict, asked.code) == (Verdict.ASK, Code.TOOL_SENSITIVE)
    assert (refused.verdict, refused.code) == (Verdict.FORBID, Code.TOOL_NOT_ALLOWLISTED)
    assert allowed.policies == ("palyra.allowlisted-tools",)
    assert asked.policies == ("palyra.sensitive-needs-approval",)
    assert refused.policies == ("palyra.unlisted",)


@pytest.mark.invariant("I6")
def test_an_operators_own_call_is_allowed_for_that_reason() -> None:
    judgement = judge(rules_of(), ask(msgspec.structs.replace(WRITE, principal=OPERATOR)))
    assert (judgement.verdict, judgement.code) == (Verdict.ALLOW, Code.OPERATOR_INITIATED)
    assert "palyra.operator-initiated" in judgement.policies


@pytest.mark.invariant("I1")
def test_a_policy_that_fails_forbids_although_cedar_would_skip_it() -> None:
    text = own(
        "forbid (principal, action, resource) when { context.depth + 9223372036854775807 > 0 };"
    )
    inquiry = ask(msgspec.structs.replace(PROPOSAL, depth=1))
    rules = rules_of(text)
    assert rules.evaluations(inquiry).as_it_stands.allowed  # what the real engine answers
    judgement = judge(rules, inquiry)
    assert (judgement.verdict, judgement.code) == (Verdict.FORBID, Code.POLICY_FAULT)
    assert judgement.errors
    assert rules_of(text).judge(ask()).verdict is Verdict.FORBID  # there it simply applies


@pytest.mark.invariant("I1")
def test_a_policy_that_fails_only_if_approved_forbids_too() -> None:
    text = own(
        "forbid (principal, action, resource)"
        " when { context.approved && context.depth + 9223372036854775807 > 0 };"
    )
    judgement = judge(rules_of(text), ask(msgspec.structs.replace(WRITE, depth=1)))
    assert (judgement.verdict, judgement.code) == (Verdict.FORBID, Code.POLICY_FAULT)


@pytest.mark.invariant("I1")
def test_a_waiver_that_fails_forbids() -> None:
    text = own(
        'permit (principal, action == Action::"approval.waive", resource)'
        " when { context.depth + 9223372036854775807 > 0 };"
    )
    judgement = judge(rules_of(text), ask(msgspec.structs.replace(WRITE, depth=1)))
    assert (judgement.verdict, judgement.code) == (Verdict.FORBID, Code.POLICY_FAULT)


@pytest.mark.invariant("I1")
def test_no_policies_permit_nothing() -> None:
    only = bare_pack(own("forbid (principal is Device, action, resource);"))
    judgement = Rules(only).judge(ask())
    assert (judgement.verdict, judgement.code) == (Verdict.FORBID, Code.POLICY_NO_PERMIT)


@pytest.mark.invariant("I1")
def test_an_unknown_action_is_forbidden() -> None:
    for action in ("tool.exekute", "management", "", 'x"; permit'):
        inquiry = dataclasses.replace(ask(), action=action)
        judgement = rules_of().judge(inquiry)
        assert (judgement.verdict, judgement.code) == (Verdict.FORBID, Code.POLICY_ACTION_UNKNOWN)


@pytest.mark.invariant("I1")
@pytest.mark.parametrize("text", ['"lots"', "1.5", "null", "9223372036854775808", "{}", "[1]"])
def test_a_context_that_does_not_fit_the_schema_is_forbidden(text: str) -> None:
    inquiry = ask()
    odd = dataclasses.replace(inquiry, attributes={**inquiry.attributes, "size_bytes": text})
    judgement = rules_of().judge(odd, afresh=True)
    assert (judgement.verdict, judgement.code) == (Verdict.FORBID, Code.POLICY_REQUEST_INVALID)


@pytest.mark.invariant("I1")
def test_an_attribute_that_is_missing_never_makes_it_looser() -> None:
    rules = rules_of(preset="boxed")
    for proposal in (PROPOSAL, WRITE, RUN):
        whole = ask(proposal)
        usual = rules.judge(whole).verdict
        for name in whole.attributes:
            kept = {each: text for each, text in whole.attributes.items() if each != name}
            lacking = dataclasses.replace(whole, attributes=kept)
            assert rules.judge(lacking, afresh=True).verdict >= usual


@pytest.mark.invariant("I1")
def test_an_exception_within_is_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    def burst(*_: object, **__: object) -> None:
        raise OverflowError("within the engine")

    monkeypatch.setattr(rules_module, "evaluate", burst)
    judgement = rules_of().judge(ask())
    assert (judgement.verdict, judgement.code) == (Verdict.FORBID, Code.POLICY_FAULT)
    assert "within the engine" not in repr(judgement)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"allowed_tools": ()}, Code.TOOL_NOT_ALLOWLISTED),
        ({"allowed_principals": ("agent:bob",)}, Code.PRINCIPAL_NOT_ALLOWED),
        ({"allowed_channels": ("grpc",)}, Code.CHANNEL_NOT_ALLOWED),
    ],
)
def test_the_lists_of_the_configuration_are_a_ceiling_for_every_policy(
    changes: dict[str, object], code: Code
) -> None:
    rules = rules_of(own('permit (principal, action == Action::"tool.execute", resource);'))
    assert judge(rules, ask()).verdict is Verdict.ALLOW
    judgement = judge(rules, ask(**changes))  # type: ignore[arg-type]
    assert (judgement.verdict, judgement.code) == (Verdict.FORBID, code)


def test_a_forbid_of_an_operators_own_wins_over_every_permit() -> None:
    text = own('forbid (principal, action, resource == Tool::"palyra.echo");')
    judgement = judge(rules_of(text), ask())
    assert (judgement.verdict, judgement.code) == (Verdict.FORBID, Code.POLICY_FORBIDDEN)
    assert (judgement.policies, judgement.reason) == (("own",), "because")


def test_a_forbid_that_approval_lifts_asks_with_its_own_words() -> None:
    text = own("forbid (principal, action, resource) unless { context.approved };")
    judgement = judge(rules_of(text), ask())
    assert (judgement.verdict, judgement.code) == (Verdict.ASK, Code.POLICY_ASKS)
    assert (judgement.policies, judgement.reason) == (("own",), "because")


def test_a_permit_for_the_approved_alone_asks() -> None:
    text = own(
        'permit (principal, action == Action::"attachment.metadata.accept", resource)'
        " when { context.approved };"
    )
    pack = bare_pack(text.replace('"attachment.metadata.accept"', '"tool.execute"'))
    judgement = Rules(pack).judge(ask())
    assert (judgement.verdict, judgement.policies) == (Verdict.ASK, ("own",))


def test_a_waiver_withdraws_the_question_about_sensitive_calls() -> None:
    text = own(
        'permit (principal == Agent::"ada", action == Action::"approval.waive",'
        ' resource == Tool::"palyra.fs.write");'
    )
    rules = rules_of(text)
    judgement = judge(rules, ask(WRITE))
    assert (judgement.verdict, judgement.code) == (Verdict.ALLOW, Code.POLICY_WAIVED)
    assert judgement.policies == ("own", "palyra.allowlisted-tools")
    assert judge(rules, ask(RUN)).verdict is Verdict.ASK


def test_a_waiver_does_not_answer_other_questions() -> None:
    waiver = own('permit (principal, action == Action::"approval.waive", resource);')
    rules = rules_of(waiver)
    asked = judge(rules, ask(WRITE, posture=Posture.ASK_EACH_TIME))
    assert (asked.verdict, asked.code) == (Verdict.ASK, Code.TOOL_POSTURE_ASKS)
    unlisted = judge(rules, ask(msgspec.structs.replace(WRITE, tool="other.tool")))
    assert unlisted.verdict is Verdict.FORBID
    own_question = own(
        "forbid (principal, action, resource) unless { context.approved };", policy_id="asks"
    )
    assert judge(rules_of(waiver + own_question), ask(WRITE)).verdict is Verdict.ASK


@pytest.mark.parametrize(
    "head", ['action == Action::"tool.execute"', "action", 'action in Action::"sensitive"']
)
def test_a_permit_that_does_not_name_the_waiver_does_not_withdraw_the_question(head: str) -> None:
    text = own(f"permit (principal, {head}, resource);")
    assert judge(rules_of(text), ask(WRITE)).verdict is Verdict.ASK


def test_a_waiver_is_forbidden_by_what_names_it_and_the_call_by_what_forbids_it() -> None:
    waiver = own('permit (principal, action == Action::"approval.waive", resource);')
    against = own(
        'forbid (principal == Agent::"ada", action in [Action::"approval.waive"], resource);',
        policy_id="not.ada",
    )
    assert judge(rules_of(waiver + against), ask(WRITE)).verdict is Verdict.ASK
    conditional = own(
        'forbid (principal, action, resource) when { action == Action::"approval.waive" };',
        policy_id="no.waivers",
    )
    assert judge(rules_of(waiver + conditional), ask(WRITE)).verdict is Verdict.ASK
    everything = own('forbid (principal == Agent::"ada", action, resource);', policy_id="no.ada")
    assert judge(rules_of(waiver + everything), ask(WRITE)).verdict is Verdict.FORBID


def test_posture_asks_and_disables() -> None:
    rules = rules_of()
    asked = judge(rules, ask(posture=Posture.ASK_EACH_TIME))
    disabled = judge(rules, ask(posture=Posture.DISABLED))
    assert (asked.verdict, asked.code) == (Verdict.ASK, Code.TOOL_POSTURE_ASKS)
    assert (disabled.verdict, disabled.code) == (Verdict.FORBID, Code.TOOL_DISABLED)
    operators = msgspec.structs.replace(PROPOSAL, principal=OPERATOR)
    assert judge(rules, ask(operators, posture=Posture.DISABLED)).verdict is Verdict.FORBID


def test_what_policy_cannot_see_in_full_is_refused_to_agents() -> None:
    much = msgspec.structs.replace(
        PROPOSAL, facts=msgspec.structs.replace(PROPOSAL.facts, left_out=1)
    )
    judgement = judge(rules_of(), ask(much))
    assert (judgement.verdict, judgement.code) == (Verdict.FORBID, Code.FACTS_INCOMPLETE)
    theirs = msgspec.structs.replace(much, principal=OPERATOR)
    assert judge(rules_of(), ask(theirs)).verdict is Verdict.ALLOW


@pytest.mark.parametrize(
    ("plan", "verdict"),
    [
        (SandboxPlan(tier=Tier.C), Verdict.ALLOW),
        (SandboxPlan(tier=Tier.B), Verdict.ASK),
        (SandboxPlan(tier=Tier.NONE), Verdict.ASK),
        (SandboxPlan(tier=Tier.C, egress=("example.org",)), Verdict.ASK),
        (SandboxPlan(tier=Tier.C, writes=("home",)), Verdict.ASK),
        (SandboxPlan(tier=Tier.C, secrets=("token",)), Verdict.ASK),
    ],
)
def test_the_preset_boxed_asks_nothing_about_a_sealed_process(
    plan: SandboxPlan, verdict: Verdict
) -> None:
    call = msgspec.structs.replace(RUN, plan=plan)
    judgement = judge(rules_of(preset="boxed"), ask(call))
    assert judgement.verdict is verdict
    assert judge(rules_of(), ask(call)).verdict is Verdict.ASK
    if verdict is Verdict.ALLOW:
        assert judgement.code is Code.POLICY_WAIVED
        assert judgement.obligations == Obligations(tiers=(Tier.C,), egress=())


def test_a_used_up_budget_forbids_what_policy_would_let_through_and_hides_no_refusal() -> None:
    rules = rules_of()
    empty = BudgetLeft(run=1, session=0, agent_hour=1)
    for proposal in (PROPOSAL, WRITE):
        judgement = judge(rules, ask(proposal, left=empty))
        assert (judgement.verdict, judgement.code) == (Verdict.FORBID, Code.BUDGET_EXHAUSTED)
        assert "session" in judgement.reason
    unlisted = judge(rules, ask(msgspec.structs.replace(PROPOSAL, tool="other.tool"), left=empty))
    assert unlisted.code is Code.TOOL_NOT_ALLOWLISTED


def test_members_of_the_pack_have_its_roles() -> None:
    text = own('forbid (principal in Role::"guest", action, resource);') + own(
        'forbid (principal, action, resource in ToolGroup::"loud");', policy_id="loud"
    )
    members = Members(
        roles={"guest": ("agent:ada",)}, tool_groups={"loud": ("palyra.process.run",)}
    )
    rules = rules_of(text, members=members)
    assert judge(rules, ask()).policies == ("own",)
    assert rules.roles_of(ask().principal) == ("guest",)
    bob = msgspec.structs.replace(
        PROPOSAL, principal=msgspec.structs.replace(PROPOSAL.principal, name="bob")
    )
    assert judge(rules, ask(bob)).verdict is Verdict.ALLOW
    loud = msgspec.structs.replace(bob, tool="palyra.process.run")
    assert judge(rules, ask(loud)).policies == ("loud",)


def test_demands_of_all_that_permit_are_combined_and_of_what_asks_too() -> None:
    text = own(
        '@tier("b") @timeout_ms("5000")'
        ' permit (principal, action == Action::"tool.execute", resource);'
    ) + own(
        '@timeout_ms("900") @quorum("2") forbid (principal, action, resource)'
        " when { context.size_bytes > 5 } unless { context.approved };",
        policy_id="asks",
    )
    rules = rules_of(text)
    assert judge(rules, ask()).obligations == Obligations(tiers=(Tier.B,), timeout_ms=5000)
    large = msgspec.structs.replace(
        PROPOSAL, facts=msgspec.structs.replace(PROPOSAL.facts, size_bytes=6)
    )
    asked = judge(rules, ask(large))
    assert asked.verdict is Verdict.ASK
    assert asked.obligations == Obligations(tiers=(Tier.B,), timeout_ms=900, quorum=2)


def test_demands_of_a_waiver_hold_where_something_else_asks() -> None:
    text = own(
        '@redact("/echo") @timeout_ms("5")'
        ' permit (principal, action == Action::"approval.waive", resource);'
    )
    demands = Obligations(timeout_ms=5, redact=("/echo",))
    for posture in (Posture.ALWAYS_ALLOW, Posture.ASK_EACH_TIME):
        assert judge(rules_of(text), ask(WRITE, posture=posture)).obligations == demands


def test_what_is_remembered_depends_on_what_policies_look_at() -> None:
    text = own("forbid (principal, action, resource) when { context.size_bytes > 5 };")
    rules = rules_of(text)
    for size in (1, 9, 5, 6, 1):
        call = msgspec.structs.replace(
            PROPOSAL, facts=msgspec.structs.replace(PROPOSAL.facts, size_bytes=size)
        )
        expected = Verdict.FORBID if size > 5 else Verdict.ALLOW
        assert judge(rules, ask(call)).verdict is expected


def test_what_is_remembered_depends_on_what_the_reasons_look_at_too() -> None:
    rules = Rules(bare_pack(own("permit (principal is Device, action, resource);")))
    assert judge(rules, ask()).code is Code.POLICY_NO_PERMIT
    assert judge(rules, ask(allowed_tools=())).code is Code.TOOL_NOT_ALLOWLISTED
    assert judge(rules, ask(allowed_channels=("grpc",))).code is Code.CHANNEL_NOT_ALLOWED
    assert judge(rules, ask()).code is Code.POLICY_NO_PERMIT


def test_a_policy_about_time_or_budget_is_asked_anew() -> None:
    text = own("forbid (principal, action, resource) when { context.time.hour >= 22 };")
    rules = rules_of(text)
    assert judge(rules, ask()).verdict is Verdict.FORBID
    assert judge(rules, ask(now_ms=NOW_MS + 3_600_000 * 2)).verdict is Verdict.ALLOW


@pytest.mark.invariant("I13")
def test_nothing_grows_without_bound() -> None:
    rules = rules_of(own("forbid (principal, action, resource) when { context.size_bytes > 5 };"))
    for size in range(200):
        call = msgspec.structs.replace(
            PROPOSAL, facts=msgspec.structs.replace(PROPOSAL.facts, size_bytes=size)
        )
        rules.judge(ask(call))
    (scope,) = rules._scopes.values()
    assert len(scope.judgements) <= 64


def test_candidates_are_the_policies_whose_scope_fits() -> None:
    rules = rules_of(own('permit (principal == Agent::"zoe", action, resource);'))
    ids = {policy.policy_id for policy in rules.candidates(ask())}
    assert "palyra.allowlisted-tools" in ids
    assert not {"own", "palyra.operator-initiated", "palyra.memory"} & ids
    assert rules.policy("own").reason == "because"
