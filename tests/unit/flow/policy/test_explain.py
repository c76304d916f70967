# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palyra.core.capability import SENSITIVE_CAPABILITIES, Capability
from palyra.core.decision import Verdict
from palyra.core.errors import Code
from palyra.core.facts import Facts
from palyra.core.pack import Effect, Pack
from palyra.core.plan import SandboxPlan, Tier
from palyra.core.policy_request import EntityUid
from palyra.core.posture import Posture
from palyra.core.principal import Assurance
from palyra.core.session import BudgetLeft
from palyra.flow.policy import explain as explain_module
from palyra.flow.policy.assumed import ASSUMED_FOR_EXAMPLES
from palyra.flow.policy.cases import Case, inquiry_for
from palyra.flow.policy.compile import compile_pack
from palyra.flow.policy.explain import Asked, Explanation, Matched, Told, explain
from palyra.flow.policy.inquiry import Inquiries, inquiry_of
from palyra.flow.policy.presets import packaged_pack, packaged_sources
from palyra.flow.policy.rules import Rules
from palyra.flow.policy.sources import Source
from tests.support.samples import AGENT, NOW_MS, OPERATOR, PROPOSAL, SNAPSHOT

if TYPE_CHECKING:
    from palyra.core.proposal import Proposal
    from palyra.flow.policy.inquiry import Inquiry

ASK = Rules(packaged_pack("ask"))
BOXED = Rules(packaged_pack("boxed"))
RUN = EntityUid("Tool", "palyra.process.run")
EXEC: dict[str, Any] = {"capabilities": ["process_exec"]}


def rules_with(policies: str) -> Rules:
    sources = (*packaged_sources("ask"), Source("own.cedar", policies))
    pack = compile_pack(sources, preset="ask", members=packaged_pack().members)
    assert isinstance(pack, Pack), pack
    return Rules(pack)


def asking(
    resource: EntityUid = RUN,
    *,
    principal: EntityUid = EntityUid("Agent", "ada"),  # noqa: B008 - frozen
    action: str = "tool.execute",
    roles: tuple[str, ...] = (),
    **context: Any,  # noqa: ANN401 - JSON
) -> Inquiry:
    case = Case(
        name="n",
        principal=principal,
        roles=roles,
        action=action,
        resource=resource,
        context=context,
    )
    return inquiry_for(case, assumed=ASSUMED_FOR_EXAMPLES)


def remedies(explanation: Explanation) -> dict[tuple[str, ...], str]:
    return {remedy.changes: remedy.verdict for remedy in explanation.remedies}


# --- The answer and what it rests on -------------------------------------------------------------


def test_a_question_is_explained_by_what_asked_and_by_what_would_permit_it() -> None:
    explanation = explain(BOXED, asking(**EXEC))
    assert (explanation.verdict, explanation.code) == ("needs_approval", Code.TOOL_SENSITIVE)
    assert explanation.reason == "the call is sensitive, so a human must agree"
    sensitive = BOXED.policy("palyra.sensitive-needs-approval")
    assert explanation.matched == (
        Matched(
            policy_id="palyra.sensitive-needs-approval",
            effect=Effect.FORBID,
            reason="the call is sensitive, so a human must agree",
            source="palyra/base.cedar",
            line=sensitive.line,
            asked=(Asked.AS_IT_STANDS,),
            is_decisive=True,
        ),
        Matched(
            policy_id="palyra.allowlisted-tools",
            effect=Effect.PERMIT,
            reason="the tool is allowlisted",
            source="palyra/base.cedar",
            line=BOXED.policy("palyra.allowlisted-tools").line,
            asked=(Asked.AS_IF_APPROVED,),
            is_decisive=False,
        ),
    )


def test_what_was_waived_is_explained_by_the_waiver() -> None:
    explanation = explain(BOXED, asking(**EXEC, plan={"tier": "c"}))
    assert (explanation.verdict, explanation.code) == ("allow", Code.POLICY_WAIVED)
    assert {each.policy_id: each.asked for each in explanation.matched} == {
        "palyra.allowlisted-tools": (Asked.AS_IT_STANDS,),
        "palyra.boxed-process": (Asked.WAIVER,),
    }
    assert explanation.obligations.tiers == (Tier.C,)
    assert explanation.remedies == ()


def test_policies_whose_conditions_do_not_hold_are_told_those_that_permit_first() -> None:
    explanation = explain(ASK, asking(is_allowlisted_tool=False))
    assert explanation.unmatched[0] == Told(
        policy_id="palyra.allowlisted-tools",
        effect=Effect.PERMIT,
        reason="the tool is allowlisted",
        source="palyra/base.cedar",
        line=ASK.policy("palyra.allowlisted-tools").line,
    )
    assert [each.policy_id for each in explanation.unmatched[1:]] == [
        "palyra.incomplete",
        "palyra.sensitive-needs-approval",
        "palyra.posture-disabled",
        "palyra.posture-asks",
    ]


def test_a_permit_that_something_forbids_is_overruled_and_not_unmatched() -> None:
    explanation = explain(ASK, asking(posture="disabled"))
    assert explanation.code is Code.TOOL_DISABLED
    assert [each.policy_id for each in explanation.overruled] == ["palyra.allowlisted-tools"]
    assert "palyra.allowlisted-tools" not in {each.policy_id for each in explanation.unmatched}


@pytest.mark.invariant("I13")
def test_only_so_many_policies_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = explain(ASK, asking())
    assert whole.not_looked_at == 0
    monkeypatch.setattr(explain_module, "MOST_LOOKED_AT", 2)
    some = explain(ASK, asking())
    assert some.not_looked_at == 4
    assert some.unmatched == whole.unmatched[:1]


@pytest.mark.invariant("I1")
def test_a_fault_is_told_with_what_failed_and_no_way_around() -> None:
    rules = rules_with(
        '@id("own.fails") @reason("r") forbid (principal, action, resource)'
        " when { context.size_bytes * 9007199254740991 > 0 };"
    )
    explanation = explain(rules, asking(size_bytes=1 << 40))
    assert (explanation.verdict, explanation.code) == ("deny", Code.POLICY_FAULT)
    assert "overflow" in explanation.errors[0]
    assert explanation.remedies == ()
    assert "own.fails" not in {each.policy_id for each in explanation.unmatched}


@pytest.mark.parametrize(
    ("inquiry", "code"),
    [
        (asking(action="tool.read.write"), Code.POLICY_ACTION_UNKNOWN),
        (asking(posture=1), Code.POLICY_REQUEST_INVALID),
        (asking(EntityUid("Tool", "\ud800")), Code.POLICY_FAULT),
        (asking(EntityUid("Nothing", "x")), Code.POLICY_FAULT),
    ],
    ids=["no-action", "no-request", "no-text", "no-type"],
)
def test_what_cannot_be_put_is_explained_as_far_as_it_goes(inquiry: Inquiry, code: Code) -> None:
    explanation = explain(ASK, inquiry)
    assert (explanation.verdict, explanation.code) == ("deny", code)
    assert (explanation.matched, explanation.remedies) == ((), ())


def test_an_agent_is_told_the_answer_and_no_other_rules() -> None:
    inquiry = asking(**EXEC)
    assert explain(BOXED, inquiry, for_agent=True) == Explanation(
        verdict="needs_approval",
        code=Code.TOOL_SENSITIVE,
        reason="the call is sensitive, so a human must agree",
        policies=("palyra.sensitive-needs-approval",),
    )


def test_an_agent_is_not_told_what_failed_in_a_policy() -> None:
    assert explain(ASK, asking(posture=1)).errors
    assert explain(ASK, asking(posture=1), for_agent=True).errors == ()


def test_an_explanation_is_json() -> None:
    explanation = explain(BOXED, asking(**EXEC))
    text = msgspec.json.encode(explanation)
    assert msgspec.json.decode(text, type=Explanation) == explanation


# --- What would change it ------------------------------------------------------------------------


def test_what_would_let_a_sensitive_call_run() -> None:
    assert remedies(explain(BOXED, asking(**EXEC))) == {
        ("approve",): "allow",
        ("allow_sensitive_tools",): "allow",
        ("operator",): "allow",
        ("waiver",): "allow",
        ("boxed",): "allow",
    }


def test_a_box_helps_only_where_a_policy_says_so() -> None:
    assert ("boxed",) not in remedies(explain(ASK, asking(**EXEC)))


@pytest.mark.parametrize(
    ("context", "expected"),
    [
        ({"is_allowlisted_tool": False}, {("allowed_tools",): "allow"}),
        (
            {"is_principal_allowed": False},
            {("allowed_principals",): "allow", ("operator",): "allow"},
        ),
        ({"is_channel_allowed": False}, {("allowed_channels",): "allow"}),
        ({"posture": "disabled"}, {("posture",): "allow"}),
        ({"posture": "ask_each_time"}, {("approve",): "allow", ("posture",): "allow"}),
        ({"budget": {"session": 0}}, {("budget",): "allow"}),
        ({"is_allowlisted_tool": False, **EXEC}, {("allowed_tools",): "needs_approval"}),
        (
            {"is_complete": False},
            {("smaller",): "allow", ("operator",): "allow"},
        ),
    ],
    ids=str,
)
def test_each_obstacle_has_its_remedy(
    context: dict[str, Any], expected: dict[tuple[str, ...], str]
) -> None:
    assert remedies(explain(ASK, asking(**context))) == expected


def test_where_nothing_alone_helps_pairs_are_tried() -> None:
    explanation = explain(ASK, asking(is_allowlisted_tool=False, is_channel_allowed=False))
    assert remedies(explanation) == {("allowed_tools", "allowed_channels"): "allow"}
    assert explanation.remedies[0].sentence == (
        "palyra.process.run is added to tool_call.allowed_tools, and "
        'the channel "embedded" is added to tool_call.allowed_channels'
    )


def test_where_pairs_do_not_help_nothing_is_told() -> None:
    obstacles: dict[str, Any] = {
        "is_allowlisted_tool": False,
        "is_channel_allowed": False,
        "posture": "disabled",
    }
    assert remedies(explain(ASK, asking(**obstacles))) == {}


def test_an_agent_does_not_manage_in_any_role_but_an_operator_does() -> None:
    explanation = explain(ASK, asking(EntityUid("PolicyPack", "p"), action="policy.activate"))
    assert remedies(explanation) == {("operator", "role:administrator"): "allow"}


def test_an_operator_does_not_inherit_the_roles_of_the_agent() -> None:
    """What an agent may do by its role, some operator or other may not."""
    inquiry = asking(
        EntityUid("PolicyPack", "p"), action="policy.activate", roles=("administrator",)
    )
    assert ("operator",) not in remedies(explain(ASK, inquiry))


def test_roles_are_found_in_the_policies() -> None:
    rules = rules_with(
        '@id("own.deployers") @reason("r") permit (principal, action, resource)'
        ' when { principal in Role::"deployer" };'
    )
    found = remedies(explain(rules, asking(EntityUid("Job", "j"), action="cron.list")))
    assert found == {("role:deployer",): "allow", ("role:scheduler",): "allow"}
    inquiry = asking(EntityUid("Secret", "s"), action="vault.get")
    assert remedies(explain(ASK, inquiry)) == {("role:vault_keeper",): "needs_approval"}


def test_roles_are_found_in_policies_that_waive() -> None:
    rules = rules_with(
        '@id("own.trusted") @reason("r") permit (principal in Role::"trusted",'
        ' action == Action::"approval.waive", resource);'
    )
    assert remedies(explain(rules, asking(**EXEC)))["role:trusted",] == "allow"


def waiver_for(inquiry: Inquiry) -> str:
    (waiver,) = (
        remedy for remedy in explain(ASK, inquiry).remedies if remedy.changes == ("waiver",)
    )
    assert waiver.sentence == "a policy waives the question"
    return waiver.policy


def test_a_waiver_is_told_as_a_policy_with_the_narrowest_head() -> None:
    assert waiver_for(asking(**EXEC)) == (
        '@id("waive.ada.palyra.process.run")\n'
        '@reason("ada need not ask about palyra.process.run")\n'
        "permit (\n"
        '  principal == Agent::"ada",\n'
        '  action == Action::"approval.waive",\n'
        '  resource == Tool::"palyra.process.run"\n'
        ");"
    )


@pytest.mark.parametrize(
    "name", ["palyra.process.run", 'a"b', "a\\b", "x\n\u202ey", "*", "ř" * 300, "a" * 300]
)
def test_the_waiver_that_is_told_goes_into_a_file_as_it_stands(name: str) -> None:
    inquiry = asking(EntityUid("Tool", name), principal=EntityUid("Agent", name), **EXEC)
    text = waiver_for(inquiry)
    assert text.isascii()
    judgement = rules_with(text).judge(inquiry)
    assert (judgement.verdict, judgement.code) == (Verdict.ALLOW, Code.POLICY_WAIVED)
    other = asking(EntityUid("Tool", "other"), principal=EntityUid("Agent", name), **EXEC)
    assert rules_with(text).judge(other).verdict is Verdict.ASK


def test_a_waiver_is_no_remedy_where_something_forbids_to_waive() -> None:
    rules = rules_with(
        '@id("own.never") @reason("r")'
        ' forbid (principal, action == Action::"approval.waive", resource);'
    )
    assert ("waiver",) not in remedies(explain(rules, asking(**EXEC)))


@pytest.mark.invariant("I13")
def test_remedies_are_few_and_the_least_strict_come_first() -> None:
    roles = "\n".join(
        f'@id("own.role-{number}") @reason("r") permit (principal in Role::"role-{number:02}",'
        f' action == Action::"cron.list", resource) {"when { context.approved }" * asks};'
        for number in range(20)
        for asks in (number < 16,)
    )
    inquiry = asking(EntityUid("Job", "j"), action="cron.list")
    found = explain(rules_with(roles), inquiry).remedies
    assert len(found) == 12
    assert [remedy.verdict for remedy in found] == ["allow"] * 5 + ["needs_approval"] * 7


# --- The same answer as the gate -----------------------------------------------------------------

INQUIRIES = Inquiries(
    msgspec.structs.replace(
        SNAPSHOT,
        allowed_tools=("palyra.echo", "palyra.process.run"),
        allowed_channels=("embedded", "http"),
    ),
    assurance=Assurance.DEVELOPER,
    administrators=frozenset({OPERATOR}),
)
PATHS = st.lists(st.sampled_from(["a", "src/a.py", "src/b/c", "../x", "ř"]), max_size=3).map(tuple)


@st.composite
def proposals(draw: st.DrawFn) -> Proposal:
    capabilities = tuple(sorted(draw(st.sets(st.sampled_from(list(Capability))))))
    return msgspec.structs.replace(
        PROPOSAL,
        principal=draw(st.sampled_from([AGENT, OPERATOR])),
        tool=draw(st.sampled_from(["palyra.echo", "palyra.process.run", "acme.deploy"])),
        capabilities=capabilities,
        is_sensitive=not SENSITIVE_CAPABILITIES.isdisjoint(capabilities),
        channel=draw(st.sampled_from(["embedded", "http", "chat"])),
        facts=Facts(
            reads=draw(PATHS),
            writes=draw(PATHS),
            left_out=draw(st.sampled_from([0, 0, 0, 1])),
            size_bytes=draw(st.integers(0, (1 << 53) - 1)),
        ),
        plan=SandboxPlan(
            tier=draw(st.sampled_from(list(Tier))),
            egress=draw(st.sampled_from([(), ("*",), ("pypi.org",)])),
            writes=draw(st.sampled_from([(), ("work",)])),
        ),
    )


@given(
    proposal=proposals(),
    posture=st.sampled_from(list(Posture)),
    run=st.sampled_from([0, 1, 32]),
    rules=st.sampled_from([ASK, BOXED]),
)
@settings(deadline=None)  # it judges every pair of remedies, and the machine may be busy
@pytest.mark.invariant("I2")
def test_a_journaled_question_is_explained_by_the_verdict_that_was_given(
    proposal: Proposal, posture: Posture, run: int, rules: Rules
) -> None:
    left = BudgetLeft(run=run, session=5, agent_hour=5)
    asked = INQUIRIES.about_call(proposal, left=left, posture=posture, now_ms=NOW_MS)
    judgement = rules.judge(asked)
    explanation = explain(rules, inquiry_of(asked.request))

    assert explanation.verdict == judgement.verdict.wire
    assert explanation.code is judgement.code
    assert explanation.reason == judgement.reason
    assert explanation.policies == judgement.policies
    assert explanation.obligations == judgement.obligations
    decisive = {each.policy_id for each in explanation.matched if each.is_decisive}
    assert decisive == set(judgement.policies)
    told = [
        each.policy_id
        for each in (*explanation.matched, *explanation.overruled, *explanation.unmatched)
    ]
    assert len(told) == len(set(told))
    strictness = {verdict.wire: verdict for verdict in Verdict}
    assert all(strictness[each.verdict] < judgement.verdict for each in explanation.remedies)
    assert len(explanation.remedies) <= explain_module.MOST_REMEDIES
