# SPDX-License-Identifier: Apache-2.0
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from palyra.core.digest import content_sha256
from palyra.flow.sandbox.beneath import open_root
from palyra.flow.sandbox.moves import Place, no_step
from palyra.flow.sandbox.staging import (
    LARGEST_FILE_BYTES,
    NOTHING,
    Staging,
    create_staging,
    look,
    open_staging,
    sha256_of,
    staging_name,
)
from tests.support.workspaces import CALL_ID, tree, workspace_at

NAME = staging_name(CALL_ID)


@contextmanager
def fresh(root: Path) -> Iterator[Staging]:
    with (
        open_root(workspace_at(root)) as opened,
        create_staging(opened, NAME, on_step=no_step) as staging,
    ):
        yield staging


def look_at(path: Path) -> str | None:
    fd = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        return look(Place(fd, path.name)).sha256
    finally:
        os.close(fd)


def test_looking_tells_files_by_content_and_everything_else_apart(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "link").symlink_to("file")
    os.mkfifo(tmp_path / "pipe")
    with (tmp_path / "huge").open("wb") as huge:
        huge.truncate(LARGEST_FILE_BYTES + 1)
    assert look_at(tmp_path / "file") == content_sha256(b"x")
    assert look_at(tmp_path / "none") == ""
    for name in ("link", "pipe", "huge", "."):
        assert look_at(tmp_path / name) is None


def test_a_file_that_grows_while_it_is_read_is_given_up(tmp_path: Path) -> None:
    with (tmp_path / "huge").open("w+b") as huge:
        huge.truncate(LARGEST_FILE_BYTES + 1)
        assert sha256_of(huge.fileno()) is None


def test_nothing_has_no_mode() -> None:
    assert NOTHING.mode == 0


def test_nobody_else_may_enter_a_staging_folder(tmp_path: Path) -> None:
    with fresh(tmp_path):
        assert (tmp_path / NAME).stat().st_mode & 0o777 == 0o700


def test_a_new_file_gets_its_mode_under_the_umask(tmp_path: Path) -> None:
    umask = os.umask(0o027)
    try:
        with fresh(tmp_path) as staging:
            assert staging.write(staging.slot(0), b"x", mode=0o755) == 0o750
    finally:
        os.umask(umask)


def test_a_replacement_gets_the_mode_of_the_file_but_never_its_special_bits(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("old")
    (tmp_path / "old").chmod(0o6775)
    with fresh(tmp_path) as staging:
        seen = look(Place(staging.root.fd, "old"))
        assert staging.write(staging.slot(0), b"x", mode=seen.mode, like=seen) == 0o775


def test_a_staging_folder_is_live_from_its_commit_to_its_removal(tmp_path: Path) -> None:
    with fresh(tmp_path) as staging:
        assert not staging.is_live()
        staging.commit(("a", "a/b"))
        assert staging.is_live()
        assert staging.new_folders() == ("a", "a/b")
        staging.mark_undo()
        staging.mark_undo()
        assert staging.is_being_undone()
        staging.remove()
        assert not staging.is_live()
    assert tree(tmp_path) == {}


@pytest.mark.parametrize("raw", [b"", b"{", b'[1, "a"]', b"\xff"])
def test_what_a_stranger_wrote_as_list_of_folders_is_ignored(tmp_path: Path, raw: bytes) -> None:
    with fresh(tmp_path) as staging:
        (tmp_path / NAME / "folders").write_bytes(raw)
        assert staging.new_folders() == ()


def test_what_a_stranger_nested_into_it_stays(tmp_path: Path) -> None:
    with fresh(tmp_path) as staging:
        (tmp_path / NAME / "strange").mkdir()
        (tmp_path / NAME / "link").symlink_to(tmp_path)
        staging.remove()
    assert tree(tmp_path) == {NAME: "/", f"{NAME}/strange": "/"}


def test_a_second_name_is_waste_beside_the_slot_and_the_slot_without_it(tmp_path: Path) -> None:
    with fresh(tmp_path) as staging:
        staging.write(staging.slot(0), b"slot", mode=0o600)
        staging.write(staging.aside(0), b"waste", mode=0o600)
        staging.write(staging.aside(1), b"slot too", mode=0o600)
        staging.settle(0, None)
        staging.settle(1, None)
        assert tree(tmp_path / NAME) == {"0": "slot", "1": "slot too"}


def test_a_slot_that_was_put_in_place_already_is_empty(tmp_path: Path) -> None:
    with fresh(tmp_path) as staging:
        staging.write(staging.slot(0), b"new", mode=0o600)
        (tmp_path / "target").hardlink_to(tmp_path / NAME / "0")
        staging.settle(0, Place(staging.root.fd, "target"))
        assert look(staging.slot(0)) == NOTHING


def test_only_staging_folders_are_opened_as_such(tmp_path: Path) -> None:
    with open_root(workspace_at(tmp_path)) as root:
        for name in ("elsewhere", f"{NAME}/../x"):
            with (
                pytest.raises(ValueError, match="not the name"),
                open_staging(root, name, on_step=no_step),
            ):
                pass


@pytest.mark.parametrize("kind", ["nothing", "link", "file"])
def test_a_strangers_thing_is_no_staging_folder(tmp_path: Path, kind: str) -> None:
    if kind == "link":
        (tmp_path / NAME).symlink_to(".")
    elif kind == "file":
        (tmp_path / NAME).write_text("x")
    with (
        open_root(workspace_at(tmp_path)) as root,
        open_staging(root, NAME, on_step=no_step) as staging,
    ):
        assert staging is None
