# SPDX-License-Identifier: Apache-2.0
"""The agent names a path outside the workspace, in as many spellings as it can think of."""

from pathlib import Path

import pytest

from palyra.core.errors import Code, ToolError
from tests.support.workspaces import tree, use

LEAVING = [
    "../outside",
    "..",
    "../..",
    "sub/../../outside",
    "sub/..",
    "./../outside",
    "sub/./../../outside",
    "sub//../../outside",
    "/etc/passwd",
    "//etc/passwd",
    "/",
    "../work/../outside",
    "sub/\0/../../../outside",
    "../outside\0.txt",
]
LITERAL = [
    "file:///etc/passwd",
    "%2e%2e/outside",
    "..%2foutside",
    "..%c0%afoutside",
    "\u2024\u2024/outside",
    "\uff0e\uff0e/outside",
    "..\\outside",
    "C:\\outside",
    "~/outside",
    "~root/x",
    "$HOME/x",
    "...",
    ".. /outside",
]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "outside").write_text("secret")
    (tmp_path / "work" / "sub").mkdir(parents=True)
    return tmp_path / "work"


def test_joining_paths_leads_out(root: Path) -> None:
    assert (root / "sub/../../outside").read_text() == "secret"
    assert Path(root / "/etc/passwd") == Path("/etc/passwd")


@pytest.mark.parametrize("path", LEAVING)
async def test_paths_that_lead_out_are_refused_by_every_tool(root: Path, path: str) -> None:
    before = tree(root.parent)
    arguments: dict[str, dict[str, object]] = {
        "read": {"path": path},
        "list": {"path": path},
        "search": {"path": path, "text": "secret"},
        "write": {"path": path, "content": "x", "if_exists": "overwrite"},
    }
    for tool, given in arguments.items():
        with pytest.raises(ToolError) as caught:
            await use(tool, root, **given)
        assert caught.value.code is Code.FS_OUTSIDE
    assert tree(root.parent) == before


@pytest.mark.parametrize("path", LITERAL)
async def test_no_spelling_is_decoded_or_expanded(root: Path, path: str) -> None:
    """What other programs would take for a way out is an odd name below the workspace here."""
    outside = tree(root.parent).keys() - tree(root).keys()
    answer: object
    try:
        answer = await use("write", root, path=path, content="x")
    except ToolError as error:
        answer = error.code
    assert answer == Code.FS_OUTSIDE or (root / path).read_text() == "x"
    assert (root.parent / "outside").read_text() == "secret"
    assert outside <= tree(root.parent).keys()
    assert sorted(entry.name for entry in root.parent.iterdir()) == ["outside", "work"]
