# SPDX-License-Identifier: Apache-2.0
import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from palyra.flow.sandbox import moves as moves_module
from palyra.flow.sandbox.moves import (
    KernelMoves,
    Moves,
    Place,
    PortableMoves,
    no_step,
    take_out,
)
from tests.support.workspaces import tree

BOTH_MOVES = pytest.mark.parametrize(
    "moves",
    [pytest.param(KernelMoves(), id="by-kernel"), pytest.param(PortableMoves(), id="portable")],
)


@pytest.fixture
def folder_fd(tmp_path: Path) -> Iterator[int]:
    fd = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    yield fd
    os.close(fd)


def exchange(moves: Moves, folder_fd: int) -> None:
    moves.exchange(
        Place(folder_fd, "slot"),
        Place(folder_fd, "target"),
        aside=Place(folder_fd, "aside"),
        on_step=no_step,
    )


def put(moves: Moves, folder_fd: int) -> None:
    moves.put(Place(folder_fd, "slot"), Place(folder_fd, "target"), on_step=no_step)


@BOTH_MOVES
def test_two_files_exchange_their_names(tmp_path: Path, folder_fd: int, moves: Moves) -> None:
    (tmp_path / "slot").write_text("new")
    (tmp_path / "target").write_text("old")
    exchange(moves, folder_fd)
    assert tree(tmp_path) == {"slot": "old", "target": "new"}


@BOTH_MOVES
def test_nothing_is_exchanged_with_nothing(tmp_path: Path, folder_fd: int, moves: Moves) -> None:
    (tmp_path / "slot").write_text("new")
    with pytest.raises(FileNotFoundError):
        exchange(moves, folder_fd)
    assert tree(tmp_path) == {"slot": "new"}


@BOTH_MOVES
def test_a_file_is_put_where_there_is_none(tmp_path: Path, folder_fd: int, moves: Moves) -> None:
    (tmp_path / "slot").write_text("new")
    put(moves, folder_fd)
    assert tree(tmp_path) == {"target": "new"}


@BOTH_MOVES
@pytest.mark.parametrize("in_the_way", ["file", "folder", "dangling-link"])
def test_a_file_is_never_put_over_another(
    tmp_path: Path, folder_fd: int, moves: Moves, in_the_way: str
) -> None:
    (tmp_path / "slot").write_text("new")
    target = tmp_path / "target"
    if in_the_way == "file":
        target.write_text("old")
    elif in_the_way == "folder":
        target.mkdir()
    else:
        target.symlink_to("nowhere")
    before = tree(tmp_path)
    with pytest.raises(FileExistsError):
        put(moves, folder_fd)
    assert tree(tmp_path) == before


def test_a_file_is_taken_out(tmp_path: Path, folder_fd: int) -> None:
    (tmp_path / "target").write_text("old")
    take_out(Place(folder_fd, "target"), Place(folder_fd, "slot"), on_step=no_step)
    assert tree(tmp_path) == {"slot": "old"}


def test_a_file_system_without_the_kernel_moves_gets_the_portable_ones(
    tmp_path: Path, folder_fd: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moves_module, "_libc_renameat2", None)
    (tmp_path / "slot").write_text("new")
    put(KernelMoves(), folder_fd)
    (tmp_path / "slot").write_text("newer")
    exchange(KernelMoves(), folder_fd)
    assert tree(tmp_path) == {"slot": "new", "target": "newer"}


def test_a_file_system_without_hard_links_gets_a_copy(
    tmp_path: Path, folder_fd: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_links(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, "x")

    monkeypatch.setattr(os, "link", no_links)
    (tmp_path / "slot").write_text("new")
    (tmp_path / "target").write_text("old")
    (tmp_path / "target").chmod(0o640)
    exchange(PortableMoves(), folder_fd)
    assert tree(tmp_path) == {"slot": "old", "target": "new"}
    assert (tmp_path / "slot").stat().st_mode & 0o777 == 0o640
    with pytest.raises(PermissionError):
        moves_module.PortableMoves().put(
            Place(folder_fd, "slot"), Place(folder_fd, "free"), on_step=no_step
        )


@BOTH_MOVES
def test_a_fault_of_the_file_system_is_not_taken_for_a_missing_power(
    tmp_path: Path, folder_fd: int, moves: Moves
) -> None:
    (tmp_path / "slot").write_text("new")
    with pytest.raises(FileNotFoundError):
        moves.put(Place(folder_fd, "missing"), Place(folder_fd, "target"), on_step=no_step)
