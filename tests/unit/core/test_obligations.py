# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palyra.core.canonical import canonical_record
from palyra.core.obligations import NO_OBLIGATIONS, Obligations, combined, unmet_by_plan
from palyra.core.plan import ANYWHERE, SandboxPlan, Tier

HOSTS = ("a.example", "b.example", "c.example")
POINTERS = ("/a", "/b", "/c/*")


def some_of(items: tuple[str, ...]) -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(st.sampled_from(items), unique=True).map(tuple)


LIMITS = st.none() | st.integers(min_value=0, max_value=4)
DEMANDS = st.just(NO_OBLIGATIONS) | st.builds(
    Obligations,
    tiers=st.lists(st.sampled_from(Tier), unique=True).map(tuple),
    egress=st.none() | some_of(HOSTS),
    timeout_ms=LIMITS,
    max_output_bytes=LIMITS,
    quorum=st.integers(min_value=0, max_value=3),
    redact=some_of(POINTERS),
)
PLANS = st.builds(
    SandboxPlan, tier=st.sampled_from(Tier), egress=some_of(HOSTS) | st.just((ANYWHERE,))
)


def is_within(limit: int | None, other: int | None) -> bool:
    """Say whether what keeps ``limit`` also keeps ``other``."""
    return other is None or (limit is not None and limit <= other)


def test_no_obligations_are_written_as_nothing() -> None:
    assert canonical_record(NO_OBLIGATIONS) == b"{}"
    assert msgspec.json.decode(b"{}", type=Obligations) == NO_OBLIGATIONS


def test_obligations_are_written_with_what_they_demand_alone() -> None:
    demand = Obligations(tiers=(Tier.B,), egress=(), timeout_ms=5, quorum=2)
    assert canonical_record(demand) == b'{"egress":[],"quorum":2,"tiers":["b"],"timeout_ms":5}'


@given(DEMANDS)
def test_obligations_round_trip(demand: Obligations) -> None:
    assert msgspec.json.decode(canonical_record(demand), type=Obligations) == demand


def test_the_strictest_of_each_demand_counts() -> None:
    demands = (
        Obligations(tiers=(Tier.C,), egress=("b.example", "a.example"), timeout_ms=10),
        Obligations(tiers=(Tier.B,), egress=("c.example", "b.example"), max_output_bytes=9),
        Obligations(timeout_ms=20, max_output_bytes=8, quorum=2, redact=("/b",)),
        Obligations(quorum=3, redact=("/a", "/b")),
        NO_OBLIGATIONS,
    )
    assert combined(demands) == Obligations(
        tiers=(Tier.B, Tier.C),
        egress=("b.example",),
        timeout_ms=10,
        max_output_bytes=8,
        quorum=3,
        redact=("/a", "/b"),
    )


def test_no_demands_are_no_obligations() -> None:
    assert combined(()) == combined((NO_OBLIGATIONS, NO_OBLIGATIONS)) == NO_OBLIGATIONS


@pytest.mark.invariant("I1")
def test_hosts_that_exclude_each_other_leave_no_network_at_all() -> None:
    demands = (Obligations(egress=("a.example",)), Obligations(egress=("b.example",)))
    assert combined(demands) == Obligations(egress=())


@given(DEMANDS, DEMANDS, DEMANDS)
def test_how_demands_are_put_together_does_not_matter(
    one: Obligations, two: Obligations, three: Obligations
) -> None:
    at_once = combined((one, two, three))
    assert combined((combined((one, two)), three)) == at_once
    assert combined((one, combined((two, three)))) == at_once
    assert combined((three, one, two)) == at_once
    assert combined((one, two, two, three, one, NO_OBLIGATIONS)) == at_once
    assert combined((at_once,)) == combined((at_once, at_once)) == at_once


@pytest.mark.invariant("I1")
@given(st.lists(DEMANDS, min_size=1, max_size=4))
def test_together_they_are_never_less_strict_than_one_of_them(demands: list[Obligations]) -> None:
    together = combined(demands)
    for demand in demands:
        assert set(together.tiers) >= set(demand.tiers)
        assert set(together.redact) >= set(demand.redact)
        assert together.quorum >= demand.quorum
        assert is_within(together.timeout_ms, demand.timeout_ms)
        assert is_within(together.max_output_bytes, demand.max_output_bytes)
        if demand.egress is not None:
            assert together.egress is not None
            assert set(together.egress) <= set(demand.egress)


@pytest.mark.invariant("I1")
@given(st.lists(DEMANDS, min_size=1, max_size=4), PLANS)
def test_a_plan_meets_them_together_exactly_if_it_meets_each(
    demands: list[Obligations], plan: SandboxPlan
) -> None:
    meets_each = not any(unmet_by_plan(demand, plan) for demand in demands)
    assert (not unmet_by_plan(combined(demands), plan)) is meets_each


@pytest.mark.invariant("I1")
@pytest.mark.parametrize(
    ("demanded", "meeting"),
    [
        (Tier.NONE, {Tier.NONE, Tier.B, Tier.C, Tier.A}),
        (Tier.B, {Tier.B, Tier.C, Tier.A}),
        (Tier.C, {Tier.C}),
        (Tier.A, {Tier.A}),
    ],
)
def test_only_as_good_a_tier_meets_a_demand(demanded: Tier, meeting: set[Tier]) -> None:
    demand = Obligations(tiers=(demanded,))
    for tier in Tier:
        unmet = unmet_by_plan(demand, SandboxPlan(tier=tier))
        assert (not unmet) is (tier in meeting)
        if unmet:
            assert unmet == f"policy demands sandbox tier {demanded}, the call would run in {tier}"


def test_two_tiers_that_do_not_stand_in_for_each_other_cannot_both_be_met() -> None:
    demand = Obligations(tiers=(Tier.A, Tier.C))
    assert all(unmet_by_plan(demand, SandboxPlan(tier=tier)) for tier in Tier)


@pytest.mark.invariant("I1")
@pytest.mark.parametrize(
    ("allowed", "plan", "unmet"),
    [
        pytest.param((), SandboxPlan(), "", id="no-network-wanted-in-this-process"),
        pytest.param((), SandboxPlan(tier=Tier.B), "", id="no-network-wanted"),
        pytest.param(
            HOSTS, SandboxPlan(tier=Tier.B, egress=HOSTS[:2]), "", id="fewer-than-allowed"
        ),
        pytest.param(
            HOSTS[:1],
            SandboxPlan(tier=Tier.B, egress=HOSTS),
            "policy limits the hosts, the call could reach b.example",
            id="more-than-allowed",
        ),
        pytest.param(
            HOSTS,
            SandboxPlan(tier=Tier.B, egress=(ANYWHERE,)),
            "policy limits the hosts, the call could reach any host",
            id="anywhere",
        ),
        pytest.param(
            HOSTS,
            SandboxPlan(egress=HOSTS[:1]),
            "policy limits the hosts, but nothing would enforce that",
            id="allowed-but-not-enforced",
        ),
    ],
)
def test_hosts_are_limited_only_where_something_enforces_it(
    allowed: tuple[str, ...], plan: SandboxPlan, unmet: str
) -> None:
    assert unmet_by_plan(Obligations(egress=allowed), plan) == unmet


@given(PLANS)
def test_limits_and_redactions_are_met_by_any_plan(plan: SandboxPlan) -> None:
    demand = Obligations(timeout_ms=1, max_output_bytes=1, quorum=9, redact=("/a",))
    assert unmet_by_plan(demand, plan) == unmet_by_plan(NO_OBLIGATIONS, plan) == ""
