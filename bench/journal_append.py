# SPDX-License-Identifier: Apache-2.0
"""Durable appends to the journal: hash-linked, under a signed head, by many producers at once."""

from __future__ import annotations

import asyncio
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from bench.harness import Experiment, Figure, Pair, Place, Round, at_least, at_most, in_turn
from bench.naive_commits import EMPTY_NOTE, ROW_BYTES, WARMED_UP, WARMED_UP_NOTE, NaiveStore
from palyra.core.canonical import canonical_record
from palyra.core.events import FloodSuppressed
from palyra.core.transitions import Note
from palyra.daemon.clock import SystemClock, UlidSource
from palyra.daemon.compose import signing_key
from palyra.daemon.home import prepare_home
from palyra.store.instances import starting
from palyra.store.sqlite.ledger import Ledger

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

PRODUCERS = 128
APPENDS = 12_800
APPENDS_ALONE = 400
COMMITS = 600
TURNS = 4
ROUNDS = 9
ROUNDS_AGAINST_NAIVE = 15
MANY_ENTRIES = 1_000_000
FEW_ENTRIES = 1_000
BUILD_AT_ONCE = 1_000

_ids = UlidSource()


def _event(code: str | None = None) -> FloodSuppressed:
    """Return an event with a body of exactly ``ROW_BYTES`` and a subject of its own.

    Subjects are indexed, and nearly all of them end in a ULID. This kind says nothing about state,
    so a journal that is full of it still verifies.
    """
    return FloodSuppressed(
        principal=f"agent:{_ids.ulid()}", code=_PADDING if code is None else code, count=1
    )


_PADDING = "x" * (ROW_BYTES - len(canonical_record(_event(code=""))))

APPEND = Figure(
    name=f"journal append, {PRODUCERS} producers",
    unit="records/s",
    reach=at_least(20),
    note=f"{APPENDS:,} records with a body of exactly {len(canonical_record(_event()))} bytes"
    f" against {COMMITS} naive commits of {ROW_BYTES} bytes in each round. {EMPTY_NOTE}",
)
APPEND_WARM = Figure(name=APPEND.name + WARMED_UP, unit=APPEND.unit, note=WARMED_UP_NOTE)
GROWTH = Figure(
    name=f"append cost at {MANY_ENTRIES:,} entries",
    unit="us/record",
    reach=at_most(1.2),
    note=f"{APPENDS:,} records by {PRODUCERS} producers on a journal of {MANY_ENTRIES:,} entries,"
    f" against the same on one of {FEW_ENTRIES:,}. Both are closed and opened again before each"
    " round, so that their write-ahead logs begin empty.",
)
GROWTH_ALONE = Figure(
    name=f"append cost at {MANY_ENTRIES:,} entries, one producer",
    unit="us/record",
    note=f"As the figure with {PRODUCERS} producers, {APPENDS_ALONE} records one after the other.",
)


@contextmanager
def _against_naive(place: Place) -> Iterator[Round]:
    def measure() -> Mapping[Figure, Pair]:
        return {
            APPEND: asyncio.run(_per_second(place, is_warm=False)),
            APPEND_WARM: asyncio.run(_per_second(place, is_warm=True)),
        }

    yield measure


async def _per_second(place: Place, *, is_warm: bool) -> Pair:
    with _ledger(place.fresh()) as ledger, NaiveStore(place.fresh()) as naive:
        if is_warm:
            naive.warm_up()
        seconds = await in_turn(
            lambda: _append(ledger, APPENDS // TURNS, producers=PRODUCERS),
            lambda: naive.seconds(COMMITS // TURNS),
            turns=TURNS,
        )
    return Pair(APPENDS / seconds.ours, COMMITS / seconds.reference)


@contextmanager
def _against_small(place: Place) -> Iterator[Round]:
    large = place.fresh()
    with _ledger(large) as ledger:
        _fill(ledger, MANY_ENTRIES, place=place)

    def measure() -> Mapping[Figure, Pair]:
        return {
            GROWTH: asyncio.run(_costs(large, _small(place), producers=PRODUCERS, appends=APPENDS)),
            GROWTH_ALONE: asyncio.run(
                _costs(large, _small(place), producers=1, appends=APPENDS_ALONE)
            ),
        }

    yield measure


def _small(place: Place) -> Path:
    home = place.fresh()
    with _ledger(home) as ledger:
        _fill(ledger, FEW_ENTRIES)
    return home


async def _costs(large: Path, small: Path, *, producers: int, appends: int) -> Pair:
    """Return the microseconds that one record takes on either journal."""
    with _ledger(large) as many, _ledger(small) as few:
        seconds = await in_turn(
            lambda: _append(many, appends // TURNS, producers=producers),
            lambda: _append(few, appends // TURNS, producers=producers),
            turns=TURNS,
        )
    return Pair(seconds.ours / appends * 1e6, seconds.reference / appends * 1e6)


def _fill(ledger: Ledger, entries: int, *, place: Place | None = None) -> None:
    """Append until the journal has ``entries``, many in one commit."""
    size = ledger.reads.size()
    while size < entries:
        some = min(BUILD_AT_ONCE, entries - size)
        ledger.record_now(Note(events=tuple(_event() for _ in range(some))))
        size += some
        if place is not None and size % (entries // 10) < some:
            place.say(f"[{size:,}] ")


async def _append(ledger: Ledger, appends: int, *, producers: int) -> float:
    """Return how long ``producers``, who each wait for one record at a time, take for so many."""
    notes = iter([Note(events=(_event(),)) for _ in range(appends)])
    ledger.attend(lambda: producers == 1)

    async def produce() -> None:
        for note in notes:
            await ledger.record(note)

    began = time.perf_counter()
    await asyncio.gather(*(produce() for _ in range(producers)))
    return time.perf_counter() - began


@contextmanager
def _ledger(home: Path) -> Iterator[Ledger]:
    """Open the journal in ``home``, creating it with a key on first use."""
    prepare_home(home)
    with starting(home):
        ledger = Ledger.open(
            home,
            signer=signing_key(home, ids=_ids),
            clock=SystemClock(),
            ids=_ids,
            busy_timeout_ms=5000,
        )
    try:
        yield ledger
    finally:
        ledger.close()


EXPERIMENTS = (
    Experiment(
        name="journal_append",
        group="journal",
        figures=(APPEND, APPEND_WARM),
        rounds=ROUNDS_AGAINST_NAIVE,
        open=_against_naive,
    ),
    Experiment(
        name="journal_growth",
        group="journal",
        figures=(GROWTH, GROWTH_ALONE),
        rounds=ROUNDS,
        open=_against_small,
    ),
)
