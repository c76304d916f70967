# SPDX-License-Identifier: Apache-2.0
import msgspec
import pytest

from palyra.cli.policy_text import (
    difference_document,
    difference_lines,
    in_order,
    replay_document,
    replay_lines,
)
from palyra.core.decision import Verdict
from palyra.core.ids import CallId
from palyra.core.pack import Members
from palyra.flow.policy.compare import compare
from palyra.flow.policy.presets import packaged_pack
from palyra.flow.policy.replay import ChangedDecision, Direction, Replay
from tests.support.own_policies import NO_ECHO, WAIVER
from tests.support.policies import pack_of

WIDER = ChangedDecision(
    call_id=CallId("1"),
    tool="a.b",
    principal="agent:demo",
    at_ms=2000,
    direction=Direction.WIDENING,
    before=Verdict.FORBID,
    after=Verdict.ALLOW,
    code_before="policy.forbidden",
    code_after="policy.permitted",
    policies_before=("x",),
    policies_after=("y",),
    is_overtaken=False,
)
OTHER = msgspec.structs.replace(
    WIDER, call_id=CallId("2"), at_ms=1000, direction=Direction.OTHER, is_overtaken=True
)
NARROWER = msgspec.structs.replace(
    WIDER, call_id=CallId("3"), at_ms=0, direction=Direction.NARROWING
)
REPLAY = Replay(
    examined=9,
    unchanged=5,
    skipped=1,
    widening=1,
    narrowing=2,
    other=1,
    changes=(NARROWER, OTHER, WIDER),
)


def test_nothing_differs() -> None:
    assert difference_lines(compare(packaged_pack(), packaged_pack())) == ["  nothing differs"]


def test_what_may_let_more_through_is_marked() -> None:
    before = pack_of(NO_ECHO + WAIVER, members=Members(roles={"approver": ("operator:bob",)}))
    after = pack_of(
        WAIVER.replace("mine.demo-writes", "mine.other")
        + NO_ECHO.replace("principal is Agent", 'principal == Agent::"eve"'),
        preset="boxed",
        members=Members(roles={"approver": ("operator:ada",)}),
    )
    lines = difference_lines(compare(before, after))
    assert lines[0] == "  preset ask becomes boxed"
    assert "  removed: permit mine.demo-writes (own.cedar:5): demo writes notes" in lines
    assert (
        "  added (may let more through): permit mine.other (own.cedar:2): demo writes notes"
        in lines
    )
    assert any(
        line.startswith("  changed (heads, may let more through): forbid mine.no-echo ")
        for line in lines
    )
    assert "  operator:ada joins role approver (may let more through)" in lines
    assert "  operator:bob leaves role approver" in lines
    document = difference_document(compare(before, after))
    assert document["is_widening"]
    by_id = {policy["policy_id"]: policy for policy in document["policies"]}
    assert (by_id["mine.no-echo"]["change"], by_id["mine.no-echo"]["is_widening"]) == (
        "changed",
        True,
    )


def test_of_many_differences_what_may_let_more_through_comes_first() -> None:
    many = "".join(NO_ECHO.replace("mine.no-echo", f"a.{number}") for number in range(100))
    differences = compare(packaged_pack(), pack_of(many + WAIVER))
    lines = difference_lines(differences)
    assert lines[0].startswith("  added (may let more through): permit mine.demo-writes ")
    assert lines[1].startswith("  added: forbid a.0 ")
    assert (len(lines), lines[-1]) == (101, "  and 1 more; --json tells all")
    assert len(difference_document(differences)["policies"]) == 101


def test_less_strict_decisions_come_first() -> None:
    assert in_order(REPLAY.changes) == [WIDER, NARROWER, OTHER]
    lines = replay_lines(REPLAY, since_ms=0)
    assert lines[0] == (
        "past calls since 1970-01-01T00:00:00.000Z: 9 decided again, 1 less strict, 2 stricter, "
        "1 on other grounds"
    )
    assert lines[1] == (
        "  less strict: 1970-01-01T00:00:02.000Z call 1 of a.b by agent:demo: "
        "denied (policy.forbidden) -> allowed (policy.permitted)"
    )
    assert lines[3].endswith("; what policy had said then is not on record")
    assert lines[4] == "  and 1 more"
    assert replay_lines(REPLAY, since_ms=0, most=1)[2:] == ["  and 3 more"]


def test_a_document_names_verdicts() -> None:
    document = replay_document(REPLAY, since_ms=5)
    assert (document["since_ms"], document["left_out"]) == (5, 1)
    assert document["changes"][0]["before"] == {
        "verdict": "deny",
        "code": "policy.forbidden",
        "policies": ("x",),
    }


@pytest.mark.invariant("I12")
def test_text_from_the_journal_cannot_pass_for_lines_of_ours() -> None:
    hostile = msgspec.structs.replace(
        WIDER, tool="a\n  stricter: \x1b[31m", principal="agent:\u202e"
    )
    told = replay_lines(msgspec.structs.replace(REPLAY, changes=(hostile,)), since_ms=0, most=1)[1]
    assert "\n" not in told
    assert "\x1b" not in told
    assert "\u202e" not in told
