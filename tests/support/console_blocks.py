# SPDX-License-Identifier: Apache-2.0
"""Console blocks of Markdown documents: read out, run for real in one shell, and compared.

A block begins with three backticks and ``console``. A line ``$ command`` is a command, what follows
is its output with errors, and ``[exit N]`` its exit code if that is not zero. Identifiers, times
and digests match any of their kind; everything else must be what it says.
"""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_ULID = re.compile(r"\b[0-7][0-9A-HJKMNP-TV-Z]{25}\b")
_BLOCK = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
_TIME = re.compile(r"\b20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z")
_DIGEST = re.compile(r"(?<!\")\b(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{12}(?:[0-9a-f]{52})?\b")
_FILE = re.compile(
    r"^```(?:python|cedar|toml)\n((?:#|//) (\w+\.(?:py|cedar|toml))\n.*?)^```",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One command with what it prints and how it exits."""

    command: str
    output: str
    status: int


def steps_in(document: str) -> list[Step]:
    """Return the commands of all console blocks, in order."""
    steps: list[Step] = []
    for block in _BLOCK.findall(document):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            status = 0
            if ending := re.search(r"^\[exit (\d+)\]\n\Z", output, re.MULTILINE):
                status = int(ending[1])
                output = output[: ending.start()]
            steps.append(Step(command=command, output=output, status=status))
    return steps


def files_in(document: str) -> dict[str, str]:
    """Return the files a document shows: blocks whose first line is ``# name.py`` or the like.

    That line is part of the file, as it is for whoever copies the block.
    """
    return {name: text for text, name in _FILE.findall(document)}


def run(steps: list[Step], *, folder: Path) -> list[Step]:
    """Run the commands in one shell below ``folder`` and return what really happened."""
    home = folder / "you"
    home.mkdir(exist_ok=True)
    script = "".join(f"{step.command}\nprintf '\\n<<%d>>\\n' \"$?\"\n" for step in steps)
    environment = {
        "HOME": str(folder),
        "PATH": f"{sys.prefix}/bin:/usr/bin:/bin",
        "LANG": "C.UTF-8",
    }
    done = subprocess.run(
        ["/bin/bash", "-c", f"exec 2>&1\n{script}"],
        cwd=home,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    parts = re.split(r"\n<<(\d+)>>\n", done.stdout)
    outputs, statuses = parts[0::2], parts[1::2]
    return [
        Step(command=step.command, output=output, status=int(status))
        for step, output, status in zip(steps, outputs, statuses, strict=False)
    ]


def comparable(step: Step, *, folder: Path) -> Step:
    """Return the step with identifiers and the place it ran in made equal everywhere."""
    output = _ULID.sub("<ULID>", step.output.replace(str(folder), "/home"))
    output = _DIGEST.sub("<DIGEST>", _TIME.sub("<TIME>", output))
    return Step(command=step.command, output=output.rstrip("\n"), status=step.status)
