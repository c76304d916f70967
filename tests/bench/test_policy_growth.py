# SPDX-License-Identifier: Apache-2.0
import io
from dataclasses import replace
from pathlib import Path

import pytest

from bench import policy_growth
from bench.harness import run
from bench.policy_growth import EXPERIMENTS


def test_every_figure_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy_growth, "MANY", 40)
    monkeypatch.setattr(policy_growth, "NEWCOMERS", 2080)  # still more than are kept in mind
    monkeypatch.setattr(policy_growth, "TURNS", 1)
    (experiment,) = EXPERIMENTS

    rows = run(replace(experiment, rounds=1), stores=tmp_path, progress=io.StringIO())

    assert [row.figure for row in rows] == list(experiment.figures)
    assert all(len(row.pairs) == 1 for row in rows)
