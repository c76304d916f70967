# SPDX-License-Identifier: Apache-2.0
"""A process whose disk is full: ``python -m tests.support.full_disk HOME FILLER SCENE``.

Runs in a place where writing ends early (a small file system, or a limit on the size of files),
fills it where it can, makes calls, and prints as JSON what became of them.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import resource
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from palyra.core.errors import PalyraError
from palyra.daemon.embedded import EmbeddedGate
from palyra.tools.function import tool
from tests.support.journals import verify_home

if TYPE_CHECKING:
    from collections.abc import Callable

LARGE = 8 << 20
MOST_CALLS = 4000
ENVIRON = {
    "PALYRA_TOOL_CALL__ALLOWED_TOOLS": "test.effect,test.fill",
    "PALYRA_TOOL_CALL__MAX_CALLS_PER_RUN": "1000000",
    "PALYRA_TOOL_CALL__MAX_CALLS_PER_SESSION": "1000000",
    "PALYRA_TOOL_CALL__MAX_CALLS_PER_AGENT_HOUR": "1000000",
    "PALYRA_LIMITS__PROPOSAL_BURST": "1000000",
}


class Disk:
    """What can be done about the room that is left."""

    def __init__(self, filler: Path, *, is_limited: bool) -> None:
        self._filler = filler
        self._is_limited = is_limited

    def fill(self) -> None:
        if self._is_limited:
            size = LARGE // 2 + (1 << 20)  # more than the write-ahead log begins with
            _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, most))
            return
        with self._filler.open("ab", buffering=0) as file:
            for chunk in (1 << 20, 1 << 12, 1):
                try:
                    while file.write(bytes(chunk)) == chunk:
                        pass
                except OSError:
                    continue

    def free(self) -> None:
        if self._is_limited:
            _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        self._filler.unlink(missing_ok=True)


class Effects:
    """Tools with an effect that can be counted."""

    def __init__(self, disk: Disk) -> None:
        self.count = 0

        @tool(name="test.effect", max_input_bytes=1 << 20)
        def effect(words: list[str]) -> int:
            """Have an effect."""
            self.count += 1
            return len(words)

        @tool(name="test.fill", max_output_bytes=2 * LARGE)
        def fill() -> str:
            """Have an effect, and leave no room to tell of it."""
            self.count += 1
            disk.fill()
            return "x" * LARGE

        self.tools = (effect, fill)


def recorded(home: Path, kind: str) -> int:
    from tests.support.store import kinds, open_archive  # noqa: PLC0415

    archive = open_archive(home)
    count = kinds(archive).count(kind)
    archive.close()
    return count


async def intents(home: Path, disk: Disk) -> dict[str, Any]:
    """Fill the disk, then call until an intent cannot be recorded, and once more."""
    effects = Effects(disk)
    codes: list[str] = []
    async with EmbeddedGate.open(home, tools=effects.tools, environ=ENVIRON) as gate:
        await gate.call("test.effect", {"words": ["before"]}, agent="ada")
        disk.fill()
        for _ in range(MOST_CALLS):
            try:
                await gate.call("test.effect", {"words": ["a word"] * 1700}, agent="ada")
            except PalyraError as error:
                codes.append(error.code.value)
                if len(codes) > 1:
                    break
        count = effects.count
        disk.free()
        after = await gate.call("test.effect", {"words": ["after"]}, agent="ada")
    return {
        "codes": codes,
        "effects": count,
        "after": after.state,
        "launched": recorded(home, "call.launched"),
        "total": effects.count,
        **_aftermath(home, effects),
    }


async def outcome(home: Path, disk: Disk) -> dict[str, Any]:
    """Call a tool that fills the disk while it runs."""
    effects = Effects(disk)
    code = cause = ""
    async with EmbeddedGate.open(home, tools=effects.tools, environ=ENVIRON) as gate:
        try:
            await gate.call("test.fill", {}, agent="ada")
        except PalyraError as error:
            code, cause = error.code.value, str(error.details.get("cause", ""))
        disk.free()
    return {"code": code, "cause": cause, "effects": effects.count, **_aftermath(home, effects)}


def _aftermath(home: Path, effects: Effects) -> dict[str, Any]:
    """Start again, with room; say what was found."""
    ran = effects.count
    gate = EmbeddedGate.open(home, tools=effects.tools, environ=ENVIRON)
    gate.composition.ledger.close()
    return {
        "recovered": gate.composition.recovered,
        "interrupted": recorded(home, "call.interrupted"),
        "ran_again": effects.count - ran,
        "problems": [problem.sentence for problem in verify_home(home).problems],
    }


async def opening(home: Path, disk: Disk) -> dict[str, Any]:
    """Open a new home on a full disk, and again once there is room."""
    effects = Effects(disk)
    disk.fill()
    code = ""
    try:
        EmbeddedGate.open(home, tools=effects.tools, environ=ENVIRON)
    except PalyraError as error:
        code = error.code.value
    disk.free()
    return {"code": code, "effects": effects.count, **_aftermath(home, effects)}


SCENES: dict[str, Callable[[Path, Disk], Any]] = {
    "intents": intents,
    "outcome": outcome,
    "opening": opening,
}


def main() -> None:
    home, filler, scene, way = sys.argv[1:]
    logging.disable()
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    disk = Disk(Path(filler), is_limited=way == "limited")
    told = asyncio.run(SCENES[scene](Path(home), disk))
    os.write(sys.stdout.fileno(), json.dumps(told).encode())


if __name__ == "__main__":
    main()
