# SPDX-License-Identifier: Apache-2.0
"""The one home of the real clock and of real randomness."""

from __future__ import annotations

import os
import time

from palyra.core.ids import ulid


class SystemClock:
    """Wall-clock time for records, monotonic time for durations."""

    def now_ms(self) -> int:
        """Return unix milliseconds."""
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        """Return milliseconds that never go backwards."""
        return time.monotonic_ns() // 1_000_000


class UlidSource:
    """Fresh ULIDs from the clock and the kernel's randomness."""

    def ulid(self) -> str:
        """Return a new ULID."""
        return ulid(time_ms=time.time_ns() // 1_000_000, entropy=os.urandom(10))
