# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from timeit import repeat

import pytest
from hypothesis import event, given, settings

from palyra.core.errors import ConfigError
from palyra.core.pack import Policy
from palyra.core.policy_request import EntityUid
from palyra.flow.policy.cedar import build_policies, failed_positions
from palyra.flow.policy.heads import request_keys
from palyra.flow.policy.slices import PolicyIndex, Slice, SliceCache
from tests.support.cedar_universes import Universe, compiled, universes

Keys = tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]


def policy(name: str, scope: str, *, effect: str = "permit", clauses: str = "") -> Policy:
    return compiled(f'@id("{name}") {effect} ({scope}) {clauses};')


def keys_of(tool: str, *, action: str = "run", agent: str = "alice") -> Keys:
    return (
        request_keys(EntityUid("Agent", agent), ()),
        request_keys(EntityUid("Action", action), (EntityUid("Action", "all"),)),
        request_keys(EntityUid("Tool", tool), (EntityUid("Capability", "fs"),)),
    )


ANYBODY = policy("anybody", "principal, action, resource", clauses="when { context.a }")
ABOUT_FILE = policy(
    "file",
    'principal is Agent, action in [Action::"run", Action::"all"], resource == Tool::"file"',
    effect="forbid",
    clauses="unless { context.b && context has a }",
)
ABOUT_WEB = policy("web", 'principal, action, resource == Tool::"web"')
NEVER = policy("never", "principal, action in [], resource")
WHOLE = policy(
    "whole", 'principal == Agent::"bob", action, resource', clauses="when { context == {} }"
)
POLICIES = (ANYBODY, NEVER, ABOUT_FILE, ABOUT_WEB, WHOLE)


@settings(max_examples=300, deadline=None)
@given(universes())
def test_a_slice_answers_as_all_policies_do(universe: Universe) -> None:
    index = PolicyIndex(universe.policies)
    part = index.slice_at(index.matching(*universe.keys()))
    everything = universe.ask(build_policies([each.text for each in universe.policies]))
    sliced = universe.ask(part.policy_set)

    failed = {universe.policies[place].policy_id for place in failed_positions(everything)}
    assert (sliced.allowed, sliced.policies, sliced.is_decided) == (
        everything.allowed,
        everything.policies,
        everything.is_decided,
    )
    assert {part.policies[place].policy_id for place in failed_positions(sliced)} == failed
    assert len(sliced.errors) == len(everything.errors) == len(failed)
    assert part.has_permit or not everything.allowed
    event(f"allowed: {sliced.allowed}, failed: {bool(failed)}")
    event(f"smaller: {len(part.policies) < len(universe.policies)}")


@settings(max_examples=300, deadline=None)
@given(universes())
def test_what_a_slice_does_not_read_changes_nothing(universe: Universe) -> None:
    index = PolicyIndex(universe.policies)
    part = index.slice_at(index.matching(*universe.keys()))
    context, reads = universe.request.context, part.reads
    read = {name: value for name, value in context.items() if reads is None or name in reads}

    assert universe.ask(part.policy_set, context=read) == universe.ask(part.policy_set)
    event(f"something left away: {read != context}")


def test_policies_are_found_by_all_three_places_in_order() -> None:
    index = PolicyIndex(POLICIES)
    assert index.matching(*keys_of("file")) == (0, 2)
    assert index.matching(*keys_of("file", action="look")) == (0, 2)
    assert index.matching(*keys_of("web")) == (0, 3)
    assert index.matching(*keys_of("web", agent="bob")) == (0, 3, 4)
    assert index.matching((), (), ()) == ()


def test_the_order_is_that_of_the_policies_however_many_there_are() -> None:
    index = PolicyIndex([NEVER, ABOUT_FILE, *[NEVER] * 6, ANYBODY, *[NEVER] * 500, ABOUT_FILE])
    assert index.matching(*keys_of("file")) == (1, 8, 509)


def test_a_slice_holds_its_policies_and_what_they_read() -> None:
    part = PolicyIndex(POLICIES).slice_at((0, 2))
    assert part == Slice(positions=(0, 2), policies=(ANYBODY, ABOUT_FILE))
    assert part.has_permit
    assert part.reads == ("a", "b")
    assert len(part.policy_set) == 2


def test_what_one_policy_reads_unknown_makes_all_unknown() -> None:
    assert PolicyIndex(POLICIES).slice_at((0, 4)).reads is None


def test_forbids_alone_are_no_permit() -> None:
    assert not PolicyIndex(POLICIES).slice_at((2,)).has_permit


def test_no_policies_are_a_slice_too() -> None:
    part = PolicyIndex(()).slice_at(())
    assert (part.has_permit, part.reads, len(part.policy_set)) == (False, (), 0)


def test_policies_are_parsed_once_and_only_when_needed() -> None:
    part = Slice(positions=(0,), policies=(ANYBODY,))
    assert part.policy_set is part.policy_set
    broken = Slice(positions=(0,), policies=(_with_text("permit"),))
    assert broken.has_permit
    with pytest.raises(ConfigError):
        _ = broken.policy_set


def test_requests_that_match_the_same_policies_share_a_slice() -> None:
    cache = SliceCache(PolicyIndex(POLICIES))
    assert cache.find(*keys_of("file")) is cache.find(*keys_of("file", agent="carol"))
    assert cache.find(*keys_of("file")) is not cache.find(*keys_of("web"))
    assert len(cache) == 2


@pytest.mark.invariant("I13")
def test_the_slice_unused_for_longest_goes_first() -> None:
    cache = SliceCache(PolicyIndex(POLICIES), limit=2)
    file, web = cache.find(*keys_of("file")), cache.find(*keys_of("web"))
    assert cache.find(*keys_of("file")) is file
    cache.find(*keys_of("other"))
    assert len(cache) == 2
    assert cache.find(*keys_of("file")) is file
    assert cache.find(*keys_of("web")) is not web


@pytest.mark.invariant("I13")
def test_large_slices_are_kept_in_smaller_number() -> None:
    cache = SliceCache(PolicyIndex(POLICIES), policy_limit=4)
    file = cache.find(*keys_of("file"))
    cache.find(*keys_of("web"))
    assert len(cache) == 2
    cache.find(*keys_of("other"))
    assert len(cache) == 2
    assert cache.find(*keys_of("file")) is not file


@pytest.mark.invariant("I13")
def test_a_slice_beyond_the_bound_is_found_but_not_kept() -> None:
    cache = SliceCache(PolicyIndex(POLICIES), policy_limit=1)
    assert cache.find(*keys_of("file")).positions == (0, 2)
    assert len(cache) == 0


def test_threads_may_share_a_cache() -> None:
    cache = SliceCache(PolicyIndex(POLICIES), limit=2)
    wanted = [keys_of(tool) for tool in ("file", "web", "other")] * 500
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda keys: cache.find(*keys).positions, wanted))
    assert found == [(0, 2), (0, 3), (0,)] * 500
    assert len(cache) == 2


def test_a_lookup_costs_the_same_among_many_policies() -> None:
    def index_of(count: int) -> PolicyIndex:
        scopes = [
            'principal == Agent::"{}", action, resource',
            'principal, action == Action::"{}", resource',
            'principal, action in Action::"all", resource == Tool::"{}"',
            'principal is Agent, action, resource in Capability::"{}"',
        ]
        return PolicyIndex(
            [policy(f"p{each}", scopes[each % 4].format(each)) for each in range(count)]
        )

    few, many, keys = index_of(20), index_of(2000), keys_of("file", agent="0")
    assert few.matching(*keys) == many.matching(*keys) == (0,)
    cost_of_few, cost_of_many = (
        min(repeat(partial(index.matching, *keys), number=200, repeat=10)) for index in (few, many)
    )
    assert cost_of_many < 5 * cost_of_few  # looking at each would cost a hundred times as much


def _with_text(text: str) -> Policy:
    return Policy(
        policy_id="broken",
        effect=ANYBODY.effect,
        source="broken.cedar",
        line=1,
        text=text,
        principal=("*",),
        action=("*",),
        resource=("*",),
        reads=(),
        annotations={},
    )
