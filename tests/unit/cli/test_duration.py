# SPDX-License-Identifier: Apache-2.0
import click
import pytest

from palyra.cli.duration import AGE, DURATION, LIFETIME, Duration


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


@pytest.mark.parametrize(
    ("duration", "examples"),
    [(DURATION, "500ms, 10s or 2m"), (AGE, "12h or 7d"), (LIFETIME, "30m, 2h or 7d")],
)
def test_what_would_be_a_duration_is_told(duration: Duration, examples: str) -> None:
    with pytest.raises(click.BadParameter, match=f"not a duration such as {examples}$"):
        duration.convert("soon", None, None)
