# SPDX-License-Identifier: Apache-2.0
import click
import pytest

from palyra.cli.duration import DURATION


@pytest.mark.parametrize(
    ("text", "duration_ms"),
    [
        ("500ms", 500),
        ("10s", 10_000),
        ("2m", 120_000),
        ("1h", 3_600_000),
        ("7d", 604_800_000),
        ("3", 3000),
        ("0.25", 250),
    ],
)
def test_durations(text: str, duration_ms: int) -> None:
    assert DURATION.convert(text, None, None) == duration_ms


@pytest.mark.parametrize(
    "text", ["", "0", "0.1ms", "-1s", "1 s", "s", "1e3", "inf", "nan", "1w", "٣s"]
)
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(click.BadParameter):
        DURATION.convert(text, None, None)
