# SPDX-License-Identifier: Apache-2.0
"""A patch whose headers lead out of the workspace, or ask for more than text."""

import shutil
import subprocess
from pathlib import Path

import pytest

from palyra.core.errors import Code, ToolError
from tests.support.workspaces import tree, use

ADD = "@@ -0,0 +1 @@\n+evil\n"
CHANGE = "@@ -1 +1 @@\n-old\n+evil\n"
LINK = "diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n"

ATTACKS: dict[str, tuple[str, set[Code]]] = {
    "dot-dot": (f"--- /dev/null\n+++ b/../outside/new\n{ADD}", {Code.FS_OUTSIDE}),
    "dot-dot-in-both-names": (
        f"--- a/../outside/file\n+++ b/../outside/file\n{CHANGE}",
        {Code.FS_OUTSIDE},
    ),
    "dot-dot-behind-a-folder": (
        f"--- a/sub/../../outside/file\n+++ b/sub/../../outside/file\n{CHANGE}",
        {Code.FS_OUTSIDE},
    ),
    "dot-dot-in-quotes": (
        f'--- /dev/null\n+++ "b/\\056\\056/outside/new"\n{ADD}',
        {Code.FS_OUTSIDE},
    ),
    "absolute": (f"--- /dev/null\n+++ {{outside}}/new\n{ADD}", {Code.FS_OUTSIDE}),
    "absolute-behind-the-prefix": (
        f"--- /dev/null\n+++ b/{{outside}}/new\n{ADD}",
        {Code.FS_OUTSIDE},
    ),
    "absolute-deletion": (
        "--- {outside}/file\n+++ /dev/null\n@@ -1 +0,0 @@\n-old\n",
        {Code.FS_OUTSIDE},
    ),
    "deletion-of-a-null-device": (
        f'--- "/dev/null"\n+++ b/x\n{ADD}',
        {Code.PATCH_MALFORMED, Code.FS_OUTSIDE},
    ),
    "null-device-behind-the-prefix": (
        f"--- a//dev/null\n+++ b//dev/null\n{ADD}",
        {Code.FS_OUTSIDE},
    ),
    "null-device-with-a-tail": (
        f"--- /dev/null/x\n+++ b/x\n{ADD}",
        {Code.PATCH_MALFORMED, Code.FS_OUTSIDE},
    ),
    "rename-to-outside": (
        "diff --git a/file b/x\nrename from file\nrename to ../outside/new\n",
        {Code.FS_OUTSIDE},
    ),
    "rename-to-an-absolute-path": (
        "diff --git a/file b/x\nrename from file\nrename to {outside}/new\n",
        {Code.FS_OUTSIDE},
    ),
    "rename-from-outside": (
        "diff --git a/x b/new\nrename from ../outside/file\nrename to new\n",
        {Code.FS_OUTSIDE},
    ),
    "copy-from-outside": (
        "diff --git a/x b/new\ncopy from ../outside/file\ncopy to new\n",
        {Code.PATCH_UNSUPPORTED},
    ),
    "git-header-says-one-thing-and-file-header-another": (
        f"diff --git a/file b/file\nindex 1..2 100644\n--- a/file\n+++ b/../outside/file\n{CHANGE}",
        {Code.PATCH_MALFORMED, Code.FS_OUTSIDE},
    ),
    "symbolic-link": (
        f"{LINK}+{{outside}}/file\n\\ No newline at end of file\n",
        {Code.PATCH_UNSUPPORTED},
    ),
    "symbolic-link-then-a-file-through-it": (
        f"{LINK}+{{outside}}\n\\ No newline at end of file\n--- /dev/null\n+++ b/l/new\n{ADD}",
        {Code.PATCH_UNSUPPORTED},
    ),
    "setuid": (
        "diff --git a/file b/file\nold mode 100644\nnew mode 104755\n",
        {Code.PATCH_UNSUPPORTED},
    ),
    "submodule": ("diff --git a/m b/m\nnew file mode 160000\n", {Code.PATCH_UNSUPPORTED}),
    "binary": ("diff --git a/b b/b\nGIT binary patch\nliteral 0\n", {Code.PATCH_UNSUPPORTED}),
    "crlf-header": (f"--- /dev/null\r\n+++ b/x\r\n{ADD}", {Code.PATCH_MALFORMED}),
    "carriage-return-in-a-name": (f"--- /dev/null\n+++ b/x\r/../../y\n{ADD}", {Code.FS_OUTSIDE}),
    "nul-in-a-quoted-name": (f'--- /dev/null\n+++ "b/x\\000"\n{ADD}', {Code.FS_OUTSIDE}),
    "line-feed-in-a-quoted-name": (
        f'--- /dev/null\n+++ "b/../x\\n+++ b/y"\n{ADD}',
        {Code.FS_OUTSIDE},
    ),
    "hidden-behind-a-file": (
        f"--- /dev/null\n+++ b/x\n{ADD}--- /dev/null\n+++ b/x/../../y\n{ADD}",
        {Code.FS_OUTSIDE},
    ),
    "a-file-and-a-file-below-it": (
        f"--- /dev/null\n+++ b/x\n{ADD}--- /dev/null\n+++ b/x/y\n{ADD}",
        {Code.FS_NOT_A_FOLDER},
    ),
    "the-same-file-twice": (
        f"--- a/file\n+++ b/file\n{CHANGE}--- a/file\n+++ b/file\n{CHANGE}",
        {Code.PATCH_UNSUPPORTED},
    ),
    "the-root-itself": (f"--- /dev/null\n+++ b/.\n{ADD}", {Code.FS_NOT_A_FILE}),
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "work" / "sub").mkdir(parents=True)
    (tmp_path / "work" / "file").write_text("old\n")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file").write_text("old\n")
    return tmp_path / "work"


@pytest.mark.skipif(shutil.which("git") is None, reason="shown with git")
def test_a_patch_can_lead_out_of_a_folder_if_the_program_lets_it(root: Path) -> None:
    patch, _ = ATTACKS["dot-dot-in-both-names"]
    git = shutil.which("git") or ""
    subprocess.run(
        [git, "apply", "--unsafe-paths", "-"], cwd=root, input=patch.encode(), check=True
    )
    assert (root.parent / "outside" / "file").read_text() == "evil\n"


@pytest.mark.invariant("I10")
@pytest.mark.parametrize("name", ATTACKS)
async def test_hostile_patches_are_refused_whole(name: str, root: Path) -> None:
    patch, codes = ATTACKS[name]
    before = tree(root.parent)
    for prelude in ("", f"--- /dev/null\n+++ b/harmless\n{ADD}"):
        with pytest.raises(ToolError) as caught:
            await use(
                "apply_patch", root, patch=prelude + patch.format(outside=root.parent / "outside")
            )
        assert caught.value.code in codes
        assert "evil" not in caught.value.message
        assert tree(root.parent) == before
