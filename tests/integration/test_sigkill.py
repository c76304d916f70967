# SPDX-License-Identifier: Apache-2.0
"""A real process is killed at a random moment; nothing that it told anybody is lost (I7)."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from palyra.core.ports import CallRecord
from palyra.daemon.embedded import EmbeddedGate
from tests.support.journals import verify_home
from tests.support.random_calls import PAIRS, content_of, lay_out, paired_files
from tests.support.staged_changes import staging_folders
from tests.support.store import open_archive

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.invariant("I7")
CALLS = 200


@dataclass(frozen=True)
class Told:
    """One line of the killed process: what it knew to be durable."""

    call_id: str
    index: int
    state: str
    about: tuple[str, ...]


@dataclass(frozen=True)
class Scene:
    """A home and a workspace that outlive the processes that use them."""

    home: Path
    folder: Path

    def kill_after(self, seconds: float, *, seed: int, calls: int = CALLS) -> list[Told]:
        """Kill a process so long after it is ready, and return its lines."""
        arguments = [str(self.home), str(self.folder), str(seed), str(calls)]
        command = [sys.executable, "-m", "tests.support.random_calls", *arguments]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            time.sleep(seconds)
            process.kill()
            lines = process.stdout.read().decode().splitlines(keepends=True)
        whole = [line.split() for line in lines if line.endswith("\n")]
        return [Told(line[0], int(line[1]), line[2], tuple(line[3:])) for line in whole]

    def recover(self) -> int:
        """Let a new process start and end in peace; return what it found cut off."""

        async def start() -> int:
            async with EmbeddedGate.open(self.home, environ={}) as gate:
                return gate.composition.recovered

        return asyncio.run(start())

    def check(self, told: list[Told]) -> None:
        """Check everything that must hold, whenever the process was killed."""
        assert verify_home(self.home).problems == ()
        self._check_journal(told)
        assert staging_folders(self.folder) == []
        self._check_files(told)

    def _check_journal(self, told: list[Told]) -> None:
        archive = open_archive(self.home)
        entries = {entry.index: entry for entry in archive.entries()}
        calls = list(archive.calls())
        archive.close()
        for line in told:
            entry = entries[line.index]
            assert (entry.kind, entry.subject) == ("call.ended", line.call_id)
        records = [call for call in calls if isinstance(call, CallRecord)]
        states = {str(call.call_id): call.state.value for call in records}
        assert all(states[line.call_id] == line.state for line in told)
        assert "launched" not in states.values()
        launched = {each.subject for each in entries.values() if each.kind == "call.launched"}
        ended = {each.subject for each in entries.values() if each.kind == "call.ended"}
        interrupted = {each.subject for each in entries.values() if each.kind == "call.interrupted"}
        assert launched - ended == interrupted
        assert interrupted == {call for call, state in states.items() if state == "interrupted"}
        assert list((self.home / "instances").iterdir()) == []

    def _check_files(self, told: list[Told]) -> None:
        patched = dict.fromkeys(range(PAIRS), 0)
        for line in told:
            if line.about[0] == "write" and line.state == "succeeded":
                assert (self.folder / line.about[1]).read_text() == content_of(line.about[1])
            if line.about[0] == "patch" and line.state == "succeeded":
                patched[int(line.about[1])] = int(line.about[2])
        for pair, number in patched.items():
            left, right = (int(path.read_text()) for path in paired_files(self.folder, pair))
            assert left == right >= number
        for path in self.folder.glob("written-*"):
            assert path.read_text() == content_of(path.name)
        assert not (self.folder / "never").exists()


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    lay_out(tmp_path / "work")
    return Scene(tmp_path / "home", tmp_path / "work")


@pytest.mark.parametrize("seed", range(12))
def test_killed_during_set_up(scene: Scene, seed: int) -> None:
    delay = random.Random(seed).uniform(0, 0.03)  # noqa: S311 - repeatable
    told = scene.kill_after(delay, seed=seed)
    scene.recover()
    scene.check(told)


@pytest.mark.parametrize("seed", range(12))
def test_killed_between_or_within_calls(scene: Scene, seed: int) -> None:
    delay = random.Random(seed).uniform(0.03, 0.6)  # noqa: S311 - repeatable
    told = scene.kill_after(delay, seed=seed)
    scene.recover()
    scene.check(told)


@pytest.mark.parametrize("seed", range(6))
def test_killed_again_during_recovery(scene: Scene, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - repeatable
    told = scene.kill_after(chance.uniform(0.1, 0.4), seed=seed)
    for again in range(2):
        told += scene.kill_after(chance.uniform(0, 0.03), seed=100 * seed + again)
    scene.recover()
    scene.check(told)


def test_a_process_that_is_not_killed_leaves_nothing_to_recover(scene: Scene) -> None:
    arguments = [str(scene.home), str(scene.folder), "1", str(CALLS)]
    command = [sys.executable, "-m", "tests.support.random_calls", *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = [line.split() for line in ran.stdout.splitlines()[1:]]
    told = [Told(line[0], int(line[1]), line[2], tuple(line[3:])) for line in lines]
    assert len(told) >= CALLS
    states = {line.state for line in told}
    assert states == {"succeeded", "denied", "timed_out"}
    assert scene.recover() == 0
    scene.check(told)
