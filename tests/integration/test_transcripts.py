# SPDX-License-Identifier: Apache-2.0
"""Runs each session in ``tests/transcripts`` for real, in a fresh home, and compares its output.

``$ `` begins a command, which a shell runs; what follows is what it prints on both streams; then
``[exit N]``. Placeholders stand for what differs each time; one with a name, as ``<ULID:call>``,
must be the same wherever it stands, and can be used in commands. ``#`` begins a comment.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = Path(__file__).resolve().parents[1] / "transcripts"
PATTERNS = {
    "ULID": r"[0-7][0-9A-HJKMNP-TV-Z]{25}",
    "DIGEST": r"[0-9a-f]{64}",
    "MS": r"[0-9]+",
    "TIME": r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}\.[0-9]{3}Z",
    "USER": r"[A-Za-z0-9._@-]+",
    "BASE64": r"[A-Za-z0-9+/=]+",
    "PATH": r"/[^\s\"]*",
    "ANY": r".*",
}
PLACEHOLDER = re.compile(rf"<({'|'.join(PATTERNS)})(?::([a-z]+))?>")


@dataclass(slots=True)
class Step:
    """One command, and what it is expected to print and to end with."""

    command: str
    lines: list[str] = field(default_factory=list)
    status: int | None = None


def steps_in(text: str) -> Iterator[Step]:
    step: Step | None = None
    for line in text.splitlines():
        if line.startswith("$ "):
            if step is not None:
                yield step
            step = Step(line.removeprefix("$ "))
        elif step is not None and (ended := re.fullmatch(r"\[exit ([0-9]+)\]", line)):
            step.status = int(ended[1])
            yield step
            step = None
        elif step is not None:
            step.lines.append(line)
        else:
            assert not line or line.startswith("#"), f"outside of any command: {line}"
    assert step is None, "the last command has no [exit N]"


class Names:
    """What the named placeholders of one session turned out to stand for."""

    def __init__(self) -> None:
        self._values: dict[str, str] = {}

    def put_into(self, command: str) -> str:
        return PLACEHOLDER.sub(lambda each: self._values[each[2]], command)

    def fit(self, expected: str, line: str) -> bool:
        pattern, new, position = "", [], 0
        for each in PLACEHOLDER.finditer(expected):
            pattern += re.escape(expected[position : each.start()])
            position = each.end()
            if each[2] in self._values:
                pattern += re.escape(self._values[each[2]])
            elif each[2] in new:
                pattern += f"(?P={each[2]})"
            elif each[2]:
                new.append(each[2])
                pattern += f"(?P<{each[2]}>{PATTERNS[each[1]]})"
            else:
                pattern += PATTERNS[each[1]]
        found = re.fullmatch(pattern + re.escape(expected[position:]), line)
        if found is not None:
            self._values.update(found.groupdict())
        return found is not None


def run(command: str, *, folder: Path) -> subprocess.CompletedProcess[str]:
    (folder / "user").mkdir(exist_ok=True)
    return subprocess.run(
        ["/bin/sh", "-c", command],
        cwd=folder / "user",
        env={
            "HOME": str(folder / "user"),
            "LANG": "C.UTF-8",
            "PALYRA_HOME": str(folder / "state"),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=30,
    )


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.txt")), ids=lambda path: path.stem)
def test_transcript(path: Path, tmp_path: Path) -> None:
    names = Names()
    for step in steps_in(path.read_text(encoding="utf-8")):
        ran = run(names.put_into(step.command), folder=tmp_path)
        lines = ran.stdout.splitlines()
        does_fit = len(lines) == len(step.lines) and all(
            names.fit(expected, line) for expected, line in zip(step.lines, lines, strict=True)
        )
        assert does_fit, _difference(step, ran)
        assert ran.returncode == step.status, f"$ {step.command}\nended with {ran.returncode}"


def _difference(step: Step, ran: subprocess.CompletedProcess[str]) -> str:
    expected = "\n".join(step.lines)
    return f"$ {step.command}\n--- expected\n{expected}\n--- printed\n{ran.stdout}"


def test_there_are_transcripts() -> None:
    assert len(list(FOLDER.glob("*.txt"))) >= 10


def test_a_transcript_that_does_not_fit_is_told() -> None:
    names = Names()
    assert names.fit("call: <ULID:call>", "call: 01ARZ3NDEKTSV4RRFFQ69G5FAV")
    assert names.fit("<ULID:call> <ULID>", "01ARZ3NDEKTSV4RRFFQ69G5FAV " + "0" * 26)
    assert not names.fit("call: <ULID:call>", f"call: {'0' * 26}")
    assert not names.fit("took <MS> ms.", "took 12 msx")
    assert names.put_into("palyra why <ULID:call>") == "palyra why 01ARZ3NDEKTSV4RRFFQ69G5FAV"
