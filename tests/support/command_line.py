# SPDX-License-Identifier: Apache-2.0
"""The command line within the test's own process: arguments in, exit code and output out."""

from __future__ import annotations

import io
import json
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from palyra.cli.main import main

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What one command printed, and how it ended."""

    status: int
    out: str
    err: str

    @property
    def document(self) -> Any:  # noqa: ANN401 - whatever JSON holds
        """The one JSON document on standard output."""
        return json.loads(self.out)


class CommandLine:
    """Runs commands on a home of the test's own."""

    def __init__(
        self,
        tmp_path: Path,
        *,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        self.home = tmp_path / "state"
        self._monkeypatch = monkeypatch
        self._capsys = capsys
        monkeypatch.setenv("PALYRA_HOME", str(self.home))
        monkeypatch.setenv("HOME", str(tmp_path / "user"))

    def __call__(self, *arguments: str, standard_input: bytes = b"") -> Ran:
        self._capsys.readouterr()
        self._monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(standard_input)))
        status = main(list(arguments))
        captured = self._capsys.readouterr()
        return Ran(status=status, out=captured.out, err=captured.err)

    def json(self, *arguments: str, standard_input: bytes = b"") -> Ran:
        """Run with ``--json``."""
        return self(*arguments, "--json", standard_input=standard_input)
