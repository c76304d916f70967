# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import msgspec
import pytest

from palyra.cli.why import _words
from palyra.flow.seal.story import Changed, Effect, Launched, Recovery, Story, tell
from palyra.store.sqlite.ledger import Archive
from tests.support.command_line import CommandLine


def told(palyra: CommandLine, call_id: str) -> Story:
    archive = Archive(palyra.home, busy_timeout_ms=1000)
    try:
        return tell(call_id, journal=archive)
    finally:
        archive.close()


def call(palyra: CommandLine, *arguments: str) -> str:
    document = palyra.json("call", *arguments).document
    return str(document.get("call_id") or document["error"]["details"]["call_id"])


@pytest.fixture
def workspace(palyra: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    palyra("workspaces", "add", str(tmp_path / "project"))


def test_an_allowed_call(palyra: CommandLine) -> None:
    call_id = call(palyra, "palyra.echo", '{"text":"hi"}', "--agent", "demo", "--request-id", "r")
    lines = palyra("why", call_id).out.splitlines()
    assert lines[0] == f"call {call_id} of palyra.echo 1.0.0"
    assert lines[1].endswith("] proposed by agent:demo")
    assert lines[2] == "    request id r"
    assert lines[4] == '    arguments {"text":"hi"}'
    assert "decided: allowed, the tool is allowlisted" in lines[5]
    assert lines[6] == "    by policy palyra.allowlisted-tools"
    assert lines[8].endswith("] launched by builtin, permitted by allow")
    assert "] ended: succeeded after " in lines[9]
    assert "what would change" not in lines[-1]


def test_a_call_that_nobody_agreed_to(palyra: CommandLine, workspace: None) -> None:
    assert workspace is None
    call_id = call(palyra, "palyra.fs.write", '{"path":"a","content":"b"}', "--agent", "demo")
    spoken = palyra("why", call_id).out
    assert "decided: a human must agree, " in spoken
    assert f"\n    more: palyra policy explain {call_id}\n" in spoken
    assert "  asked: nobody; the answer was no (approval.no_operator)\n" in spoken
    assert spoken.endswith(
        "what would change the answer: an operator can run it themselves: 'palyra call' without"
        " --agent\n"
    )
    document = palyra.json("why", call_id).document
    assert (document["code"], document["launched"]) == ("approval.no_operator", None)


def test_the_effects_of_a_call(palyra: CommandLine, workspace: None) -> None:
    assert workspace is None
    call_id = call(palyra, "palyra.fs.write", '{"path":"a","content":"b"}')
    spoken = palyra("why", call_id).out
    assert "] planned 1 change in workspace project\n    add a\n" in spoken
    changes = palyra.json("why", call_id).document["effects"][0]["changes"]
    assert [change["path"] for change in changes] == ["a"]


def test_a_malformed_call(palyra: CommandLine) -> None:
    spoken = palyra("why", call(palyra, "palyra.echo", '{"loud":1}')).out
    assert "decided: denied, /loud: " in spoken
    assert "    by policy none\n" in spoken
    assert "what would change the answer: 'palyra tools show TOOL' prints the schema\n" in spoken


def test_parts_of_stories_that_no_command_makes_yet(palyra: CommandLine) -> None:
    story = told(palyra, call(palyra, "palyra.echo", '{"text":"hi"}'))
    assert story.launched is not None
    asked = msgspec.structs.replace(
        story,
        parent_call_id=story.call_id,
        depth=1,
        approval_id="A",
        decision=msgspec.structs.replace(story.decision, verdict="needs_approval"),
        effects=(
            Effect(
                entry=8,
                at_ms=0,
                workspace="project",
                changes=tuple(
                    Changed(path=f"{n}\n", before_sha256="x", after_sha256="y" if n else "")
                    for n in range(23)
                ),
            ),
        ),
        recoveries=(Recovery(entry=9, at_ms=0, result="undone", paths=("a",)),),
    )
    words = "\n".join(_words(asked))
    assert f"    within call {story.call_id}, 1 deep\n" in words
    assert "  asked: question A; the answer was yes\n" in words
    assert "    delete 0\\u000a\n    change 1\\u000a\n" in words
    assert "    and 3 more\n" in words
    assert words.endswith("[entry 9] after a crash: undone\n    a")
    waiting = msgspec.structs.replace(asked, launched=None, ended=None, recoveries=())
    assert "  asked: question A; not answered yet" in _words(waiting)
    assert _words(waiting)[-1] == "  not ended"
    assert isinstance(story.launched, Launched)


def test_an_unknown_call(palyra: CommandLine) -> None:
    palyra("call", "palyra.echo", '{"text":"hi"}')
    ran = palyra.json("why", "none")
    assert (ran.status, ran.document["error"]["code"]) == (8, "call.unknown")
