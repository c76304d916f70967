# SPDX-License-Identifier: Apache-2.0
import os
from pathlib import Path

import pytest

from palyra.core.digest import content_sha256
from palyra.core.errors import Code, ToolError
from palyra.core.events import PlannedChange
from palyra.flow.sandbox.beneath import open_root
from palyra.flow.sandbox.blocking import StopToken
from palyra.flow.sandbox.file_change import MAX_CHANGES, FileChange, effective, write_slot
from palyra.flow.sandbox.moves import no_step
from palyra.flow.sandbox.staging import LARGEST_FILE_BYTES, create_staging
from tests.support.workspaces import workspace_at

OLD = content_sha256(b"old")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "file").write_text("old")
    (tmp_path / "file").chmod(0o640)
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    with (tmp_path / "huge").open("wb") as huge:
        huge.truncate(LARGEST_FILE_BYTES + 1)
    return tmp_path


def paths_of_effective(root: Path, *changes: FileChange) -> list[str]:
    with open_root(workspace_at(root)) as opened:
        return [change.path for change, _ in effective(opened, changes, stop=StopToken())]


def planned(root: Path, change: FileChange) -> PlannedChange:
    with (
        open_root(workspace_at(root)) as opened,
        create_staging(opened, ".palyra-stage-x", on_step=no_step) as staging,
    ):
        ((same, seen),) = effective(opened, (change,), stop=StopToken())
        return write_slot(staging, 0, same, seen)


def test_changes_that_change_nothing_are_left_out(root: Path) -> None:
    assert paths_of_effective(
        root,
        FileChange(path="file", before_sha256=OLD, content=b"old"),
        FileChange(path="none", before_sha256="", content=None),
        FileChange(path="new", before_sha256="", content=b""),
    ) == ["new"]


def test_a_mode_alone_is_a_change(root: Path) -> None:
    same = FileChange(path="file", before_sha256=OLD, content=b"old", mode=0o640)
    other = FileChange(path="file", before_sha256=OLD, content=b"old", mode=0o755)
    assert paths_of_effective(root, same) == []
    assert paths_of_effective(root, other) == ["file"]


@pytest.mark.parametrize(
    ("path", "before", "code"),
    [
        ("none", OLD, Code.FS_NOT_FOUND),
        ("none/x", OLD, Code.FS_NOT_FOUND),
        ("file", "", Code.FS_EXISTS),
        ("file", "0" * 64, Code.FS_CHANGED),
        ("link", OLD, Code.FS_SYMLINK),
        ("link", "", Code.FS_SYMLINK),
        ("folder", "", Code.FS_NOT_A_FILE),
        ("pipe", "", Code.FS_NOT_A_FILE),
        ("huge", OLD, Code.FS_TOO_LARGE),
        ("huge", "", Code.FS_TOO_LARGE),
        ("file/x", "", Code.FS_NOT_A_FOLDER),
        ("link/x", "", Code.FS_SYMLINK),
    ],
)
def test_a_file_that_is_not_what_is_expected_is_refused(
    root: Path, path: str, before: str, code: Code
) -> None:
    with pytest.raises(ToolError) as caught:
        paths_of_effective(root, FileChange(path=path, before_sha256=before, content=b"new"))
    assert caught.value.code is code


@pytest.mark.parametrize("pair", [("a", "a"), ("a", "a/b"), ("a/b/c", "a")])
def test_no_changed_path_is_another_or_its_folder(root: Path, pair: tuple[str, str]) -> None:
    changes = [FileChange(path=path, before_sha256="", content=b"") for path in pair]
    with pytest.raises(ToolError) as caught:
        paths_of_effective(root, *changes)
    assert caught.value.code is Code.FS_NOT_A_FOLDER


@pytest.mark.invariant("I13")
def test_the_number_of_changes_is_bounded(root: Path) -> None:
    changes = [
        FileChange(path=str(number), before_sha256="", content=b"")
        for number in range(MAX_CHANGES + 1)
    ]
    with pytest.raises(ToolError) as caught:
        paths_of_effective(root, *changes)
    assert caught.value.code is Code.FS_TOO_LARGE


@pytest.mark.parametrize(
    ("change", "mode"),
    [
        pytest.param(
            FileChange(path="file", before_sha256=OLD, content=b"new"), 0o640, id="a-file-keeps-it"
        ),
        pytest.param(
            FileChange(path="file", before_sha256=OLD, content=b"new", mode=0o755),
            0o755,
            id="a-file-gets-it",
        ),
        pytest.param(
            FileChange(path="new", before_sha256="", content=b"new"), 0o644, id="a-new-file"
        ),
        pytest.param(
            FileChange(path="new", before_sha256="", content=b"new", mode=0o755),
            0o755,
            id="a-new-executable",
        ),
        pytest.param(FileChange(path="file", before_sha256=OLD, content=None), 0, id="a-deletion"),
    ],
)
def test_permission_bits(root: Path, change: FileChange, mode: int) -> None:
    umask = os.umask(0o022)
    try:
        assert planned(root, change).mode == mode
    finally:
        os.umask(umask)


def test_a_change_is_recorded_by_digests(root: Path) -> None:
    change = FileChange(path="file", before_sha256=OLD, content=b"new")
    assert planned(root, change) == PlannedChange(
        path="file", before_sha256=OLD, after_sha256=content_sha256(b"new"), mode=0o640
    )
    assert (root / ".palyra-stage-x" / "0").read_text() == "new"


@pytest.mark.invariant("I10")
def test_a_part_of_a_repository_is_neither_changed_nor_deleted(root: Path) -> None:
    (root / "bare" / "refs").mkdir(parents=True)
    for name in ("HEAD", "config", "description"):
        (root / "bare" / name).write_text("old")
    for content in (b"new", None):
        change = FileChange(path="bare/config", before_sha256=OLD, content=content)
        with pytest.raises(ToolError) as caught:
            paths_of_effective(root, change)
        assert caught.value.code is Code.FS_PROTECTED
        assert caught.value.details == {"path": "bare/config"}
    same = FileChange(path="bare/config", before_sha256=OLD, content=b"old")
    other = FileChange(path="bare/description", before_sha256=OLD, content=b"new")
    assert paths_of_effective(root, same, other) == ["bare/description"]
