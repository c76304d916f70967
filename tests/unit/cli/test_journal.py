# SPDX-License-Identifier: Apache-2.0
import json
import shutil
from pathlib import Path

import apsw
import pytest

from palyra.cli.journal import _report_reply
from palyra.core.errors import Code, StoreError
from palyra.flow.seal import verify
from palyra.flow.seal.verify import Problem, Report
from tests.support.append_only import lifted
from tests.support.command_line import CommandLine


@pytest.fixture(autouse=True)
def call(palyra: CommandLine) -> str:
    """Make one call, so that there is a journal."""
    document = palyra.json("call", "palyra.echo", '{"text":"\u202e"}', "--agent", "demo").document
    return str(document["call_id"])


def tamper(palyra: CommandLine, statement: str) -> None:
    connection = apsw.Connection(str(palyra.home / "palyra.db"))
    with lifted(connection):
        connection.execute(statement)
    connection.close()


def test_tail(palyra: CommandLine, call: str) -> None:
    entries = palyra.json("journal", "tail").document["entries"]
    assert [entry["index"] for entry in entries] == list(range(1, len(entries) + 1))
    assert (entries[-1]["kind"], entries[-1]["subject"]) == ("call.ended", call)
    assert palyra.json("journal", "tail", "-n", "1").document["entries"] == entries[-1:]
    spoken = palyra("journal", "tail", "-n", "1").out.splitlines()
    assert spoken[0].split() == ["ENTRY", "TIME", "KIND", "ABOUT"]
    assert spoken[1].split()[2:] == ["call.ended", call]


def test_show(palyra: CommandLine) -> None:
    document = palyra.json("journal", "show", "1").document
    assert document["kind"] == "log.opened"
    assert document["body"]["log_id"] == document["subject"]
    spoken = palyra("journal", "show", "1").out
    assert spoken.startswith(f"entry 1: log.opened about {document['subject']}\n")
    assert f"  link: {document['link']}\n" in spoken


def test_show_of_no_entry(palyra: CommandLine) -> None:
    ran = palyra.json("journal", "show", "999")
    assert (ran.status, ran.document["error"]["code"]) == (8, "entry.unknown")


def test_verify(palyra: CommandLine) -> None:
    document = palyra.json("journal", "verify").document
    assert document["ok"]
    assert document["attestations"] == 1
    entries = document["entries"]
    spoken = palyra("journal", "verify")
    assert spoken.out == f"ok, {entries} entries, 1 attestation, head {entries} kept\n"
    assert spoken.err == ""


def test_verify_names_the_first_bad_entry(palyra: CommandLine) -> None:
    tamper(palyra, "UPDATE journal SET recorded_at_ms = 1 WHERE seq = 3")
    ran = palyra.json("journal", "verify", "--quick")
    assert (ran.status, ran.document["ok"], ran.document["first_bad_entry"]) == (10, False, 3)
    spoken = palyra("journal", "verify")
    assert spoken.status == 10
    assert spoken.out.startswith("broken at entry 3: ")


def test_verify_against_a_key(palyra: CommandLine, tmp_path: Path) -> None:
    kept = tmp_path / "kept.pub"
    kept.write_bytes((palyra.home / "keys" / "journal.pub").read_bytes())
    assert palyra("journal", "verify", "--key", str(kept)).status == 0
    palyra("--home", str(tmp_path / "other"), "call", "palyra.echo", '{"text":"a"}')
    replaced = palyra.json(
        "--home", str(tmp_path / "other"), "journal", "verify", "--key", str(kept)
    )
    assert (replaced.status, replaced.document["first_bad_entry"]) == (10, 1)


def test_verify_without_any_key_takes_the_journals_own(palyra: CommandLine) -> None:
    (palyra.home / "keys" / "journal.pub").unlink()
    assert palyra("journal", "verify").status == 0


@pytest.mark.parametrize(("code", "status"), [(Code.STORE_CORRUPT, 10), (Code.STORE_BUSY, 4)])
def test_a_store_that_cannot_be_read(
    palyra: CommandLine, monkeypatch: pytest.MonkeyPatch, code: Code, status: int
) -> None:
    def refuse(*_: object, **__: object) -> Report:
        raise StoreError(code)

    monkeypatch.setattr(verify, "verify_journal", refuse)
    ran = palyra.json("journal", "verify")
    assert (ran.status, ran.document["error"]["code"]) == (status, code)


def test_a_report_of_many_problems_is_cut_visibly() -> None:
    problems = tuple(Problem(index=n, code="journal.broken", sentence="bad") for n in range(1, 14))
    report = Report(entries=20, attestations=0, heads=0, kept_index=None, problems=problems)
    text = str(_report_reply(report).text[0]).splitlines()
    assert text[0] == "broken at entry 1: bad"
    assert len(text) == 12
    assert text[-2] == "  and 3 more"


def test_a_report_without_a_head_says_so() -> None:
    report = Report(entries=0, attestations=0, heads=0, kept_index=None, problems=())
    assert _report_reply(report).text == ("ok, 0 entries, 0 attestations, no head kept",)


def test_export_as_lines(palyra: CommandLine) -> None:
    lines = palyra("journal", "export").out.splitlines()
    entries = palyra.json("journal", "tail").document["entries"]
    assert [_without_head(json.loads(each)) for each in lines] == entries
    part = palyra("journal", "export", "--from", "2", "--to", "3").out.splitlines()
    assert part == lines[1:3]


@pytest.mark.parametrize("arguments", [("--json",), ("--format", "json")])
def test_export_as_one_document(palyra: CommandLine, arguments: tuple[str, ...]) -> None:
    entries = palyra.json("journal", "tail").document["entries"]
    exported = palyra("journal", "export", *arguments).document
    assert [_without_head(entry) for entry in exported] == entries
    assert palyra("journal", "export", "--from", "999", *arguments).document == []


def test_an_export_carries_the_signed_head_of_every_commit(palyra: CommandLine) -> None:
    exported = palyra("journal", "export", "--json").document
    heads = [entry["head"]["head"] for entry in exported if "head" in entry]
    assert [head["index"] for head in heads] == [
        entry["index"] for entry in exported if "head" in entry
    ]
    assert [head["first"] for head in heads] == [1, *(head["index"] + 1 for head in heads[:-1])]
    assert heads[-1]["link"] == exported[-1]["link"]


def test_verify_compares_with_what_was_held(palyra: CommandLine, tmp_path: Path) -> None:
    call_id = palyra.json("call", "palyra.echo", '{"text": "x"}').document["call_id"]
    held = tmp_path / "attestation.json"
    assert palyra("attest", "show", call_id, "-o", str(held)).status == 0
    assert palyra("journal", "verify", "--holds", str(held)).status == 0
    kept = tmp_path / "journal.head"
    kept.write_bytes((palyra.home / "journal.head").read_bytes())
    assert palyra("journal", "verify", "--holds", str(kept)).status == 0
    other = tmp_path / "other"
    other.write_text("{}")
    ran = palyra.json("journal", "verify", "--holds", str(other))
    assert (ran.status, ran.document["error"]["code"]) == (2, "input.invalid")


def test_a_journal_that_does_not_reach_what_was_held_is_told(
    palyra: CommandLine, tmp_path: Path
) -> None:
    older = tmp_path / "older"
    shutil.copytree(palyra.home, older)
    call_id = palyra.json("call", "palyra.echo", '{"text": "x"}').document["call_id"]
    held = tmp_path / "attestation.json"
    palyra("attest", "show", call_id, "-o", str(held))
    shutil.rmtree(palyra.home)
    shutil.copytree(older, palyra.home)
    assert palyra("journal", "verify").status == 0  # a genuine older state, by itself
    ran = palyra.json("journal", "verify", "--holds", str(held))
    assert ran.status == 10
    assert "were cut off" in ran.document["problems"][0]["sentence"]


def _without_head(entry: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in entry.items() if name != "head"}


def test_export_to_a_file(palyra: CommandLine, tmp_path: Path) -> None:
    size = len(palyra.json("journal", "tail").document["entries"])
    path = tmp_path / "export"
    told = palyra.json("journal", "export", "--format", "json", "-o", str(path)).document
    assert told == {"file": str(path), "format": "json", "entries": size}
    assert len(json.loads(path.read_bytes())) == size
    spoken = palyra("journal", "export", "-o", str(path)).out
    assert spoken == f"wrote {size} entries to {path}\n"
    assert len(path.read_bytes().splitlines()) == size


def test_lines_are_not_one_document(palyra: CommandLine) -> None:
    assert palyra.json("journal", "export", "--format", "ndjson").status == 2


def test_a_damaged_body_is_shown_as_bytes(palyra: CommandLine) -> None:
    tamper(palyra, "UPDATE journal SET body = x'7bff' WHERE seq = 3")
    assert palyra.json("journal", "show", "3").document["unreadable_body_hex"] == "7bff"
    assert "b'{\\xff'" in palyra("journal", "show", "3").out
    assert len(palyra("journal", "export").out.splitlines()) > 3


@pytest.mark.parametrize("verb", [("tail",), ("show", "1"), ("verify",), ("export",)])
def test_without_a_journal(palyra: CommandLine, tmp_path: Path, verb: tuple[str, ...]) -> None:
    ran = palyra("--home", str(tmp_path / "none"), "journal", *verb)
    assert (ran.status, ran.out) == (4, "")
    assert "code: store.unreachable" in ran.err
    assert not (tmp_path / "none").exists()
