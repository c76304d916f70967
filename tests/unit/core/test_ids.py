# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palyra.core.ids import is_ulid, ulid

TIMES = st.integers(min_value=0, max_value=2**48 - 1)
ENTROPY = st.binary(min_size=10, max_size=10)


@pytest.mark.parametrize(
    ("time_ms", "entropy", "text"),
    [
        (0, bytes(10), "00000000000000000000000000"),
        (2**48 - 1, b"\xff" * 10, "7ZZZZZZZZZZZZZZZZZZZZZZZZZ"),
        (1469918176385, bytes(10), "01ARYZ6S410000000000000000"),
        (0, b"\x00" * 9 + b"\x1f", "0000000000000000000000000Z"),
    ],
)
def test_known_ulids(time_ms: int, entropy: bytes, text: str) -> None:
    assert ulid(time_ms=time_ms, entropy=entropy) == text


@given(TIMES, ENTROPY)
def test_ulid_is_a_ulid(time_ms: int, entropy: bytes) -> None:
    assert is_ulid(ulid(time_ms=time_ms, entropy=entropy))


@given(st.tuples(TIMES, ENTROPY), st.tuples(TIMES, ENTROPY))
def test_ulids_sort_like_time_then_entropy(one: tuple[int, bytes], two: tuple[int, bytes]) -> None:
    texts = [ulid(time_ms=time_ms, entropy=entropy) for time_ms, entropy in (one, two)]
    assert (texts[0] < texts[1]) == (one < two)


@pytest.mark.parametrize(
    ("time_ms", "entropy"), [(-1, bytes(10)), (2**48, bytes(10)), (0, bytes(9)), (0, bytes(11))]
)
def test_nonsense_is_refused(time_ms: int, entropy: bytes) -> None:
    with pytest.raises(ValueError, match="a ULID takes"):
        ulid(time_ms=time_ms, entropy=entropy)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("01ARZ3NDEKTSV4RRFFQ69G5FA", id="short"),
        pytest.param("01ARZ3NDEKTSV4RRFFQ69G5FAVX", id="long"),
        pytest.param("01arz3ndektsv4rrffq69g5fav", id="lower-case"),
        pytest.param("81ARZ3NDEKTSV4RRFFQ69G5FAV", id="out-of-range"),
        pytest.param("01ARZ3NDEKTSV4RRFFQ69G5FAI", id="a-letter-that-looks-like-a-digit"),
        pytest.param("01ARZ3NDEKTSV4RRFFQ69G5FA\n", id="a-newline"),
        pytest.param("０1ARZ3NDEKTSV4RRFFQ69G5FAV", id="a-wide-digit"),  # noqa: RUF001 - bait
    ],
)
def test_other_spellings_are_not_ulids(text: str) -> None:
    assert not is_ulid(text)
