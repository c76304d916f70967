# SPDX-License-Identifier: Apache-2.0
"""What somebody probably meant: an unknown name and the known ones in, one suggestion out."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_LONGEST_COMPARED = 128


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name most like ``name``, or ``None`` if none is much like it.

    A suggestion for people only: nothing may act on it. No more than the first 128 characters of
    an unknown name are looked at (I13).
    """
    import difflib  # noqa: PLC0415 - only to word an error; start-up time is a promise

    close = difflib.get_close_matches(name[:_LONGEST_COMPARED], sorted(known), n=1)
    return close[0] if close else None
