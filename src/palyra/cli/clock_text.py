# SPDX-License-Identifier: Apache-2.0
"""Unix milliseconds in, the RFC 3339 time in UTC that people read out."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def rfc3339(time_ms: int) -> str:
    """Return a time such as ``2026-01-31T23:59:59.123Z``; what no calendar has, as its number."""
    try:
        moment = _EPOCH + timedelta(milliseconds=time_ms)
    except OverflowError:
        return str(time_ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
