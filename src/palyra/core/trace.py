# SPDX-License-Identifier: Apache-2.0
"""Where an exception came from, without what it says: its text may hold anything, secrets too."""

from __future__ import annotations

import traceback

_MOST_PLACES = 12


def trace_of(error: BaseException) -> str:
    """Return the exception's type and the places it passed, innermost last (I11)."""
    frames = traceback.extract_tb(error.__traceback__)[-_MOST_PLACES:]
    places = " < ".join(f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames)
    cause = error.__cause__ or error.__context__
    told = f"{type(error).__name__} at {places or 'nowhere'}"
    return f"{told}; after {type(cause).__name__}" if cause is not None else told
