# SPDX-License-Identifier: Apache-2.0
"""Many processes open the same new home at once: one key, one log, nobody is left out."""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from palyra.store.sqlite.ledger import opening_of
from palyra.trust.signing_key import SigningKey
from tests.support.journals import verify_home
from tests.support.store import kinds, open_archive

if TYPE_CHECKING:
    from pathlib import Path

PROCESSES = 8

STARTER = """
import asyncio, sys
from palyra.daemon.embedded import EmbeddedGate
async def main():
    print("ready", flush=True)
    sys.stdin.readline()
    async with EmbeddedGate.open(sys.argv[1], environ={}) as gate:
        result = await gate.call("palyra.echo", {"text": "hi"}, agent="ada")
    head = result.attestation.receipt.head
    print(head.head.log_id, head.key_id, result.state)
asyncio.run(main())
"""


def start_together(home: Path) -> list[str]:
    """Let all processes go at once and return what each of them says."""
    command = [sys.executable, "-c", STARTER, str(home)]
    with ExitStack() as stack:
        processes = [
            stack.enter_context(
                subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            )
            for _ in range(PROCESSES)
        ]
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        said = [process.communicate()[0].strip() for process in processes]
    assert [process.returncode for process in processes] == [0] * PROCESSES
    return said


@pytest.mark.invariant("I8")
@pytest.mark.parametrize("turn", range(3))
def test_all_first_starts_end_up_in_one_log_with_one_key(tmp_path: Path, turn: int) -> None:
    home = tmp_path / f"home-{turn}"
    said = start_together(home)
    archive = open_archive(home)
    opened = opening_of(archive)
    entries = kinds(archive)
    archive.close()
    key = SigningKey.load(home / "keys")
    assert opened is not None
    assert key is not None
    assert said == [f"{opened.log_id} {key.key_id} succeeded"] * PROCESSES
    assert entries.count("log.opened") == entries.count("config.applied") == 1
    assert entries.count("call.ended") == PROCESSES
    assert verify_home(home).problems == ()
    assert list((home / "instances").iterdir()) == []
