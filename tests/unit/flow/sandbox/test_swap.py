# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from palyra.core.digest import content_sha256
from palyra.core.errors import Code, ToolError
from palyra.core.events import PlannedChange
from palyra.flow.sandbox.beneath import open_root
from palyra.flow.sandbox.moves import KernelMoves, no_step
from palyra.flow.sandbox.staging import NOTHING, Seen, create_staging
from palyra.flow.sandbox.swap import Stand, Swap, look_at, stand_of, writable_components
from tests.support.workspaces import workspace_at

OLD, NEW, ODD = Seen(content_sha256(b"old")), Seen(content_sha256(b"new")), Seen(None)
MODIFY = PlannedChange(
    path="x", before_sha256=OLD.sha256 or "", after_sha256=NEW.sha256 or "", mode=0o644
)
CREATE = PlannedChange(path="x", before_sha256="", after_sha256=NEW.sha256 or "", mode=0o644)
DELETE = PlannedChange(path="x", before_sha256=OLD.sha256 or "", after_sha256="", mode=0)


@pytest.mark.parametrize(
    ("change", "slot", "target", "stand"),
    [
        pytest.param(MODIFY, NEW, OLD, Stand.READY, id="modify-not-yet"),
        pytest.param(MODIFY, OLD, NEW, Stand.DONE, id="modify-done"),
        pytest.param(MODIFY, NOTHING, NEW, Stand.SETTLED, id="modify-done-and-cleaned"),
        pytest.param(MODIFY, ODD, NEW, Stand.DISPLACED, id="modify-displaced-a-strange-thing"),
        pytest.param(MODIFY, NEW, ODD, Stand.BLOCKED, id="modify-blocked-by-a-strange-thing"),
        pytest.param(MODIFY, NEW, NEW, Stand.BLOCKED, id="somebody-else-modified-it-alike"),
        pytest.param(MODIFY, NEW, NOTHING, Stand.BLOCKED, id="modify-finds-nothing"),
        pytest.param(MODIFY, NOTHING, OLD, Stand.BLOCKED, id="modify-undone-and-cleaned"),
        pytest.param(MODIFY, OLD, ODD, Stand.FOREIGN, id="modify-edited-since"),
        pytest.param(MODIFY, OLD, NOTHING, Stand.FOREIGN, id="modify-deleted-since"),
        pytest.param(CREATE, NEW, NOTHING, Stand.READY, id="create-not-yet"),
        pytest.param(CREATE, NOTHING, NEW, Stand.DONE, id="create-done"),
        pytest.param(CREATE, NEW, OLD, Stand.BLOCKED, id="create-finds-a-file"),
        pytest.param(CREATE, NEW, NEW, Stand.BLOCKED, id="somebody-else-created-it-alike"),
        pytest.param(CREATE, NOTHING, NOTHING, Stand.BLOCKED, id="create-undone-and-cleaned"),
        pytest.param(CREATE, NOTHING, OLD, Stand.FOREIGN, id="create-edited-since"),
        pytest.param(CREATE, ODD, NEW, Stand.FOREIGN, id="create-with-a-strange-slot"),
        pytest.param(DELETE, NOTHING, OLD, Stand.READY, id="delete-not-yet"),
        pytest.param(DELETE, OLD, NOTHING, Stand.DONE, id="delete-done"),
        pytest.param(DELETE, NOTHING, NOTHING, Stand.SETTLED, id="delete-done-and-cleaned"),
        pytest.param(DELETE, ODD, NOTHING, Stand.DISPLACED, id="delete-took-a-strange-thing"),
        pytest.param(DELETE, NOTHING, ODD, Stand.BLOCKED, id="delete-finds-a-strange-thing"),
        pytest.param(DELETE, OLD, OLD, Stand.BLOCKED, id="delete-restored-since"),
        pytest.param(DELETE, OLD, ODD, Stand.FOREIGN, id="delete-replaced-since"),
    ],
)
def test_where_a_change_stands(
    change: PlannedChange, slot: Seen, target: Seen, stand: Stand
) -> None:
    assert stand_of(change, slot=slot, target=target) is stand


@pytest.mark.invariant("I10")
@pytest.mark.parametrize(
    ("path", "code"),
    [
        (".git/hooks/pre-commit", Code.FS_PROTECTED),
        ("a/.GIT/config", Code.FS_PROTECTED),
        (".palyra-stage-x/0", Code.FS_PROTECTED),
        ("../x", Code.FS_OUTSIDE),
        (".", Code.FS_NOT_A_FILE),
    ],
)
def test_not_every_path_may_be_written(path: str, code: Code) -> None:
    with pytest.raises(ToolError) as caught:
        writable_components(path)
    assert caught.value.code is code


def test_a_refusal_names_path_and_danger() -> None:
    with pytest.raises(ToolError, match=r"'\.envrc' is a protected name: shells run code"):
        writable_components(".envrc")


def test_looking_below_a_missing_folder_finds_nothing(tmp_path: Path) -> None:
    with open_root(workspace_at(tmp_path)) as root:
        assert look_at(root, ("none", "x")) == NOTHING


@pytest.mark.invariant("I10")
def test_a_recorded_protected_path_is_not_even_taken_in_recovery(tmp_path: Path) -> None:
    change = PlannedChange(path=".git/x", before_sha256="", after_sha256="0" * 64, mode=0o644)
    with (
        open_root(workspace_at(tmp_path)) as root,
        create_staging(root, ".palyra-stage-x", on_step=no_step) as staging,
    ):
        swap = Swap(staging=staging, moves=KernelMoves(), number=0, change=change)
        for act in (swap.stand, swap.take, swap.take_back):
            with pytest.raises(ToolError) as caught:
                act()
            assert caught.value.code is Code.FS_PROTECTED


def test_taking_back_what_somebody_edited_since_leaves_it_alone(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("old")
    with (
        open_root(workspace_at(tmp_path)) as root,
        create_staging(root, ".palyra-stage-x", on_step=no_step) as staging,
    ):
        staging.write(staging.slot(0), b"new", mode=0o644)
        swap = Swap(staging=staging, moves=KernelMoves(), number=0, change=MODIFY)
        swap.take()
        assert swap.stand() is Stand.DONE
        (tmp_path / "x").write_text("edited")
        with pytest.raises(ToolError) as caught:
            swap.take_back()
        assert caught.value.code is Code.FS_CHANGED
    assert (tmp_path / "x").read_text() == "edited"
