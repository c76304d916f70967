# SPDX-License-Identifier: Apache-2.0
import io
from collections.abc import Iterator
from pathlib import Path

import cedarpy
import pytest

from bench.harness import Place
from bench.policy_scene import (
    FEW,
    Scene,
    Side,
    counted_evaluations,
    microseconds,
    own_policy,
    pack_of,
    require_evaluations,
    scene_under,
)
from palyra.core.decision import Verdict
from palyra.flow.policy.inquiry import inquiry_of
from palyra.flow.policy.rules import Rules


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with scene_under(pack_of(FEW), Place(tmp_path, progress=io.StringIO())) as opened:
        yield opened


def test_a_pack_holds_as_many_policies_as_were_asked_for() -> None:
    assert len(pack_of(FEW).policies) == FEW
    assert own_policy(7) in {policy.policy_id for policy in pack_of(FEW, generation=7).policies}


def test_a_pack_too_small_for_the_packaged_policies_is_refused() -> None:
    with pytest.raises(RuntimeError, match="leaves no room"):
        pack_of(3)


def test_what_fills_a_large_pack_is_about_something_else(scene: Scene) -> None:
    for proposal in (scene.reads[0], scene.writes[0]):
        request = scene.decider.decide(proposal).request
        assert request is not None
        inquiry = inquiry_of(request)

        assert Rules(pack_of(FEW + 40)).candidates(inquiry) == Rules(pack_of(FEW)).candidates(
            inquiry
        )


def test_questions_that_differ_are_evaluated_each_time(scene: Scene) -> None:
    require_evaluations(scene.decider.decide, scene.reads, verdict=Verdict.ALLOW, each=1)
    require_evaluations(scene.decider.decide, scene.writes, verdict=Verdict.ASK, each=2)


def test_a_question_that_is_answered_from_memory_is_found_out(scene: Scene) -> None:
    with pytest.raises(RuntimeError, match="Cedar was asked 0 times, not 1"):
        require_evaluations(
            scene.decider.decide, (scene.known_read,), verdict=Verdict.ALLOW, each=1
        )


def test_another_verdict_than_the_expected_one_is_found_out(scene: Scene) -> None:
    with pytest.raises(RuntimeError, match="decided ASK"):
        require_evaluations(scene.decider.decide, scene.writes, verdict=Verdict.ALLOW, each=2)


def test_counting_ends_with_its_block(scene: Scene) -> None:
    original = cedarpy.is_authorized

    with counted_evaluations() as counted:
        scene.decider.decide(scene.reads[0])
        assert counted() == 1

    assert cedarpy.is_authorized is original


def test_sides_take_turns_and_go_on_where_they_ended() -> None:
    called: list[str] = []
    sides = {
        "ours": Side(called.append, "abc", calls=2),
        "reference": Side(called.append, "xyz", calls=1),
    }

    took = microseconds(sides, turns=2)

    assert called == ["a", "b", "x", "c", "a", "y"]
    assert took.keys() == sides.keys()
    assert all(each > 0 for each in took.values())
