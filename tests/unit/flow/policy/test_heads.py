# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import cedarpy
import pytest
from hypothesis import given, settings

from palyra.core.policy_request import EntityUid
from palyra.flow.policy.heads import HeadKeys, head_keys, request_keys
from palyra.flow.policy.slices import PolicyIndex
from tests.support.cedar_universes import HOSTILE_IDS, Request, Universe, parsed, universes, written

ALICE = EntityUid("User", "alice")
TEAM = EntityUid("Team", "red")
COMPANY = EntityUid("N::Company", "all")


@pytest.mark.parametrize(
    ("head", "keys"),
    [
        pytest.param("principal", ("*",), id="anyone"),
        pytest.param('principal == User::"alice"', ('=User::"alice"',), id="equal"),
        pytest.param('principal in Team::"red"', ('<Team::"red"',), id="in a group"),
        pytest.param("principal is User", (":User",), id="of a type"),
        pytest.param("principal is N::M::User", (":N::M::User",), id="of a type in a namespace"),
        pytest.param(
            'principal is N::User in M::Team::"red"',
            (':N::User<M::Team::"red"',),
            id="of a type in a group",
        ),
        pytest.param(
            r'principal == User::"a\"::\"b\n"', ('=User::"a"::"b\n"',), id="an id stands as it is"
        ),
    ],
)
def test_a_head_becomes_a_key(head: str, keys: tuple[str, ...]) -> None:
    of_principal = head_keys(parsed(f"permit ({head}, action, resource);"))
    of_resource = head_keys(
        parsed(f"permit (principal, action, {head.replace('principal', 'resource', 1)});")
    )
    assert of_principal == HeadKeys(principal=keys, action=("*",), resource=("*",))
    assert of_resource == HeadKeys(principal=("*",), action=("*",), resource=keys)


@pytest.mark.parametrize(
    ("head", "keys"),
    [
        pytest.param("action", ("*",), id="any"),
        pytest.param('action == Action::"run"', ('=Action::"run"',), id="equal"),
        pytest.param('action in N::Action::"all"', ('<N::Action::"all"',), id="in a group"),
        pytest.param(
            'action in [Action::"b", Action::"a", Action::"b"]',
            ('<Action::"b"', '<Action::"a"'),
            id="in one of several, each once",
        ),
        pytest.param("action in []", (), id="in none, which never matches"),
    ],
)
def test_a_head_of_actions_becomes_keys(head: str, keys: tuple[str, ...]) -> None:
    assert head_keys(parsed(f"permit (principal, {head}, resource);")).action == keys


@pytest.mark.parametrize(
    "scope",
    [
        "principal == ?principal, action, resource",
        "principal in ?principal, action, resource",
        "principal, action, resource is File in ?resource",
    ],
)
def test_a_template_with_a_slot_is_no_policy(scope: str) -> None:
    with pytest.raises(ValueError, match="slot"):
        head_keys(parsed(f"permit ({scope});"))


def test_an_entity_answers_to_itself_its_type_and_all_it_is_in() -> None:
    assert request_keys(ALICE, (TEAM, COMPANY)) == (
        "*",
        '=User::"alice"',
        ":User",
        '<User::"alice"',
        '<Team::"red"',
        '<N::Company::"all"',
        ':User<User::"alice"',
        ':User<Team::"red"',
        ':User<N::Company::"all"',
    )


def test_a_group_named_twice_is_one_key() -> None:
    assert request_keys(ALICE, (TEAM, TEAM)) == request_keys(ALICE, (TEAM,))


def test_different_heads_never_share_a_key() -> None:
    uids = [EntityUid(kind, name) for kind in ("T", "U", "N::T") for name in HOSTILE_IDS]
    heads = [
        "principal",
        *(f"principal is {kind}" for kind in ("T", "U", "N::T")),
        *(f"principal == {written(uid)}" for uid in uids),
        *(f"principal in {written(uid)}" for uid in uids),
        *(f"principal is {kind} in {written(uid)}" for kind in ("T", "N::T") for uid in uids),
    ]
    keys = {head_keys(parsed(f"permit ({head}, action, resource);")).principal for head in heads}
    assert len(keys) == len(heads)


@pytest.mark.parametrize("kind", [" T", "T ", "N :: T", "T\n", "/**/T", 'T::"a"', "", "\ud800"])
def test_the_engine_takes_no_second_spelling_of_a_type(kind: str) -> None:
    """Otherwise a caller could keep the key of its type from being found."""
    asked = Universe({}, (), _request(kind)).ask(
        cedarpy.PolicySet.from_str('@id("p") permit (principal, action, resource);')
    )
    assert (asked.is_decided, asked.allowed) == (False, False)


@settings(max_examples=300, deadline=None)
@given(universes(clauses=("",)))
def test_a_head_matches_exactly_if_its_keys_are_found(universe: Universe) -> None:
    found = PolicyIndex(universe.policies).matching(*universe.keys())
    applied = tuple(
        place
        for place, policy in enumerate(universe.policies)
        if universe.ask(cedarpy.PolicySet.from_str(policy.text)).policies
    )
    assert found == applied


def _request(kind: str) -> Request:
    return Request(EntityUid(kind, "a"), EntityUid("Action", "run"), ALICE, {})
