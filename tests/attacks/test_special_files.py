# SPDX-License-Identifier: Apache-2.0
"""The agent puts a pipe, a socket or a device where a tool expects a file, so that it hangs."""

import asyncio
import os
import socket
import stat
import subprocess
import threading
from pathlib import Path

import pytest

from palyra.core.errors import Code, ToolError
from tests.support.workspaces import tree, use

PATIENCE_SECONDS = 5


def plant_pipe(path: Path) -> None:
    os.mkfifo(path)


def plant_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        working_folder = Path.cwd()
        os.chdir(path.parent)  # a socket's address is short
        try:
            server.bind(path.name)
        finally:
            os.chdir(working_folder)


def plant_device(path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root makes devices")
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 5))  # /dev/zero never ends
    except PermissionError:
        pytest.skip("this host makes no devices")


PLANT = {"pipe": plant_pipe, "socket": plant_socket, "device": plant_device}


@pytest.fixture(params=PLANT)
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    PLANT[request.param](tmp_path / "special")
    return tmp_path


def test_a_pipe_without_a_writer_never_ends_for_a_naive_reader(tmp_path: Path) -> None:
    plant_pipe(tmp_path / "pipe")
    with subprocess.Popen(["/bin/cat", tmp_path / "pipe"]) as reader:
        with pytest.raises(subprocess.TimeoutExpired):
            reader.wait(timeout=0.1)
        reader.kill()


async def test_special_files_are_refused_at_once(root: Path) -> None:
    before = tree(root)
    arguments: dict[str, dict[str, object]] = {
        "read": {"path": "special"},
        "write": {"path": "special", "content": "x", "if_exists": "overwrite"},
        "apply_patch": {"patch": "--- a/special\n+++ b/special\n@@ -1 +1 @@\n-a\n+b\n"},
    }
    for tool, given in arguments.items():
        with pytest.raises(ToolError) as caught:
            await asyncio.wait_for(use(tool, root, **given), PATIENCE_SECONDS)
        assert caught.value.code is Code.FS_NOT_A_FILE
    assert tree(root) == before


async def test_looking_at_a_pipe_does_not_wake_who_waits_at_its_other_end(tmp_path: Path) -> None:
    plant_pipe(tmp_path / "pipe")
    woken = threading.Event()

    def wait_for_a_reader() -> None:
        os.close(os.open(tmp_path / "pipe", os.O_WRONLY))
        woken.set()

    writer = threading.Thread(target=wait_for_a_reader)
    writer.start()
    with pytest.raises(ToolError):
        await use("read", tmp_path, path="pipe")
    assert not woken.wait(0.1)
    os.close(os.open(tmp_path / "pipe", os.O_RDONLY))  # what a naive reader does
    assert woken.wait(PATIENCE_SECONDS)
    writer.join()


async def test_special_files_do_not_hold_a_walk_up(root: Path) -> None:
    (root / "x").write_text("needle")
    answer = await asyncio.wait_for(use("search", root, text="needle"), PATIENCE_SECONDS)
    assert [match["path"] for match in answer["matches"]] == ["x"]
    answer = await asyncio.wait_for(use("list", root), PATIENCE_SECONDS)
    assert [entry["type"] for entry in answer["entries"]] == ["other", "file"]


async def test_a_folder_in_the_place_of_a_parent_file_is_told_apart(root: Path) -> None:
    with pytest.raises(ToolError) as caught:
        await use("write", root, path="special/x", content="x")
    assert caught.value.code is Code.FS_NOT_A_FOLDER
