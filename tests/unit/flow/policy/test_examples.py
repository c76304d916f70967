# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

from palyra.core.decision import Verdict
from palyra.core.errors import Code
from palyra.core.pack import Members, Pack
from palyra.core.policy_request import EntityUid
from palyra.flow.policy.assumed import ASSUMED_FOR_EXAMPLES
from palyra.flow.policy.cases import Case, inquiry_for, read_cases
from palyra.flow.policy.compile import compile_pack
from palyra.flow.policy.examples import Outcome, applies, concerns, run_cases, unexampled
from palyra.flow.policy.presets import PRESETS, packaged_pack, packaged_sources
from palyra.flow.policy.rules import Rules
from palyra.flow.policy.sources import Source
from palyra.flow.policy.vocabulary import SCHEMA_PATH

DEFAULTS = SCHEMA_PATH.parent
ALLOWLISTED = "palyra.allowlisted-tools"
ALLOWED = "allow (tool.allowlisted): the tool is allowlisted"
BOXED = {"capabilities": ["process_exec"], "plan": {"tier": "c"}}
OWN = """
@id("own.fails") @reason("it fails")
forbid (principal, action == Action::"tool.execute", resource == Tool::"acme.big")
when { context.size_bytes * 9007199254740991 > 0 };

@id("own.no-waiver-at-night") @reason("nobody waives at night")
forbid (principal, action == Action::"approval.waive", resource)
when { context.time.hour < 6 };

@id("own.lax") @reason("it speaks of every action")
permit (principal, action, resource == Tool::"acme.lax")
when { context.allow_sensitive_tools };

@id("own.builders") @reason("builders build")
permit (principal in Group::"builders", action, resource in ToolGroup::"building")
when { !context.is_allowlisted_tool };
"""
MEMBERS = Members(groups={"builders": ("agent:mason",)}, tool_groups={"building": ("acme.build",)})


def rules_with(*policies: str) -> Rules:
    sources = (*packaged_sources("boxed"), Source("own.cedar", "\n".join(policies)))
    pack = compile_pack(sources, preset="boxed", members=MEMBERS)
    assert isinstance(pack, Pack), pack
    return Rules(pack)


RULES = rules_with(OWN)


def case(
    tool: str = "palyra.echo",
    *,
    agent: str = "ada",
    **fields: Any,  # noqa: ANN401 - whatever a case has
) -> Case:
    who, what = EntityUid("Agent", agent), EntityUid("Tool", tool)
    return Case(**{"name": "n", "principal": who, "resource": what, **fields})


def run(one: Case) -> Outcome:
    (outcome,) = run_cases(RULES, [one], assumed=ASSUMED_FOR_EXAMPLES)
    return outcome


def is_applying(policy_id: str, one: Case) -> bool:
    return applies(RULES, policy_id, inquiry_for(one, assumed=ASSUMED_FOR_EXAMPLES))


# --- Cases ---------------------------------------------------------------------------------------


def test_a_case_that_comes_out_as_expected_is_in_order() -> None:
    outcome = run(
        case(
            expect=Verdict.ALLOW,
            code=Code.TOOL_ALLOWLISTED,
            policies=("palyra.allowlisted-tools",),
            applies=("palyra.allowlisted-tools",),
            does_not_apply=("palyra.posture-asks",),
        )
    )
    assert outcome.ok
    assert outcome.differed == ""
    assert outcome.judgement.verdict is Verdict.ALLOW


@pytest.mark.parametrize(
    ("fields", "differed"),
    [
        (
            {"expect": Verdict.FORBID},
            f"expected deny, got {ALLOWED}",
        ),
        (
            {"expect": Verdict.ALLOW, "code": Code.POLICY_PERMITTED},
            "expected the code policy.permitted, got tool.allowlisted",
        ),
        (
            {"expect": Verdict.ALLOW, "policies": ()},
            "expected to rest on no policy, rests on palyra.allowlisted-tools",
        ),
        (
            {"expect": Verdict.ALLOW, "policies": ("palyra.allowlisted-tools", "palyra.memory")},
            f"expected to rest on {ALLOWLISTED}, palyra.memory, rests on {ALLOWLISTED}",
        ),
        ({"applies": ("palyra.posture-asks",)}, "palyra.posture-asks does not apply"),
        ({"does_not_apply": ("palyra.allowlisted-tools",)}, "palyra.allowlisted-tools applies"),
        (
            {"applies": ("palyra.posture-ask",)},
            "there is no policy palyra.posture-ask; did you mean palyra.posture-asks?",
        ),
        ({"does_not_apply": ("zzz",)}, "there is no policy zzz"),
        (
            {"expect": Verdict.FORBID, "applies": ("palyra.posture-asks",)},
            f"expected deny, got {ALLOWED}; palyra.posture-asks does not apply",
        ),
    ],
)
def test_what_came_out_otherwise_is_told(fields: dict[str, Any], differed: str) -> None:
    outcome = run(case(**fields))
    assert not outcome.ok
    assert outcome.differed == differed


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"context": {"posture": 1}}, Code.POLICY_REQUEST_INVALID),
        ({"action": "tool.read.write"}, Code.POLICY_ACTION_UNKNOWN),
        ({"resource": EntityUid("Secret", "s")}, Code.POLICY_REQUEST_INVALID),
        (
            {"resource": EntityUid("Tool", "acme.big"), "context": {"size_bytes": 1 << 40}},
            Code.POLICY_FAULT,
        ),
    ],
)
def test_a_refusal_of_the_request_itself_is_no_expected_deny(
    fields: dict[str, Any], code: Code
) -> None:
    """Otherwise a misspelt example would hold for ever."""
    outcome = run(case(expect=Verdict.FORBID, **fields))
    assert outcome.judgement.code is code
    assert outcome.differed.startswith("no answer, because ")
    assert run(case(expect=Verdict.FORBID, code=code, **fields)).ok


def test_a_policy_that_fails_neither_applies_nor_does_not() -> None:
    big: dict[str, Any] = {
        "resource": EntityUid("Tool", "acme.big"),
        "context": {"size_bytes": 1 << 40},
    }
    for wanted in ("applies", "does_not_apply"):
        big[wanted] = ("own.fails",)
        outcome = run(case(expect=Verdict.FORBID, code=Code.POLICY_FAULT, **big))
        del big[wanted]
        assert outcome.differed == "own.fails cannot be evaluated"


# --- One policy alone ----------------------------------------------------------------------------


def test_a_permit_applies_though_another_policy_forbids() -> None:
    disabled = case(context={"posture": "disabled"})
    assert is_applying("palyra.allowlisted-tools", disabled)
    assert is_applying("palyra.posture-disabled", disabled)
    assert not is_applying("palyra.posture-asks", disabled)


def test_a_policy_about_waiving_is_asked_whether_it_would_waive() -> None:
    assert is_applying("palyra.boxed-process", case(context=BOXED))
    assert not is_applying("palyra.boxed-process", case(context={"plan": {"tier": "c"}}))
    night = {**BOXED, "time": {"hour": 3}}
    assert is_applying("own.no-waiver-at-night", case(context=night))
    assert not is_applying("own.no-waiver-at-night", case(context=BOXED))


def test_a_policy_about_every_action_is_asked_about_the_one_that_is_asked_for() -> None:
    """Asked about waiving as well, it would take the supposed setting for the real one."""
    assert not is_applying("own.lax", case("acme.lax"))
    assert is_applying("own.lax", case("acme.lax", context={"allow_sensitive_tools": True}))


def test_members_count() -> None:
    build = {"context": {"is_allowlisted_tool": False}}
    assert is_applying("own.builders", case("acme.build", agent="mason", **build))
    assert not is_applying("own.builders", case("acme.build", agent="ada", **build))
    assert not is_applying("own.builders", case("acme.other", agent="mason", **build))


def test_a_request_that_fits_no_schema_has_no_policies_that_apply() -> None:
    odd = case(context={"posture": 1})
    assert not is_applying("palyra.allowlisted-tools", odd)
    secret = case(groups=(EntityUid("Role", "a tool has no role"),))
    assert not is_applying("palyra.allowlisted-tools", secret)


def test_a_policy_that_is_not_there_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        is_applying("nobody", case())


def test_an_action_is_in_a_head_by_itself_or_by_its_family() -> None:
    assert concerns(RULES.policy("palyra.read-only"), "tool.read")
    assert concerns(RULES.policy("palyra.sensitive-needs-approval"), "tool.read")
    assert not concerns(RULES.policy("palyra.read-only"), "tool.execute")
    assert not concerns(RULES.policy("palyra.read-only"), "tool.read.write")


def test_a_policy_needs_an_example_and_a_counter_example() -> None:
    ids = [policy.policy_id for policy in RULES.pack.policies]
    one, two, *others = ids
    cases = [case(applies=(one, two)), case(does_not_apply=(one,), applies=(ids[-1],))]
    assert unexampled(RULES.pack, cases) == (two, *others)
    assert unexampled(RULES.pack, []) == tuple(ids)


# --- The examples that ship ----------------------------------------------------------------------


@cache
def shipped(preset: str) -> tuple[Case, ...]:
    found: list[Case] = []
    for source in packaged_sources(preset):
        path = DEFAULTS / Path(source.name).with_suffix(".toml").name
        cases, faults = read_cases(path.read_bytes(), path.name)
        assert faults == ()
        found.extend(cases)
    return tuple(found)


@pytest.mark.parametrize("preset", PRESETS)
def test_every_packaged_example_comes_out_as_it_says(preset: str) -> None:
    outcomes = run_cases(
        Rules(packaged_pack(preset)), shipped(preset), assumed=ASSUMED_FOR_EXAMPLES
    )
    assert [f"{each.case}: {each.differed}" for each in outcomes if not each.ok] == []


@pytest.mark.parametrize("preset", PRESETS)
def test_every_packaged_policy_has_an_example_and_a_counter_example(preset: str) -> None:
    assert unexampled(packaged_pack(preset), shipped(preset)) == ()


@pytest.mark.parametrize("preset", PRESETS)
def test_no_two_packaged_examples_share_a_name(preset: str) -> None:
    names = [each.name for each in shipped(preset)]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("missing", [each.policy_id for each in packaged_pack("boxed").policies])
def test_without_any_one_packaged_policy_an_example_comes_out_otherwise(missing: str) -> None:
    """Not because it is asked whether the policy applies, but because the answer is another."""
    pack = packaged_pack("boxed")
    left = tuple(each for each in pack.policies if each.policy_id != missing)
    verdicts_only = [
        msgspec.structs.replace(each, policies=None, applies=(), does_not_apply=())
        for each in shipped("boxed")
    ]
    outcomes = run_cases(
        Rules(msgspec.structs.replace(pack, policies=left)),
        verdicts_only,
        assumed=ASSUMED_FOR_EXAMPLES,
    )
    assert not all(each.ok for each in outcomes)
