# SPDX-License-Identifier: Apache-2.0
import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from bench import policy_activation
from bench.harness import Place, run
from bench.policy_activation import EXPERIMENTS, Verdicts, percentile, require_unmixed
from bench.policy_scene import FEW, Scene, own_policy, pack_of, scene_under
from palyra.core.digest import PolicyDigest


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    place = Place(tmp_path_factory.mktemp("scene"), progress=io.StringIO())
    with scene_under(pack_of(FEW), place) as opened:
        yield opened


def test_every_figure_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy_activation, "MANY", 40)
    monkeypatch.setattr(policy_activation, "SAMPLES", 10)
    (experiment,) = EXPERIMENTS

    rows = run(replace(experiment, rounds=1), stores=tmp_path, progress=io.StringIO())

    assert [row.figure for row in rows] == list(experiment.figures)
    assert all(len(row.pairs) == 1 for row in rows)


@pytest.mark.invariant("I4")
def test_decisions_of_one_pack_are_unmixed(scene: Scene) -> None:
    verdicts = Verdicts()
    verdicts.add(scene.decider.decide(scene.reads[0]))

    require_unmixed(scene, verdicts)


@pytest.mark.parametrize(
    ("policies", "problem"),
    [
        pytest.param((own_policy(1),), "are not all in the pack", id="of-another-pack"),
        pytest.param(("palyra.allowlisted-tools",), "alone", id="of-any-pack"),
    ],
)
def test_a_decision_that_mixes_packs_is_found_out(
    scene: Scene, policies: tuple[str, ...], problem: str
) -> None:
    digest = scene.decider.decide(scene.reads[0]).policy_digest

    with pytest.raises(RuntimeError, match=problem):
        require_unmixed(scene, Verdicts(policies={digest: {policies}}))


def test_a_decision_under_a_pack_that_nobody_staged_is_found_out(scene: Scene) -> None:
    unknown = PolicyDigest("0" * 64)

    with pytest.raises(RuntimeError, match="was never staged"):
        require_unmixed(scene, Verdicts(policies={unknown: {(own_policy(0),)}}))


def test_a_decision_that_does_not_allow_is_found_out(scene: Scene) -> None:
    with pytest.raises(RuntimeError, match="decided ASK"):
        Verdicts().add(scene.decider.decide(scene.writes[0]))


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        pytest.param(range(1, 101), 99, id="one-of-a-hundred-may-be-longer"),
        pytest.param(range(1000), 989, id="ten-of-a-thousand-may-be"),
        pytest.param([5], 5, id="of-one-it-is-that-one"),
    ],
)
def test_the_percentile_is_what_99_of_100_do_not_exceed(
    seconds: range | list[int], expected: int
) -> None:
    assert percentile(seconds) == expected
