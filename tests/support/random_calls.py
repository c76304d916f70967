# SPDX-License-Identifier: Apache-2.0
"""A process that makes random calls until it is killed, and says what it was told.

``python -m tests.support.random_calls HOME FOLDER SEED COUNT`` prints ``ready`` once everything is
imported, then one line for each result: call id, journal index, state, and what it was about.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from palyra.daemon.embedded import EmbeddedGate

if TYPE_CHECKING:
    from palyra.core.result import CallResult

PAIRS = 4
PLENTY = "1000000"
ENVIRON = {
    "PALYRA_TOOL_CALL__MAX_CALLS_PER_RUN": PLENTY,
    "PALYRA_TOOL_CALL__MAX_CALLS_PER_SESSION": PLENTY,
    "PALYRA_TOOL_CALL__MAX_CALLS_PER_AGENT_HOUR": PLENTY,
    "PALYRA_LIMITS__PROPOSAL_BURST": PLENTY,
}


def content_of(name: str) -> str:
    """Return what a written file holds: its name, many times, so that a part of it is noticed."""
    return f"{name}\n" * 500


def paired_files(folder: Path, pair: int) -> tuple[Path, Path]:
    """Return two files that are only ever changed together, by one patch."""
    return folder / f"pair-{pair}-left", folder / "right" / f"pair-{pair}-right"


def lay_out(folder: Path) -> None:
    """Prepare the folder that the calls will change."""
    (folder / "right").mkdir(parents=True)
    for pair in range(PAIRS):
        for path in paired_files(folder, pair):
            path.write_text("0\n")


class Caller:
    """Makes calls, one or several at once."""

    def __init__(self, gate: EmbeddedGate, folder: Path, chance: random.Random) -> None:
        self._gate = gate
        self._folder = folder
        self._chance = chance
        self._written = 0
        self._busy: set[int] = set()

    async def step(self) -> int:
        """Make a few calls at once and return how many."""
        count = self._chance.choice((1, 1, 1, 3, 6))
        await asyncio.gather(*(self._one() for _ in range(count)))
        return count

    async def _one(self) -> None:
        act = self._chance.choice(
            (self._echo, self._sleep, self._write, self._patch, self._deny, self._spoil)
        )
        result, about = await act()
        assert result.attestation is not None
        line = f"{result.call_id} {result.attestation.log_index} {result.state} {about}\n"
        os.write(sys.stdout.fileno(), line.encode())

    async def _echo(self) -> tuple[CallResult, str]:
        text = "x" * self._chance.randrange(2000)
        return await self._gate.call("palyra.echo", {"text": text}, agent="ada"), "echo"

    async def _sleep(self) -> tuple[CallResult, str]:
        arguments = {"duration_ms": self._chance.randrange(8)}
        limit = self._chance.choice((None, 2))
        result = await self._gate.call("palyra.sleep", arguments, agent="ada", timeout_ms=limit)
        return result, "sleep"

    async def _write(self) -> tuple[CallResult, str]:
        self._written += 1
        name = f"written-{os.getpid()}-{self._written}"
        arguments = {"path": name, "content": content_of(name)}
        return await self._gate.call("palyra.fs.write", arguments, agent=None), f"write {name}"

    async def _patch(self) -> tuple[CallResult, str]:
        free = sorted(set(range(PAIRS)) - self._busy)
        if not free:
            return await self._echo()
        pair = self._chance.choice(free)
        self._busy.add(pair)
        try:
            return await self._patch_pair(pair)
        finally:
            self._busy.discard(pair)

    async def _patch_pair(self, pair: int) -> tuple[CallResult, str]:
        paths = paired_files(self._folder, pair)
        before = int(paths[0].read_text())
        patch = "".join(
            f"--- a/{name}\n+++ b/{name}\n@@ -1 +1 @@\n-{before}\n+{before + 1}\n"
            for name in (path.relative_to(self._folder).as_posix() for path in paths)
        )
        result = await self._gate.call("palyra.fs.apply_patch", {"patch": patch}, agent=None)
        return result, f"patch {pair} {before + 1}"

    async def _deny(self) -> tuple[CallResult, str]:
        arguments = {"path": "never", "content": "never"}
        return await self._gate.call("palyra.fs.write", arguments, agent="ada"), "denied"

    async def _spoil(self) -> tuple[CallResult, str]:
        return await self._gate.call("palyra.echo", b'{"text":', agent="ada"), "malformed"


async def main(home: Path, folder: Path, seed: int, count: int) -> None:
    os.write(sys.stdout.fileno(), b"ready\n")
    async with EmbeddedGate.open(home, environ=ENVIRON) as gate:
        if not gate.workspaces():
            await gate.add_workspace(folder, name="work")
        caller = Caller(gate, folder, random.Random(seed))  # noqa: S311 - repeatable
        while count > 0:
            count -= await caller.step()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])))
