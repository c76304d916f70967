# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import hashlib
import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palyra.core.canonical import canonical_record
from palyra.core.facts import NO_FACTS, Facts, bounded
from tests.support.vectors import vectors

MANY = tuple(f"p{number}" for number in range(70))
LISTS = ("protected", "outside", "writes", "reads", "hosts", "methods", "argv")
"""Those of texts."""
ITEMS = st.tuples(st.integers(0, 80), st.sampled_from([0, 1, 20, 500, 3000])).map(
    lambda counted: tuple(f"{number}{counted[1] * 'x'}" for number in range(counted[0]))
)
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
        outside=("/etc/hosts",),
        executable="/usr/bin/cp",
        argv=("cp", "-r", "a", "a"),
        hosts=("example.org",),
        ports=(443, 80),
        methods=("GET",),
        size_bytes=3,
        duration_ms=4,
    )
    assert msgspec.json.decode(canonical_record(facts), type=Facts) == facts


def digest(facts: Facts) -> str:
    """Recompute the digest of the full lists from its documentation alone."""
    names = ("argv", "hosts", "methods", "outside", "ports", "protected", "reads", "writes")
    lists = {name: getattr(facts, name) for name in names}
    return hashlib.sha256(json.dumps(lists, separators=(",", ":")).encode()).hexdigest()


@pytest.mark.parametrize(
    "facts",
    [
        NO_FACTS,
        msgspec.convert(dict.fromkeys(LISTS, MANY[:64]) | {"ports": tuple(range(64))}, Facts),
        Facts(reads=("x" * (16 * 1024 - len('{"reads":[""]}')),)),
    ],
    ids=["nothing", "64-of-each", "16-KiB"],
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
                left_out=7,
            ),
            id="the-first-64-of-each-list",
        ),
        pytest.param(
            Facts(reads=LONG, writes=LONG, protected=LONG[:2]),
            Facts(writes=LONG[:3], protected=LONG[:2], left_out=5),
            id="protected-before-written-before-read-paths",
        ),
        pytest.param(
            Facts(protected=("x" * 20_000,)), Facts(left_out=1), id="one-path-that-is-too-long"
        ),
        pytest.param(
            Facts(ports=tuple(range(70)), hosts=MANY, argv=MANY[:65], methods=("GET",)),
            Facts(
                ports=tuple(range(64)),
                hosts=MANY[:64],
                argv=MANY[:64],
                methods=("GET",),
                left_out=13,
            ),
            id="hosts-ports-and-arguments-too",
        ),
        pytest.param(
            Facts(outside=LONG, writes=LONG, argv=("cp",)),
            Facts(outside=LONG, writes=LONG[:1], left_out=4),
            id="outside-before-written-paths-before-arguments",
        ),
        pytest.param(
            Facts(reads=MANY[:65], left_out=3),
            Facts(reads=MANY[:64], left_out=4),
            id="those-left-out-by-the-tool-still-count",
        ),
    ],
)
def test_facts_are_cut_to_bounds(facts: Facts, kept: Facts) -> None:
    expected = msgspec.structs.replace(kept, lists_sha256=digest(facts))
    assert bounded(facts) == expected
    assert len(canonical_record(expected)) <= 16 * 1024


@pytest.mark.invariant("I13")
@pytest.mark.parametrize("length", range(200, 300, 7))
def test_no_length_of_paths_passes_the_bound(length: int) -> None:
    paths = tuple("x" * length for _ in range(70))
    cut = bounded(Facts(reads=paths, writes=paths, protected=paths))
    assert 15 * 1024 < len(canonical_record(cut)) <= 16 * 1024


def test_facts_too_large_without_any_list_are_refused() -> None:
    with pytest.raises(ValueError, match="too large without any list"):
        bounded(Facts(workspace="w" * 17_000))


def test_digest_of_the_lists_is_that_of_the_vector() -> None:
    vector = vectors("digests")["facts"]
    cut = bounded(msgspec.convert(vector["lists"], Facts))
    assert cut.left_out == 1
    assert cut.lists_sha256 == vector["lists_sha256"]


@pytest.mark.invariant("I13")
@given(
    st.builds(
        Facts,
        **dict.fromkeys(LISTS, ITEMS),
        ports=st.integers(0, 80).map(lambda count: tuple(range(count))),
        left_out=st.integers(0, 3),
    )
)
def test_what_is_cut_is_a_beginning_of_each_list_and_counted(facts: Facts) -> None:
    cut = bounded(facts)
    assert len(canonical_record(cut)) <= 16 * 1024
    assert bounded(cut) is cut
    missing = 0
    for name in (*LISTS, "ports"):
        full, kept = getattr(facts, name), getattr(cut, name)
        assert kept == full[: len(kept)]
        assert len(kept) <= 64
        missing += len(full) - len(kept)
    assert cut.left_out == facts.left_out + missing
    assert bool(cut.lists_sha256) is bool(missing)
