# SPDX-License-Identifier: Apache-2.0
"""How long the ``palyra`` command takes, against the bare interpreter it runs on."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from bench.harness import Experiment, Figure, Pair, Place, Round, UnavailableError, at_most

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROUNDS = 15
_NOTHING = (sys.executable, "-c", "pass")
_PALYRA = Path(sys.executable).with_name("palyra")
_NOTE = "Process start to process end, against python -c pass with the same interpreter."

HELP = Figure(name="palyra --help", unit="ms", reach=at_most(10), note=_NOTE)
CONFIG = Figure(
    name="palyra config show",
    unit="ms",
    reach=at_most(10),
    note=f"{_NOTE} Without a state directory or a configuration file.",
)


@contextmanager
def _open(place: Place) -> Iterator[Round]:
    if not _PALYRA.exists():
        raise UnavailableError(f"there is no {_PALYRA}")
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PALYRA_")}
    environ["PALYRA_HOME"] = str(place.fresh() / "home")
    commands = {HELP: (str(_PALYRA), "--help"), CONFIG: (str(_PALYRA), "config", "show")}
    for command in (_NOTHING, *commands.values()):  # compiles what was never imported before
        _milliseconds(command, environ)

    def measure() -> Mapping[Figure, Pair]:
        return {
            figure: Pair(_milliseconds(command, environ), _milliseconds(_NOTHING, environ))
            for figure, command in commands.items()
        }

    yield measure


def _milliseconds(command: tuple[str, ...], environ: Mapping[str, str]) -> float:
    began = time.perf_counter()
    subprocess.run(
        command, env=environ, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
    return (time.perf_counter() - began) * 1000


EXPERIMENTS = (
    Experiment(
        name="command_start", group="cli", figures=(HELP, CONFIG), rounds=ROUNDS, open=_open
    ),
)
