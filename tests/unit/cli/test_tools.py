# SPDX-License-Identifier: Apache-2.0
import pytest

from palyra.daemon.settings import BUILT_IN_TOOLS
from tests.support.command_line import CommandLine


def test_the_operator_may_call_everything(palyra: CommandLine) -> None:
    ran = palyra.json("tools", "list")
    assert {tool["name"] for tool in ran.document["tools"]} == set(BUILT_IN_TOOLS)
    assert {tool["code"] for tool in ran.document["tools"]} == {"operator.initiated"}


def test_an_agent_is_asked_about_where_it_is_sensitive(palyra: CommandLine) -> None:
    ran = palyra.json("tools", "list", "--agent", "demo")
    assert ran.document["caller"] == "agent:demo"
    assert {tool["sensitive"]: tool["verdict"] for tool in ran.document["tools"]} == {
        True: "needs_approval",
        False: "allow",
    }


def test_the_configuration_decides(palyra: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PALYRA_TOOL_CALL__ALLOWED_TOOLS", "palyra.echo")
    ran = palyra.json("tools", "show", "palyra.sleep", "--agent", "demo")
    assert ran.document["verdict"] == "deny"
    assert ran.document["code"] == "tool.not_allowlisted"
    assert ran.document["policies"] == ["palyra.unlisted"]


def test_for_people(palyra: CommandLine) -> None:
    listed = palyra("tools", "list", "--agent", "demo").out
    assert listed.startswith("TOOL ")
    assert "palyra.fs.write        asks a human  filesystem_write " in listed
    shown = palyra("tools", "show", "palyra.fs.write", "--agent", "demo").out
    assert "  for agent:demo: asks a human, the call is sensitive" in shown
    assert "  hint: an operator can run it themselves" in shown
    assert '"if_exists": {' in shown
    assert "\n  hint: " not in palyra("tools", "show", "palyra.echo").out


def test_a_shown_tool_has_both_schemas(palyra: CommandLine) -> None:
    document = palyra.json("tools", "show", "palyra.echo").document
    assert document["input_schema"]["required"] == ["text"]
    assert document["output_schema"]["required"] == ["echo"]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("palyra.ehco", "did you mean palyra.echo?"),
        ("zzz", "'palyra tools list' shows the catalogue"),
    ],
)
def test_an_unknown_tool(palyra: CommandLine, name: str, hint: str) -> None:
    ran = palyra.json("tools", "show", name)
    assert (ran.status, ran.document["error"]["hint"]) == (8, hint)


def test_nothing_is_created(palyra: CommandLine) -> None:
    palyra("tools", "list")
    palyra("tools", "show", "palyra.echo")
    assert not palyra.home.exists()
