# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palyra.core.capability import Capability
from palyra.core.facts import NO_FACTS, Facts
from palyra.core.risk import Risk, risk_of

STEPS = (Risk.LOW, Risk.MEDIUM, Risk.HIGH, Risk.CRITICAL)
FACTS = st.sampled_from(
    [
        NO_FACTS,
        Facts(protected=("a",)),
        Facts(outside=("/a",)),
        Facts(left_out=1),
        Facts(reads=("a",)),
    ]
)
POWERS = st.sets(st.sampled_from(Capability))


def step(risk: Risk) -> int:
    return STEPS.index(risk)


def test_the_steps_are_those_of_the_word() -> None:
    assert tuple(Risk) == STEPS


@pytest.mark.parametrize("capability", Capability)
def test_every_capability_has_its_risk(capability: Capability) -> None:
    known = {
        Capability.FILESYSTEM_READ: Risk.LOW,
        Capability.FILESYSTEM_WRITE: Risk.MEDIUM,
        Capability.NETWORK: Risk.HIGH,
        Capability.SECRETS_READ: Risk.HIGH,
        Capability.PROCESS_EXEC: Risk.CRITICAL,
    }
    assert risk_of((capability,), NO_FACTS) is known[capability]
    assert risk_of((capability.value,), NO_FACTS) is known[capability]


def test_a_tool_without_powers_has_a_low_risk() -> None:
    assert risk_of((), NO_FACTS) is Risk.LOW


@pytest.mark.parametrize(
    "facts",
    [Facts(protected=(".git/config",)), Facts(outside=("/etc/passwd",)), Facts(left_out=1)],
    ids=["protected", "outside", "not-all-seen"],
)
def test_facts_raise_the_risk_of_a_mere_look(facts: Facts) -> None:
    assert risk_of((Capability.FILESYSTEM_READ,), facts) is Risk.HIGH


def test_ordinary_facts_raise_nothing() -> None:
    facts = Facts(reads=("a",), writes=("b",), hosts=("c.example",), size_bytes=10**9)
    assert risk_of((Capability.FILESYSTEM_READ,), facts) is Risk.LOW


@pytest.mark.invariant("I1")
@given(POWERS, POWERS, FACTS)
def test_more_powers_or_facts_are_never_less_risk(
    some: set[Capability], more: set[Capability], facts: Facts
) -> None:
    assert step(risk_of(some | more, facts)) >= step(risk_of(some, facts))
    assert step(risk_of(some, facts)) >= step(risk_of(some, NO_FACTS))


def test_a_power_that_is_none_is_a_fault() -> None:
    with pytest.raises(ValueError, match="telepathy"):
        risk_of(("telepathy",), NO_FACTS)
