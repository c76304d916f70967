# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import orjson
import pytest

from palyra.core.policy_request import EntityUid
from palyra.flow.policy.cedar import build_entities, build_policies, evaluate
from palyra.flow.policy.narrowing import _parts, narrowed_schema
from palyra.flow.policy.vocabulary import (
    actions,
    context_attributes,
    declared_actions,
    schema,
    schema_text,
)

TOP = tuple(sorted(name for name in context_attributes() if "." not in name))
ADA, ECHO = EntityUid("Agent", "ada"), EntityUid("Tool", "palyra.echo")


def test_every_attribute_and_every_action_is_known() -> None:
    parts = _parts(schema_text())
    assert tuple(sorted(parts.attributes)) == TOP
    assert parts.applies.keys() == declared_actions()
    optional = {name for name, text in parts.attributes.items() if "?" in text}
    assert optional == {"files", "network", "process"}


@pytest.mark.parametrize("action", sorted(declared_actions()))
def test_every_action_has_a_schema_that_cedar_accepts(action: str) -> None:
    for attributes in ((), ("approved", "files"), TOP):
        narrowed_schema(action, attributes)


def put(policy: str, context: dict[str, object], *attributes: str) -> tuple[bool, bool]:
    narrow = narrowed_schema("tool.execute", attributes)
    answer = evaluate(
        build_policies([f'@id("x") {policy}']),
        build_entities({ADA: (), ECHO: (EntityUid("ToolGroup", "palyra"),)}, narrow),
        narrow,
        principal=ADA,
        action=EntityUid("Action", "tool.execute"),
        resource=ECHO,
        context_json=orjson.dumps(context).decode(),
    )
    return answer.is_decided, answer.allowed


def test_what_is_shown_is_held_against_the_schema() -> None:
    policy = "permit (principal, action, resource) when { context.depth < 3 };"
    assert put(policy, {"depth": 2}, "depth") == (True, True)
    assert put(policy, {"depth": 4}, "depth") == (True, False)
    assert put(policy, {"depth": "2"}, "depth") == (False, False)
    assert put(policy, {}, "depth") == (False, False)
    assert put(policy, {"depth": 2, "approved": True}, "depth") == (False, False)


def test_an_optional_attribute_may_be_missing() -> None:
    policy = "permit (principal, action, resource) when { context has files && "
    policy += 'context.files.writes.contains("a") };'
    files = {
        "outside": [],
        "protected": [],
        "reads": [],
        "reads_under": "",
        "workspace": "w",
        "writes": ["a"],
        "writes_under": "",
    }
    assert put(policy, {}, "files") == (True, False)
    assert put(policy, {"files": files}, "files") == (True, True)
    assert put(policy, {"files": {}}, "files") == (False, False)


def test_groups_and_families_are_still_there() -> None:
    group = 'permit (principal, action, resource in ToolGroup::"palyra");'
    assert put(group, {}) == (True, True)
    narrow = narrowed_schema("memory.purge", ())
    answer = evaluate(
        build_policies(['@id("x") permit (principal, action in [Action::"sensitive"], resource);']),
        build_entities({ADA: (), EntityUid("Memory", "m"): ()}, narrow),
        narrow,
        principal=ADA,
        action=EntityUid("Action", "memory.purge"),
        resource=EntityUid("Memory", "m"),
        context_json="{}",
    )
    assert answer.allowed
    assert "sensitive" in actions()["memory.purge"]


def test_an_action_that_nobody_can_ask_for_has_none() -> None:
    with pytest.raises(KeyError):
        narrowed_schema("management", ())
    with pytest.raises(KeyError):
        narrowed_schema("tool.exekute", ())


def test_the_whole_schema_says_the_same() -> None:
    assert schema() is schema()
    assert narrowed_schema("tool.execute", TOP) is narrowed_schema("tool.execute", TOP)
