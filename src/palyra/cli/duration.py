# SPDX-License-Identifier: Apache-2.0
"""Durations as people type them in, milliseconds out: ``500ms``, ``10s``, ``2m``, ``7d``."""

from __future__ import annotations

import re
from typing import Any

import click

_FORM = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)(ms|s|m|h|d)?", re.ASCII)
_MILLISECONDS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


class Duration(click.ParamType[int]):
    """A duration of at least one millisecond; a plain number is seconds."""

    name = "duration"

    def __init__(self, *examples: str) -> None:
        *others, last = examples
        self._examples = f"{', '.join(others)} or {last}"

    def convert(
        self,
        value: Any,  # noqa: ANN401 - click's own signature
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> int:
        """Return milliseconds, rounded down."""
        form = _FORM.fullmatch(str(value))
        if form is None:
            self.fail(f"it is not a duration such as {self._examples}", param, ctx)
        duration_ms = int(float(form[1]) * _MILLISECONDS[form[2] or "s"])
        if duration_ms < 1:
            self.fail("it is less than a millisecond", param, ctx)
        return duration_ms


DURATION = Duration("500ms", "10s", "2m")
"""How long a tool may run."""
AGE = Duration("12h", "7d")
"""How far back to look."""
LIFETIME = Duration("30m", "2h", "7d")
"""How long something holds."""
