# SPDX-License-Identifier: Apache-2.0
import sqlite3
from pathlib import Path

import pytest

from palyra.flow.policy.presets import packaged_pack
from palyra.store.sqlite.ledger import DATABASE_NAME
from tests.support.command_line import CommandLine
from tests.support.own_policies import EXAMPLES, NO_ECHO, WAIVER, activate, called, own_policies


def test_what_would_change_is_told_and_nothing_is_in_force(palyra: CommandLine) -> None:
    own_policies(palyra, mine__cedar=NO_ECHO)
    call_id = called(palyra, "palyra.echo", '{"text":"x"}', "--agent", "demo")
    ran = palyra("policy", "stage")
    lines = ran.out.splitlines()
    digest = lines[0].removeprefix("staged ")
    assert lines[2:4] == [
        f"against {packaged_pack().digest[:12]}, which is in force:",
        "  added: forbid mine.no-echo (mine.cedar:1): echo is out of fashion",
    ]
    assert lines[4].endswith(": 2 decided again, 0 less strict, 1 stricter, 0 on other grounds")
    assert f"call {call_id} of palyra.echo by agent:demo: allowed " in lines[5]
    assert lines[-1].endswith(f"palyra policy activate {digest[:12]}")
    assert ran.err == "palyra: without an example and a counter-example: mine.no-echo\n"
    assert palyra.json("policy", "show").document["policy_digest"] == packaged_pack().digest


def test_for_programs(palyra: CommandLine) -> None:
    own_policies(palyra, mine__cedar=WAIVER, mine__toml=EXAMPLES)
    document = palyra.json("policy", "stage").document
    assert document["in_force"] == packaged_pack().digest
    assert (document["examples"], document["unexampled"]) == (2, [])
    (change,) = document["differences"]["policies"]
    assert (change["change"], change["policy_id"], change["is_widening"]) == (
        "added",
        "mine.demo-writes",
        True,
    )
    assert document["replay"]["changes"] == []


def test_on_the_first_day_there_are_no_past_calls(palyra: CommandLine) -> None:
    document = palyra.json("policy", "stage").document
    assert (document["is_in_force"], document["replay"]["examined"]) == (True, 0)
    lines = palyra("policy", "stage").out.splitlines()
    assert lines[3] == "  nothing differs"
    assert lines[-1] == "It is in force already."


def test_another_preset(palyra: CommandLine) -> None:
    document = palyra.json("policy", "stage", "--preset", "boxed").document
    assert document["policy_digest"] == packaged_pack("boxed").digest
    ran = palyra.json("policy", "stage", "--preset", "boxd")
    assert (ran.status, ran.document["error"]["code"]) == (2, "usage.invalid")
    assert "did you mean boxed?" in ran.document["error"]["message"]


@pytest.mark.invariant("I1")
def test_policies_with_a_fault_are_not_staged(palyra: CommandLine) -> None:
    own_policies(palyra, mine__cedar="permit (principal, action, resource);")
    ran = palyra("policy", "stage")
    assert (ran.status, ran.out) == (2, "")
    assert "mine.cedar:1:1: the policy has no @id" in ran.err
    assert len(palyra.json("policy", "show").document["packs"]) == 1


@pytest.mark.invariant("I10")
def test_policies_by_way_of_a_link_are_not_staged(palyra: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    assert palyra("workspaces", "add", str(tmp_path / "project")).status == 0
    (palyra.home / "policies").rmdir()
    (palyra.home / "policies").symlink_to(tmp_path / "project")
    ran = palyra.json("policy", "stage")
    assert (ran.status, ran.document["error"]["code"]) == (2, "policy.source_refused")


@pytest.mark.invariant("I1")
def test_there_is_a_way_out_of_policies_that_cannot_be_loaded(palyra: CommandLine) -> None:
    digest = activate(palyra, mine__cedar=NO_ECHO)
    database = sqlite3.connect(palyra.home / DATABASE_NAME)
    database.execute("UPDATE packs SET body = x'00' WHERE digest = ?", (digest,))
    database.commit()
    database.close()
    own_policies(palyra, mine__cedar=WAIVER)
    ran = palyra("policy", "stage")
    assert ran.status == 0
    assert "is not what was staged; compared with the packaged policies" in ran.err
    staged = ran.out.splitlines()[0].removeprefix("staged ")
    assert palyra("policy", "activate", staged).status == 0
    assert palyra.json("policy", "show").document["policy_digest"] == staged


def test_the_command_it_ends_with_can_be_typed_as_it_is(palyra: CommandLine) -> None:
    own_policies(palyra, mine__cedar=WAIVER, mine__toml=EXAMPLES)
    lines = palyra("policy", "stage").out.splitlines()
    assert lines[1].endswith(" policies, 2 examples held")
    words = lines[-1].partition(": palyra ")[2].split()
    assert palyra(*words).status == 0
    assert "It is in force already." in palyra("policy", "stage").out


def test_a_time_that_is_none_is_told_with_times_that_are(palyra: CommandLine) -> None:
    for command in ("stage", "replay", "suggest"):
        message = palyra.json("policy", command, "--since", "monday").document["error"]["message"]
        assert message.endswith("it is not a duration such as 12h or 7d")
