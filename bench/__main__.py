# SPDX-License-Identifier: Apache-2.0
"""``python -m bench``: measure, print the table, write ``bench/report.json``."""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from bench import (
    canonical_json,
    command_start,
    gated_echo,
    journal_append,
    policy_activation,
    policy_decide,
    policy_growth,
)
from bench.harness import Experiment, UnknownNameError, choose, run, table, write_report

if TYPE_CHECKING:
    from collections.abc import Sequence

EXPERIMENTS: tuple[Experiment, ...] = (
    *gated_echo.EXPERIMENTS,
    *journal_append.EXPERIMENTS,
    *command_start.EXPERIMENTS,
    *canonical_json.EXPERIMENTS,
    *policy_decide.EXPERIMENTS,
    *policy_growth.EXPERIMENTS,
    *policy_activation.EXPERIMENTS,
)
FOLDER = Path(__file__).resolve().parent
REPORT = FOLDER / "report.json"


def main(
    arguments: Sequence[str] | None = None,
    *,
    experiments: Sequence[Experiment] = EXPERIMENTS,
    report: Path = REPORT,
) -> int:
    """Run the chosen experiments. A missed figure fails the run only with ``--strict``."""
    options = _parser(experiments).parse_args(arguments)
    try:
        chosen = choose(experiments, [name for name in options.only.split(",") if name])
    except UnknownNameError as error:
        print(error, file=sys.stderr)
        return 2
    began = time.perf_counter()
    # Not always below /tmp: where that is memory, no commit costs what it costs on a disk.
    stores = Path(os.environ.get("TMPDIR") or FOLDER)
    print(
        f"Python {platform.python_version()}, {os.cpu_count()} processors,"
        f" load {os.getloadavg()[0]:.1f}, stores in {stores}"
    )
    rows = [row for each in chosen for row in run(each, stores=stores)]
    write_report(rows, report)
    print(table(rows))
    due = [row for row in rows if row.figure.reach is not None]
    held = sum(row.is_held is True for row in due)
    took = time.perf_counter() - began
    print(f"{held} of {len(due)} figures held; {took:.0f} s; written to {report}")
    return 1 if options.strict and held < len(due) else 0


def _parser(experiments: Sequence[Experiment]) -> argparse.ArgumentParser:
    groups = sorted({each.group for each in experiments})
    names = [each.name for each in experiments]
    parser = argparse.ArgumentParser(
        prog="python -m bench", description="Measure Palyra beside references, in one run."
    )
    parser.add_argument(
        "--only",
        default="",
        metavar="NAME,NAME",
        help=f"measure a part: groups ({', '.join(groups)}) or benchmarks ({', '.join(names)})",
    )
    parser.add_argument(
        "--strict", action="store_true", help="exit with 1 unless every figure is held"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
