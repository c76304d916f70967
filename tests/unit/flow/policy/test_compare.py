# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import msgspec
import pytest

from palyra.core.errors import Code, ConfigError
from palyra.core.pack import Effect, Members
from palyra.flow.policy.compare import Belonging, Change, MemberChange, Part, PolicyChange, compare
from tests.support.past_calls import pack_with

PERMIT = """
@id("site.a")
@reason("because")
permit (principal == Agent::"ada", action == Action::"approval.waive", resource)
when { context.size_bytes < 10 };
"""
FORBID = PERMIT.replace("permit", "forbid")


def test_a_pack_does_not_differ_from_itself() -> None:
    differences = compare(pack_with(PERMIT), pack_with(PERMIT))
    assert differences.is_empty
    assert not differences.is_widening
    assert differences.policies == ()


@pytest.mark.parametrize(
    ("text", "is_permit"), [(PERMIT, True), (FORBID, False)], ids=["permit", "forbid"]
)
def test_an_added_permit_and_a_removed_forbid_may_widen(text: str, *, is_permit: bool) -> None:
    (added,) = compare(pack_with(), pack_with(text)).added
    assert (added.policy_id, added.reason, added.source, added.line) == (
        "site.a",
        "because",
        "site.cedar",
        2,
    )
    assert added.effect is (Effect.PERMIT if is_permit else Effect.FORBID)
    assert added.before is None
    assert added.is_widening is is_permit
    differences = compare(pack_with(text), pack_with())
    (removed,) = differences.removed
    assert (removed.policy_id, removed.line, removed.after) == ("site.a", 2, None)
    assert removed.is_widening is not is_permit
    assert differences.is_widening is not is_permit
    assert not differences.is_empty


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"// a new comment\n\n{PERMIT}", id="a-comment-before"),
        pytest.param(PERMIT.replace("when", "// why\n  when"), id="a-comment-within"),
        pytest.param(PERMIT.replace(" ", "\n"), id="line-breaks"),
        pytest.param(PERMIT.replace("because", r"b\u{65}cause"), id="another-spelling"),
    ],
)
def test_comments_and_spaces_are_no_difference(text: str) -> None:
    assert compare(pack_with(PERMIT), pack_with(text)).is_empty


def test_a_policy_in_another_file_has_moved() -> None:
    (moved,) = compare(pack_with(PERMIT), pack_with(PERMIT, name="other.cedar")).policies
    assert moved.change is Change.MOVED
    assert moved.before is not None
    assert (moved.before.source, moved.source) == ("site.cedar", "other.cedar")
    assert not moved.is_widening
    differences = compare(pack_with(PERMIT), pack_with(PERMIT, name="other.cedar"))
    assert differences.moved == (moved,)
    assert not differences.changed


@pytest.mark.parametrize(
    ("old", "new", "part", "permit_widens", "forbid_widens"),
    [
        pytest.param("< 10", "< 20", Part.CONDITIONS, True, True, id="another-condition"),
        pytest.param(
            "};",
            '} unless { context.channel == "x" };',
            Part.CONDITIONS,
            False,
            True,
            id="one-more",
        ),
        pytest.param(
            "when { context.size_bytes < 10 }", "", Part.CONDITIONS, True, False, id="one-less"
        ),
        pytest.param('principal == Agent::"ada"', "principal", Part.HEADS, True, False, id="wider"),
        pytest.param(
            "resource)", 'resource == Tool::"t.u")', Part.HEADS, False, True, id="narrower"
        ),
        pytest.param('"ada"', '"bob"', Part.HEADS, True, True, id="another-head"),
        pytest.param("because", "why not", Part.ANNOTATIONS, False, False, id="another-reason"),
        pytest.param(
            '@reason("because")',
            '@reason("because") @tier("c")',
            Part.ANNOTATIONS,
            False,
            False,
            id="one-more-demand",
        ),
    ],
)
def test_a_changed_policy_may_widen_unless_it_surely_does_not(
    *, old: str, new: str, part: Part, permit_widens: bool, forbid_widens: bool
) -> None:
    for text, widens in ((PERMIT, permit_widens), (FORBID, forbid_widens)):
        assert old in text
        (changed,) = compare(pack_with(text), pack_with(text.replace(old, new))).policies
        assert changed.change is Change.CHANGED
        assert changed.parts == (part,)
        assert changed.is_widening is widens


def test_a_demand_less_may_widen() -> None:
    demanding = PERMIT.replace("permit", '@quorum("2") @timeout_ms("5") permit')
    (changed,) = compare(pack_with(demanding), pack_with(demanding.replace('"5"', '"6"'))).changed
    assert changed.parts == (Part.ANNOTATIONS,)
    assert changed.is_widening
    assert not compare(pack_with(demanding), pack_with(demanding.replace('"5"', '"4"'))).is_widening


def test_a_forbid_that_becomes_a_permit_widens_and_not_the_reverse() -> None:
    (changed,) = compare(pack_with(FORBID), pack_with(PERMIT)).changed
    assert changed.parts == (Part.EFFECT,)
    assert changed.is_widening
    assert not compare(pack_with(PERMIT), pack_with(FORBID)).is_widening


def test_members_come_and_go() -> None:
    before = Members(
        roles={"approver": ("operator:ada",)}, groups={"night": ("agent:owl", "agent:bat")}
    )
    after = Members(
        roles={"approver": ("operator:ada", "operator:eve")},
        groups={"night": ("agent:bat",)},
        tool_groups={"files": ("palyra.echo",)},
    )
    differences = compare(pack_with(members=before), pack_with(members=after))
    assert differences.members == (
        MemberChange(
            belonging=Belonging.ROLE,
            name="approver",
            member="operator:eve",
            is_added=True,
            is_widening=True,
        ),
        MemberChange(
            belonging=Belonging.GROUP,
            name="night",
            member="agent:owl",
            is_added=False,
            is_widening=False,
        ),
        MemberChange(
            belonging=Belonging.TOOL_GROUP,
            name="files",
            member="palyra.echo",
            is_added=True,
            is_widening=True,
        ),
    )
    assert differences.is_widening
    assert not differences.is_empty


def test_who_leaves_a_group_that_is_held_back_may_do_more() -> None:
    forbid = FORBID.replace('== Agent::"ada"', 'in Group::"night"')
    before = pack_with(forbid, members=Members(groups={"night": ("agent:owl",)}))
    (left,) = compare(before, pack_with(forbid)).members
    assert not left.is_added
    assert left.is_widening


def test_another_preset_and_another_schema_are_told() -> None:
    pack = pack_with()
    other = msgspec.structs.replace(pack, preset="boxed", schema_sha256="0" * 64)
    differences = compare(pack, other)
    assert differences.is_preset_changed
    assert (differences.preset_before, differences.preset_after) == ("ask", "boxed")
    assert differences.is_schema_changed
    assert not differences.is_empty


@pytest.mark.parametrize("text", ["permit (", f"{PERMIT}{PERMIT}"], ids=["broken", "two-of-them"])
def test_what_is_not_one_policy_is_refused(text: str) -> None:
    pack = pack_with(PERMIT)
    *others, last = pack.policies
    broken = msgspec.structs.replace(last, text=text)
    with pytest.raises(ConfigError) as caught:
        compare(pack, msgspec.structs.replace(pack, policies=(*others, broken)))
    assert caught.value.code is Code.POLICY_INVALID


def test_a_change_is_of_a_policy() -> None:
    with pytest.raises(ValueError, match="a change of nothing"):
        _ = PolicyChange(change=Change.MOVED, before=None, after=None).policy
