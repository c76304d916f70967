# SPDX-License-Identifier: Apache-2.0
"""The agent plants a symbolic link and asks a file tool to go through it."""

from pathlib import Path

import pytest

from palyra.core.errors import Code, ToolError
from tests.support.workspaces import tree, use

SECRET = "secret of the host"

ESCAPES = {
    "a-link-to-a-file": ("link", {"link": "../outside/secret"}),
    "an-absolute-link-to-a-file": ("link", {"link": "{outside}/secret"}),
    "a-link-to-a-folder": ("link/secret", {"link": "../outside"}),
    "an-absolute-link-to-a-folder": ("link/secret", {"link": "{outside}"}),
    "a-link-to-the-root": ("link/{outside}/secret", {"link": "/"}),
    "a-chain-of-links": ("one", {"one": "two", "two": "three", "three": "../outside/secret"}),
    "a-chain-through-folders": ("one/secret", {"one": "sub/two", "sub/two": "../../outside"}),
    "a-link-of-proc": ("link/{outside}/secret", {"link": "/proc/self/root"}),
    "a-link-of-the-working-folder": ("link/{outside}/secret", {"link": "/proc/self/cwd"}),
}


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text(f"{SECRET}\n")
    return tmp_path / "outside"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "work" / "sub").mkdir(parents=True)
    return tmp_path / "work"


def plant(root: Path, outside: Path, links: dict[str, str]) -> None:
    for name, target in links.items():
        (root / name).symlink_to(target.format(outside=outside))


async def refused(tool: str, root: Path, **arguments: object) -> ToolError:
    with pytest.raises(ToolError) as caught:
        await use(tool, root, **arguments)
    assert SECRET not in str(caught.value) + repr(caught.value.details)
    return caught.value


@pytest.mark.invariant("I10")
@pytest.mark.parametrize("name", ESCAPES)
async def test_no_link_leads_out(name: str, root: Path, outside: Path) -> None:
    spelling, links = ESCAPES[name]
    path = spelling.format(outside=str(outside).lstrip("/"))
    plant(root, outside, links)
    if "cwd" not in links.get("link", ""):
        assert SECRET in (root / path).read_text()  # what a tool that just opens it would read
    before = tree(outside)

    codes = {Code.FS_SYMLINK, Code.FS_OUTSIDE}
    assert (await refused("read", root, path=path)).code in codes
    assert (await refused("list", root, path=path)).code in codes
    assert (await refused("search", root, path=path, text="secret")).code in codes
    for if_exists in ("fail", "overwrite"):
        written = await refused("write", root, path=path, content="x", if_exists=if_exists)
        assert written.code is Code.FS_SYMLINK
    patch = f"--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-{SECRET}\n+x\n"
    assert (await refused("apply_patch", root, patch=patch)).code is Code.FS_SYMLINK

    assert tree(outside) == before


async def test_walking_does_not_go_through_links(root: Path, outside: Path) -> None:
    plant(root, outside, {"file": "../outside/secret", "folder": "../outside"})
    assert SECRET in (root / "folder" / "secret").read_text()  # what a naive walk comes to
    answer = await use("search", root, text=SECRET)
    assert answer["matches"] == []
    answer = await use("list", root, recursive=True)
    assert [(entry["path"], entry["type"]) for entry in answer["entries"]] == [
        ("file", "symlink"),
        ("folder", "symlink"),
        ("sub", "folder"),
    ]


@pytest.mark.parametrize("path", ["dangling", "dangling-folder/x", "itself", "ring", "ring/x"])
async def test_dangling_and_circular_links_are_refused_and_create_nothing(
    path: str, root: Path, outside: Path
) -> None:
    plant(
        root,
        outside,
        {
            "dangling": "../outside/new",
            "dangling-folder": "../outside/new-folder",
            "itself": "itself",
            "ring": "gnir",
            "gnir": "ring",
        },
    )
    if path == "dangling":
        (root / path).write_text("the naive write creates the target")
        (outside / "new").unlink()
    before = tree(root.parent)
    for if_exists in ("fail", "overwrite"):
        code = (await refused("write", root, path=path, content="x", if_exists=if_exists)).code
        assert code is Code.FS_SYMLINK
    patch = f"--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+x\n"
    assert (await refused("apply_patch", root, patch=patch)).code is Code.FS_SYMLINK
    await refused("read", root, path=path)
    assert tree(root.parent) == before


async def test_a_deletion_does_not_reach_through_a_link(root: Path, outside: Path) -> None:
    plant(root, outside, {"folder": "../outside", "file": "../outside/secret"})
    for path in ("folder/secret", "file"):
        patch = f"--- a/{path}\n+++ /dev/null\n@@ -1 +0,0 @@\n-{SECRET}\n"
        assert (await refused("apply_patch", root, patch=patch)).code is Code.FS_SYMLINK
    assert tree(outside) == {"secret": f"{SECRET}\n"}
