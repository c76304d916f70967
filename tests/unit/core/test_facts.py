# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import msgspec

from palyra.core.canonical import canonical_record
from palyra.core.facts import NO_FACTS, Facts


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
