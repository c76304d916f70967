# SPDX-License-Identifier: Apache-2.0
"""Somebody removes the journal, or everything but the key, and hopes for a fresh start."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from palyra.core.errors import Code, IntegrityError
from palyra.daemon.embedded import EmbeddedGate
from palyra.store.sqlite.ledger import DATABASE_NAME, HEAD_NAME
from tests.support.command_line import CommandLine

if TYPE_CHECKING:
    from pathlib import Path

DATABASE = (DATABASE_NAME, f"{DATABASE_NAME}-wal", f"{DATABASE_NAME}-shm")


@pytest.fixture
def palyra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> CommandLine:
    command_line = CommandLine(tmp_path, monkeypatch=monkeypatch, capsys=capsys)
    assert command_line("call", "palyra.echo", '{"text": "x"}').status == 0
    return command_line


@pytest.mark.invariant("I8")
@pytest.mark.parametrize(
    ("removed", "code"),
    [
        pytest.param((*DATABASE, HEAD_NAME), Code.JOURNAL_HEAD_MISSING, id="journal-and-head"),
        pytest.param(DATABASE, Code.JOURNAL_ROLLED_BACK, id="the-journal-alone"),
        pytest.param((HEAD_NAME,), Code.JOURNAL_HEAD_MISSING, id="the-head-alone"),
    ],
)
def test_what_was_removed_is_found_and_nothing_starts_anew(
    palyra: CommandLine, removed: tuple[str, ...], code: Code
) -> None:
    for name in removed:
        (palyra.home / name).unlink(missing_ok=True)
    assert palyra("journal", "verify").status == 10
    with pytest.raises(IntegrityError) as caught:
        EmbeddedGate.open(palyra.home, environ={})
    assert caught.value.code is code
    ran = palyra.json("call", "palyra.echo", '{"text": "x"}')
    assert ran.document["error"]["code"] == code.value
    assert palyra("journal", "verify").status == 10


def test_a_first_start_that_was_cut_off_before_its_key_begins_again(tmp_path: Path) -> None:
    home = tmp_path / "home"
    EmbeddedGate.open(home, environ={}).composition.ledger.close()
    for path in (*home.glob("keys/*"), *(home / name for name in DATABASE)):
        path.unlink()
    EmbeddedGate.open(home, environ={}).composition.ledger.close()
    assert (home / DATABASE_NAME).exists()
