# SPDX-License-Identifier: Apache-2.0
"""Against the real engine: these tests also say what we rely on in it."""

from __future__ import annotations

import json
from typing import Any

import cedarpy
import pytest

from palyra.core.errors import Code, ConfigError, InputError
from palyra.core.policy_request import EntityUid
from palyra.flow.policy.cedar import (
    Answer,
    build_entities,
    build_policies,
    evaluate,
    failed_positions,
)
from tests.support.cedar_universes import HOSTILE_IDS, written

ALICE = EntityUid("Agent", "alice")
TEAM = EntityUid("Group", "red")
COMPANY = EntityUid("Group", "all")
RUN = EntityUid("Action", "run")
FILE = EntityUid("Tool", "file")
SCHEMA = cedarpy.Schema.from_str(
    """
    entity Group in [Group];
    entity Agent in [Group];
    entity Tool;
    action "everything";
    action "run" in ["everything"] appliesTo {
      principal: [Agent], resource: [Tool], context: { "count": Long, "note"?: String }
    };
    """
)
PERMIT = '@id("yes") permit (principal, action, resource);'


def ask(
    *texts: str,
    principal: EntityUid = ALICE,
    context: dict[str, Any] | str | None = None,
    schema: cedarpy.Schema | None = None,
    parents: dict[EntityUid, tuple[EntityUid, ...]] | None = None,
) -> Answer:
    return evaluate(
        build_policies(texts),
        build_entities(parents or {}, schema),
        schema,
        principal=principal,
        action=RUN,
        resource=FILE,
        context_json=context if isinstance(context, str) else json.dumps(context or {}),
    )


def test_a_permit_allows_and_is_named() -> None:
    assert ask(PERMIT) == Answer(allowed=True, policies=("yes",), errors=(), is_decided=True)


def test_silence_does_not_allow() -> None:
    assert ask() == Answer(allowed=False, policies=(), errors=(), is_decided=True)


def test_a_forbid_wins_and_only_the_forbids_are_named_in_order() -> None:
    names = [f"no {place:02}" for place in range(20)]
    forbids = [f'@id("{name}") forbid (principal, action, resource);' for name in names[::-1]]
    assert ask(PERMIT, *forbids) == Answer(
        allowed=False, policies=tuple(names), errors=(), is_decided=True
    )


@pytest.mark.invariant("I1")
def test_a_forbid_that_fails_is_skipped_by_the_engine_and_reported() -> None:
    failing = '@id("no") forbid (principal, action, resource) when { context.missing };'
    answer = ask(PERMIT, failing)
    assert answer == Answer(
        allowed=True,
        policies=("yes",),
        errors=(
            "error while evaluating policy `policy1`: record does not have the attribute `missing`",
        ),
        is_decided=True,
    )
    assert failed_positions(answer) == (1,)


def test_failures_are_told_by_place_in_the_order_of_the_policies() -> None:
    failing = '@id("no") permit (principal, action, resource) when { context.missing };'
    answer = ask(*[PERMIT, failing] * 12)
    assert failed_positions(answer) == tuple(range(1, 24, 2))
    assert [error.split("`")[1] for error in answer.errors] == [
        f"policy{place}" for place in range(1, 24, 2)
    ]


def test_a_policy_whose_head_does_not_match_cannot_fail() -> None:
    heads = [
        'principal == Agent::"bob", action, resource',
        "principal is Tool, action, resource",
        'principal, action in Action::"other", resource',
        "principal, action in [], resource",
        'principal, action, resource is Tool in Group::"g"',
    ]
    texts = [f'@id("{head[:9]}") forbid ({head}) when {{ context.missing }};' for head in heads[1:]]
    texts.append(f"forbid ({heads[0]}) when {{ context.missing }};")
    assert ask(*texts) == Answer(allowed=False, policies=(), errors=(), is_decided=True)


@pytest.mark.parametrize("annotation", ["", "@id", '@id("")'])
def test_a_policy_that_matters_must_have_an_id(annotation: str) -> None:
    with pytest.raises(RuntimeError, match="@id"):
        ask(f"{annotation} permit (principal, action, resource);")


@pytest.mark.invariant("I1")
@pytest.mark.parametrize(
    "context",
    [
        pytest.param('{"count": 1.5}', id="a fraction"),
        pytest.param('{"count": null}', id="null"),
        pytest.param('{"count": 9223372036854775808}', id="2 to the 63rd"),
        pytest.param('{"count": "1"}', id="another type"),
        pytest.param("{}", id="a missing attribute"),
        pytest.param('{"count": 1, "more": 1}', id="an attribute too many"),
        pytest.param('{"count": 1, "note": {"__entity": {"type": "Group", "id": "x"}}}', id="uid"),
        pytest.param('{"count": 1, "note": "\\ud800"}', id="an escaped lone surrogate"),
        pytest.param('{"count": 1, "note": "\ud800"}', id="a lone surrogate"),
        pytest.param('{"count": ' + "[" * 1000 + "]" * 1000 + "}", id="depth"),
        pytest.param("[]", id="a list"),
        pytest.param("null", id="no record"),
        pytest.param("", id="nothing"),
    ],
)
def test_a_context_that_does_not_fit_is_not_decided(context: str) -> None:
    answer = ask(PERMIT, context=context, schema=SCHEMA)
    assert (answer.is_decided, answer.allowed, answer.policies) == (False, False, ())
    assert answer.errors
    assert failed_positions(answer) == ()


@pytest.mark.parametrize(
    "context",
    ['{"count": 1.5}', '{"count": null}', '{"count": 9223372036854775808}'],
    ids=["a fraction", "null", "2 to the 63rd"],
)
def test_some_values_are_refused_without_a_schema_too(context: str) -> None:
    assert not ask(PERMIT, context=context).is_decided


def test_the_schema_lets_optional_attributes_be_absent() -> None:
    assert ask(PERMIT, context={"count": -(2**63)}, schema=SCHEMA).allowed


@pytest.mark.parametrize("hostile", HOSTILE_IDS)
def test_an_id_is_data_whatever_it_holds(hostile: str) -> None:
    owner, stranger = EntityUid("Agent", hostile), EntityUid("Agent", f"{hostile} ")
    policy = f'@id("owner") permit (principal == {written(owner)}, action, resource);'
    assert ask(policy, principal=owner).policies == ("owner",)
    assert not ask(policy, principal=stranger).allowed


@pytest.mark.parametrize("hostile", HOSTILE_IDS)
def test_a_group_is_data_whatever_its_name_holds(hostile: str) -> None:
    group = EntityUid("Group", hostile)
    policy = f'@id("group") permit (principal in {written(group)}, action, resource);'
    context = {"count": 1}
    inside = ask(policy, parents={ALICE: (group,)}, schema=SCHEMA, context=context)
    outside = ask(policy, parents={ALICE: (TEAM,)}, schema=SCHEMA, context=context)
    assert (inside.allowed, outside.allowed) == (True, False)


def test_entities_are_in_the_groups_of_their_groups() -> None:
    policy = f'@id("all") permit (principal in {written(COMPANY)}, action, resource);'
    assert ask(policy, parents={ALICE: (TEAM,), TEAM: (COMPANY,)}).allowed
    assert not ask(policy, parents={ALICE: (TEAM,)}).allowed


def test_actions_are_in_their_groups_only_if_the_entities_know_the_schema() -> None:
    policies = build_policies(
        ['@id("all") permit (principal, action in Action::"everything", resource);']
    )
    answers = [
        evaluate(
            policies,
            build_entities({}, known),
            SCHEMA,
            principal=ALICE,
            action=RUN,
            resource=FILE,
            context_json='{"count": 1}',
        ).allowed
        for known in (SCHEMA, None)
    ]
    assert answers == [True, False]


@pytest.mark.parametrize(
    "parents",
    [
        pytest.param({ALICE: (ALICE,)}, id="in itself"),
        pytest.param({TEAM: (COMPANY,), COMPANY: (TEAM,)}, id="in a circle"),
        pytest.param({EntityUid("Stranger", "x"): ()}, id="of an unknown type"),
        pytest.param({FILE: (TEAM,)}, id="in a group it cannot be in"),
        pytest.param({EntityUid("Agent", "\ud800"): ()}, id="with a lone surrogate"),
        pytest.param({RUN: ()}, id="an action out of its groups"),
    ],
)
def test_entities_that_do_not_fit_are_refused(
    parents: dict[EntityUid, tuple[EntityUid, ...]],
) -> None:
    with pytest.raises(InputError) as caught:
        build_entities(parents, SCHEMA)
    assert caught.value.code is Code.POLICY_REQUEST_INVALID


@pytest.mark.parametrize(
    "texts",
    [
        pytest.param(["permit (principal, action"], id="no policy"),
        pytest.param([f"{PERMIT} {PERMIT}"], id="two in one"),
        pytest.param([PERMIT, "// nothing"], id="none"),
        pytest.param(["permit (principal == ?principal, action, resource);"], id="a template"),
        pytest.param(["\ud800"], id="no text"),
    ],
)
def test_each_text_must_be_exactly_one_policy(texts: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        build_policies(texts)
    assert caught.value.code is Code.POLICY_INVALID


def test_a_comment_at_the_end_swallows_nothing() -> None:
    assert len(build_policies([f"{PERMIT} // so there", PERMIT])) == 2
