# SPDX-License-Identifier: Apache-2.0
"""After a workspace was registered, its folder is moved and something else put in its place."""

from collections.abc import Callable
from pathlib import Path

import pytest

from palyra.core.errors import Code, ToolError
from palyra.flow.sandbox.files import FILE_BODIES
from tests.support.workspaces import tool_call, tree


def by_a_link(root: Path) -> None:
    root.symlink_to(root.parent / "outside")


def by_a_folder(root: Path) -> None:
    root.mkdir()
    (root / "file").write_text("not yours\n")


def by_a_file(root: Path) -> None:
    root.write_text("x")


def by_nothing(_: Path) -> None:
    pass


ARGUMENTS: dict[str, dict[str, object]] = {
    "palyra.fs.read": {"path": "file"},
    "palyra.fs.list": {},
    "palyra.fs.search": {"text": "x"},
    "palyra.fs.write": {"path": "file", "content": "x", "if_exists": "overwrite"},
    "palyra.fs.apply_patch": {"patch": "--- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+x\n"},
}


@pytest.mark.invariant("I10")
@pytest.mark.parametrize("tool", FILE_BODIES)
@pytest.mark.parametrize("replace", [by_a_link, by_a_folder, by_a_file, by_nothing])
async def test_another_folder_at_the_same_path_is_refused(
    tmp_path: Path, tool: str, replace: Callable[[Path], None]
) -> None:
    root = tmp_path / "work"
    root.mkdir()
    (root / "file").write_text("yours\n")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file").write_text("secret\n")
    call = tool_call(root, **ARGUMENTS[tool])
    root.rename(tmp_path / "moved")
    replace(root)
    if replace in {by_a_link, by_a_folder}:
        assert (root / "file").read_text() != "yours\n"  # what a tool that trusts the path reads
    before = tree(tmp_path)
    with pytest.raises(ToolError) as caught:
        await FILE_BODIES[tool](call)
    assert caught.value.code is Code.WORKSPACE_MOVED
    assert tree(tmp_path) == before
