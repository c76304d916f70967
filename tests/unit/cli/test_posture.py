# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from palyra.cli.posture import SCOPES, STATES
from palyra.core.errors import Code, NotPermittedError
from palyra.core.posture import Posture, PostureScope
from palyra.flow.operations import Operations
from palyra.tools.posture_presets import POSTURE_PRESETS
from tests.support.command_line import CommandLine

ECHO = "palyra.echo"


def verdict(palyra: CommandLine, agent: str = "demo") -> str:
    ran = palyra.json("call", ECHO, '{"text":"x"}', "--agent", agent)
    return str(ran.document["decision"]["code"])


def test_the_words_are_those_of_the_core() -> None:
    assert tuple(state.value for state in Posture) == STATES
    assert tuple(scope.value for scope in PostureScope) == SCOPES


def test_nothing_is_set(palyra: CommandLine) -> None:
    assert palyra("posture", "list").out == "No posture is set: policies alone decide.\n"
    assert palyra.json("posture", "list").document == {"postures": []}
    assert not palyra.home.exists()


def test_set_list_clear(palyra: CommandLine) -> None:
    ran = palyra("posture", "set", ECHO, "disabled", "--reason", "too loud")
    assert ran.out == "palyra.echo for everybody: disabled, was no posture\n"
    assert verdict(palyra) == "tool.disabled"
    (setting,) = palyra.json("posture", "list").document["postures"]
    assert (setting["tool"], setting["state"], setting["scope"]) == (ECHO, "disabled", "global")
    assert (setting["reason"], setting["is_expired"]) == ("too loud", False)
    assert setting["set_by"].startswith("operator:")
    assert setting["by_administrator"] is True
    assert setting["set_at_ms"] > 0
    assert palyra("posture", "list").out.splitlines()[1].endswith("  too loud")
    assert palyra.json("posture", "set", ECHO, "ask_each_time", "--reason", "x").document == {
        "tool": ECHO,
        "scope": "global",
        "scope_id": "",
        "before": "disabled",
        "after": "ask_each_time",
        "expires_at_ms": None,
    }
    ran = palyra("posture", "clear", ECHO, "--reason", "peace")
    assert ran.out == "palyra.echo for everybody: no posture, was ask_each_time\n"
    assert verdict(palyra) == "tool.allowlisted"


def test_scopes(palyra: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    palyra("workspaces", "add", str(tmp_path / "project"))
    session = palyra.json("call", ECHO, '{"text":"x"}').document["session_id"]
    for scope, name in (("agent", "demo"), ("workspace", "project"), ("session", session)):
        ran = palyra(
            "posture", "set", ECHO, "disabled", "--scope", scope, "--for", name, "--reason", "x"
        )
        assert ran.out == f"palyra.echo for {scope} {name}: disabled, was no posture\n"
    assert verdict(palyra) == "tool.disabled"
    assert verdict(palyra, "eve") == "tool.allowlisted"
    assert len(palyra.json("posture", "list", "--tool", ECHO).document["postures"]) == 3
    assert palyra.json("posture", "list", "--tool", "palyra.sleep").document["postures"] == []
    assert palyra("posture", "clear", ECHO).status == 8
    assert palyra("posture", "clear", ECHO, "--scope", "agent", "--for", "demo").status == 0
    assert verdict(palyra) == "tool.allowlisted"


def test_one_that_ends_by_itself(palyra: CommandLine) -> None:
    ran = palyra("posture", "set", ECHO, "disabled", "--reason", "x", "--expires", "2h")
    assert ", until 20" in ran.out
    assert "EXPIRED" not in palyra("posture", "list").out
    palyra("posture", "set", ECHO, "disabled", "--reason", "x", "--expires", "1ms")
    assert " EXPIRED 20" in palyra("posture", "list").out
    assert palyra.json("posture", "list").document["postures"][0]["is_expired"] is True
    assert verdict(palyra) == "tool.allowlisted"


@pytest.mark.parametrize(
    ("arguments", "status", "code"),
    [
        pytest.param((), 2, "usage.invalid", id="no-reason"),
        pytest.param(("--reason", " "), 2, "usage.invalid", id="an-empty-reason"),
        pytest.param(("--reason", "x", "--for", "y"), 2, "usage.invalid", id="for-whom"),
        pytest.param(
            ("--reason", "x", "--scope", "agent"), 2, "usage.invalid", id="for-which-agent"
        ),
        pytest.param(
            ("--reason", "x", "--scope", "agent", "--for", "a b"),
            2,
            "principal.invalid",
            id="nobodys-name",
        ),
        pytest.param(
            ("--reason", "x", "--scope", "workspace", "--for", "none"),
            8,
            "workspace.unknown",
            id="an-unknown-workspace",
        ),
        pytest.param(
            ("--reason", "x", "--scope", "session", "--for", "none"),
            8,
            "session.unknown",
            id="an-unknown-session",
        ),
    ],
)
def test_refusals(palyra: CommandLine, arguments: tuple[str, ...], status: int, code: str) -> None:
    ran = palyra.json("posture", "set", ECHO, "disabled", *arguments)
    assert (ran.status, ran.document["error"]["code"]) == (status, code)
    assert palyra.json("posture", "list").document["postures"] == []


def test_a_tool_that_is_misspelt(palyra: CommandLine) -> None:
    for arguments in (
        ("set", "palyra.ecco", "disabled", "--reason", "x"),
        ("list", "--tool", "palyra.ecco"),
    ):
        ran = palyra.json("posture", *arguments)
        assert (ran.status, ran.document["error"]["hint"]) == (8, "did you mean palyra.echo?")
    ran = palyra.json("posture", "clear", "palyra.ecco")
    assert (ran.status, ran.document["error"]["code"]) == (8, "posture.unknown")
    assert palyra.json("posture", "set", ECHO, "off", "--reason", "x").status == 2


def test_the_presets_there_are(palyra: CommandLine) -> None:
    document = palyra.json("posture", "preset").document
    assert [each["preset"] for each in document["presets"]] == list(POSTURE_PRESETS)
    assert "disabled: palyra.fs.write, palyra.fs.apply_patch" in palyra("posture", "preset").out
    assert not palyra.home.exists()


def test_a_preset_sets_one_after_the_other(palyra: CommandLine) -> None:
    ran = palyra("posture", "preset", "read_mostly_research", "--scope", "agent", "--for", "demo")
    assert "palyra.fs.write for agent demo: disabled, was no posture\n" in ran.out
    settings = palyra.json("posture", "list").document["postures"]
    assert {each["tool"]: each["state"] for each in settings} == {
        tool: state.value
        for tool, state in POSTURE_PRESETS["read_mostly_research"].postures.items()
    }
    assert {each["reason"] for each in settings} == {"preset read_mostly_research"}
    document = palyra.json("posture", "preset", "automation_review", "--reason", "x").document
    assert [each["after"] for each in document["set"]] == ["ask_each_time"] * 5
    ran = palyra.json("posture", "preset", "none")
    assert (ran.status, ran.document["error"]["code"]) == (2, "usage.invalid")
    ran = palyra.json(
        "posture", "preset", "automation_review", "--scope", "workspace", "--for", "x"
    )
    assert (ran.status, ran.document["error"]["code"]) == (8, "workspace.unknown")


@pytest.mark.invariant("I6")
def test_a_preset_that_is_refused_half_way_tells_what_was_set(
    palyra: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    ordinary = Operations.set_posture

    async def refusing(self: Operations, setting: object, **options: object) -> object:
        if getattr(setting, "tool", "") == "palyra.fs.write":
            raise NotPermittedError(Code.ACTION_DENIED)
        return await ordinary(self, setting, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Operations, "set_posture", refusing)
    ran = palyra.json("posture", "preset", "automation_review")
    assert (ran.status, ran.document["error"]["code"]) == (3, "action.denied")
    assert "palyra.fs.read for everybody: ask_each_time" in ran.err
    assert "palyra.fs.write" not in ran.err


@pytest.mark.invariant("I12")
def test_a_reason_shows_as_what_it_is(palyra: CommandLine) -> None:
    palyra("posture", "set", ECHO, "disabled", "--reason", "a\x1b[2Jb\u202ec")
    for ran in (palyra("posture", "list"), palyra.json("posture", "list")):
        assert "\x1b" not in ran.out
        assert "\u202e" not in ran.out
    assert palyra.json("posture", "list").document["postures"][0]["reason"] == "a\x1b[2Jb\u202ec"


def test_one_that_is_set_for_others_is_told_with_what_to_type(palyra: CommandLine) -> None:
    for name in ("demo", "eve"):
        palyra(
            "posture", "set", ECHO, "disabled", "--scope", "agent", "--for", name, "--reason", "x"
        )
    error = palyra.json("posture", "clear", ECHO).document["error"]
    assert (error["code"], error["message"], error["hint"]) == (
        "posture.unknown",
        "no posture of palyra.echo is set for everybody",
        "it has one for agent demo (--scope agent --for demo), agent eve (--scope agent --for eve)",
    )
    palyra("posture", "set", "palyra.sleep", "disabled", "--reason", "x")
    ran = palyra.json("posture", "clear", "palyra.sleep", "--scope", "agent", "--for", "demo")
    assert ran.document["error"]["hint"] == "it has one for everybody (no --scope)"
