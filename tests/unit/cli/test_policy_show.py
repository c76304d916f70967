# SPDX-License-Identifier: Apache-2.0
import pytest

from palyra.cli.policy_show import differing_files
from palyra.daemon.policy_folder import FolderContent
from palyra.flow.policy.presets import packaged_pack
from palyra.flow.policy.sources import Source
from palyra.flow.policy.vocabulary import schema_text
from tests.support.command_line import CommandLine
from tests.support.own_policies import NO_ECHO, WAIVER, activate, own_policies
from tests.support.policies import pack_of


def test_before_the_first_start(palyra: CommandLine) -> None:
    document = palyra.json("policy", "show").document
    assert document["policy_digest"] == packaged_pack().digest
    assert (document["preset"], document["activated"]) == ("ask", None)
    assert document["sources"] == {"palyra/base.cedar": len(document["policies"])}
    assert document["folder"]["differing"] == []
    assert "the first start puts them into force" in palyra("policy", "show").out
    assert not palyra.home.exists()


def test_who_put_it_into_force_and_what_else_is_kept(palyra: CommandLine) -> None:
    digest = activate(palyra, mine__cedar=WAIVER)
    document = palyra.json("policy", "show").document
    assert (document["policy_digest"], document["is_in_force"]) == (digest, True)
    assert document["activated"]["principal"].startswith("operator:")
    assert document["activated"]["before_digest"] == packaged_pack().digest
    assert document["sources"]["mine.cedar"] == 1
    assert {pack["policy_digest"] for pack in document["packs"]} == {digest, packaged_pack().digest}
    spoken = palyra("policy", "show").out
    assert f"policies {digest}: preset ask, " in spoken
    assert "\n  in force since 20" in spoken
    assert "\nmine.demo-writes " in spoken
    assert f"\n  {packaged_pack().digest} staged 20" in spoken
    assert "Changed in" not in spoken


def test_files_that_are_not_in_force_are_told(palyra: CommandLine) -> None:
    activate(palyra, mine__cedar=WAIVER)
    own_policies(palyra, mine__cedar=NO_ECHO, members__toml='[roles]\nauditor = ["operator:a"]\n')
    folder = palyra.json("policy", "show").document["folder"]
    assert folder["differing"] == ["mine.cedar", "members.toml"]
    spoken = palyra("policy", "show").out
    assert ": mine.cedar, members.toml; not in force until 'palyra policy stage'" in spoken


def test_a_folder_that_others_can_write_to_is_told(palyra: CommandLine) -> None:
    own_policies(palyra, mine__cedar=WAIVER).chmod(0o777)
    ran = palyra("policy", "show")
    assert ran.status == 0
    assert "The folder of policies cannot be used: " in ran.out
    assert f"\n  hint: chmod go-w {palyra.home}/policies\n" in ran.out
    assert palyra.json("policy", "show").document["folder"]["fault"]


def test_spaces_and_comments_between_policies_do_not_count() -> None:
    pack = pack_of(WAIVER + NO_ECHO)
    same = FolderContent(sources=(Source("own.cedar", f"\n{WAIVER}\n\n{NO_ECHO}\n// end"),))
    assert differing_files(same, pack) == ()
    fewer = FolderContent(sources=(Source("own.cedar", WAIVER), Source("x.cedar", NO_ECHO)))
    assert differing_files(fewer, pack) == ("own.cedar", "x.cedar")
    assert differing_files(FolderContent(), pack) == ("own.cedar",)
    assert differing_files(FolderContent(members_toml=b"["), packaged_pack()) == ("members.toml",)


def test_other_policies_than_those_in_force(palyra: CommandLine) -> None:
    digest = activate(palyra, mine__cedar=WAIVER)
    before = packaged_pack().digest
    document = palyra.json("policy", "show", "--digest", before[:8]).document
    assert (document["policy_digest"], document["is_in_force"]) == (before, False)
    assert document["folder"] is None
    spoken = palyra("policy", "show", "--digest", before).out
    assert "\n  not in force, last activated 20" in spoken
    own_policies(palyra, mine__cedar=NO_ECHO)
    staged = palyra.json("policy", "stage").document["policy_digest"]
    assert "\n  never in force\n" in palyra("policy", "show", "--digest", staged).out
    assert palyra.json("policy", "show").document["policy_digest"] == digest
    assert palyra.json("policy", "show", "--digest", "deadbeef").status == 8


def test_one_policy_with_its_text(palyra: CommandLine) -> None:
    activate(palyra, mine__cedar=WAIVER)
    document = palyra.json("policy", "show", "--policy", "mine.demo-writes").document
    assert document["text"] == WAIVER.rstrip("\n")
    assert (document["effect"], document["source"], document["line"]) == ("permit", "mine.cedar", 2)
    spoken = palyra("policy", "show", "--policy", "mine.demo-writes").out
    assert spoken.startswith(
        "permit mine.demo-writes (mine.cedar:2): demo writes notes\n    // Demo"
    )
    ran = palyra.json("policy", "show", "--policy", "mine.demo-write")
    assert (ran.status, ran.document["error"]["hint"]) == (8, "did you mean mine.demo-writes?")
    assert palyra.json("policy", "show", "--policy", "zzz").document["error"]["code"] == (
        "policy.unknown"
    )


@pytest.mark.invariant("I12")
def test_the_text_of_a_policy_cannot_pass_for_lines_of_ours(palyra: CommandLine) -> None:
    hostile = WAIVER.replace("// Demo keeps notes.", "// a\u2800b\n//\n// forbid all")
    activate(palyra, mine__cedar=hostile)
    spoken = palyra("policy", "show", "--policy", "mine.demo-writes").out
    assert "\u2800" not in spoken
    assert "\\u2800" in spoken
    assert all(line.startswith("    ") for line in spoken.splitlines()[1:])


def test_actions_and_schema(palyra: CommandLine) -> None:
    document = palyra.json("policy", "show", "--actions").document
    by_name = {each["action"]: each["families"] for each in document["actions"]}
    assert by_name["vault.get"] == ["sensitive", "vault"]
    assert "vault" not in by_name
    assert "vault" in document["families"]
    assert "\nvault.get " in palyra("policy", "show", "--actions").out
    assert palyra("policy", "show", "--schema").out == schema_text()
    assert palyra.json("policy", "show", "--schema").document["schema"] == schema_text()
    assert palyra("policy", "show", "--schema", "--actions").status == 2
