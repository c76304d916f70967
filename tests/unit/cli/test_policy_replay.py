# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from palyra.flow.policy.presets import packaged_pack
from tests.support.command_line import CommandLine
from tests.support.own_policies import (
    EXAMPLES,
    NO_ECHO,
    WAIVER,
    activate,
    called,
    own_policies,
    write_policies,
)

ECHO = ("palyra.echo", '{"text":"x"}', "--agent", "demo")


def test_every_changed_decision_is_listed(palyra: CommandLine, tmp_path: Path) -> None:
    calls = [called(palyra, *ECHO) for _ in range(25)]
    folder = write_policies(tmp_path / "some", a__cedar=NO_ECHO)
    ran = palyra("policy", "replay", "--policies", str(folder), "--fail-on-widening")
    assert ran.status == 0
    assert "25 decided again, 0 less strict, 25 stricter, 0 on other grounds\n" in ran.out
    assert all(f" call {call_id} of palyra.echo " in ran.out for call_id in calls)
    document = palyra.json("policy", "replay", "--policies", str(folder)).document
    assert (document["in_force"], document["narrowing"]) == (packaged_pack().digest, 25)
    assert [change["call_id"] for change in document["changes"]] == calls
    assert palyra.json("policy", "show").document["packs"][0]["policy_digest"] == (
        packaged_pack().digest
    )


def test_what_is_less_strict_can_be_a_failure(palyra: CommandLine, tmp_path: Path) -> None:
    activate(palyra, mine__cedar=NO_ECHO)
    denied = called(palyra, *ECHO)
    folder = write_policies(tmp_path / "some")
    arguments = ("policy", "replay", "--policies", str(folder))
    assert palyra(*arguments).status == 0
    ran = palyra(*arguments, "--fail-on-widening")
    assert ran.status == 10
    assert f" call {denied} of palyra.echo by agent:demo: denied (policy.forbidden) -> " in ran.out
    ran = palyra.json(*arguments, "--fail-on-widening")
    assert (ran.status, ran.document["widening"]) == (10, 1)
    assert ran.document["changes"][0]["direction"] == "widening"


def test_a_question_that_is_waived_counts_as_less_strict(
    palyra: CommandLine, tmp_path: Path
) -> None:
    (tmp_path / "project").mkdir()
    palyra("workspaces", "add", str(tmp_path / "project"))
    called(palyra, "palyra.fs.write", '{"path":"a","content":"b"}', "--agent", "demo")
    own_policies(palyra, mine__cedar=WAIVER)
    assert palyra("policy", "replay", "--fail-on-widening").status == 10


def test_the_own_folder_is_the_usual_one(palyra: CommandLine) -> None:
    activate(palyra, mine__cedar=NO_ECHO)
    called(palyra, *ECHO)
    ran = palyra("policy", "replay")
    assert ", which are in force\n" in ran.out
    assert " 0 less strict, 0 stricter, " in ran.out


def test_how_far_back(palyra: CommandLine) -> None:
    own_policies(palyra, mine__cedar=NO_ECHO)
    called(palyra, *ECHO)
    assert palyra.json("policy", "replay", "--since", "1ms").document["examined"] == 0
    assert palyra.json("policy", "replay", "--since", "1h").document["examined"] == 2


def test_a_home_that_was_never_used_has_no_calls(palyra: CommandLine) -> None:
    assert palyra.json("policy", "replay").document["examined"] == 0
    assert not palyra.home.exists()


@pytest.mark.parametrize("name", ["none", "file"])
def test_what_is_no_folder(palyra: CommandLine, tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    ran = palyra.json("policy", "replay", "--policies", str(tmp_path / name))
    assert (ran.status, ran.document["error"]["code"]) == (2, "usage.invalid")


def test_policies_with_a_fault(palyra: CommandLine, tmp_path: Path) -> None:
    folder = write_policies(tmp_path / "some", a__cedar="permit")
    ran = palyra.json("policy", "replay", "--policies", str(folder))
    assert (ran.status, ran.document["error"]["code"]) == (2, "policy.invalid")


def test_the_same_folder_is_the_same_pack_wherever_it_lies_and_however_it_is_typed(
    palyra: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {"mine__cedar": WAIVER, "mine__toml": EXAMPLES, "other__cedar": NO_ECHO}
    own_policies(palyra, **files)
    staged = palyra.json("policy", "stage").document["policy_digest"]
    write_policies(tmp_path / "some", **files)
    table = tmp_path / "table.toml"
    table.write_text(EXAMPLES)
    monkeypatch.chdir(tmp_path)
    for folder in ("some", "./some/", str(tmp_path / "some"), "some/../some"):
        ran = palyra.json("policy", "replay", "--policies", folder)
        assert ran.document["policy_digest"] == staged
        ran = palyra.json("policy", "test", str(table), "--policies", folder)
        assert ran.document["policy_digest"] == staged


def test_a_fault_is_told_with_the_path_that_was_typed(
    palyra: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_policies(tmp_path / "some", mine__cedar="permit", members__toml="[rols]\n")
    monkeypatch.chdir(tmp_path)
    told = palyra("policy", "replay", "--policies", "./some").err
    assert "\n./some/members.toml:1:1: there is no table rols" in f"\n{told}"
    assert "\n./some/mine.cedar:1:" in f"\n{told}"
