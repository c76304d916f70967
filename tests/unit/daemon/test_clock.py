# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import time
from typing import TYPE_CHECKING

from palyra.core.ids import is_ulid
from palyra.daemon.clock import SystemClock, UlidSource

if TYPE_CHECKING:
    from palyra.core.ports import Clock, IdSource


def test_the_time_is_the_systems() -> None:
    clock: Clock = SystemClock()
    before = time.time_ns() // 1_000_000
    assert before <= clock.now_ms() <= time.time_ns() // 1_000_000


def test_durations_never_go_backwards() -> None:
    clock = SystemClock()
    moments = [clock.monotonic_ms() for _ in range(1000)]
    assert moments == sorted(moments)


def test_ids_are_ulids_and_never_the_same() -> None:
    ids: IdSource = UlidSource()
    made = [ids.ulid() for _ in range(1000)]
    assert all(is_ulid(each) for each in made)
    assert len(set(made)) == len(made)


def test_ids_sort_by_their_time() -> None:
    ids = UlidSource()
    first = ids.ulid()
    time.sleep(0.002)
    assert first < ids.ulid()
