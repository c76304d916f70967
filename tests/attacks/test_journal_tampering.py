# SPDX-License-Identifier: Apache-2.0
"""Somebody with a shell edits the journal by hand; whatever they change, a verifier names it.

The cases are generated: every column of every entry, and every place at which the journal can be
cut, extended or rewritten. What cannot be found without a witness is here too, as what it is.
"""

from __future__ import annotations

import asyncio
import random
import shutil
import threading
from typing import TYPE_CHECKING

import msgspec
import pytest

from palyra.core.chain import SignedHead
from palyra.core.proposal import CallRequest
from palyra.daemon.compose import compose
from palyra.flow.seal.signatures import PublicKey
from palyra.store.head_file import HeadFile, read_kept_head
from palyra.store.sqlite.ledger import HEAD_NAME
from tests.support.journals import SETTINGS, TOOLS, Original, make_home, verify_home
from tests.support.simulator import AGENT_CREDENTIAL
from tests.support.store import admit_under, note, opening, plan
from tests.support.tampering import ATTACKS, flipped, missed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from palyra.core.transitions import Transition
    from palyra.flow.seal.verify import Report
    from tests.support.tampering import Attack

pytestmark = pytest.mark.invariant("I8")


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Original:
    folder = tmp_path_factory.mktemp("journal")
    return Original.of(make_home(folder), at=folder / "original")


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_every_change_of_the_journal_is_found_and_placed(
    original: Original, tmp_path: Path, attack: Callable[[Original], Iterator[Attack]]
) -> None:
    assert missed(original, tmp_path, attack(original)) == []


def test_the_journal_under_attack_holds_all_that_is_attacked(original: Original) -> None:
    kinds = {row.kind for row in original.rows}
    assert len(original.rows) >= 60
    assert kinds >= {
        "log.opened",
        "config.applied",
        "session.opened",
        "run.opened",
        "call.decided",
        "approval.requested",
        "call.launched",
        "effect.planned",
        "call.ended",
        "call.interrupted",
        "workspace.added",
        "workspace.removed",
        "policy.staged",
        "policy.activated",
        "posture.changed",
        "action.refused",
        "flood.suppressed",
    }
    assert any(len(original.commit_of(row.seq)) > 4 for row in original.rows)


# --- The kept head and the key --------------------------------------------------------------------


def test_a_removed_head_is_found(original: Original, tmp_path: Path) -> None:
    with original.tampered(tmp_path / "copy") as copy:
        (copy.home / HEAD_NAME).unlink()
        (problem,) = copy.verify().problems
    assert problem.index == original.last


def test_a_forged_head_is_found(original: Original, tmp_path: Path) -> None:
    kept = read_kept_head(original.home / HEAD_NAME)
    assert kept is not None
    with original.tampered(tmp_path / "copy") as copy:
        copy.do("DELETE FROM journal WHERE seq > 60")
        shorter = msgspec.structs.replace(kept.head, index=60, link=original.row(60).link.hex())
        _replace_head(copy.home, msgspec.structs.replace(kept, head=shorter))
        problems = copy.verify().problems
    assert problems[0].index <= 61


def test_a_changed_byte_in_the_kept_head_is_found_or_the_head_before_counts(
    original: Original, tmp_path: Path
) -> None:
    kept = read_kept_head(original.home / HEAD_NAME)
    assert kept is not None
    content = (original.home / HEAD_NAME).read_bytes()
    chance = random.Random(3)  # noqa: S311 - repeatable
    with original.tampered(tmp_path / "copy") as copy:
        for position in chance.sample(range(len(content)), 60):
            changed = flipped(content, position, bit=chance.randrange(8))
            (copy.home / HEAD_NAME).write_bytes(changed)
            report = copy.verify()
            assert not report.ok or report.kept_index in {kept.head.index, kept.head.first - 1}


def _replace_head(home: Path, signed: SignedHead) -> None:
    (home / HEAD_NAME).unlink()
    file = HeadFile.open(home / HEAD_NAME)
    file.keep(signed)
    file.close()


def genuine_heads(original: Original) -> list[SignedHead]:
    return [
        msgspec.json.decode(row.head, type=SignedHead)
        for row in original.rows
        if row.head is not None
    ]


def test_an_older_genuine_head_is_accepted_because_a_crash_leaves_one(
    original: Original, tmp_path: Path
) -> None:
    """Documented: a head that is behind is what a power cut leaves, and vouches for less."""
    with original.tampered(tmp_path / "copy") as copy:
        older = genuine_heads(original)[-3]
        _replace_head(copy.home, older)
        report = copy.verify()
    assert (report.ok, report.kept_index) == (True, older.head.index)


def test_a_rollback_of_journal_state_and_head_together_needs_a_witness(
    original: Original, tmp_path: Path
) -> None:
    """Documented: whoever can put back a whole older home is found only by a head kept elsewhere.

    The state has to be put back as well. Cutting entries off alone is found even then.
    """
    with original.tampered(tmp_path / "copy") as copy:
        older = genuine_heads(original)[-3]
        copy.do("DELETE FROM journal WHERE seq > ?", older.head.index)
        _replace_head(copy.home, older)
        problems = copy.verify().problems
    assert problems
    assert all(problem.index <= older.head.index for problem in problems)  # of the state alone


def test_another_journal_with_another_key_is_found_when_the_key_is_pinned(
    original: Original, tmp_path: Path
) -> None:
    other = make_home(tmp_path)
    pinned = verify_home(other, key=original.key)
    assert not pinned.ok
    assert pinned.problems[0].index == 1
    own_key = PublicKey.from_pem((other / "keys" / "journal.pub").read_bytes())
    assert verify_home(other, key=own_key).ok
    assert verify_home(other).ok  # documented: without a pinned key nobody can tell


# --- None is falsely reported ---------------------------------------------------------------------


@pytest.mark.parametrize("pinned", [True, False])
def test_an_untouched_copy_is_clean(original: Original, tmp_path: Path, *, pinned: bool) -> None:
    with original.tampered(tmp_path / "copy") as copy:
        report = copy.verify(pinned=pinned)
    assert (report.problems, report.entries) == ((), original.last)


def test_what_a_crash_leaves_at_any_moment_is_clean(tmp_path: Path) -> None:
    """Copies of the files as they stand after each record, each recovered by a new process."""
    composition = compose(tmp_path / "home", SETTINGS, tools=TOOLS)
    rules = composition.ledger.rules_in_force()
    calls = [admit_under(rules, number) for number in (1, 2)]
    steps: list[Transition] = [opening(), *calls, note(), plan(2), note(2)]
    copies = [tmp_path / f"crashed-{number}" for number in range(len(steps))]
    for step, copy in zip(steps, copies, strict=True):
        composition.ledger.record_now(step)
        shutil.copytree(tmp_path / "home", copy)
    composition.ledger.close()
    assert [verify_home(copy).problems for copy in copies] == [()] * len(steps)
    recovered = []
    for copy in copies:
        again = compose(copy, SETTINGS, tools=TOOLS)
        recovered.append(again.recovered)
        again.ledger.close()
    assert recovered == [0, 1, 2, 2, 2, 2]
    assert [verify_home(copy).problems for copy in copies] == [()] * len(steps)


def test_a_journal_that_grows_meanwhile_is_clean(tmp_path: Path) -> None:
    home = make_home(tmp_path)
    composition = compose(home, SETTINGS, tools=TOOLS)
    reports: list[Report] = []
    ended = threading.Event()

    def look() -> None:
        while not ended.is_set():
            reports.append(verify_home(home))

    async def call_on() -> None:
        while len({report.entries for report in reports}) < 4 and watcher.is_alive():
            run = await composition.gate.open_session(AGENT_CREDENTIAL)
            request = CallRequest(
                tool="palyra.echo", raw_arguments=b'{"text":"hi"}', run_id=run.run_id
            )
            await composition.gate.submit(request, credential=AGENT_CREDENTIAL)
            await asyncio.sleep(0.02)  # no faster than one caller may propose
        await composition.close()

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        asyncio.run(call_on())
    finally:
        ended.set()
        watcher.join()
    assert len({report.entries for report in reports}) >= 4
    assert [report.problems for report in reports if not report.ok] == []
