# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from tests.support.command_line import CommandLine
from tests.support.own_policies import EXAMPLES, NO_ECHO, WAIVER, activate, write_policies

TABLE = """[[case]]
name = "echo is free"
principal = "agent:demo"
resource = "tool:palyra.echo"
expect = "allow"

[[case]]
name = "writing is asked about"
principal = "agent:demo"
resource = "tool:palyra.fs.write"
expect = "needs_approval"
code = "tool.sensitive"
"""


@pytest.fixture
def table(tmp_path: Path) -> str:
    path = tmp_path / "table.toml"
    path.write_text(TABLE)
    return str(path)


def test_everything_comes_out_as_expected(palyra: CommandLine, table: str) -> None:
    ran = palyra("policy", "test", table)
    assert (ran.status, ran.err) == (0, "")
    assert ran.out.startswith("ok, 2 cases, by policies ")
    assert palyra.json("policy", "test", table).document["failed"] == []
    assert not palyra.home.exists()


def test_what_comes_out_otherwise_is_told(palyra: CommandLine, table: str) -> None:
    digest = activate(palyra, mine__cedar=NO_ECHO)
    ran = palyra("policy", "test", table)
    assert ran.status == 10
    assert ran.out == (
        f"1 of 2 cases came out otherwise, by policies {digest[:12]}\n"
        f"  {table}: case 1 'echo is free': expected allow, got deny (policy.forbidden): "
        "echo is out of fashion\n"
    )
    ran = palyra.json("policy", "test", table)
    assert (ran.status, ran.document["ok"], ran.document["cases"]) == (10, False, 2)
    (failed,) = ran.document["failed"]
    assert (failed["number"], failed["verdict"], failed["policies"]) == (
        1,
        "deny",
        ["mine.no-echo"],
    )


def test_policies_that_are_not_in_force(palyra: CommandLine, table: str, tmp_path: Path) -> None:
    folder = write_policies(tmp_path / "some", a__cedar=NO_ECHO)
    assert palyra("policy", "test", table, "--policies", str(folder)).status == 10
    assert palyra("policy", "test", table).status == 0
    write_policies(folder, a__cedar="permit")
    ran = palyra.json("policy", "test", table, "--policies", str(folder))
    assert (ran.status, ran.document["error"]["code"]) == (2, "policy.invalid")
    ran = palyra.json("policy", "test", table, "--policies", table)
    assert (ran.status, ran.document["error"]["code"]) == (2, "usage.invalid")


def test_configuration_and_postures_count(
    palyra: CommandLine, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    palyra("posture", "set", "palyra.echo", "disabled", "--reason", "x")
    (failed,) = palyra.json("policy", "test", table).document["failed"]
    assert failed["code"] == "tool.disabled"
    palyra("posture", "clear", "palyra.echo")
    monkeypatch.setenv("PALYRA_TOOL_CALL__ALLOW_SENSITIVE_TOOLS", "true")
    (failed,) = palyra.json("policy", "test", table).document["failed"]
    assert failed["number"] == 2


def test_a_table_that_is_wrong(palyra: CommandLine, table: str, tmp_path: Path) -> None:
    Path(table).write_text(TABLE.replace("expect", "expct"))
    ran = palyra("policy", "test", table)
    assert (ran.status, ran.out) == (2, "")
    assert f"{table}: case 1 'echo is free': expct: there is no such key; did you mean" in ran.err
    assert "  hint: correct the table of cases\n" in ran.err
    ran = palyra.json("policy", "test", str(tmp_path / "none.toml"))
    assert (ran.status, ran.document["error"]["code"]) == (2, "usage.invalid")


def test_a_tool_that_nobody_knows_is_told(palyra: CommandLine, table: str) -> None:
    Path(table).write_text(TABLE.replace("palyra.echo", "palyra.ecco"))
    ran = palyra("policy", "test", table)
    assert ran.status == 10
    assert "palyra: palyra.ecco is no built-in tool" in ran.err
    assert palyra.json("policy", "test", table).document["unknown_tools"] == ["palyra.ecco"]


def test_the_examples_of_policies_are_such_a_table(palyra: CommandLine, tmp_path: Path) -> None:
    activate(palyra, mine__cedar=WAIVER)
    path = tmp_path / "examples.toml"
    path.write_text(EXAMPLES)
    assert palyra("policy", "test", str(path)).status == 0


def test_one_case_is_no_cases(palyra: CommandLine, table: str) -> None:
    one = TABLE.partition("\n\n")[0]
    Path(table).write_text(one)
    assert palyra("policy", "test", table).out.startswith("ok, 1 case, by policies ")
    Path(table).write_text(one.replace("allow", "deny"))
    assert palyra("policy", "test", table).out.startswith("1 of 1 case came out otherwise, ")
