# SPDX-License-Identifier: Apache-2.0
"""The store fails: a clear error, and nothing is executed that could not be recorded (I7)."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import apsw
import pytest

from palyra.core.errors import Code, PalyraError
from palyra.daemon.embedded import EmbeddedGate
from palyra.store.sqlite.ledger import DATABASE_NAME, HEAD_NAME
from palyra.tools.function import tool
from palyra.trust.signing_key import KEY_NAME
from tests.support.append_only import lifted
from tests.support.journals import verify_home
from tests.support.ordinary_user import as_ordinary_user

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.invariant("I7")

ENVIRON = {
    "PALYRA_TOOL_CALL__ALLOWED_TOOLS": "test.effect",
    "PALYRA_STORE__BUSY_TIMEOUT_MS": "50",
}


class Effect:
    """A tool whose runs are counted."""

    def __init__(self) -> None:
        self.count = 0

        @tool(name="test.effect")
        def effect() -> str:
            """Have an effect."""
            self.count += 1
            return "done"

        self.tool = effect

    def attempt(self, home: Path) -> str:
        """Open the home and call the tool; return how that ended, by state or code."""

        async def call() -> str:
            async with EmbeddedGate.open(home, tools=[self.tool], environ=ENVIRON) as gate:
                return (await gate.call("test.effect", {}, agent="ada")).state

        try:
            return asyncio.run(call())
        except PalyraError as error:
            return error.code.value if error.message and error.hint else "no words"


@dataclass
class Used:
    """A home in which one call was made."""

    home: Path
    effect: Effect

    def attempt(self) -> tuple[str, int]:
        """Return how another call ended, and how often the tool ran for it."""
        before = self.effect.count
        return self.effect.attempt(self.home), self.effect.count - before


@pytest.fixture
def used(tmp_path: Path) -> Used:
    used = Used(tmp_path / "home", Effect())
    assert used.attempt() == ("succeeded", 1)
    _settle(used.home)
    return used


def _settle(home: Path) -> None:
    """Bring everything into the database file itself."""
    connection = apsw.Connection(str(home / DATABASE_NAME))
    connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    connection.close()
    for leftover in (f"{DATABASE_NAME}-wal", f"{DATABASE_NAME}-shm"):
        (home / leftover).unlink(missing_ok=True)


def overwrite(offset: int, length: int) -> Callable[[Path], None]:
    def change(home: Path) -> None:
        with (home / DATABASE_NAME).open("r+b") as file:
            file.seek(offset)
            file.write(b"\xa5" * length)

    return change


def cut(home: Path) -> None:
    """Put back the entries as they were before the call, without the head."""
    connection = apsw.Connection(str(home / DATABASE_NAME))
    with lifted(connection):
        connection.execute("DELETE FROM journal WHERE seq > 4")
    connection.close()


def put_back(home: Path) -> None:
    """Put back an older copy of the whole database."""
    older = home.parent / "older"
    shutil.copytree(home, older)
    assert Effect().attempt(home) == "succeeded"
    _settle(home)
    shutil.copy(older / DATABASE_NAME, home)


def a_folder(home: Path) -> None:
    (home / DATABASE_NAME).unlink()
    (home / DATABASE_NAME).mkdir()


def another_key(home: Path) -> None:
    other = home.parent / "other"
    assert Effect().attempt(other) == "succeeded"
    shutil.copy(other / "keys" / KEY_NAME, home / "keys")


def linked_key(home: Path) -> None:
    key = home / "keys" / KEY_NAME
    key.rename(home.parent / "elsewhere")
    key.symlink_to(home.parent / "elsewhere")


FAULTS: dict[str, tuple[Callable[[Path], object], set[Code]]] = {
    "the header is overwritten": (overwrite(0, 100), {Code.STORE_CORRUPT}),
    "the file is overwritten": (overwrite(0, 1 << 16), {Code.STORE_CORRUPT}),
    "the tables are overwritten": (overwrite(4096, 1 << 16), {Code.STORE_CORRUPT}),
    "the file is cut short": (
        lambda home: os.truncate(home / DATABASE_NAME, 5000),
        {Code.STORE_CORRUPT},
    ),
    "the file is empty": (
        lambda home: os.truncate(home / DATABASE_NAME, 0),
        {Code.JOURNAL_ROLLED_BACK},
    ),
    "the file is gone": (
        lambda home: (home / DATABASE_NAME).unlink(),
        {Code.JOURNAL_ROLLED_BACK},
    ),
    "the file is a folder": (
        a_folder,
        {Code.STORE_UNREACHABLE},
    ),
    "entries are cut off": (cut, {Code.JOURNAL_ROLLED_BACK}),
    "an older database is put back": (put_back, {Code.JOURNAL_ROLLED_BACK}),
    "the head is gone": (lambda home: (home / HEAD_NAME).unlink(), {Code.JOURNAL_HEAD_MISSING}),
    "the head is noise": (
        lambda home: (home / HEAD_NAME).write_bytes(b"\xa5" * 2048),
        {Code.JOURNAL_HEAD_MISSING},
    ),
    "the key is gone": (lambda home: (home / "keys" / KEY_NAME).unlink(), {Code.KEY_MISSING}),
    "all keys are gone": (lambda home: shutil.rmtree(home / "keys"), {Code.KEY_MISSING}),
    "the key is another": (another_key, {Code.KEY_REPLACED}),
    "the key is noise": (
        lambda home: (home / "keys" / KEY_NAME).write_bytes(b"\xa5" * 100),
        {Code.KEY_UNREADABLE},
    ),
    "the key is open to others": (
        lambda home: (home / "keys" / KEY_NAME).chmod(0o640),
        {Code.KEY_EXPOSED},
    ),
    "the key is a link": (linked_key, {Code.KEY_UNREADABLE}),
}


@pytest.mark.invariant("I8")
@pytest.mark.parametrize("name", FAULTS)
def test_nothing_runs_on_a_store_that_is_not_the_one_that_was_left(used: Used, name: str) -> None:
    change, codes = FAULTS[name]
    change(used.home)
    told, ran = used.attempt()
    assert told in codes
    assert ran == 0
    assert used.attempt() == (told, 0)


def test_a_database_that_another_process_holds_is_busy(used: Used) -> None:
    holder = apsw.Connection(str(used.home / DATABASE_NAME))
    holder.execute("BEGIN IMMEDIATE")
    assert used.attempt() == (Code.STORE_BUSY.value, 0)
    holder.close()
    assert used.attempt() == ("succeeded", 1)


async def test_a_store_that_is_held_between_open_and_call_executes_nothing(used: Used) -> None:
    before = used.effect.count
    async with EmbeddedGate.open(used.home, tools=[used.effect.tool], environ=ENVIRON) as gate:
        first = await gate.call("test.effect", {}, agent="ada")
        holder = apsw.Connection(str(used.home / DATABASE_NAME))
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(PalyraError) as fault:
            await gate.call("test.effect", {}, agent="ada", run_id=first.run_id)
        holder.close()
        after = await gate.call("test.effect", {}, agent="ada", run_id=first.run_id)
    assert (fault.value.code, after.state) == (Code.STORE_BUSY, "succeeded")
    assert used.effect.count - before == 2
    assert verify_home(used.home).ok


@pytest.mark.parametrize(
    "close",
    [
        pytest.param(lambda home: (home / DATABASE_NAME).chmod(0o400), id="the-file"),
        pytest.param(lambda home: home.chmod(0o500), id="the-folder"),
        pytest.param(lambda home: (home / HEAD_NAME).chmod(0o400), id="the-kept-head"),
        pytest.param(lambda home: (home / "instances").chmod(0o500), id="the-instances"),
    ],
)
def test_a_store_that_cannot_be_written_executes_nothing(close: Callable[[Path], object]) -> None:
    with as_ordinary_user() as folder:
        effect = Effect()
        assert effect.attempt(folder / "home") == "succeeded"
        _settle(folder / "home")
        close(folder / "home")
        told = effect.attempt(folder / "home")
        (folder / "home").chmod(0o700)
        (folder / "home" / "instances").chmod(0o700)
    assert told in {Code.STORE_READ_ONLY, Code.STORE_UNREACHABLE}
    assert effect.count == 1


# --- A full disk ----------------------------------------------------------------------------------

IN_A_SMALL_FILE_SYSTEM = 'mount -t tmpfs -o size=24m tmpfs "$1" && shift && exec "$@"'


def _namespace() -> list[str] | None:
    """Return the command that runs another one where it may mount, if this host allows it."""
    unshare = shutil.which("unshare")
    if unshare is None:
        return None
    for options in (["-m"], ["-U", "-r", "-m"]):
        command = [unshare, *options, "sh", "-c", "mount -t tmpfs tmpfs /mnt"]
        if subprocess.run(command, capture_output=True, check=False).returncode == 0:
            return [unshare, *options]
    return None


NAMESPACE = _namespace()
WAYS = [
    pytest.param(
        "mounted",
        id="a-small-file-system",
        marks=pytest.mark.skipif(NAMESPACE is None, reason="this host lets nobody mount"),
    ),
    pytest.param("limited", id="a-limit-on-files"),
]
FULL = {"mounted": {"store.full"}, "limited": {"store.full", "store.unreachable"}}
"""SQLite does not tell a file that may not grow from any other fault of writing."""


def on_a_full_disk(scene: str, way: str, at: Path) -> dict[str, Any]:
    """Run a scene of ``tests.support.full_disk`` and return what it told."""
    place = at / "disk"
    place.mkdir()
    arguments = [str(place / "home"), str(place / "filler"), scene, way]
    command = [sys.executable, "-m", "tests.support.full_disk", *arguments]
    if way == "mounted":
        assert NAMESPACE is not None
        command = [*NAMESPACE, "sh", "-c", IN_A_SMALL_FILE_SYSTEM, "sh", str(place), *command]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    told: dict[str, Any] = json.loads(ran.stdout)
    return told


@pytest.mark.parametrize("way", WAYS)
def test_an_intent_that_cannot_be_recorded_executes_nothing(way: str, tmp_path: Path) -> None:
    told = on_a_full_disk("intents", way, tmp_path)
    lost = {"store.outcome_unrecorded"}
    assert set(told["codes"]) <= FULL[way] | lost
    assert set(told["codes"]) & FULL[way]
    assert told["after"] == "succeeded"
    assert told["total"] == told["launched"]
    assert told["interrupted"] == told["codes"].count("store.outcome_unrecorded")
    assert (told["problems"], told["ran_again"]) == ([], 0)


@pytest.mark.parametrize("way", WAYS)
def test_an_outcome_that_cannot_be_recorded_is_told_and_shows_as_interrupted(
    way: str, tmp_path: Path
) -> None:
    told = on_a_full_disk("outcome", way, tmp_path)
    assert told["cause"] in FULL[way]
    del told["cause"]
    assert told == {
        "code": "store.outcome_unrecorded",
        "effects": 1,
        "recovered": 1,
        "interrupted": 1,
        "ran_again": 0,
        "problems": [],
    }


def test_a_home_cannot_be_opened_on_a_full_disk_and_can_be_later(tmp_path: Path) -> None:
    if NAMESPACE is None:
        pytest.skip("this host lets nobody mount")
    told = on_a_full_disk("opening", "mounted", tmp_path)
    assert told["code"] in {"store.full", "key.unreadable", "home.unsafe", "store.read_only"}
    del told["code"]
    assert told == {
        "effects": 0,
        "recovered": 0,
        "interrupted": 0,
        "ran_again": 0,
        "problems": [],
    }
