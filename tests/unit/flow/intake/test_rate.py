# SPDX-License-Identifier: Apache-2.0
import pytest

from palyra.core.principal import Principal, PrincipalKind
from palyra.flow.intake import rate
from palyra.flow.intake.rate import Allowance, ProposalRate
from tests.support.samples import AGENT
from tests.support.scripted import FakeClock

BURST = 4
EVE = Principal(kind=PrincipalKind.AGENT, name="eve")


class Scene:
    def __init__(self, *, per_second: int = 10, burst: int = BURST) -> None:
        self.clock = FakeClock()
        allowance = Allowance(proposals_per_second=per_second, burst=burst)
        self.rate = ProposalRate(allowance, clock=self.clock)

    def take(self, times: int, principal: Principal = AGENT) -> list[int]:
        return [self.rate.take(principal) for _ in range(times)]


def test_a_burst_is_taken_and_what_follows_is_counted() -> None:
    assert Scene().take(BURST + 3) == [0, 0, 0, 0, 1, 2, 3]


def test_tokens_come_back_with_time_and_never_beyond_the_burst() -> None:
    scene = Scene()
    scene.take(BURST)
    scene.clock.advance(200)
    assert scene.take(3) == [0, 0, 1]
    scene.clock.advance(3_600_000)
    assert scene.take(BURST + 1) == [0, 0, 0, 0, 1]


def test_parts_of_a_token_are_not_lost() -> None:
    scene = Scene(burst=1)
    scene.take(1)
    taken = []
    for _ in range(10):
        scene.clock.advance(50)
        taken.append(scene.take(1) == [0])
    assert taken == [False, True] * 5


def test_a_flood_goes_on_counting_while_some_of_it_is_taken() -> None:
    scene = Scene()
    scene.take(BURST)
    counts = []
    for _ in range(5):
        counts += scene.take(3)
        scene.clock.advance(100)
    assert counts == [1, 2, 3, 0, 4, 5, 0, 6, 7, 0, 8, 9, 0, 10, 11]


@pytest.mark.parametrize(("pause_ms", "count"), [(59_999, 2), (60_000, 1)])
def test_a_flood_is_over_after_a_minute_without_refusals(pause_ms: int, count: int) -> None:
    scene = Scene()
    scene.take(BURST + 1)
    scene.clock.advance(pause_ms)
    assert scene.take(BURST + 1)[-1] == count


def test_callers_do_not_share() -> None:
    scene = Scene()
    scene.take(BURST + 2)
    assert scene.take(1, EVE) == [0]


@pytest.mark.invariant("I13")
def test_the_caller_unused_for_longest_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rate, "_MOST_BUCKETS", 2)
    scene = Scene(burst=1)
    first, second, third = (
        Principal(kind=PrincipalKind.AGENT, name=f"agent-{number}") for number in range(3)
    )
    scene.take(1, first)
    scene.take(1, second)
    scene.take(1, first)
    scene.take(1, third)
    assert scene.take(1, first) == [2]
    assert scene.take(1, second) == [0]
