# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from tests.support.command_line import CommandLine
from tests.support.own_policies import NO_ECHO, activate

HELLO = '{"text":"hello"}'


def test_an_operators_own_call(palyra: CommandLine) -> None:
    ran = palyra.json("call", "palyra.echo", HELLO)
    assert ran.status == 0
    assert ran.document["decision"]["code"] == "operator.initiated"
    assert ran.document["outcome"]["output"] == {"echo": "hello"}


def test_an_agents_call_for_people(palyra: CommandLine) -> None:
    ran = palyra("call", "palyra.echo", HELLO, "--agent", "demo")
    assert ran.status == 0
    assert ran.out.startswith("allowed palyra.echo: ")
    assert '"echo": "hello"' in ran.out
    assert "  attestation: " in ran.out


def test_arguments_from_standard_input(palyra: CommandLine) -> None:
    ran = palyra.json("call", "palyra.echo", "-", standard_input=HELLO.encode())
    assert ran.document["outcome"]["output"] == {"echo": "hello"}


def test_no_arguments_are_an_empty_object(palyra: CommandLine) -> None:
    ran = palyra.json("call", "palyra.echo")
    assert ran.document["error"]["code"] == "input.invalid"


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        pytest.param(b'{"text":"a","text":"b"}', "input.duplicate_key", id="a-key-twice"),
        pytest.param(b'{"text":"\xff"}', "input.not_json", id="no-text"),
        pytest.param(b"", "input.not_json", id="nothing"),
        pytest.param(b"[" * 99, "input.too_deep", id="too-deep"),
        pytest.param(b" " * 20_000 + b"{}", "input.too_large", id="too-large"),
        pytest.param(b'{"text":NaN}', "input.number_out_of_range", id="no-number"),
        pytest.param(b'{"text":"a","loud":1}', "input.invalid", id="an-unknown-field"),
    ],
)
def test_the_strict_decoder_sees_the_very_bytes(palyra: CommandLine, raw: bytes, code: str) -> None:
    ran = palyra.json("call", "palyra.echo", "-", standard_input=raw)
    assert ran.status == 2
    assert ran.document["error"]["code"] == code
    call_id = ran.document["error"]["details"]["call_id"]
    assert palyra.json("why", call_id).document["code"] == code


def test_a_dry_run_names_no_call(palyra: CommandLine) -> None:
    wrong = palyra.json("call", "palyra.echo", "[]", "--dry-run")
    assert (wrong.status, wrong.document["error"]["details"]) == (2, {})
    right = palyra("call", "palyra.echo", HELLO, "--dry-run")
    assert right.out.startswith("would be allowed palyra.echo: ")


def test_an_unknown_tool_is_denied_with_a_result(palyra: CommandLine) -> None:
    ran = palyra.json("call", "palyra.ehco")
    assert ran.status == 6
    assert ran.document["decision"]["code"] == "tool.unknown"
    assert ran.document["decision"]["hint"] == "did you mean palyra.echo?"
    assert ran.document["attestation"]["executor"] == "policy"


def test_a_tool_that_runs_too_long_is_stopped(palyra: CommandLine) -> None:
    ran = palyra.json("call", "palyra.sleep", '{"duration_ms":5000}', "--timeout", "10ms")
    assert ran.status == 9
    assert ran.document["state"] == "timed_out"


def test_calls_in_one_run_and_one_session(palyra: CommandLine) -> None:
    first = palyra.json("call", "palyra.echo", HELLO, "--agent", "demo").document
    run = palyra.json("call", "palyra.echo", HELLO, "--agent", "demo", "--run", first["run_id"])
    assert run.document["run_id"] == first["run_id"]
    session = palyra.json(
        "call", "palyra.echo", HELLO, "--agent", "demo", "--session", first["session_id"]
    )
    assert session.document["session_id"] == first["session_id"]
    assert session.document["run_id"] != first["run_id"]
    other = palyra.json("call", "palyra.echo", HELLO, "--agent", "x", "--run", first["run_id"])
    assert (other.status, other.document["error"]["code"]) == (8, "run.unknown")


def test_a_request_id_is_for_one_call(palyra: CommandLine) -> None:
    first = palyra.json("call", "palyra.echo", HELLO, "--request-id", "r").document
    again = palyra.json("call", "palyra.echo", HELLO, "--request-id", "r").document
    assert again["call_id"] == first["call_id"]
    other = palyra.json("call", "palyra.echo", '{"text":"x"}', "--request-id", "r")
    assert (other.status, other.document["error"]["code"]) == (7, "request.conflict")


@pytest.fixture
def workspace(palyra: CommandLine, tmp_path: Path) -> str:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
        assert palyra("workspaces", "add", str(tmp_path / name)).status == 0
    return "one"


@pytest.mark.parametrize("named", ["", ',"workspace":"one"'], ids=["absent", "named-already"])
def test_workspace_is_put_into_the_arguments(
    palyra: CommandLine, workspace: str, named: str
) -> None:
    ran = palyra.json(
        "call", "palyra.fs.read", f'{{"path":"file"{named}}}', "--workspace", workspace
    )
    assert ran.document["outcome"]["output"]["content"] == "one"


@pytest.mark.parametrize(
    ("tool", "arguments", "message"),
    [
        ("palyra.fs.read", "[]", "--workspace needs arguments that are a JSON object"),
        ("palyra.echo", HELLO, "tool palyra.echo takes no workspace"),
        (
            "palyra.fs.read",
            '{"path":"file","workspace":"two"}',
            "the arguments name another workspace than --workspace",
        ),
    ],
)
def test_a_workspace_that_does_not_fit(
    palyra: CommandLine, tool: str, arguments: str, message: str
) -> None:
    ran = palyra.json("call", tool, arguments, "--workspace", "one")
    assert (ran.status, ran.document["error"]["message"]) == (2, message)
    assert not palyra.home.exists()


@pytest.mark.parametrize(
    ("tool", "arguments", "code"),
    [
        ("palyra.fs.read", '{"path":"a","path":"b"}', "input.duplicate_key"),
        ("palyra.fs.raed", "[]", "tool.unknown"),
    ],
)
def test_a_workspace_hides_no_refusal_of_the_gate(
    palyra: CommandLine, tool: str, arguments: str, code: str
) -> None:
    document = palyra.json("call", tool, arguments, "--workspace", "one").document
    assert (document.get("error") or document["decision"])["code"] == code


def test_session_and_run_exclude_each_other(palyra: CommandLine) -> None:
    ran = palyra.json("call", "palyra.echo", HELLO, "--session", "S", "--run", "R")
    assert ran.status == 2
    assert not palyra.home.exists()


def test_the_hint_of_a_denied_call_names_the_call(palyra: CommandLine) -> None:
    activate(palyra, mine__cedar=NO_ECHO)
    document = palyra.json("call", "palyra.echo", HELLO, "--agent", "demo").document
    named = f"'palyra policy explain {document['call_id']}' tells what would change the answer"
    assert document["decision"]["hint"] == named
    assert palyra.json("why", document["call_id"]).document["hint"] == named
    assert "CALL_ID" not in palyra("why", document["call_id"]).out
    told = palyra("call", "palyra.echo", HELLO, "--agent", "demo").out
    call_id = told.partition("  call: ")[2].splitlines()[0]
    assert f"  hint: 'palyra policy explain {call_id}' tells" in told
    assert (
        "explain CALL_ID"
        in palyra("call", "palyra.echo", HELLO, "--agent", "demo", "--dry-run").out
    )
