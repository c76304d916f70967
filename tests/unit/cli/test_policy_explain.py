# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import apsw
import msgspec
import pytest

from palyra.flow.policy.presets import packaged_pack
from palyra.store.sqlite.ledger import DATABASE_NAME
from tests.support.append_only import lifted
from tests.support.command_line import CommandLine
from tests.support.own_policies import NO_ECHO, WAIVER, activate, called

WRITE = '{"path":"a","content":"b"}'


@pytest.fixture
def held(palyra: CommandLine, tmp_path: Path) -> str:
    """Return the id of a call that needed a human."""
    (tmp_path / "project").mkdir()
    assert palyra("workspaces", "add", str(tmp_path / "project")).status == 0
    return called(palyra, "palyra.fs.write", WRITE, "--agent", "demo")


def rewrite(palyra: CommandLine, call_id: str, **decision: object) -> None:
    """Change what the journal says was decided."""
    database = apsw.Connection(str(palyra.home / DATABASE_NAME))
    row = database.execute(
        "SELECT seq, body FROM journal WHERE subject = ? AND kind = 'call.decided'", (call_id,)
    ).fetchone()
    assert row is not None
    seq, body = row
    event = msgspec.json.decode(bytes(body))
    event["decision"] |= decision
    changed = msgspec.json.encode(event)
    with lifted(database):
        database.execute("UPDATE journal SET body = ? WHERE seq = ?", (changed, seq))
    database.close()


def test_a_recorded_call(palyra: CommandLine, held: str) -> None:
    ran = palyra("policy", "explain", held)
    assert ran.status == 0
    assert ran.out.startswith(f"call {held} of palyra.fs.write by agent:demo: a human must agree\n")
    assert "\n  the same policies give the same answer again\n" in ran.out
    assert "\n    forbid palyra.sensitive-needs-approval (palyra/base.cedar:" in ran.out
    assert "\n    allowed, if a human approves it\n" in ran.out
    assert "policies in force now" not in ran.out
    document = palyra.json("policy", "explain", held).document
    assert (document["is_reproduced"], document["in_force"]) == (True, None)
    assert document["recorded"]["code"] == document["explanation"]["code"] == "tool.sensitive"
    assert document["request"]["context"]["files"]["writes"] == ["a"]
    assert document["call"]["call_id"] == held


def test_an_allowed_call_needs_nothing(palyra: CommandLine) -> None:
    call_id = called(palyra, "palyra.echo", '{"text":"x"}', "--agent", "demo")
    ran = palyra("policy", "explain", call_id)
    assert ": allowed\n" in ran.out
    assert "what would change" not in ran.out


def test_other_policies_in_force_are_asked_too(palyra: CommandLine, held: str) -> None:
    digest = activate(palyra, mine__cedar=WAIVER)
    document = palyra.json("policy", "explain", held).document
    assert document["policy_digest"] == packaged_pack().digest
    assert document["is_reproduced"] is True
    assert document["in_force"]["policy_digest"] == digest
    assert document["in_force"]["explanation"]["verdict"] == "allow"
    spoken = palyra("policy", "explain", held).out
    assert f"{digest[:12]}, say otherwise: allowed, demo writes notes\n" in spoken
    other = activate(palyra, mine__cedar=NO_ECHO)
    assert f"now, {other[:12]}, say the same\n" in palyra("policy", "explain", held).out


def test_a_call_that_was_refused_before_policy(palyra: CommandLine) -> None:
    ran = palyra("policy", "explain", called(palyra, "palyra.ecco", "{}", "--agent", "demo"))
    assert ran.status == 0
    assert ": refused before policy was asked\n" in ran.out
    assert "\n  code: tool.unknown\n" in ran.out
    call_id = called(palyra, "palyra.echo", '{"loud":1}')
    document = palyra.json("policy", "explain", call_id).document
    assert (document["request"], document["explanation"]) == (None, None)
    assert document["recorded"]["code"] == "input.invalid"


@pytest.mark.invariant("I8")
@pytest.mark.parametrize(
    "decision",
    [
        pytest.param({"verdict": "allow", "code": "tool.allowlisted"}, id="another-verdict"),
        pytest.param({"policies": ["palyra.allowlisted-tools"]}, id="other-grounds"),
    ],
)
def test_a_decision_that_the_policies_do_not_give_is_a_finding(
    palyra: CommandLine, held: str, decision: dict[str, object]
) -> None:
    rewrite(palyra, held, **decision)
    ran = palyra("policy", "explain", held)
    assert ran.status == 10
    assert "\n  NOT REPRODUCED: recorded is " in ran.out
    assert palyra.json("policy", "explain", held).document["is_reproduced"] is False


def test_what_others_did_after_policy_spoke_is_no_finding(palyra: CommandLine, held: str) -> None:
    rewrite(palyra, held, verdict="deny", code="policy.changed", policies=[])
    ran = palyra("policy", "explain", held)
    assert ran.status == 0
    assert "for what others did after policy had said: a human must agree" in ran.out
    document = palyra.json("policy", "explain", held).document
    assert (document["is_reproduced"], document["is_overtaken"]) == (False, True)


def test_policies_that_are_gone_are_a_fault(palyra: CommandLine, held: str) -> None:
    rewrite(palyra, held, policy_digest="0" * 64)
    ran = palyra.json("policy", "explain", held)
    assert (ran.status, ran.document["error"]["code"]) == (4, "store.corrupt")


def test_a_call_that_nobody_made(palyra: CommandLine) -> None:
    ran = palyra("policy", "explain", "--agent", "demo", "--resource", "tool:palyra.fs.write")
    assert ran.status == 0
    assert ran.out.startswith(
        "tool.execute on tool:palyra.fs.write by agent:demo: a human must agree\n"
    )
    document = palyra.json("policy", "explain", "--resource", "tool:palyra.fs.write").document
    assert document["explanation"]["code"] == "operator.initiated"
    assert document["call"] is None
    denied = palyra(
        "policy",
        "explain",
        "--principal",
        "agent:x",
        "--action",
        "policy.activate",
        "--resource",
        "policy_pack:y",
    )
    assert denied.status == 0
    assert denied.out.startswith("policy.activate on policy_pack:y by agent:x: denied\n")
    assert not palyra.home.exists()


def test_configuration_and_postures_count(
    palyra: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    question = ("policy", "explain", "--agent", "demo", "--resource", "tool:palyra.echo")
    palyra("posture", "set", "palyra.echo", "disabled", "--reason", "x")
    assert palyra.json(*question).document["explanation"]["code"] == "tool.disabled"
    palyra("posture", "clear", "palyra.echo")
    assert palyra.json(*question).document["explanation"]["code"] == "tool.allowlisted"
    monkeypatch.setenv("PALYRA_TOOL_CALL__ALLOWED_TOOLS", "palyra.sleep")
    assert palyra.json(*question).document["explanation"]["code"] == "tool.not_allowlisted"


def test_a_context_that_does_not_fit_shows_what_failed(palyra: CommandLine) -> None:
    question = ("policy", "explain", "--resource", "tool:palyra.echo", "--context", '{"depth":"x"}')
    document = palyra.json(*question).document
    assert document["explanation"]["code"] == "policy.request_invalid"
    assert "\n  fault: " in palyra(*question).out


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param((), id="nothing"),
        pytest.param(("X", "--agent", "demo"), id="a-call-and-a-question"),
        pytest.param(("--agent", "demo"), id="no-resource"),
        pytest.param(
            ("--agent", "a", "--principal", "agent:b", "--resource", "tool:palyra.echo"),
            id="two-principals",
        ),
        pytest.param(("--resource", "tool:palyra.echo", "--context", "nope"), id="no-json"),
        pytest.param(("--resource", "palyra.echo"), id="no-kind"),
    ],
)
def test_what_cannot_be_explained(palyra: CommandLine, arguments: tuple[str, ...]) -> None:
    ran = palyra.json("policy", "explain", *arguments)
    assert (ran.status, ran.document["error"]["code"]) == (2, "usage.invalid")


def test_an_unknown_call(palyra: CommandLine, held: str) -> None:
    assert palyra.json("policy", "explain", held[::-1]).document["error"]["code"] == "call.unknown"


@pytest.mark.invariant("I12")
def test_text_of_the_question_cannot_pass_for_lines_of_ours(palyra: CommandLine) -> None:
    ran = palyra(
        "policy",
        "explain",
        "--principal",
        "agent:a\n  code: \x1b[2J",
        "--resource",
        "workspace:b\u202e",
        "--action",
        "workspace.add",
    )
    assert ran.status == 0
    assert "\x1b" not in ran.out
    assert "\u202e" not in ran.out
    assert ran.out.count("\n  code: ") == 1
