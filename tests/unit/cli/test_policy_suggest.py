# SPDX-License-Identifier: Apache-2.0
import asyncio
from pathlib import Path

import pytest

from palyra.cli.policy_suggest import suggestion_lines
from palyra.core.approval import Approval
from palyra.core.ids import CallId
from palyra.core.policy_request import EntityUid
from palyra.core.proposal import Proposal
from palyra.daemon.clock import SystemClock
from palyra.daemon.compose import compose
from palyra.daemon.embedded import EmbeddedGate
from palyra.daemon.settings import Settings
from palyra.flow.policy.suggest import (
    CoveredCall,
    Obstacle,
    Suggestion,
    Suggestions,
    UncoveredCall,
)
from tests.support.command_line import CommandLine
from tests.support.own_policies import called, own_policies
from tests.support.scripted import ScriptedReviewer, approval_of

WRITE = {"path": "notes/a", "content": "b"}


def agree(proposal: Proposal) -> Approval:
    now_ms = SystemClock().now_ms()
    return approval_of(proposal, decided_at_ms=now_ms, expires_at_ms=now_ms + 60_000)


def approve(home: Path, *paths: str) -> list[str]:
    """Let an agent write files that a human agrees to, and return the ids of the calls."""

    async def calls() -> list[str]:
        reviewer = ScriptedReviewer()
        reviewer.at_once = agree
        gate = EmbeddedGate(compose(home, Settings(), reviewer=reviewer))
        async with gate:
            results = [
                await gate.call("palyra.fs.write", {**WRITE, "path": path}, agent="demo")
                for path in paths
            ]
        assert [result.state for result in results] == ["succeeded"] * len(paths)
        return [str(result.call_id) for result in results]

    return asyncio.run(calls())


@pytest.fixture
def workspace(palyra: CommandLine, tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    assert palyra("workspaces", "add", str(tmp_path / "project")).status == 0
    return tmp_path / "project"


def test_nothing_was_approved_yet(palyra: CommandLine, workspace: Path) -> None:
    assert workspace.exists()
    called(palyra, "palyra.fs.write", '{"path":"a","content":"b"}', "--agent", "demo")
    ran = palyra("policy", "suggest")
    assert ran.status == 0
    assert ran.out.startswith("// No human has approved a call since 20")
    assert palyra.json("policy", "suggest").document["suggestions"] == []


def test_a_home_that_was_never_used(palyra: CommandLine) -> None:
    assert "// No human has approved a call since " in palyra("policy", "suggest").out
    assert not palyra.home.exists()


def test_the_text_can_be_staged_as_it_stands(palyra: CommandLine, workspace: Path) -> None:
    assert workspace.exists()
    approved = approve(palyra.home, "a", "b")
    ran = palyra("policy", "suggest")
    assert "\n// Rests on 2 approved calls:\n" in ran.out
    assert all(call_id in ran.out for call_id in approved)
    document = palyra.json("policy", "suggest").document
    (suggestion,) = document["suggestions"]
    assert [call["call_id"] for call in suggestion["calls"]] == approved
    assert suggestion["text"] in ran.out
    assert len(palyra.json("policy", "show").document["packs"]) == 1
    own_policies(palyra, suggested__cedar=ran.out)
    staged = palyra.json("policy", "stage").document
    assert staged["replay"]["widening"] == 2
    palyra("policy", "activate", staged["policy_digest"])
    again = palyra("policy", "suggest").out
    assert "// There is nothing to suggest.\n" in again
    assert again.count(": it would run already\n") == 2


@pytest.mark.invariant("I12")
def test_a_hostile_path_stays_within_its_text(palyra: CommandLine, workspace: Path) -> None:
    assert workspace.exists()
    approve(palyra.home, 'x"); permit (principal, action, resource); \u202ez')
    ran = palyra("policy", "suggest")
    assert "\u202e" not in ran.out
    own_policies(palyra, suggested__cedar=ran.out)
    assert palyra.json("policy", "validate").document["policies"] == 1


def test_long_lists_are_cut_and_everything_but_policies_is_a_remark() -> None:
    covered = tuple(CoveredCall(call_id=CallId(f"c{n}"), at_ms=n) for n in range(22))
    suggestion = Suggestion(
        policy_id="suggested.x",
        principal=EntityUid("Agent", "demo"),
        resource=EntityUid("Tool", "a.b"),
        text="permit;",
        calls=covered,
        would_change=5,
        others=(CallId("o1"), CallId("o2")),
    )
    uncovered = UncoveredCall(
        call_id=CallId("u"),
        tool="a\npermit (principal, action, resource);",
        principal="agent:demo",
        at_ms=0,
        obstacle=Obstacle.TOO_VARIED,
        reason="too varied",
    )
    found = Suggestions(suggestions=(suggestion,), uncovered=(uncovered,) * 21, left_out=3)
    lines = list(suggestion_lines(found, begin_ms=0))
    assert [line for line in lines if line and not line.startswith("//")] == ["permit;"]
    assert not any("\n" in line for line in lines)
    assert "// Rests on 22 approved calls:" in lines
    assert "//   and 2 more" in lines
    assert "// Would also have let run, without a question: o1, o2 and 3 more" in lines
    assert lines[-2:] == ["//   and 1 more", "// 3 more approved calls were not looked at."]
