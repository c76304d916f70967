# SPDX-License-Identifier: Apache-2.0
"""What a report says; that all tampering is found is in ``tests/attacks``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from palyra.core.attestation import (
    STATEMENT_TYPE,
    Anchor,
    Attestation,
    expected_execution_sha256,
    signed_bytes,
)
from palyra.core.canonical import canonical_record
from palyra.core.chain import GENESIS, Head, SignedHead
from palyra.core.digest import content_sha256
from palyra.core.errors import Code
from palyra.core.events import CallEnded
from palyra.core.ids import LogId
from palyra.core.lifecycle import CallState
from palyra.core.result import call_result, ending_of
from palyra.core.transitions import Note
from palyra.flow.seal.signatures import PublicKey
from palyra.flow.seal.verify import Problem, Report, verify_journal
from palyra.store.head_file import HeadFile
from palyra.store.sqlite.ledger import HEAD_NAME
from tests.support.journals import Copy, Original, make_home, verify_home
from tests.support.samples import FORBID, PROPOSAL, STATEMENT
from tests.support.store import (
    KEY,
    OTHER_KEY,
    admit,
    call_id,
    decided,
    note,
    open_archive,
    open_ledger,
    opening,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from palyra.trust.signing_key import SigningKey

pytestmark = pytest.mark.invariant("I8")


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Original:
    folder = tmp_path_factory.mktemp("verify")
    return Original.of(make_home(folder), at=folder / "original")


def problem(index: int, sentence: str) -> Problem:
    return Problem(index=index, code=Code.JOURNAL_BROKEN.value, sentence=sentence)


def found(original: Original, at: Path, deed: Callable[[Copy], object]) -> list[Problem]:
    with original.tampered(at / "copy") as copy:
        deed(copy)
        return list(copy.verify().problems)


def test_a_sound_journal_is_counted(original: Original) -> None:
    heads = sum(row.head is not None for row in original.rows)
    attested = sum(row.kind in {"call.ended", "call.interrupted"} for row in original.rows)
    assert verify_home(original.home, key=original.key) == Report(
        entries=original.last,
        attestations=attested,
        heads=heads,
        kept_index=original.last,
        problems=(),
    )


def test_a_quick_look_leaves_out_the_bodies(original: Original, tmp_path: Path) -> None:
    with original.tampered(tmp_path / "copy") as copy:
        copy.do("UPDATE calls SET state = 'failed'")
        assert not copy.verify().ok
        archive = open_archive(copy.home)
        quick = verify_journal(archive, quick=True)
        archive.close()
    assert (quick.ok, quick.attestations, quick.entries) == (True, 0, original.last)


def test_a_quick_look_still_finds_a_changed_body(original: Original, tmp_path: Path) -> None:
    with original.tampered(tmp_path / "copy") as copy:
        copy.do("UPDATE journal SET body = x'00' WHERE seq = 9")
        copy.connection.execute("COMMIT")
        archive = open_archive(copy.home)
        quick = verify_journal(archive, quick=True)
        archive.close()
    assert quick.problems[0].index == 9


@pytest.mark.invariant("I8")
def test_an_empty_journal_without_its_head_was_emptied(tmp_path: Path) -> None:
    open_ledger(tmp_path / "home").close()
    with Original.of_home(tmp_path / "home", KEY).tampered(tmp_path / "copy") as copy:
        copy.do("DELETE FROM journal")
        (copy.home / HEAD_NAME).unlink()
        report = copy.verify()
        assert [problem.sentence for problem in report.problems] == [
            "the head kept outside the database is missing"
        ]


def test_progress_is_told_every_thousand_entries(tmp_path: Path) -> None:
    ledger = open_ledger(tmp_path / "home")
    for _ in range(25):
        ledger.record_now(Note(events=note().events * 100))
    ledger.close()
    archive = open_archive(tmp_path / "home")
    told: list[tuple[int, int]] = []
    report = verify_journal(archive, progress=lambda done, total: told.append((done, total)))
    archive.close()
    assert report.ok
    assert told == [(1000, 2501), (2000, 2501)]


LAST = 0
"""Stands for the last entry."""

SENTENCES: dict[str, tuple[str, list[Problem]]] = {
    "an entry is changed": (
        "UPDATE journal SET recorded_at_ms = 1 WHERE seq = {last}",
        [problem(LAST, "the entry does not fit its link and the entry before it")],
    ),
    "an entry is filed elsewhere": (
        "UPDATE journal SET subject = 'other' WHERE seq = 4",
        [
            problem(4, "the entry does not fit its link and the entry before it"),
            problem(4, "the entry is filed under another subject"),
        ],
    ),
    "entries are missing": (
        "DELETE FROM journal WHERE seq IN (20, 21)",
        [problem(20, "entries 20 to 21 are missing")],
    ),
    "a body is noise": (
        "UPDATE journal SET body = x'00' WHERE seq = 4",
        [
            problem(4, "the entry does not fit its link and the entry before it"),
            problem(4, "the body is not a canonical config.applied event"),
        ],
    ),
    "a body is not written our way": (
        "UPDATE journal SET body = CAST(' ' || CAST(body AS TEXT) AS BLOB) WHERE seq = 4",
        [
            problem(4, "the entry does not fit its link and the entry before it"),
            problem(4, "the body is not a canonical config.applied event"),
        ],
    ),
    "a kind is unknown": (
        "UPDATE journal SET kind = 'other' WHERE seq = 4",
        [
            problem(4, "the entry does not fit its link and the entry before it"),
            problem(4, "the body is not a canonical other event"),
        ],
    ),
    "the tail is cut off": (
        "DELETE FROM journal WHERE seq >= {last}",
        [problem(LAST, "entries {last} to {last} were cut off")],
    ),
    "the first entry is another": (
        "UPDATE journal SET kind = 'config.applied' WHERE seq = 1",
        [
            problem(1, "the entry does not fit its link and the entry before it"),
            problem(1, "the first entry does not open a log"),
        ],
    ),
    "the first entry names no key": (
        """UPDATE journal SET body = CAST(replace(
            CAST(body AS TEXT), '"public_key":"', '"public_key":"zz') AS BLOB) WHERE seq = 1""",
        [
            problem(1, "the entry does not fit its link and the entry before it"),
            problem(1, "the first entry names no public key"),
        ],
    ),
    "an entry stands before the first": (
        """INSERT INTO journal SELECT -3, recorded_at_ms, kind, subject, body, link, NULL
            FROM journal WHERE seq = 2""",
        [problem(-3, "an entry stands before the first one")],
    ),
    "a head cannot be read": (
        "UPDATE journal SET head = x'00' WHERE seq = 1",
        [problem(1, "the signed head of this commit cannot be read")],
    ),
    "a head is taken away": (
        "UPDATE journal SET head = NULL WHERE seq = 1",
        [problem(1, "this commit has lost its signed head")],
    ),
    "a head is another's": (
        "UPDATE journal SET head = (SELECT head FROM journal WHERE seq = 2) WHERE seq = 1",
        [problem(1, "the signed head beside this entry is another entry's")],
    ),
    "the last head is taken away": (
        "UPDATE journal SET head = NULL WHERE seq = {last}",
        [problem(LAST, "entries {last} to {last} follow the last signed head")],
    ),
}


@pytest.mark.parametrize("name", SENTENCES)
def test_a_problem_is_told_in_a_sentence(original: Original, tmp_path: Path, name: str) -> None:
    deed, expected = SENTENCES[name]
    last = original.last
    problems = found(original, tmp_path, lambda copy: copy.do(deed.replace("{last}", str(last))))
    assert problems[: len(expected)] == [
        problem(each.index or last, each.sentence.replace("{last}", str(last))) for each in expected
    ]


def test_another_key_than_the_expected_one_is_told_at_the_first_entry(original: Original) -> None:
    problems = verify_home(original.home, key=PublicKey(OTHER_KEY.public_key)).problems
    sentence = "the journal was opened with another key than the expected one"
    assert problems[0] == problem(1, sentence)


@pytest.mark.invariant("I13")
def test_problems_are_bounded_and_the_first_ones_are_kept(tmp_path: Path) -> None:
    ledger = open_ledger(tmp_path / "home")
    ledger.record_now(Note(events=note().events * 400))
    ledger.close()
    with Original.of_home(tmp_path / "home", KEY).tampered(tmp_path / "copy") as copy:
        copy.do("UPDATE journal SET recorded_at_ms = 1")
        copy.do("UPDATE journal SET head = NULL WHERE seq = 1")
        problems = copy.verify().problems
    assert len(problems) == 100
    assert [each.index for each in problems[:4]] == [1, 1, 2, 3]


class TestHeldHeads:
    """Heads kept elsewhere are witnesses: the journal must still reach them."""

    @pytest.fixture
    def home(self, tmp_path: Path) -> Path:
        ledger = open_ledger(tmp_path / "home")
        ledger.record_now(opening())
        ledger.close()
        return tmp_path / "home"

    @staticmethod
    def verify(home: Path, held: SignedHead) -> list[Problem]:
        archive = open_archive(home)
        try:
            return list(verify_journal(archive, held=(held,)).problems)
        finally:
            archive.close()

    @staticmethod
    def kept(home: Path) -> SignedHead:
        archive = open_archive(home)
        head = archive.kept_head()
        archive.close()
        assert head is not None
        return head

    def test_a_head_that_is_reached_is_no_problem(self, home: Path) -> None:
        assert self.verify(home, self.kept(home)) == []

    def test_a_journal_that_was_put_back_is_found(self, home: Path, tmp_path: Path) -> None:
        older = tmp_path / "older"
        Original.of_home(home, KEY).copy_to(older)
        ledger = open_ledger(home, series=1)
        ledger.record_now(note())
        ledger.close()
        expected = [problem(4, "entries 4 to 4 were cut off")]
        assert self.verify(older, self.kept(home)) == expected

    @pytest.mark.parametrize(
        ("changes", "key", "sentence"),
        [
            ({}, OTHER_KEY, "a head that was held elsewhere is not signed by the journal's key"),
            ({"log_id": "other"}, KEY, "a head that was held elsewhere is about another journal"),
            ({"link": "0" * 64}, KEY, "a head that was held elsewhere is about another entry 3"),
            (
                {"index": 99},
                OTHER_KEY,
                "a head that was held elsewhere is not signed by the journal's key",
            ),
            ({"index": -2}, KEY, "a head that was held elsewhere is about another entry -2"),
        ],
    )
    def test_a_head_of_something_else_is_told(
        self, home: Path, changes: dict[str, Any], key: SigningKey, sentence: str
    ) -> None:
        head = msgspec.structs.replace(self.kept(home).head, **changes)
        signed = SignedHead(
            head=head, key_id=key.key_id, signature=key.sign(head.signed_bytes).hex()
        )
        assert self.verify(home, signed) == [problem(head.index, sentence)]


def test_a_kept_head_of_nothing_must_be_of_this_journal(tmp_path: Path) -> None:
    home = tmp_path / "home"
    open_ledger(home).close()
    (home / HEAD_NAME).unlink()
    empty = Head(log_id=LogId("other"), first=1, index=0, link=GENESIS.hex(), recorded_at_ms=0)
    file = HeadFile.open(home / HEAD_NAME)
    file.keep(
        SignedHead(head=empty, key_id=KEY.key_id, signature=KEY.sign(empty.signed_bytes).hex())
    )
    file.close()
    sentence = "the head kept outside the database is about another journal"
    report = verify_home(home, key=PublicKey(KEY.public_key))
    assert report.problems == (problem(0, sentence),)


class TestAttestations:
    """Even the owner of the key is held to what an attestation must be."""

    @pytest.mark.parametrize(
        ("changes", "key", "sentence"),
        [
            ({}, KEY, None),
            ({}, OTHER_KEY, "the attestation is not signed by the journal's key"),
            (
                {"execution_sha256": "0" * 64},
                KEY,
                "the attestation's execution_sha256 does not fit its fields",
            ),
            (
                {"anchor": Anchor(index=2, link="0" * 64)},
                KEY,
                "the journal before this attestation is not the one it was signed on",
            ),
            (
                {"anchor": Anchor(index=5, link="0" * 64)},
                KEY,
                "the journal before this attestation is not the one it was signed on",
            ),
            (
                {"anchor": Anchor(index=-1, link="")},
                KEY,
                "the journal before this attestation is not the one it was signed on",
            ),
        ],
    )
    def test_it_is_signed_whole_and_stands_where_it_claims(
        self, tmp_path: Path, changes: dict[str, object], key: SigningKey, sentence: str | None
    ) -> None:
        ledger = open_ledger(tmp_path / "home")
        ledger.record_now(opening())
        statement = msgspec.structs.replace(
            STATEMENT, call_id=call_id(1), anchor=ledger.anchor, permit=None
        )
        outcome = msgspec.structs.replace(
            STATEMENT.outcome, state="denied", output_sha256=content_sha256(b""), output_bytes=0
        )
        statement = msgspec.structs.replace(statement, outcome=outcome)
        digest = expected_execution_sha256(statement)
        statement = msgspec.structs.replace(statement, execution_sha256=digest)
        statement = msgspec.structs.replace(statement, **changes)
        message = signed_bytes(STATEMENT_TYPE, canonical_record(statement))
        attestation = Attestation(
            key_id=KEY.key_id, signature=key.sign(message).hex(), statement=statement
        )
        ending = ending_of(call_result(PROPOSAL, FORBID, state=CallState.DENIED))
        ended = CallEnded(
            call_id=call_id(1), attestation=attestation, ending_sha256=content_sha256(ending)
        )
        ledger.record_now(admit(1, CallState.DENIED, ending=ending, events=(decided(1), ended)))
        ledger.close()
        expected = [problem(5, sentence)] if sentence else []
        assert list(verify_home(tmp_path / "home").problems) == expected
