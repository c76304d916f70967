# SPDX-License-Identifier: Apache-2.0
from palyra.flow.policy.presets import PRESETS, packaged_pack
from tests.support.command_line import CommandLine
from tests.support.own_policies import NO_ECHO, WAIVER, activate, own_policies


def test_the_presets_there_are(palyra: CommandLine) -> None:
    document = palyra.json("policy", "preset").document
    assert document["in_force"] == "ask"
    assert [each["preset"] for each in document["presets"]] == list(PRESETS)
    assert "\nboxed   -         What runs confined" in palyra("policy", "preset").out
    assert not palyra.home.exists()


def test_another_preset_keeps_what_is_in_force_and_reads_no_file(palyra: CommandLine) -> None:
    before = activate(palyra, mine__cedar=WAIVER)
    own_policies(palyra, mine__cedar=NO_ECHO)
    document = palyra.json("policy", "preset", "boxed").document
    assert (document["before"], document["is_changed"]) == (before, True)
    shown = palyra.json("policy", "show").document
    assert (shown["preset"], shown["policy_digest"]) == ("boxed", document["policy_digest"])
    assert shown["sources"]["mine.cedar"] == 1
    assert shown["policies"][-1]["policy_id"] == "mine.demo-writes"
    assert shown["policies"][-1]["line"] == 2
    assert shown["activated"]["reason"] == "preset boxed"
    back = palyra("policy", "preset", "ask").out
    assert f"preset ask is in force: policies {before}\n" in back
    assert "  preset boxed becomes ask\n" in back


def test_the_preset_in_force_is_left_alone(palyra: CommandLine) -> None:
    palyra("call", "palyra.echo", '{"text":"x"}')
    last = palyra.json("journal", "tail").document["entries"][-1]
    assert palyra("policy", "preset", "ask").out == "preset ask is in force already\n"
    assert palyra.json("journal", "tail").document["entries"][-1] == last
    assert palyra.json("policy", "preset", "ask").document["is_changed"] is False
    assert len(palyra.json("policy", "show").document["packs"]) == 1


def test_there_is_no_such_preset(palyra: CommandLine) -> None:
    ran = palyra.json("policy", "preset", "asc")
    assert (ran.status, ran.document["error"]["code"]) == (2, "usage.invalid")
    assert not palyra.home.exists()


def test_of_a_home_that_was_never_used(palyra: CommandLine) -> None:
    assert palyra.json("policy", "preset", "boxed").document["policy_digest"] == (
        packaged_pack("boxed").digest
    )
