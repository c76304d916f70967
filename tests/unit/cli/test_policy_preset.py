# SPDX-License-Identifier: Apache-2.0
import sqlite3
from contextlib import closing
from typing import NoReturn

import pytest

from palyra.cli import policy_preset
from palyra.core.errors import Code, IntegrityError
from palyra.flow.policy.presets import PRESETS, packaged_pack
from palyra.store.sqlite.ledger import DATABASE_NAME
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


def test_why_is_on_record_and_past_calls_are_told_before(palyra: CommandLine) -> None:
    palyra("call", "palyra.echo", '{"text":"x"}', "--agent", "demo")
    ran = palyra("policy", "preset", "boxed", "--reason", "we run boxes")
    assert ran.err.startswith("past calls since 20")
    assert ran.err.endswith(": 1 decided again, 0 less strict, 0 stricter, 0 on other grounds\n")
    assert palyra.json("policy", "show").document["activated"]["reason"] == "we run boxes"
    ran = palyra.json("policy", "preset", "ask")
    assert ran.document["replay"]["examined"] == 1
    assert palyra("policy", "preset", "ask").err == ""
    assert palyra("policy", "preset", "--reason", "x").status == 2


@pytest.mark.invariant("I1")
def test_nothing_changes_where_past_calls_cannot_be_told(
    palyra: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = activate(palyra, mine__cedar=WAIVER)

    def fail(*_: object, **__: object) -> NoReturn:
        raise IntegrityError(Code.STORE_CORRUPT, "it is damaged")

    monkeypatch.setattr(policy_preset, "reported", fail)
    assert palyra("policy", "preset", "boxed").status != 0
    assert palyra.json("policy", "show").document["policy_digest"] == before


@pytest.mark.invariant("I1")
def test_policies_that_cannot_be_read_are_told_with_the_way_out(palyra: CommandLine) -> None:
    digest = activate(palyra, mine__cedar=WAIVER)
    with closing(sqlite3.connect(palyra.home / DATABASE_NAME)) as database, database:
        database.execute("UPDATE packs SET body = x'00' WHERE digest = ?", (digest,))
    for arguments in (("preset",), ("preset", "boxed"), ("show",)):
        ran = palyra("policy", *arguments)
        assert ran.status == palyra.json("policy", *arguments).status != 0
        assert ran.err.startswith("palyra: the policies in force cannot be read, so no call")
        assert "  hint: 'palyra policy stage' checks " in ran.err
        assert "'palyra policy activate DIGEST' puts it into force\n" in ran.err
        assert ran.err.endswith("  code: store.corrupt\n")
    kept = palyra.json("policy", "show", "--digest", packaged_pack().digest).document
    assert kept["is_in_force"] is False
