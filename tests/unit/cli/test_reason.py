# SPDX-License-Identifier: Apache-2.0
import click
import pytest

from palyra.cli.reason import LONGEST_REASON, REASON


def test_a_reason_is_taken_without_the_spaces_around_it() -> None:
    assert REASON.convert(" because ", None, None) == "because"
    assert REASON.convert("x" * LONGEST_REASON, None, None) == "x" * LONGEST_REASON


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param("  ", id="spaces"),
        pytest.param("x" * (LONGEST_REASON + 1), id="too-long"),
        pytest.param("one\ntwo", id="two-lines"),
        pytest.param("one\u2028two", id="two-lines-by-a-separator"),
    ],
)
def test_what_is_no_reason(text: str) -> None:
    with pytest.raises(click.BadParameter):
        REASON.convert(text, None, None)
