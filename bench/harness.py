# SPDX-License-Identifier: Apache-2.0
"""Runs experiments: rounds of paired measurements in, one row per figure out.

A machine is never equally fast twice, so only what was measured side by side is compared: each
round gives a ratio, and the figure is the median of these ratios, not the ratio of two medians.
"""

from __future__ import annotations

import gc
import json
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, NamedTuple, TextIO

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from contextlib import AbstractContextManager


class Pair(NamedTuple):
    """What one round measured for one figure."""

    ours: float
    reference: float

    @property
    def ratio(self) -> float:
        """Ours by the reference."""
        return self.ours / self.reference


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """What a ratio should be, as text and as a comparison."""

    text: str
    holds: Callable[[float], bool]


def at_least(bound: float) -> Reach:
    """Expect a ratio of ``bound`` or more."""
    return Reach(text=f"at least {bound:g}", holds=lambda ratio: ratio >= bound)


def at_most(bound: float) -> Reach:
    """Expect a ratio of ``bound`` or less."""
    return Reach(text=f"at most {bound:g}", holds=lambda ratio: ratio <= bound)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One line of the report. Without a reach it is there for comparison only."""

    name: str
    unit: str
    note: str
    reach: Reach | None = None


class Place:
    """Where an experiment keeps its stores, and how it tells that it is busy."""

    def __init__(self, folder: Path, *, progress: TextIO) -> None:
        self._folder = folder
        self._progress = progress

    def fresh(self) -> Path:
        """Return a new, empty folder on the file system that all stores of a run share."""
        return Path(tempfile.mkdtemp(dir=self._folder))

    def say(self, text: str) -> None:
        """Tell whoever waits what takes so long."""
        self._progress.write(text)
        self._progress.flush()


Round = Callable[[], Mapping[Figure, Pair]]
"""Measures every figure of an experiment once."""


Turn = Callable[[], Awaitable[float]]
"""Works for a moment and returns the seconds it took."""


async def in_turn(ours: Turn, reference: Turn, *, turns: int) -> Pair:
    """Return the seconds of both sides, who work for ``turns`` moments each.

    A disk shared with others is fast and slow by the second: sides that take turns more often
    than that meet the same disk.
    """
    seconds = Pair(0.0, 0.0)
    for _ in range(turns):
        seconds = Pair(seconds.ours + await ours(), seconds.reference + await reference())
    return seconds


class UnavailableError(Exception):
    """What an experiment compares with is not on this machine. Its figures are listed as such."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """Figures that are measured together."""

    name: str
    group: str
    figures: tuple[Figure, ...]
    rounds: int
    open: Callable[[Place], AbstractContextManager[Round]]
    """Prepares, yields the round, and clears up. Raises ``UnavailableError``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A figure as it came out; one that could not be measured has no pairs."""

    figure: Figure
    pairs: tuple[Pair, ...]
    missing: str = ""

    @property
    def ratio(self) -> float | None:
        """The median of the ratios of the rounds."""
        return median(pair.ratio for pair in self.pairs) if self.pairs else None

    @property
    def is_held(self) -> bool | None:
        """Whether the ratio reaches what it should; ``None`` if there is nothing to say."""
        if self.figure.reach is None or self.ratio is None:
            return None
        return self.figure.reach.holds(self.ratio)

    def as_json(self) -> dict[str, object]:
        """Return the row as it stands in the report."""
        entry: dict[str, object] = {
            "name": self.figure.name,
            "ours": _rounded(median(pair.ours for pair in self.pairs) if self.pairs else None),
            "reference": _rounded(
                median(pair.reference for pair in self.pairs) if self.pairs else None
            ),
            "ratio": _rounded(self.ratio),
            "unit": self.figure.unit,
            "repeats": len(self.pairs),
            "note": self.missing or self.figure.note,
        }
        if self.figure.reach is not None:
            entry["reach"] = self.figure.reach.text
        if self.is_held is not None:
            entry["held"] = self.is_held
        return entry


class UnknownNameError(ValueError):
    """Nothing is called what ``--only`` names."""


def choose(experiments: Sequence[Experiment], only: Iterable[str]) -> list[Experiment]:
    """Return the experiments whose name or group is in ``only``; all of them if it is empty."""
    wanted = set(only)
    known = {name for each in experiments for name in (each.name, each.group)}
    if unknown := sorted(wanted - known):
        raise UnknownNameError(
            f"no benchmark is called {', '.join(unknown)}; there are {', '.join(sorted(known))}"
        )
    return [each for each in experiments if not wanted or wanted & {each.name, each.group}]


def run(experiment: Experiment, *, stores: Path, progress: TextIO = sys.stderr) -> list[Row]:
    """Measure the figures of ``experiment``, round by round, with stores below ``stores``."""
    began = time.perf_counter()
    progress.write(f"{experiment.name} ")
    measured: dict[Figure, list[Pair]] = {figure: [] for figure in experiment.figures}
    missing = ""
    with tempfile.TemporaryDirectory(prefix="stores-", dir=stores) as folder:
        try:
            with experiment.open(Place(Path(folder), progress=progress)) as measure:
                for _ in range(experiment.rounds):
                    gc.collect()  # so that one side's litter is not swept at the other's expense
                    for figure, pair in measure().items():
                        measured[figure].append(pair)
                    progress.write(".")
                    progress.flush()
        except UnavailableError as error:
            missing = f"not measured: {error}"
    progress.write(f" {missing or f'{time.perf_counter() - began:.0f} s'}\n")
    return [
        Row(figure=figure, pairs=() if missing else tuple(pairs), missing=missing)
        for figure, pairs in measured.items()
    ]


def write_report(rows: Sequence[Row], path: Path) -> None:
    """Write the rows as the list that ``bench/report.json`` is."""
    text = json.dumps([row.as_json() for row in rows], indent=2, ensure_ascii=False)
    path.write_text(f"{text}\n", encoding="utf-8")


_HEADINGS = ("figure", "ours", "reference", "unit", "ratio", "lowest-highest", "reach", "")
_IS_NUMBER = (False, True, True, False, True, True, False, False)


def table(rows: Sequence[Row]) -> str:
    """Return the rows as a table of plain text, and below it what could not be measured."""
    cells = [_HEADINGS, *(tuple(_cells(row)) for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(_HEADINGS))]
    lines = [
        "  ".join(
            cell.rjust(width) if is_number else cell.ljust(width)
            for cell, width, is_number in zip(line, widths, _IS_NUMBER, strict=True)
        ).rstrip()
        for line in cells
    ]
    lines.insert(1, "-" * max(len(line) for line in lines))
    lines += [f"{row.figure.name}: {row.missing}" for row in rows if row.missing]
    return "\n".join(lines)


def _cells(row: Row) -> Iterator[str]:
    entry = row.as_json()
    ratios = [pair.ratio for pair in row.pairs]
    yield row.figure.name
    yield _short(entry["ours"])
    yield _short(entry["reference"])
    yield row.figure.unit
    yield _short(entry["ratio"])
    yield f"{_short(min(ratios))}-{_short(max(ratios))}" if ratios else ""
    yield row.figure.reach.text if row.figure.reach is not None else ""
    match row.is_held:
        case True:
            yield "held"
        case False:
            yield "MISSED"
        case None:
            yield "not measured" if row.missing else ""


def _short(value: object) -> str:
    """Return a number with three digits that mean something, and no exponent."""
    if not isinstance(value, int | float):
        return "-"
    decimals = next((n for n, least in ((0, 100), (1, 10), (2, 1)) if abs(value) >= least), 3)
    return f"{value:,.{decimals}f}"


def _rounded(value: float | None) -> float | None:
    return float(f"{value:.5g}") if value is not None else None
