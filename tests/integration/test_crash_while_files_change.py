# SPDX-License-Identifier: Apache-2.0
"""Wherever a process ends while files change, afterwards all of them have changed or none."""

import os
import random
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from palyra.core.digest import content_sha256
from palyra.core.errors import ToolError
from palyra.core.events import EffectPlanned
from palyra.flow.sandbox.file_change import FileChange
from palyra.flow.sandbox.moves import KernelMoves, Moves, PortableMoves
from palyra.flow.sandbox.staged import Recovery, RecoveryResult, recover
from tests.support.staged_changes import (
    BEFORE,
    CHANGE_SETS,
    ChangeSet,
    Crash,
    CrashAt,
    build,
    carry_out,
    files,
    run_until_crash,
    staging_folders,
)
from tests.support.workspaces import tree, workspace_at

REPOSITORY = Path(__file__).parents[2]

EVERY_SET = pytest.mark.parametrize("name", CHANGE_SETS)
BOTH_MOVES = pytest.mark.parametrize(
    "moves",
    [pytest.param(KernelMoves(), id="by-kernel"), pytest.param(PortableMoves(), id="portable")],
)


@pytest.fixture
def root() -> Iterator[Path]:
    """Return a workspace folder in memory, if there is such a place: these tests sync a lot."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as path:
        yield build(Path(path) / "work")


def steps_of(root: Path, changes: tuple[FileChange, ...], moves: Moves) -> int:
    counting = CrashAt(1_000_000)
    run_until_crash(build(root), changes, moves=moves, on_step=counting)
    return counting.taken


def check_all_or_none(root: Path, change_set: ChangeSet, recovery: Recovery) -> None:
    expected = {
        RecoveryResult.FINISHED: change_set.after,
        RecoveryResult.UNDONE: BEFORE,
    }
    assert files(root) == expected[recovery.result]
    assert recovery.paths == tuple(change.path for change in change_set.changes)
    assert staging_folders(root) == []


@EVERY_SET
@BOTH_MOVES
@pytest.mark.invariant("I7")
def test_a_crash_at_any_step_leaves_all_or_none(root: Path, name: str, moves: Moves) -> None:
    change_set = CHANGE_SETS[name]
    results = set()
    for step in range(steps_of(root, change_set.changes, moves)):
        crashed, plans = run_until_crash(
            build(root), change_set.changes, moves=moves, on_step=CrashAt(step)
        )
        assert crashed
        if not plans:
            assert files(root) == BEFORE
            continue
        recovery = recover(workspace_at(root), plans[0], moves=moves)
        check_all_or_none(root, change_set, recovery)
        assert recover(workspace_at(root), plans[0], moves=moves) == recovery
        results.add(recovery.result)
    assert results == {RecoveryResult.FINISHED}


@EVERY_SET
@BOTH_MOVES
@pytest.mark.invariant("I7")
def test_a_crash_at_any_step_of_the_recovery_is_recovered_too(
    root: Path, name: str, moves: Moves
) -> None:
    change_set = CHANGE_SETS[name]
    for step in range(steps_of(root, change_set.changes, moves)):
        again, crashed_again = 0, True
        while crashed_again:
            _, plans = run_until_crash(
                build(root), change_set.changes, moves=moves, on_step=CrashAt(step)
            )
            if not plans:
                break
            workspace = workspace_at(root)
            try:
                recover(workspace, plans[0], moves=moves, on_step=CrashAt(again))
                crashed_again = False
            except Crash:
                again += 1
            check_all_or_none(root, change_set, recover(workspace, plans[0], moves=moves))


@BOTH_MOVES
@pytest.mark.invariant("I7")
def test_a_crash_while_taking_back_is_recovered_by_taking_back(root: Path, moves: Moves) -> None:
    changes = CHANGE_SETS["mixed"].changes
    step, seen_undo = 0, 0
    while True:
        counting = CrashAt(step)

        def spoil_the_last_file(what: str, counting: CrashAt = counting) -> None:
            if what == "recorded":
                (root / "folder" / "modified").write_text("foreign")
            counting(what)

        plans: list[EffectPlanned] = []
        try:
            with pytest.raises(ToolError, match="'folder/modified' changed meanwhile"):
                carry_out(
                    build(root), changes, plans.append, moves=moves, on_step=spoil_the_last_file
                )
            break
        except Crash:
            step += 1
        if plans and (root / "folder" / "modified").read_text() == "foreign":
            is_evident = bool(staging_folders(root))
            recovery = recover(workspace_at(root), plans[0], moves=moves)
            assert tree(root) == {**BEFORE, "folder/modified": "foreign"}
            if is_evident:
                assert recovery.result is RecoveryResult.UNDONE
            else:  # Nothing tells any more who changed the file; so it is reported.
                assert recovery.paths == ("folder/modified",)
            seen_undo += 1
    assert tree(root) == {**BEFORE, "folder/modified": "foreign"}
    assert seen_undo > 12


@EVERY_SET
@pytest.mark.invariant("I7")
def test_a_killed_process_leaves_all_or_none(root: Path, name: str) -> None:
    change_set = CHANGE_SETS[name]
    steps = steps_of(root, change_set.changes, KernelMoves())
    for step in random.Random(name).sample(range(steps), 2):  # noqa: S311 - reproducible
        build(root)
        plan_file = root.parent / "plan"
        plan_file.unlink(missing_ok=True)
        killed = subprocess.run(
            [
                sys.executable,
                "-m",
                "tests.support.staged_changes",
                *map(str, (root, name, step, plan_file)),
            ],
            cwd=REPOSITORY,
            check=False,
        )
        assert killed.returncode == -signal.SIGKILL
        if plan_file.exists():
            planned = msgspec.json.decode(plan_file.read_bytes(), type=EffectPlanned)
            check_all_or_none(root, change_set, recover(workspace_at(root), planned))
        else:
            assert files(root) == BEFORE


def test_a_mode_alone_changes_and_is_recovered(root: Path) -> None:
    change = FileChange(
        path="kept", before_sha256=content_sha256(b"kept"), content=b"kept", mode=0o755
    )
    for step in range(steps_of(root, (change,), KernelMoves())):
        build(root)
        (root / "kept").chmod(0o640)
        _, plans = run_until_crash(root, (change,), moves=KernelMoves(), on_step=CrashAt(step))
        if plans:
            assert recover(workspace_at(root), plans[0]).result is RecoveryResult.FINISHED
            assert (root / "kept").stat().st_mode & 0o7777 == 0o755
            assert tree(root) == BEFORE
