# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palyra.core.errors import Code
from palyra.core.pack import MOST_MEMBERS, NOBODY, Members
from palyra.core.policy_request import EntityUid
from palyra.flow.policy.members import (
    MOST_PARENTS,
    Memberships,
    groups_of_tool,
    parents_of,
    read_members,
)

FILE = b"""
[roles]
approver = ["operator:ada", "agent:mason"]
[groups]
builders = ["agent:mason", "group:night_shift"]
night_shift = ["agent:owl", "device:lamp"]
everybody = ["group:builders", "service:ci"]
[tool_groups]
files = ["palyra.fs.read_file", "tool_group:more"]
more = ["palyra.fs.list_dir"]
"""


def good(body: bytes) -> Members:
    members = read_members(body, "members.toml")
    assert isinstance(members, Members), members
    return members


def bad(text: str) -> list[str]:
    faults = read_members(text.encode(), "members.toml")
    assert isinstance(faults, tuple)
    return [str(fault) for fault in faults]


def uids(type_name: str, *names: str) -> tuple[EntityUid, ...]:
    return tuple(EntityUid(type_name, name) for name in names)


def test_everybody_is_in_their_roles_and_all_groups_above() -> None:
    of = Memberships(good(FILE))
    mason = of.parents_of(EntityUid("Agent", "mason"))
    assert mason == (*uids("Group", "builders", "everybody"), *uids("Role", "approver"))
    owl = of.parents_of(EntityUid("Agent", "owl"))
    assert owl == uids("Group", "builders", "everybody", "night_shift")
    assert of.parents_of(EntityUid("Operator", "ada")) == uids("Role", "approver")
    assert of.parents_of(EntityUid("Device", "lamp")) == owl
    assert of.parents_of(EntityUid("Service", "ci")) == uids("Group", "everybody")


def test_a_name_counts_only_for_its_own_kind() -> None:
    of = Memberships(good(FILE))
    assert of.parents_of(EntityUid("Operator", "mason")) == ()
    assert of.parents_of(EntityUid("Group", "night_shift")) == ()
    assert of.parents_of(EntityUid("agent", "mason")) == ()
    assert of.groups_of_tool(EntityUid("Skill", "palyra.fs.read_file")) == ()


def test_a_tool_is_in_all_groups_above() -> None:
    members = good(FILE)
    tool = EntityUid("Tool", "palyra.fs.list_dir")
    assert groups_of_tool(members, tool) == uids("ToolGroup", "files", "more")
    assert groups_of_tool(members, EntityUid("Tool", "more")) == ()
    assert parents_of(members, EntityUid("Operator", "ada")) == uids("Role", "approver")


def test_an_empty_file_has_no_members() -> None:
    assert good(b"") == NOBODY
    assert good(b"[roles]\nauditor = []\n").roles == {"auditor": ()}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[role]\n", "members.toml:1:1: there is no table role; did you mean [roles]?"),
        ("\nroles = 3", "members.toml:2:1: there is no table roles; write [roles]"),
        ("[zzz]", "known are [roles], [groups], [tool_groups]"),
        ("[groups]\na = 3", "members.toml:2:1: groups.a: the members are not a list of texts"),
        ("[groups]\na = [3]", "groups.a: the members are not a list of texts"),
        ('[groups]\n"a b" = []', "groups.a b: the name is not 1 to 64"),
        ('[roles]\na = ["agnt:x"]', "agnt:x cannot be a member; did you mean agent:x?"),
        ('[roles]\na = ["agent:"]', "write agent:NAME, operator:NAME, device:NAME, service:NAME"),
        ('[roles]\na = ["agent:x\\n"]', "agent:x\\u{a} cannot be a member"),
        ('[roles]\na = ["group:b"]\n[groups]\nb = []', "group:b cannot be a member"),
        ('[groups]\na = ["role:b"]', "role:b cannot be a member"),
        ('[tool_groups]\na = ["agent:x"]', "write a tool's name, or tool_group:NAME"),
        ('[tool_groups]\na = ["tool_group:"]', "write tool_group:NAME"),
        ('[groups]\na = ["agent:x", "agent:x"]', "groups.a: agent:x is listed twice"),
        (
            '[groups]\nab = ["group:night"]\nnights = []',
            "there is no group:night; did you mean group:nights?",
        ),
        ('[groups]\na = ["group:zz"]', "there is no group:zz; add it to [groups]"),
        ("[groups]\na = x\n", "members.toml:2:5: this is not TOML: Invalid value"),
        ("[groups", "this is not TOML"),
        ("[groups]\na = []\na = []", "this is not TOML: Cannot overwrite a value"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(text: str, expected: str) -> None:
    (fault,) = bad(text)
    assert expected in fault


def test_a_file_that_is_nested_too_deeply_is_refused() -> None:
    (fault,) = bad("a = " + "[" * 100_000)
    assert "nested too deeply" in fault


def test_a_file_that_is_not_utf_8_is_refused() -> None:
    assert isinstance(read_members(b"\xff", "members.toml"), tuple)


@pytest.mark.parametrize(
    ("text", "cycle"),
    [
        ('[groups]\na = ["group:a"]', "a -> a"),
        ('[groups]\nx = ["group:a"]\na = ["group:b"]\nb = ["group:a"]', "a -> b -> a"),
        (
            '[tool_groups]\na = ["tool_group:b"]\nb = ["tool_group:c"]\nc = ["tool_group:a"]',
            "a -> b -> c -> a",
        ),
    ],
)
def test_a_group_in_itself_is_refused_by_name(text: str, cycle: str) -> None:
    (fault,) = bad(text)
    assert f"a group is in itself: {cycle}" in fault


def test_two_ways_to_the_same_group_are_no_cycle() -> None:
    text = '[groups]\na = ["group:b", "group:c"]\nb = ["group:d"]\nc = ["group:d"]\nd = ["agent:x"]'
    of = Memberships(good(text.encode()))
    assert of.parents_of(EntityUid("Agent", "x")) == uids("Group", "a", "b", "c", "d")


@pytest.mark.invariant("I13")
def test_a_long_cycle_is_found_in_little_time_and_not_shown_whole() -> None:
    count = 50_000
    lines = [f'g{n} = ["group:g{(n + 1) % count}"]' for n in range(count)]
    started = time.monotonic()
    (fault,) = bad("[groups]\n" + "\n".join(lines))
    assert time.monotonic() - started < 20
    assert "a group is in itself: g0 -> g1" in fault
    assert len(fault) < 300


@pytest.mark.invariant("I13")
def test_there_is_a_greatest_number_of_memberships() -> None:
    names = ", ".join(f'"agent:a{n}"' for n in range(MOST_MEMBERS))
    assert len(good(f"[groups]\na = [{names}]".encode()).groups["a"]) == MOST_MEMBERS
    faults = read_members(f'[groups]\na = [{names}]\nb = ["agent:a1"]'.encode(), "members.toml")
    assert isinstance(faults, tuple)
    assert [fault.code for fault in faults] == [Code.POLICY_TOO_LARGE]


@pytest.mark.invariant("I13")
def test_there_is_a_greatest_number_of_groups_that_one_can_be_in() -> None:
    chain = [f'g{n} = ["group:g{n + 1}"]' for n in range(MOST_PARENTS - 1)]
    fits = "\n".join(("[groups]", *chain, f'g{MOST_PARENTS - 1} = ["agent:x"]'))
    of = Memberships(good(fits.encode()))
    assert len(of.parents_of(EntityUid("Agent", "x"))) == MOST_PARENTS
    (fault,) = bad(fits + '\n[roles]\nauditor = ["agent:x"]')
    assert f"agent:x is in over {MOST_PARENTS} roles and groups" in fault
    roles = "\n".join(f'r{n} = ["agent:x"]' for n in range(MOST_PARENTS + 1))
    (fault,) = bad("[roles]\n" + roles)
    assert "agent:x is in over" in fault


def test_no_more_than_a_hundred_faults_are_returned() -> None:
    assert len(bad("[groups]\n" + "\n".join(f"g{n} = 3" for n in range(500)))) == 100


@given(st.binary(max_size=200) | st.text(alphabet='[]roles"=:,agent.\n\\{}', max_size=80))
def test_no_file_makes_reading_raise(body: bytes | str) -> None:
    read_members(body if isinstance(body, bytes) else body.encode(), "members.toml")
