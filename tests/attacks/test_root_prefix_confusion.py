# SPDX-License-Identifier: Apache-2.0
"""A folder whose name begins like the workspace's is not in the workspace."""

from pathlib import Path

import pytest

from palyra.core.errors import Code, ToolError
from tests.support.workspaces import use


def naive_check(root: Path, path: str) -> bool:
    return str((root / path).resolve()).startswith(str(root))


@pytest.mark.parametrize("link", ["../work-evil", "../work2", "../work/../work-evil"])
async def test_a_neighbour_with_a_similar_name_is_outside(tmp_path: Path, link: str) -> None:
    root = tmp_path / "work"
    root.mkdir()
    for neighbour in ("work-evil", "work2"):
        (tmp_path / neighbour).mkdir()
        (tmp_path / neighbour / "x").write_text("outside")
    (root / "link").symlink_to(link)
    assert naive_check(root, "link/x")

    for path, code in (("link/x", Code.FS_SYMLINK), (f"{link}/x", Code.FS_OUTSIDE)):
        with pytest.raises(ToolError) as read:
            await use("read", root, path=path)
        assert read.value.code is code
        with pytest.raises(ToolError):
            await use("write", root, path=path, content="x", if_exists="overwrite")
    assert (tmp_path / "work-evil" / "x").read_text() == "outside"
