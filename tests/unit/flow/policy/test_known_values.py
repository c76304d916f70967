# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import cedarpy
import pytest

from palyra.core.pack import NOBODY
from palyra.flow.policy.compile import compile_pack
from palyra.flow.policy.known_values import unknown_values
from palyra.flow.policy.sources import Source


def found(head: str = "principal, action, resource", when: str = "true") -> list[tuple[str, str]]:
    policies = cedarpy.policies_to_pst(f"forbid ({head}) when {{ {when} }};").static_policies
    (template,) = policies.values()
    return sorted((each.value, each.compared_with) for each in unknown_values(template))


@pytest.mark.parametrize(
    ("when", "value", "compared_with"),
    [
        ('context.posture == "disbled"', "disbled", "context.posture"),
        ('"disbled" == context.posture', "disbled", "context.posture"),
        ('context.posture != "disbled"', "disbled", "context.posture"),
        ('context["posture"] == "disbled"', "disbled", "context.posture"),
        ('context.plan.tier == "C"', "C", "context.plan.tier"),
        ('["b", "d"].contains(context.plan.tier)', "d", "context.plan.tier"),
        ('context.risk == "hi"', "hi", "context.risk"),
        ('context.assurance == "dev"', "dev", "context.assurance"),
        ('context.capabilities.contains("netwrk")', "netwrk", "context.capabilities"),
        ('context.capabilities.containsAny(["x", "network"])', "x", "context.capabilities"),
        ('["network", "x"].containsAll(context.capabilities)', "x", "context.capabilities"),
        ('resource in Capability::"netwrk"', "netwrk", "Capability"),
        ('if context.approved then context.risk == "x" else true', "x", "context.risk"),
    ],
)
def test_a_word_that_nothing_can_be_is_found(when: str, value: str, compared_with: str) -> None:
    assert found(when=when) == [(value, compared_with)]


def test_a_capability_in_the_head_is_found() -> None:
    assert found('principal, action, resource in Capability::"netwrk"') == [
        ("netwrk", "Capability")
    ]


@pytest.mark.parametrize(
    "when",
    [
        'context.posture == "disabled" && context.plan.tier == "c" && context.risk == "critical"',
        'context.capabilities.containsAll(["network", "process_exec"])',
        'context.channel == "anything" && context.session == "x"',
        'context.files.writes.contains("disbled")',
        'resource in Capability::"network" && resource == Tool::"netwrk"',
        'context.posture like "dis*"',
        'principal.posture == "x"',
    ],
)
def test_what_exists_and_what_is_free_is_not(when: str) -> None:
    assert found(when=when) == []


def test_it_is_a_fault_with_its_place_and_the_word_that_was_meant() -> None:
    text = (
        '@id("x") @reason("r")\nforbid (principal, action, resource)\n'
        'when { context.posture == "disbled" };'
    )
    faults = compile_pack((Source("own.cedar", text),), preset="ask", members=NOBODY)
    assert isinstance(faults, tuple)
    assert [str(fault) for fault in faults] == [
        "own.cedar:3:27: `disbled` is nothing that context.posture can be; did you mean disabled?"
    ]
