# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import hashlib
import json

import msgspec
import pytest

from palyra.core.canonical import canonical_record
from palyra.core.facts import NO_FACTS, Facts, bounded

MANY = tuple(f"p{number}" for number in range(70))
LONG = tuple(f"{number}/" + 500 * "\x01" for number in range(4))  # six bytes each in JSON


def test_no_facts_are_written_as_nothing() -> None:
    assert canonical_record(NO_FACTS) == b"{}"
    assert Facts() == NO_FACTS


def test_facts_round_trip() -> None:
    facts = Facts(
        workspace="site",
        reads=("a", "b"),
        writes=("c",),
        protected=(".git/config",),
        size_bytes=3,
        duration_ms=4,
    )
    assert msgspec.json.decode(canonical_record(facts), type=Facts) == facts


def digest(facts: Facts) -> str:
    """Recompute the digest of the full lists from its documentation alone."""
    lists = {"protected": facts.protected, "reads": facts.reads, "writes": facts.writes}
    return hashlib.sha256(json.dumps(lists, separators=(",", ":")).encode()).hexdigest()


@pytest.mark.parametrize(
    "facts", [NO_FACTS, Facts(reads=MANY[:64], writes=MANY[:64], protected=MANY[:64])]
)
def test_facts_within_bounds_stay_as_they_are(facts: Facts) -> None:
    assert bounded(facts) is facts


@pytest.mark.invariant("I13")
@pytest.mark.parametrize(
    ("facts", "kept"),
    [
        pytest.param(
            Facts(reads=MANY, writes=MANY[:65], protected=MANY[:1], size_bytes=7),
            Facts(
                reads=MANY[:64],
                writes=MANY[:64],
                protected=MANY[:1],
                size_bytes=7,
                more_paths=7,
            ),
            id="the-first-64-of-each-list",
        ),
        pytest.param(
            Facts(reads=LONG, writes=LONG, protected=LONG[:2]),
            Facts(writes=LONG[:3], protected=LONG[:2], more_paths=5),
            id="protected-before-written-before-read-paths",
        ),
        pytest.param(
            Facts(protected=("x" * 20_000,)), Facts(more_paths=1), id="one-path-that-is-too-long"
        ),
    ],
)
def test_facts_are_cut_to_bounds(facts: Facts, kept: Facts) -> None:
    expected = msgspec.structs.replace(kept, paths_sha256=digest(facts))
    assert bounded(facts) == expected
    assert len(canonical_record(expected)) <= 16 * 1024


@pytest.mark.invariant("I13")
@pytest.mark.parametrize("length", range(200, 300, 7))
def test_no_length_of_paths_passes_the_bound(length: int) -> None:
    paths = tuple("x" * length for _ in range(70))
    cut = bounded(Facts(reads=paths, writes=paths, protected=paths))
    assert 15 * 1024 < len(canonical_record(cut)) <= 16 * 1024


def test_facts_too_large_without_paths_are_refused() -> None:
    with pytest.raises(ValueError, match="too large without any path"):
        bounded(Facts(workspace="w" * 17_000))
