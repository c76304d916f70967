# SPDX-License-Identifier: Apache-2.0
import contextlib
import errno
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from palyra.core.digest import content_sha256
from palyra.core.errors import Code, ToolError
from palyra.core.events import EffectPlanned, PlannedChange
from palyra.flow.sandbox.blocking import StopToken
from palyra.flow.sandbox.file_change import FileChange
from palyra.flow.sandbox.moves import KernelMoves, Moves, OnStep, PortableMoves, no_step
from palyra.flow.sandbox.staged import (
    Recovery,
    RecoveryResult,
    StagedChanges,
    apply,
    discard,
    recover,
    stage,
)
from tests.support.staged_changes import (
    BEFORE,
    CHANGE_SETS,
    Crash,
    CrashAt,
    Racing,
    build,
    carry_out,
    files,
    once,
    run_until_crash,
    staging_folders,
)
from tests.support.workspaces import CALL_ID, tree, workspace_at

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


@EVERY_SET
@BOTH_MOVES
def test_changes_come_about(root: Path, name: str, moves: Moves) -> None:
    change_set = CHANGE_SETS[name]
    crashed, plans = run_until_crash(root, change_set.changes, moves=moves, on_step=no_step)
    assert not crashed
    assert tree(root) == change_set.after
    assert [change.path for change in plans[0].changes] == [c.path for c in change_set.changes]


def test_a_file_replaced_in_the_last_moment_is_not_lost(root: Path) -> None:
    def save_like_an_editor() -> None:
        (root / "saved").write_text("foreign")
        (root / "saved").rename(root / "modified")

    with pytest.raises(ToolError) as caught:
        carry_out(
            root,
            CHANGE_SETS["mixed"].changes,
            lambda _: None,
            moves=Racing(once(save_like_an_editor)),
            on_step=no_step,
        )
    assert caught.value.code is Code.FS_CHANGED
    assert tree(root) == {**BEFORE, "modified": "foreign"}


def test_what_appears_in_the_place_of_a_file_goes_back_there(root: Path) -> None:
    def replace_by_a_link() -> None:
        (root / "modified").unlink()
        (root / "modified").symlink_to("kept")

    with pytest.raises(ToolError) as caught:
        carry_out(
            root,
            CHANGE_SETS["modify"].changes,
            lambda _: None,
            moves=Racing(once(replace_by_a_link)),
            on_step=no_step,
        )
    assert caught.value.code is Code.FS_CHANGED
    assert tree(root) == {**BEFORE, "modified": "-> kept"}


def test_a_file_created_in_the_last_moment_is_not_overwritten(root: Path) -> None:
    with pytest.raises(ToolError) as caught:
        carry_out(
            root,
            CHANGE_SETS["create"].changes,
            lambda _: None,
            moves=Racing(once(lambda: (root / "new").write_text("foreign"))),
            on_step=no_step,
        )
    assert caught.value.code is Code.FS_EXISTS
    assert tree(root) == {**BEFORE, "new": "foreign"}


def test_a_file_written_in_place_in_the_last_moment_is_not_lost(root: Path) -> None:
    write_once = once(lambda: (root / "modified").write_text("foreign"))

    def write(what: str) -> None:
        if what == "kept a second name":
            write_once()

    with pytest.raises(ToolError) as caught:
        carry_out(
            root,
            CHANGE_SETS["mixed"].changes,
            lambda _: None,
            moves=PortableMoves(),
            on_step=write,
        )
    assert caught.value.code is Code.FS_CHANGED
    assert tree(root) == {**BEFORE, "modified": "foreign"}


def crash_after(what_happened: str) -> OnStep:
    def on_step(what: str) -> None:
        if what == what_happened:
            raise Crash

    return on_step


def crashed_plan(root: Path, name: str, *, after: str) -> EffectPlanned:
    crashed, plans = run_until_crash(
        root, CHANGE_SETS[name].changes, moves=KernelMoves(), on_step=crash_after(after)
    )
    assert crashed
    return plans[0]


def test_a_taken_change_that_somebody_edited_since_is_a_conflict(root: Path) -> None:
    planned = crashed_plan(root, "mixed", after="taken out")
    (root / "modified").write_text("foreign")
    (root / "folder" / "modified").write_text("foreign too")
    untouched = tree(root)
    expected = Recovery(result=RecoveryResult.CONFLICT, paths=("modified",), kept=planned.staging)
    assert recover(workspace_at(root), planned) == expected
    assert recover(workspace_at(root), planned) == expected
    assert tree(root) == untouched
    assert "old" in untouched.values()


def test_a_change_that_cannot_be_taken_any_more_takes_the_others_back(root: Path) -> None:
    planned = crashed_plan(root, "mixed", after="taken out")
    (root / "a").write_text("foreign")
    recovery = recover(workspace_at(root), planned)
    assert recovery.result is RecoveryResult.UNDONE
    assert tree(root) == {**BEFORE, "a": "foreign"}


@pytest.mark.parametrize("target", ["outside", "missing"])
def test_a_link_planted_in_the_way_is_not_followed_by_the_recovery(root: Path, target: str) -> None:
    planned = crashed_plan(root, "mixed", after="taken out")
    (root.parent / "outside").mkdir()
    (root / "a").symlink_to(root.parent / target)
    assert recover(workspace_at(root), planned).result is RecoveryResult.UNDONE
    assert tree(root) == {**BEFORE, "a": f"-> {root.parent / target}"}
    assert list((root.parent / "outside").iterdir()) == []


def test_a_pipe_planted_in_the_way_does_not_block_the_recovery(root: Path) -> None:
    planned = crashed_plan(root, "mixed", after="taken out")
    (root / "folder" / "modified").unlink()
    os.mkfifo(root / "folder" / "modified")
    assert recover(workspace_at(root), planned).result is RecoveryResult.UNDONE
    assert tree(root) == {**BEFORE, "folder/modified": "special"}


def test_a_staging_folder_replaced_by_a_link_is_not_followed(root: Path) -> None:
    planned = crashed_plan(root, "modify", after="recorded")
    staging = root / planned.staging
    staging.rename(root.parent / "stolen")
    staging.symlink_to(root.parent / "stolen")
    recovery = recover(workspace_at(root), planned)
    assert recovery.result is RecoveryResult.UNDONE
    assert files(root) == BEFORE
    assert (root.parent / "stolen" / "0").read_text() == "newer"


def test_a_forged_staged_file_is_never_put_in_place(root: Path) -> None:
    planned = crashed_plan(root, "modify", after="recorded")
    (root / planned.staging / "0").write_text("forged")
    recovery = recover(workspace_at(root), planned)
    assert recovery.result is RecoveryResult.UNDONE
    assert tree(root) == BEFORE


def test_without_its_staging_folder_a_half_taken_change_is_a_conflict(root: Path) -> None:
    planned = crashed_plan(root, "mixed", after="taken out")
    for path in (root / planned.staging).iterdir():
        path.unlink()
    (root / planned.staging).rmdir()
    recovery = recover(workspace_at(root), planned)
    assert recovery == Recovery(result=RecoveryResult.CONFLICT, paths=("a/new", "folder/modified"))


def test_a_file_at_a_former_folder_is_a_conflict_without_staging(root: Path) -> None:
    planned = EffectPlanned(
        call_id=CALL_ID,
        workspace="work",
        staging=f".palyra-stage-{CALL_ID}",
        changes=(
            PlannedChange(path="kept/x", before_sha256="0" * 64, after_sha256="1" * 64, mode=0o644),
        ),
    )
    assert recover(workspace_at(root), planned).result is RecoveryResult.CONFLICT


def test_nothing_to_change_stages_nothing(root: Path) -> None:
    same = FileChange(path="kept", before_sha256=content_sha256(b"kept"), content=b"kept")
    staged = stage(workspace_at(root), (same,), call_id=CALL_ID, stop=StopToken())
    assert staged.changes == ()
    assert tree(root) == BEFORE


def test_a_stop_takes_everything_back(root: Path) -> None:
    stop = StopToken()
    workspace = workspace_at(root)
    staged = stage(workspace, CHANGE_SETS["mixed"].changes, call_id=CALL_ID, stop=stop)

    def stop_midway(what: str) -> None:
        if what == "taken out":
            stop.stop()

    with pytest.raises(ToolError) as caught:
        apply(workspace, staged, stop=stop, on_step=stop_midway)
    assert caught.value.code is Code.TOOL_CANCELLED
    assert tree(root) == BEFORE


def test_a_stop_while_staging_leaves_nothing(root: Path) -> None:
    stop = StopToken()
    with pytest.raises(ToolError) as caught:
        stage(
            workspace_at(root),
            CHANGE_SETS["mixed"].changes,
            call_id=CALL_ID,
            stop=stop,
            on_step=lambda what: stop.stop() if what == "made staging" else None,
        )
    assert caught.value.code is Code.TOOL_CANCELLED
    assert tree(root) == BEFORE


def test_what_was_staged_can_be_discarded(root: Path) -> None:
    workspace = workspace_at(root)
    stage(workspace, CHANGE_SETS["mixed"].changes, call_id=CALL_ID, stop=StopToken())
    assert staging_folders(root)
    discard(workspace, CALL_ID)
    discard(workspace, CALL_ID)
    assert tree(root) == BEFORE


@EVERY_SET
def test_what_was_being_discarded_at_a_crash_is_not_taken_up_again(root: Path, name: str) -> None:
    counting = CrashAt(1_000_000)
    step = 0
    while step <= counting.taken:
        planned = crashed_plan(build(root), name, after="recorded")
        counting = CrashAt(step)
        with contextlib.suppress(Crash):
            discard(workspace_at(root), CALL_ID, on_step=counting)
        recovery = recover(workspace_at(root), planned)
        assert recovery.result is RecoveryResult.UNDONE
        assert tree(root) == BEFORE
        step += 1


def test_a_staging_folder_that_exists_already_is_refused(root: Path) -> None:
    (root / f".palyra-stage-{CALL_ID}").mkdir()
    with pytest.raises(ToolError) as caught:
        stage(workspace_at(root), CHANGE_SETS["create"].changes, call_id=CALL_ID, stop=StopToken())
    assert caught.value.code is Code.FS_EXISTS


def test_a_staging_folder_taken_away_changes_nothing(root: Path) -> None:
    staged = StagedChanges(staging=f".palyra-stage-{CALL_ID}", changes=())
    with pytest.raises(ToolError) as caught:
        apply(workspace_at(root), staged, stop=StopToken())
    assert caught.value.code is Code.FS_CHANGED


def test_what_cannot_be_taken_back_is_said_and_kept(root: Path) -> None:
    def edit_ours_then_spoil_the_rest(what: str) -> None:
        if what == "taken out":
            (root / "modified").write_text("edited since")
            (root / "folder" / "modified").write_text("foreign")

    with pytest.raises(ToolError) as caught:
        carry_out(
            root,
            CHANGE_SETS["mixed"].changes,
            lambda _: None,
            moves=KernelMoves(),
            on_step=edit_ours_then_spoil_the_rest,
        )
    assert caught.value.details == {"kept": f".palyra-stage-{CALL_ID}", "paths": ["modified"]}
    assert (root / "modified").read_text() == "edited since"
    assert (root / f".palyra-stage-{CALL_ID}" / "0").read_text() == "old"


def test_a_fault_while_taking_back_is_said_and_the_backups_are_kept(root: Path) -> None:
    def spoil_then_fail(what: str) -> None:
        if what == "taken out":
            (root / "folder" / "modified").write_text("foreign")
        if what == "wrote undo":
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    with pytest.raises(ToolError) as caught:
        carry_out(
            root,
            CHANGE_SETS["mixed"].changes,
            lambda _: None,
            moves=KernelMoves(),
            on_step=spoil_then_fail,
        )
    assert caught.value.details == {"kept": f".palyra-stage-{CALL_ID}", "paths": []}


def test_a_file_edited_while_it_is_taken_back_is_left_alone(root: Path) -> None:
    planned = crashed_plan(root, "modify", after="exchanged")
    (root / planned.staging / "undo").touch()
    moves = Racing(once(lambda: (root / "modified").write_text("edited")))
    recovery = recover(workspace_at(root), planned, moves=moves)
    assert recovery == Recovery(
        result=RecoveryResult.CONFLICT, paths=("modified",), kept=planned.staging
    )
    assert (root / "modified").read_text() == "edited"
    assert (root / planned.staging / "0").read_text() == "old"


def test_a_recovery_that_cannot_go_on_turns_back(root: Path) -> None:
    planned = crashed_plan(root, "mixed", after="recorded")
    moves = Racing(once(lambda: (root / "modified").write_text("foreign")))
    assert recover(workspace_at(root), planned, moves=moves).result is RecoveryResult.UNDONE
    assert tree(root) == {**BEFORE, "modified": "foreign"}


def test_a_half_taken_change_whose_staging_is_no_longer_live_is_a_conflict(root: Path) -> None:
    planned = crashed_plan(root, "mixed", after="taken out")
    (root / planned.staging / "folders").unlink()
    recovery = recover(workspace_at(root), planned)
    assert (recovery.result, recovery.kept) == (RecoveryResult.CONFLICT, planned.staging)
