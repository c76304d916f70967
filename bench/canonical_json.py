# SPDX-License-Identifier: Apache-2.0
"""Canonical JSON against the package that defines it, and what strict decoding costs."""

from __future__ import annotations

import asyncio
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec
import orjson

from bench.harness import Experiment, Figure, Pair, Place, Round, UnavailableError, at_least
from palyra.core.canonical import canonical_record, canonicalize
from palyra.core.events import CallDecided
from palyra.core.strict_json import JsonLimits, decode
from palyra.daemon.embedded import EmbeddedGate

try:
    import rfc8785
except ModuleNotFoundError:
    rfc8785 = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

ROUNDS = 15
SLICES = 20
SLICE_SECONDS = 0.002
_TEXT = "a sentence that an agent wants to hear again, " * 5
_DOCUMENT = "the journal's record of a decided echo, about 1 KB"

CANONICALIZE = Figure(
    name="canonicalize",
    unit="documents/s",
    reach=at_least(20),
    note=f"Against rfc8785.dumps, both on {_DOCUMENT}, as plain Python values.",
)
CANONICAL_RECORD = Figure(
    name="canonical_record",
    unit="documents/s",
    reach=at_least(20),
    note=f"Against rfc8785.dumps on plain Python values, ours from the typed record: {_DOCUMENT}.",
)
DECODE_COMPACT = Figure(
    name="strict decode, compact",
    unit="documents/s",
    note=f"Against orjson.loads, which lets duplicate keys and large numbers pass: {_DOCUMENT}.",
)
DECODE_PRETTY = Figure(
    name="strict decode, pretty-printed",
    unit="documents/s",
    note="Against orjson.loads, on the same document with line breaks and indentation: it cannot"
    " be compared with what was written back, so the careful parser reads it.",
)


@contextmanager
def _open(place: Place) -> Iterator[Round]:
    if rfc8785 is None:
        raise UnavailableError("the package rfc8785 is not installed")
    body = asyncio.run(_decided(place))
    record = msgspec.json.decode(body, type=CallDecided)
    value = orjson.loads(body)
    pretty = orjson.dumps(value, option=orjson.OPT_INDENT_2)
    limits = JsonLimits()
    if not canonicalize(value) == canonical_record(record) == rfc8785.dumps(value) == body:
        raise RuntimeError("the canonical forms differ")

    def measure() -> Mapping[Figure, Pair]:
        return {
            CANONICALIZE: _side_by_side(lambda: canonicalize(value), lambda: rfc8785.dumps(value)),
            CANONICAL_RECORD: _side_by_side(
                lambda: canonical_record(record), lambda: rfc8785.dumps(value)
            ),
            DECODE_COMPACT: _side_by_side(
                lambda: decode(body, limits=limits), lambda: orjson.loads(body)
            ),
            DECODE_PRETTY: _side_by_side(
                lambda: decode(pretty, limits=limits), lambda: orjson.loads(pretty)
            ),
        }

    yield measure


async def _decided(place: Place) -> bytes:
    """Return the body of a real record."""
    async with EmbeddedGate.open(place.fresh(), environ={}) as gate:
        await gate.call("palyra.echo", {"text": _TEXT}, agent="demo")
        entries = gate.composition.ledger.reads.entries()
        return next(entry.body for entry in entries if entry.kind == CallDecided.kind)


def _side_by_side(ours: Callable[[], object], reference: Callable[[], object]) -> Pair:
    """Return the calls per second of both, in many short slices taken in turn."""
    calls = [0, 0]
    seconds = [0.0, 0.0]
    for _ in range(SLICES):
        for side, function in enumerate((ours, reference)):
            began = ended = time.perf_counter()
            while ended - began < SLICE_SECONDS:
                for _ in range(10):
                    function()
                calls[side] += 10
                ended = time.perf_counter()
            seconds[side] += ended - began
    return Pair(calls[0] / seconds[0], calls[1] / seconds[1])


EXPERIMENTS = (
    Experiment(
        name="canonical_json",
        group="json",
        figures=(CANONICALIZE, CANONICAL_RECORD, DECODE_COMPACT, DECODE_PRETTY),
        rounds=ROUNDS,
        open=_open,
    ),
)
