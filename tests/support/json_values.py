# SPDX-License-Identifier: Apache-2.0
"""Hypothesis strategies for JSON values, from tame to hostile."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

LARGEST_INTEGER = 2**53 - 1

#: Any text that UTF-8 can encode, the planes beyond the first included.
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
INTEGERS = st.integers(min_value=-LARGEST_INTEGER, max_value=LARGEST_INTEGER)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
SCALARS = st.none() | st.booleans() | INTEGERS | FLOATS | TEXTS


def json_values(scalars: st.SearchStrategy[Any] = SCALARS) -> st.SearchStrategy[Any]:
    """Return documents of lists and objects over ``scalars``."""
    return st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
        max_leaves=12,
    )
