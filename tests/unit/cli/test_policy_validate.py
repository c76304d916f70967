# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from tests.support.command_line import CommandLine
from tests.support.own_policies import EXAMPLES, NO_ECHO, WAIVER, own_policies, write_policies


def test_nothing_is_in_order(palyra: CommandLine) -> None:
    assert palyra("policy", "validate").out == "ok, 0 policies, 0 examples held\n"
    assert not palyra.home.exists()


def test_the_folder_of_the_home(palyra: CommandLine) -> None:
    own_policies(palyra, mine__cedar=WAIVER, mine__toml=EXAMPLES, other__cedar=NO_ECHO)
    ran = palyra("policy", "validate")
    assert ran.out == "ok, 2 policies, 2 examples held\n"
    assert ran.err == "palyra: without an example and a counter-example: mine.no-echo\n"
    assert palyra.json("policy", "validate").document == {
        "ok": True,
        "preset": "ask",
        "policies": 2,
        "examples": 2,
        "unexampled": ["mine.no-echo"],
        "notes": [],
    }


def test_a_long_list_of_what_has_no_example_is_cut(palyra: CommandLine) -> None:
    many = "".join(NO_ECHO.replace("mine.no-echo", f"a.{number}") for number in range(25))
    own_policies(palyra, mine__cedar=many)
    assert palyra("policy", "validate").err.endswith(", a.19 and 5 more\n")
    assert len(palyra.json("policy", "validate").document["unexampled"]) == 25


def test_files_and_folders_that_are_named(palyra: CommandLine, tmp_path: Path) -> None:
    folder = write_policies(tmp_path / "some", a__cedar=WAIVER, b__CEDAR="")
    other = write_policies(tmp_path / "other", b__cedar=NO_ECHO) / "b.cedar"
    ran = palyra("policy", "validate", str(folder), str(other))
    assert ran.out == "ok, 2 policies, 0 examples held\n"
    assert "palyra: b.CEDAR is not read: " in ran.err


def test_every_fault_is_told_with_its_place(palyra: CommandLine) -> None:
    own_policies(
        palyra,
        a__cedar="permit (principal, action, resource",
        b__cedar=NO_ECHO.replace("tool.execute", "tool.exekute"),
        members__toml='[roles]\napprover = ["nobody"]\n',
        b__toml='[[case]]\nname = "x"\n',
    )
    ran = palyra("policy", "validate")
    assert (ran.status, ran.out) == (2, "")
    lines = ran.err.splitlines()
    assert lines[0] == "a.cedar:1:1: the last policy is not finished with ;"
    assert lines[1].startswith("b.cedar:3:")
    assert 'did you mean Action::"tool.execute"?' in lines[1]
    assert lines[2].startswith("members.toml:2:1: ")
    assert lines[3].startswith("b.toml: case 1 'x': ")
    assert lines[-1] == "  code: policy.invalid"
    error = palyra.json("policy", "validate").document["error"]
    assert error["code"] == "policy.invalid"
    assert error["details"]["faults"] == lines[: len(error["details"]["faults"])]
    assert f"palyra: {len(error['details']['faults'])} faults" in lines


def test_an_example_that_does_not_hold(palyra: CommandLine) -> None:
    own_policies(palyra, mine__cedar=WAIVER, mine__toml=EXAMPLES.replace("agent:demo", "agent:x"))
    ran = palyra("policy", "validate")
    assert ran.status == 10
    assert ran.err.startswith("demo writes: mine.demo-writes does not apply\npalyra: 1 fault\n")
    assert palyra.json("policy", "validate").document["error"]["code"] == "policy.example_failed"


@pytest.mark.parametrize("mode", [0o777, 0o720])
def test_a_folder_that_others_can_write_to_is_refused(palyra: CommandLine, mode: int) -> None:
    own_policies(palyra, mine__cedar=WAIVER).chmod(mode)
    ran = palyra.json("policy", "validate")
    assert (ran.status, ran.document["error"]["code"]) == (2, "policy.source_refused")


@pytest.mark.invariant("I12")
def test_a_fault_that_quotes_hostile_text_stays_on_its_line(
    palyra: CommandLine, tmp_path: Path
) -> None:
    text = NO_ECHO.replace("tool.execute", "a\\n\x1b[2J\u202eb")
    folder = write_policies(tmp_path / "some", a__cedar=text)
    ran = palyra("policy", "validate", str(folder))
    assert ran.status == 2
    assert "\x1b" not in ran.err
    assert "\u202e" not in ran.err


def test_what_is_no_source_of_policies(palyra: CommandLine, tmp_path: Path) -> None:
    assert palyra.json("policy", "validate", str(tmp_path / "none")).document["error"]["code"] == (
        "usage.invalid"
    )
