# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import hashlib
import re

import cedarpy
import pytest

from palyra.flow.policy import vocabulary
from palyra.flow.policy.vocabulary import (
    actions,
    context_attributes,
    declared_actions,
    entity_types,
    nearest_action,
    nearest_attribute,
    nearest_entity_type,
    nearest_name,
    schema,
    schema_sha256,
    schema_text,
)


def is_valid(condition: str) -> bool:
    text = f"permit (principal, action, resource) when {{ {condition} }};"
    return cedarpy.validate_policies(text, schema()).validation_passed


def test_cedar_reads_as_many_types_and_actions_as_we_do() -> None:
    expected = f"Schema(<{len(entity_types())} entity types, {len(actions())} actions>)"
    assert repr(schema()) == expected


def test_cedar_knows_every_name_that_we_know() -> None:
    every = [f'action in Action::"{name}"' for name in actions()]
    every += [f'principal == {name}::"x" || true' for name in entity_types()]
    assert all(map(is_valid, every))
    assert not is_valid('action in Action::"tool.exekute"')


def test_cedar_knows_every_attribute_that_we_know_and_no_attribute_is_missing() -> None:
    for path in context_attributes():
        tested = " && ".join(
            f"context has {'.'.join(path.split('.')[: depth + 1])}"
            for depth in range(path.count(".") + 1)
        )
        assert is_valid(f"{tested} && context.{path} == context.{path}"), path
    written = re.findall(r'"(\w+)"\??:', schema_text())
    assert {path.rpartition(".")[2] for path in context_attributes()} == set(written)


def test_cedar_agrees_on_which_actions_are_families() -> None:
    for name in actions():
        text = f'permit (principal, action == Action::"{name}", resource);'
        passed = cedarpy.validate_policies(text, schema()).validation_passed
        assert passed == (name in declared_actions()), name


def test_cedar_agrees_on_which_families_an_action_is_in() -> None:
    families = set(actions()) - declared_actions()
    entities = cedarpy.Entities.from_json_str("[]", schema())
    for action in sorted(declared_actions()):
        for family in families:
            policy = f'permit (principal, action in Action::"{family}", resource);'
            request = {
                "principal": {"type": "Agent", "id": "a"},
                "action": {"type": "Action", "id": action},
                "resource": {"type": "Tool", "id": "t"},
                "context": {},
            }
            # without a schema for the request, which would ask for a whole context
            allowed = cedarpy.is_authorized(request, policy, entities).allowed
            assert allowed == (family in actions()[action]), (action, family)


def test_families_of_families_count() -> None:
    names = vocabulary._read(
        'action "a"; action "b" in ["a"]; action "c" in ["b"] appliesTo { principal: [X] };'
        'type Call = { "x"?: Long };'
    )
    assert names.actions == {"a": (), "b": ("a",), "c": ("a", "b")}
    assert names.declared_actions == {"c"}
    assert names.context_attributes == {"x"}


def test_a_declaration_that_is_not_known_is_not_passed_over() -> None:
    with pytest.raises(ValueError, match="unknown declaration"):
        vocabulary._read('namespace X {}; type Call = { "x": Long };')
    with pytest.raises(ValueError, match="ends within"):
        vocabulary._read("entity X")


def test_the_schema_is_identified_by_its_bytes() -> None:
    assert schema_sha256() == hashlib.sha256(vocabulary.SCHEMA_PATH.read_bytes()).hexdigest()


def test_names_are_suggested_by_their_kind() -> None:
    assert nearest_action("tool.exekute") == "tool.execute"
    assert nearest_entity_type("Agnt") == "Agent"
    assert nearest_attribute("is_sensitiv") == "is_sensitive_action"
    assert nearest_attribute("plan.teir") == "plan.tier"
    assert nearest_name('Action::"tool.exekute"') == 'Action::"tool.execute"'
    assert nearest_name("Operater") == "Operator"
    assert nearest_name("zzzzzz") is None
    assert nearest_name('Action::"zzzzzz"') is None
