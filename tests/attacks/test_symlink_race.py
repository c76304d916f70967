# SPDX-License-Identifier: Apache-2.0
"""A second process of the agent swaps a folder for a symbolic link while a tool uses it."""

import ctypes
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from palyra.core.errors import ToolError
from palyra.flow.sandbox.beneath import (
    Resolver,
    Symlinks,
    open_file,
    open_root,
    resolve_by_kernel,
    resolve_by_walk,
)
from palyra.flow.sandbox.blocking import StopToken
from palyra.flow.sandbox.file_change import FileChange
from palyra.flow.sandbox.staged import apply, stage
from tests.support.workspaces import CALL_ID, tree, workspace_at

EXCHANGE = 2


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a workspace with a folder, and a link out of it waiting to take its place."""
    root = tmp_path / "work"
    (root / "folder").mkdir(parents=True)
    (root / "folder" / "file").write_text("inside")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file").write_text("outside")
    (root / "link").symlink_to(tmp_path / "outside")
    return root


def flip(root: Path) -> None:
    """Exchange the folder and the link, in one step."""
    libc = ctypes.CDLL(None, use_errno=True)
    at_working_folder = -100
    names = (os.fsencode(root / "folder"), os.fsencode(root / "link"))
    failed = libc.renameat2(at_working_folder, names[0], at_working_folder, names[1], EXCHANGE)
    assert not failed


@contextmanager
def flipping(root: Path) -> Iterator[Callable[[], int]]:
    """Flip as fast as a thread can, and count."""
    ended = threading.Event()
    flips = 0

    def work() -> None:
        nonlocal flips
        while not ended.is_set():
            flip(root)
            flips += 1

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield lambda: flips
    finally:
        ended.set()
        thread.join()
        if (root / "folder").is_symlink():
            flip(root)


def naive_read(root: Path, path: str, *, between: Callable[[], object]) -> str:
    """Check where a path leads, then open it: the time between is the hole."""
    if not (root / path).resolve().is_relative_to(root):
        raise PermissionError(path)
    between()
    return (root / path).read_text()


def test_checking_first_and_opening_then_reads_outside(root: Path) -> None:
    assert naive_read(root, "folder/file", between=lambda: flip(root)) == "outside"


@pytest.mark.parametrize("resolver", [resolve_by_kernel, resolve_by_walk])
@pytest.mark.invariant("I10")
def test_reading_never_gets_outside(root: Path, resolver: Resolver) -> None:
    read, refused = 0, 0
    with flipping(root) as flips:
        while flips() < 5000 or not read or not refused:
            try:
                with (
                    open_root(workspace_at(root), resolver=resolver) as opened,
                    open_file(opened, ("folder", "file"), symlinks=Symlinks.WITHIN) as file,
                ):
                    assert os.read(file.fd, 100) == b"inside"
                    read += 1
            except ToolError:
                refused += 1
    assert read
    assert refused


@pytest.mark.invariant("I10")
def test_writing_never_gets_outside(root: Path) -> None:
    workspace = workspace_at(root)
    written, refused, attempts = 0, 0, 0
    with flipping(root) as flips:
        while flips() < 5000 or attempts < 500 or not written or not refused:
            attempts += 1
            change = FileChange(path=f"folder/new/{attempts}", before_sha256="", content=b"new")
            try:
                staged = stage(workspace, (change,), call_id=CALL_ID, stop=StopToken())
                apply(workspace, staged, stop=StopToken())
                written += 1
            except ToolError:
                refused += 1
            assert tree(root.parent / "outside") == {"file": "outside"}
    assert written
    assert refused
    assert not list(root.glob(".palyra-stage-*"))
