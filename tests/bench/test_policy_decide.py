# SPDX-License-Identifier: Apache-2.0
import io
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from bench import policy_decide, policy_scene
from bench.harness import Place, run
from bench.policy_decide import EXPERIMENTS, PublicCalls, require_same_answers
from bench.policy_scene import FEW, pack_of, scene_under


@pytest.fixture(autouse=True)
def _few_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy_scene, "QUESTIONS", 72)  # still more than are remembered
    monkeypatch.setattr(policy_decide, "TURNS", 1)


def test_every_figure_is_measured(tmp_path: Path) -> None:
    (experiment,) = EXPERIMENTS

    rows = run(replace(experiment, rounds=1), stores=tmp_path, progress=io.StringIO())

    assert [row.figure for row in rows] == list(experiment.figures)
    assert all(len(row.pairs) == 1 for row in rows)


def test_a_reference_that_answers_something_else_is_found_out(tmp_path: Path) -> None:
    pack = pack_of(FEW)
    with scene_under(pack, Place(tmp_path, progress=io.StringIO())) as scene:
        decisions = [scene.decider.decide(proposal) for proposal in scene.reads[:2]]
        calls = PublicCalls.of(pack, decisions)
        require_same_answers(calls, decisions)
        others = [msgspec.structs.replace(each, policies=("team.other",)) for each in decisions]

        with pytest.raises(RuntimeError, match="the reference answers"):
            require_same_answers(calls, others)
