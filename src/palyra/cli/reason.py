# SPDX-License-Identifier: Apache-2.0
"""Why somebody changes the rules, as they type it: one line of text that is put on record."""

from __future__ import annotations

from typing import Any

import click

LONGEST_REASON = 500
"""In characters: it is journaled with the change (I13)."""


class Reason(click.ParamType[str]):
    """One line of text with something in it."""

    name = "text"

    def convert(
        self,
        value: Any,  # noqa: ANN401 - click's own signature
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> str:
        """Return the text without spaces around it."""
        text = str(value).strip()
        if not text:
            self.fail("it is empty", param, ctx)
        if len(text) > LONGEST_REASON:
            self.fail(f"it has more than {LONGEST_REASON} characters", param, ctx)
        if len(text.splitlines()) > 1:
            self.fail("it is more than one line", param, ctx)
        return text


REASON = Reason()
