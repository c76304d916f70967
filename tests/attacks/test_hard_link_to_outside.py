# SPDX-License-Identifier: Apache-2.0
"""A file of the workspace is a second name of a file outside: writing one must not write both."""

from pathlib import Path

import pytest

from tests.support.workspaces import tree, use


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    (tmp_path / "outside").write_text("old\n")
    (tmp_path / "work" / "file").hardlink_to(tmp_path / "outside")
    return tmp_path / "work"


def test_writing_in_place_changes_the_other_name(root: Path) -> None:
    (root / "file").write_text("new\n")
    assert (root.parent / "outside").read_text() == "new\n"


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("write", {"path": "file", "content": "new\n", "if_exists": "overwrite"}),
        ("apply_patch", {"patch": "--- a/file\n+++ b/file\n@@ -1 +1 @@\n-old\n+new\n"}),
        (
            "apply_patch",
            {
                "patch": "diff --git a/file b/file\nold mode 100644\nnew mode 100755\n"
                "--- a/file\n+++ b/file\n@@ -1 +1 @@\n-old\n+new\n"
            },
        ),
    ],
)
async def test_the_other_name_keeps_content_and_mode(
    root: Path, tool: str, arguments: dict[str, object]
) -> None:
    mode = (root.parent / "outside").stat().st_mode
    await use(tool, root, **arguments)
    assert tree(root) == {"file": "new\n"}
    assert (root.parent / "outside").read_text() == "old\n"
    assert (root.parent / "outside").stat().st_mode == mode


async def test_deleting_deletes_one_name(root: Path) -> None:
    patch = "--- a/file\n+++ /dev/null\n@@ -1 +0,0 @@\n-old\n"
    await use("apply_patch", root, patch=patch)
    assert tree(root.parent) == {"outside": "old\n", "work": "/"}
