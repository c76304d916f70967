# SPDX-License-Identifier: Apache-2.0
"""A call to ``palyra.echo`` through the whole gate, against bare commits.

Each such call is decided by policy, leaves two durable records and returns a signed attestation.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import contextmanager
from itertools import repeat
from statistics import median
from typing import TYPE_CHECKING

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from bench.harness import Experiment, Figure, Pair, Place, Round, at_least, at_most, in_turn
from bench.naive_commits import EMPTY_NOTE, WARMED_UP, WARMED_UP_NOTE, NaiveStore
from palyra.core.lifecycle import CallState
from palyra.daemon.embedded import EmbeddedGate

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

IN_FLIGHT = 128
CALLS = 3000
COMMITS = 600
PAIRS = 80
TURNS = 3
ROUNDS = 9
_MANY = "1000000"
ENVIRON = {
    "PALYRA_TOOL_CALL__MAX_CALLS_PER_RUN": _MANY,
    "PALYRA_TOOL_CALL__MAX_CALLS_PER_SESSION": _MANY,
    "PALYRA_TOOL_CALL__MAX_CALLS_PER_AGENT_HOUR": _MANY,
    "PALYRA_LIMITS__PROPOSALS_PER_SECOND": "100000",
    "PALYRA_LIMITS__PROPOSAL_BURST": _MANY,
}
_MESSAGE = bytes(400)

MANY = Figure(
    name=f"gated echo, {IN_FLIGHT} in flight",
    unit="calls/s",
    reach=at_least(1.0),
    note=f"{CALLS} calls against {COMMITS} naive commits in each round. {EMPTY_NOTE}",
)
MANY_WARM = Figure(name=MANY.name + WARMED_UP, unit=MANY.unit, note=WARMED_UP_NOTE)
ALONE = Figure(
    name="gated echo alone, median latency",
    unit="ms",
    reach=at_most(1.8),
    note=f"Against two naive commits and one Ed25519 signature, {PAIRS} times in turn in each"
    f" round. {EMPTY_NOTE}",
)
ALONE_WARM = Figure(name=ALONE.name + WARMED_UP, unit=ALONE.unit, note=WARMED_UP_NOTE)


@contextmanager
def _throughput(place: Place) -> Iterator[Round]:
    def measure() -> Mapping[Figure, Pair]:
        return {
            MANY: asyncio.run(_per_second(place, is_warm=False)),
            MANY_WARM: asyncio.run(_per_second(place, is_warm=True)),
        }

    yield measure


async def _per_second(place: Place, *, is_warm: bool) -> Pair:
    async with EmbeddedGate.open(place.fresh(), environ=ENVIRON) as gate:
        await _echo(gate)  # opens the run that the others share
        with NaiveStore(place.fresh()) as naive:
            if is_warm:
                naive.warm_up()
            seconds = await in_turn(
                lambda: _echoes(gate, CALLS // TURNS),
                lambda: naive.seconds(COMMITS // TURNS),
                turns=TURNS,
            )
    return Pair(CALLS / seconds.ours, COMMITS / seconds.reference)


async def _echoes(gate: EmbeddedGate, calls: int) -> float:
    """Return how long so many calls take with ``IN_FLIGHT`` of them under way at any time."""
    calls_left = iter(repeat(None, calls))

    async def caller() -> None:
        for _ in calls_left:
            await _echo(gate)

    began = time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(IN_FLIGHT)))
    return time.perf_counter() - began


@contextmanager
def _latency(place: Place) -> Iterator[Round]:
    def measure() -> Mapping[Figure, Pair]:
        return {
            ALONE: asyncio.run(_milliseconds(place, is_warm=False)),
            ALONE_WARM: asyncio.run(_milliseconds(place, is_warm=True)),
        }

    yield measure


async def _milliseconds(place: Place, *, is_warm: bool) -> Pair:
    key = Ed25519PrivateKey.generate()
    ours: list[float] = []
    reference: list[float] = []
    async with EmbeddedGate.open(place.fresh(), environ=ENVIRON) as gate:
        await _echo(gate)
        with NaiveStore(place.fresh()) as naive:
            if is_warm:
                naive.warm_up()
            for _ in range(PAIRS):
                began = time.perf_counter()
                await _echo(gate)
                between = time.perf_counter()
                naive.commit()
                naive.commit()
                key.sign(_MESSAGE)
                ended = time.perf_counter()
                ours.append(between - began)
                reference.append(ended - between)
    return Pair(median(ours) * 1000, median(reference) * 1000)


async def _echo(gate: EmbeddedGate) -> None:
    result = await gate.call("palyra.echo", {"text": "hello"}, agent="demo")
    if result.state != CallState.SUCCEEDED:
        raise RuntimeError(f"an echo ended as {result.state}: {result.decision.reason}")


EXPERIMENTS = (
    Experiment(
        name="gated_echo_in_flight",
        group="gate",
        figures=(MANY, MANY_WARM),
        rounds=ROUNDS,
        open=_throughput,
    ),
    Experiment(
        name="gated_echo_alone",
        group="gate",
        figures=(ALONE, ALONE_WARM),
        rounds=ROUNDS,
        open=_latency,
    ),
)
