# SPDX-License-Identifier: Apache-2.0
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import pytest

from bench.__main__ import EXPERIMENTS, main
from bench.harness import (
    Experiment,
    Figure,
    Pair,
    Place,
    Reach,
    Round,
    Row,
    UnavailableError,
    UnknownNameError,
    at_least,
    at_most,
    choose,
    in_turn,
    run,
    table,
    write_report,
)

FAST = Figure(name="fast", unit="calls/s", reach=at_least(2), note="measured with care")
SLOW = Figure(name="slow", unit="ms", reach=at_most(1.5), note="measured with care")
SHOWN = Figure(name="shown", unit="ms", note="for comparison")
STEADY = (Pair(20.0, 10.0), Pair(40.0, 10.0), Pair(30.0, 10.0))


def _experiment(
    pairs: Mapping[Figure, Sequence[Pair]], *, name: str = "some", group: str = "all"
) -> Experiment:
    @contextmanager
    def opened(_: Place) -> Iterator[Round]:
        rounds = (dict(zip(pairs, row, strict=True)) for row in zip(*pairs.values(), strict=True))
        yield lambda: next(rounds)

    rounds = len(next(iter(pairs.values())))
    return Experiment(name=name, group=group, figures=tuple(pairs), rounds=rounds, open=opened)


def _missing(figure: Figure) -> Experiment:
    def opened(_: Place) -> NoReturn:
        raise UnavailableError("the package peer is not installed")

    return Experiment(name="missing", group="all", figures=(figure,), rounds=3, open=opened)


def test_the_ratio_is_the_median_of_the_ratios_of_the_rounds(tmp_path: Path) -> None:
    # The medians of the sides, 20 and 10, would say 2: no round has seen that.
    pairs = (Pair(10.0, 10.0), Pair(20.0, 20.0), Pair(90.0, 1.0))

    (row,) = run(_experiment({SLOW: pairs}), stores=tmp_path, progress=io.StringIO())

    assert row == Row(figure=SLOW, pairs=pairs)
    assert (row.ratio, row.is_held) == (1.0, True)


def test_a_row_of_the_report_has_the_keys_it_promises() -> None:
    assert Row(figure=FAST, pairs=STEADY).as_json() == {
        "name": "fast",
        "ours": 30.0,
        "reference": 10.0,
        "ratio": 3.0,
        "unit": "calls/s",
        "repeats": 3,
        "note": "measured with care",
        "reach": "at least 2",
        "held": True,
    }


def test_a_figure_without_a_reach_is_neither_held_nor_missed() -> None:
    entry = Row(figure=SHOWN, pairs=STEADY).as_json()

    assert "reach" not in entry
    assert "held" not in entry


@pytest.mark.parametrize(
    ("reach", "ratio", "holds"),
    [
        pytest.param(at_least(2), 2.0, True, id="the-bound-itself-is-enough"),
        pytest.param(at_least(2), 1.99, False, id="below-a-lower-bound"),
        pytest.param(at_most(1.2), 1.2, True, id="the-bound-itself-is-not-too-much"),
        pytest.param(at_most(1.2), 1.21, False, id="above-an-upper-bound"),
    ],
)
def test_reach(reach: Reach, ratio: float, holds: bool) -> None:  # noqa: FBT001
    assert reach.holds(ratio) is holds


def test_a_peer_that_is_missing_is_listed_as_such_and_not_estimated(tmp_path: Path) -> None:
    progress = io.StringIO()

    (row,) = run(_missing(FAST), stores=tmp_path, progress=progress)

    assert row.as_json() == {
        "name": "fast",
        "ours": None,
        "reference": None,
        "ratio": None,
        "unit": "calls/s",
        "repeats": 0,
        "note": "not measured: the package peer is not installed",
        "reach": "at least 2",
    }
    assert "fast: not measured: the package peer is not installed" in table([row])
    assert "not installed" in progress.getvalue()


def test_the_table_says_what_was_held_and_what_was_missed() -> None:
    rows = [
        Row(figure=FAST, pairs=STEADY),
        Row(figure=SLOW, pairs=STEADY),
        Row(figure=SHOWN, pairs=(Pair(0.25, 1000.0),)),
    ]

    assert table(rows).splitlines() == [
        "figure   ours  reference  unit     ratio  lowest-highest  reach",
        "-" * 77,
        "fast     30.0       10.0  calls/s   3.00       2.00-4.00  at least 2   held",
        "slow     30.0       10.0  ms        3.00       2.00-4.00  at most 1.5  MISSED",
        "shown   0.250      1,000  ms       0.000     0.000-0.000",
    ]


@pytest.mark.parametrize(
    ("only", "chosen"),
    [
        pytest.param([], ["a", "b", "c"], id="nothing-named-is-everything"),
        pytest.param(["b"], ["b"], id="by-name"),
        pytest.param(["first"], ["a", "b"], id="by-group"),
        pytest.param(["c", "first"], ["a", "b", "c"], id="both-in-the-usual-order"),
    ],
)
def test_only_what_is_named_is_chosen(only: list[str], chosen: list[str]) -> None:
    experiments = [
        _experiment({FAST: STEADY}, name=name, group=group)
        for name, group in (("a", "first"), ("b", "first"), ("c", "second"))
    ]

    assert [each.name for each in choose(experiments, only)] == chosen


def test_a_name_that_nothing_has_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="no benchmark is called speed; there are all, some"):
        choose([_experiment({FAST: STEADY})], ["speed", "some"])


async def test_sides_that_take_turns_are_added_up_apart() -> None:
    order: list[str] = []

    async def ours() -> float:
        order.append("ours")
        return 0.5

    async def reference() -> float:
        order.append("reference")
        return 0.25

    assert await in_turn(ours, reference, turns=2) == Pair(1.0, 0.5)
    assert order == ["ours", "reference"] * 2


def test_every_fresh_folder_is_new_and_gone_afterwards(tmp_path: Path) -> None:
    folders: list[Path] = []

    @contextmanager
    def opened(place: Place) -> Iterator[Round]:
        folders.extend((place.fresh(), place.fresh()))
        assert all(folder.is_dir() for folder in folders)
        yield lambda: {FAST: Pair(1.0, 1.0)}

    experiment = Experiment(name="some", group="all", figures=(FAST,), rounds=1, open=opened)
    run(experiment, stores=tmp_path, progress=io.StringIO())

    assert len(set(folders)) == 2
    assert list(tmp_path.iterdir()) == []


def test_the_report_is_a_list_of_rows(tmp_path: Path) -> None:
    rows = [Row(figure=FAST, pairs=STEADY), Row(figure=SHOWN, pairs=STEADY)]

    write_report(rows, tmp_path / "report.json")

    written = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert written == [row.as_json() for row in rows]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        pytest.param([], 0, id="a-missed-figure-is-only-told"),
        pytest.param(["--strict"], 1, id="strict-fails-on-it"),
        pytest.param(["--strict", "--only", "good"], 0, id="strict-passes-where-all-is-held"),
        pytest.param(["--only", "nonsense"], 2, id="an-unknown-name-is-misuse"),
    ],
)
def test_the_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], code: int
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    experiments = [
        _experiment({FAST: STEADY}, name="good"),
        _experiment({SLOW: STEADY}, name="bad"),
    ]

    report = tmp_path / "report.json"
    assert main(arguments, experiments=experiments, report=report) == code


def test_strict_counts_what_was_not_measured_as_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))

    report = tmp_path / "report.json"
    assert main(["--strict"], experiments=[_missing(FAST)], report=report) == 1
    assert "0 of 1 figures held" in capsys.readouterr().out


def test_names_of_benchmarks_groups_and_figures_are_told_apart() -> None:
    names = [each.name for each in EXPERIMENTS]
    groups = {each.group for each in EXPERIMENTS}
    figures = [figure.name for each in EXPERIMENTS for figure in each.figures]

    assert len(set(names)) == len(names)
    assert not groups & set(names)
    assert len(set(figures)) == len(figures)
