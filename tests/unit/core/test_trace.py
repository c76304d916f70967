# SPDX-License-Identifier: Apache-2.0
import pytest

from palyra.core.trace import trace_of


def _fail(secret: str) -> None:
    try:
        dict[str, str]()[secret]
    except KeyError as error:
        raise ValueError(f"bad {secret}") from error


@pytest.mark.invariant("I11")
def test_a_trace_names_type_and_place_and_never_the_text() -> None:
    with pytest.raises(ValueError, match="bad") as raised:
        _fail("hunter2")
    told = trace_of(raised.value)
    assert told.startswith("ValueError at ")
    assert told.endswith("_fail; after KeyError")
    assert "hunter2" not in told


def test_an_exception_that_was_never_raised_comes_from_nowhere() -> None:
    assert trace_of(ValueError("x")) == "ValueError at nowhere"
