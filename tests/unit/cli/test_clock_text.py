# SPDX-License-Identifier: Apache-2.0
import pytest

from palyra.cli.clock_text import rfc3339


@pytest.mark.parametrize(
    ("time_ms", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (1_769_903_999_123, "2026-01-31T23:59:59.123Z"),
        (2**62, str(2**62)),
        (-(2**62), str(-(2**62))),
    ],
)
def test_rfc3339(time_ms: int, text: str) -> None:
    assert rfc3339(time_ms) == text
