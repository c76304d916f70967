# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palyra.core.posture import Posture, PostureScope, PostureSetting, strictest
from tests.support.samples import NOW_MS, OPERATOR

if TYPE_CHECKING:
    from collections.abc import Iterable

FROM_LAX_TO_STRICT = (Posture.ALWAYS_ALLOW, Posture.ASK_EACH_TIME, Posture.DISABLED)


def setting(
    state: Posture,
    *,
    scope: PostureScope = PostureScope.GLOBAL,
    expires_at_ms: int | None = None,
) -> PostureSetting:
    return PostureSetting(
        tool="palyra.echo",
        scope=scope,
        scope_id="",
        state=state,
        reason="a test",
        set_by=OPERATOR,
        by_administrator=False,
        set_at_ms=NOW_MS,
        expires_at_ms=expires_at_ms,
    )


SETTINGS = st.builds(
    setting,
    st.sampled_from(Posture),
    scope=st.sampled_from(PostureScope),
    expires_at_ms=st.sampled_from([None, NOW_MS - 1, NOW_MS, NOW_MS + 1]),
)


def rank(state: Posture) -> int:
    return FROM_LAX_TO_STRICT.index(state)


def test_every_posture_has_its_rank() -> None:
    assert set(FROM_LAX_TO_STRICT) == set(Posture)


@pytest.mark.invariant("I1")
@pytest.mark.parametrize("wide", Posture)
@pytest.mark.parametrize("narrow", Posture)
@pytest.mark.parametrize("scopes", list(itertools.permutations(PostureScope, 2)))
def test_nothing_narrow_lifts_something_wide(
    wide: Posture, narrow: Posture, scopes: tuple[PostureScope, PostureScope]
) -> None:
    settings = [setting(wide, scope=scopes[0]), setting(narrow, scope=scopes[1])]
    assert strictest(settings, now_ms=NOW_MS) is max(wide, narrow, key=rank)


def test_without_any_nothing_is_restricted() -> None:
    assert strictest((), now_ms=NOW_MS) is Posture.ALWAYS_ALLOW


@pytest.mark.invariant("I1")
@given(st.lists(SETTINGS, max_size=5), SETTINGS)
def test_one_more_posture_never_makes_it_laxer(
    settings: list[PostureSetting], more: PostureSetting
) -> None:
    def found(each: Iterable[PostureSetting]) -> int:
        return rank(strictest(each, now_ms=NOW_MS))

    assert found([*settings, more]) >= found(settings)
    assert found([more, *settings]) == found([*settings, more])
    if more.holds_at(NOW_MS):
        assert found([*settings, more]) >= rank(more.state)


def test_a_posture_expires_to_the_millisecond() -> None:
    disabled = setting(Posture.DISABLED, expires_at_ms=NOW_MS)
    assert strictest([disabled], now_ms=NOW_MS - 1) is Posture.DISABLED
    assert strictest([disabled], now_ms=NOW_MS) is Posture.ALWAYS_ALLOW
    assert (disabled.holds_at(NOW_MS - 1), disabled.holds_at(NOW_MS)) == (True, False)


def test_a_posture_without_an_end_does_not_expire() -> None:
    assert setting(Posture.DISABLED).holds_at(2**53)


def test_one_that_expired_leaves_the_others_in_place() -> None:
    settings = [setting(Posture.DISABLED, expires_at_ms=NOW_MS), setting(Posture.ASK_EACH_TIME)]
    assert strictest(settings, now_ms=NOW_MS) is Posture.ASK_EACH_TIME


@given(SETTINGS)
def test_posture_round_trips(each: PostureSetting) -> None:
    assert msgspec.json.decode(msgspec.json.encode(each), type=PostureSetting) == each
