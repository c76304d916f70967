# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import sys
from pathlib import Path

import pytest

from palyra.daemon import first_run
from palyra.daemon.embedded import EmbeddedGate
from palyra.flow.seal.verify import Problem, Report


@pytest.fixture
def environ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Point everything, the temporary folders too, below the test's own folder."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    return {"PALYRA_HOME": str(tmp_path / "state")}


def workspaces(environ: dict[str, str]) -> list[str]:
    gate = EmbeddedGate.open(environ=environ)
    try:
        return [workspace.name for workspace in gate.workspaces()]
    finally:
        gate.composition.ledger.close()


def test_one_call_is_allowed_and_one_is_denied(
    environ: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert first_run.main(environ) == 0
    told = capsys.readouterr().out
    assert "  allowed: the tool is allowlisted" in told
    assert '  output: {"echo":"hello"}' in told
    assert "  denied: the call is sensitive, so a human must agree" in told
    assert "entries verified." in told
    assert told.count(str(Path(sys.executable).parent.name) + "/palyra ") == 5


def test_it_can_be_repeated_and_leaves_no_litter(environ: dict[str, str], tmp_path: Path) -> None:
    assert first_run.main(environ) == 0
    assert first_run.main(environ) == 0
    assert workspaces(environ) == []
    assert list((tmp_path / "temporary").iterdir()) == []


async def test_what_a_cut_off_run_left_is_cleared(environ: dict[str, str], tmp_path: Path) -> None:
    left = tmp_path / "left"
    left.mkdir()
    async with EmbeddedGate.open(environ=environ) as gate:
        await gate.add_workspace(left, name=first_run.WORKSPACE)
    _, denied = await first_run.demonstrate(environ)
    assert denied.state == "denied"
    assert workspaces(environ) == []


def test_a_fault_is_told_with_its_exit_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    assert first_run.main({"PALYRA_HOME": str(tmp_path / "file")}) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"palyra: {tmp_path / 'file'} is not a directory\n  hint: ")


def test_a_broken_journal_is_told(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    problem = Problem(index=3, code="journal.broken", sentence="it does not fit")
    report = Report(entries=9, attestations=2, heads=5, kept_index=9, problems=(problem,))
    monkeypatch.setattr(first_run, "verify", lambda _: report)
    assert first_run.main(environ) == 10
    assert capsys.readouterr().err == "The journal is broken at entry 3: it does not fit\n"


def test_the_program_is_named_as_it_is_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    bin_folder = Path(sys.executable).parent
    monkeypatch.chdir(bin_folder.parents[1])
    assert first_run._program() == f"{bin_folder.relative_to(bin_folder.parents[1])}/palyra"
    monkeypatch.chdir("/proc")
    assert first_run._program() == str(bin_folder / "palyra")
