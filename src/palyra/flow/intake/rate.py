# SPDX-License-Identifier: Apache-2.0
"""How fast one caller may propose: a token bucket for each principal, before anything is journaled.

The number of buckets is bounded (I13): the one unused for longest makes room. A caller cannot win
by that, because a new bucket begins with as much as a full one.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from palyra.core.ports import Clock
    from palyra.core.principal import Principal

_MOST_BUCKETS: Final = 4096
_FLOOD_OVER_MS: Final = 60_000


class Allowance(msgspec.Struct, frozen=True, kw_only=True):
    """How fast, and how many at once."""

    proposals_per_second: int
    burst: int


class _Bucket:
    __slots__ = ("dropped", "dropped_at_ms", "filled_at_ms", "tokens")

    def __init__(self, *, tokens: float, filled_at_ms: int) -> None:
        self.tokens = tokens
        self.filled_at_ms = filled_at_ms
        self.dropped = 0
        self.dropped_at_ms = filled_at_ms


class ProposalRate:
    """Counts proposals against an allowance."""

    def __init__(self, allowance: Allowance, *, clock: Clock) -> None:
        self._allowance = allowance
        self._clock = clock
        self._buckets: OrderedDict[Principal, _Bucket] = OrderedDict()

    def take(self, principal: Principal) -> int:
        """Return 0 if the caller may propose now, else how many it had refused in this flood.

        A flood ends with a minute in which nothing is refused, not with the next proposal that
        is taken: else a steady flood would begin anew many times a second, and be journaled so.
        """
        bucket = self._bucket(principal)
        if bucket.tokens >= 1:
            bucket.tokens -= 1
            return 0
        now_ms = bucket.filled_at_ms
        if now_ms - bucket.dropped_at_ms >= _FLOOD_OVER_MS:
            bucket.dropped = 0
        bucket.dropped_at_ms = now_ms
        bucket.dropped += 1
        return bucket.dropped

    def _bucket(self, principal: Principal) -> _Bucket:
        now_ms = self._clock.monotonic_ms()
        bucket = self._buckets.get(principal)
        if bucket is None:
            bucket = _Bucket(tokens=float(self._allowance.burst), filled_at_ms=now_ms)
            self._buckets[principal] = bucket
            if len(self._buckets) > _MOST_BUCKETS:
                self._buckets.popitem(last=False)
            return bucket
        self._buckets.move_to_end(principal)
        gained = (now_ms - bucket.filled_at_ms) * self._allowance.proposals_per_second / 1000
        bucket.tokens = min(float(self._allowance.burst), bucket.tokens + gained)
        bucket.filled_at_ms = now_ms
        return bucket
