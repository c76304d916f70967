# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import time

import pytest

from palyra.core.nearest import nearest

KNOWN = ("palyra.echo", "palyra.sleep", "palyra.fs.read")


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [
        ("palyra.ehco", "palyra.echo"),
        ("fs.read", "palyra.fs.read"),
        ("zzzz", None),
        ("", None),
    ],
)
def test_nearest_known_name(name: str, suggestion: str | None) -> None:
    assert nearest(name, KNOWN) == suggestion


def test_long_name_is_compared_by_its_beginning() -> None:
    started = time.perf_counter()
    assert nearest("palyra.echo" + "x" * 10_000_000, KNOWN) is None
    assert time.perf_counter() - started < 0.5


def test_order_of_the_known_names_does_not_matter() -> None:
    assert nearest("ab", ("ac", "ad")) == nearest("ab", ("ad", "ac"))
