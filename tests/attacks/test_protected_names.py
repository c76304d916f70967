# SPDX-License-Identifier: Apache-2.0
"""The agent writes a file that makes other programs run its code, under many disguises."""

import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest

from palyra.core.errors import Code, ToolError
from palyra.core.protected import PROTECTED_NAMES, PROTECTED_SUFFIXES
from tests.support.workspaces import tree, use

PROTECTED = ["/".join(name.components) for name in PROTECTED_NAMES]
PROTECTED += [f"x{suffix}" for suffix in PROTECTED_SUFFIXES]
ZERO_WIDTH_JOINER = "\u200d"


def fullwidth(name: str) -> str:
    return "".join(
        chr(ord(letter) + 0xFEE0) if letter.isascii() and letter.isalpha() else letter
        for letter in name
    )


DISGUISES: dict[str, Callable[[str], str]] = {
    "as-it-is": lambda name: name,
    "upper-case": str.upper,
    "title-case": str.title,
    "full-width-letters": fullwidth,
    "an-invisible-character": lambda name: f"{name[:2]}{ZERO_WIDTH_JOINER}{name[2:]}",
    "a-right-to-left-mark": lambda name: f"{name}\u200f",
    "a-trailing-dot": lambda name: f"{name}.",
    "a-trailing-blank": lambda name: f"{name} ",
    "a-dotless-i": lambda name: name.replace("i", "\u0131"),
    "a-long-s": lambda name: name.replace("s", "\u017f"),
    "decomposed": lambda name: unicodedata.normalize("NFD", name),
    "deep-in-the-workspace": lambda name: f"vendor/lib/{name}",
    "an-alternate-stream": lambda name: f"{name}::$DATA",
    "a-file-below-it": lambda name: f"{name}/x",
}


async def is_refused(root: Path, path: str) -> bool:
    added = f"--- /dev/null\n+++ b/{path}\t\n@@ -0,0 +1 @@\n+x\n"
    renamed = f"diff --git a/plain b/{path}\nrename from plain\nrename to {path}\n"
    calls: list[tuple[str, dict[str, object]]] = [
        ("write", {"path": path, "content": "x"}),
        ("write", {"path": path, "content": "x", "if_exists": "overwrite"}),
        ("apply_patch", {"patch": added}),
        ("apply_patch", {"patch": renamed}),
    ]
    for tool, arguments in calls:
        try:
            await use(tool, root, **arguments)
        except ToolError as error:
            if error.code is not Code.FS_PROTECTED:
                return False
        else:
            return False
    return True


@pytest.mark.invariant("I10")
@pytest.mark.parametrize("disguise", DISGUISES)
async def test_no_protected_name_is_created_under_any_disguise(
    tmp_path: Path, disguise: str
) -> None:
    (tmp_path / "plain").write_text("x\n")
    written = [
        name for name in PROTECTED if not await is_refused(tmp_path, DISGUISES[disguise](name))
    ]
    assert written == []
    assert tree(tmp_path) == {"plain": "x\n"}


@pytest.mark.invariant("I10")
@pytest.mark.parametrize("path", [".git/config", ".github/workflows/ci.yml", ".vscode/tasks.json"])
async def test_protected_files_that_exist_are_neither_changed_nor_deleted_nor_moved(
    tmp_path: Path, path: str
) -> None:
    (tmp_path / path).parent.mkdir(parents=True)
    (tmp_path / path).write_text("old\n")
    before = tree(tmp_path)
    patches = [
        f"--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-old\n+new\n",
        f"--- a/{path}\n+++ /dev/null\n@@ -1 +0,0 @@\n-old\n",
        f"diff --git a/{path} b/plain\nrename from {path}\nrename to plain\n",
        f"diff --git a/{path} b/{path}\nold mode 100644\nnew mode 100755\n",
    ]
    for patch in patches:
        with pytest.raises(ToolError) as caught:
            await use("apply_patch", tmp_path, patch=patch)
        assert caught.value.code is Code.FS_PROTECTED
    assert tree(tmp_path) == before


@pytest.mark.invariant("I10")
async def test_one_protected_name_refuses_the_whole_patch(tmp_path: Path) -> None:
    patch = (
        "--- /dev/null\n+++ b/harmless\n@@ -0,0 +1 @@\n+x\n"
        "--- /dev/null\n+++ b/.envrc\n@@ -0,0 +1 @@\n+x\n"
    )
    with pytest.raises(ToolError) as caught:
        await use("apply_patch", tmp_path, patch=patch)
    assert caught.value.code is Code.FS_PROTECTED
    assert ".envrc" in caught.value.message
    assert tree(tmp_path) == {}


@pytest.mark.parametrize("path", ["git", ".gitignore", "github/workflows/x", "a.claude", "mcp"])
async def test_similar_names_are_ordinary(tmp_path: Path, path: str) -> None:
    await use("write", tmp_path, path=path, content="x")
    assert (tmp_path / path).read_text() == "x"


def added(*paths: str) -> str:
    return "".join(f"--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+x\n" for path in paths)


@pytest.mark.invariant("I10")
@pytest.mark.parametrize(
    ("there", "paths"),
    [
        pytest.param((), ("HEAD", "objects/x", "refs/x", "config"), id="at-once-at-the-top"),
        pytest.param((), ("a/HEAD", "a/objects/x"), id="at-once"),
        pytest.param((), ("a/head", "a/Refs/x"), id="at-once-in-other-case"),
        pytest.param((), ("a/HEAD", "a/commondir"), id="at-once-with-its-parts-elsewhere"),
        pytest.param(("a/objects/x",), ("a/HEAD",), id="the-head-last"),
        pytest.param(("a/HEAD",), ("a/refs/heads/x",), id="the-head-first"),
        pytest.param(("a/HEAD", "a/objects/x"), ("a/config",), id="the-config-of-one"),
        pytest.param(("a/HEAD", "a/objects/x"), ("a/config.worktree",), id="its-other-config"),
        pytest.param(("a/HEAD", "a/refs/x"), ("a/hooks/pre-commit",), id="a-hook-of-one"),
        pytest.param(("a/HEAD", "a/refs/x"), ("plain", "a/hooks/x/y"), id="beside-a-plain-file"),
    ],
)
async def test_no_repository_without_a_dot_git_is_made_or_changed(
    tmp_path: Path, there: tuple[str, ...], paths: tuple[str, ...]
) -> None:
    for path in there:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("old\n")
    before = tree(tmp_path)
    with pytest.raises(ToolError) as caught:
        await use("apply_patch", tmp_path, patch=added(*paths))
    assert caught.value.code is Code.FS_PROTECTED
    assert "version control runs code from it" in caught.value.message
    assert tree(tmp_path) == before


async def test_names_of_a_repository_are_ordinary_where_there_is_none(tmp_path: Path) -> None:
    paths = ("HEAD", "config", "hooks/x", "a/objects/x", "a/refs/x", "b/HEAD/x", "b/objects/x")
    await use("apply_patch", tmp_path, patch=added(*paths))
    await use("write", tmp_path, path="config", content="y", if_exists="overwrite")
    assert all((tmp_path / path).is_file() for path in paths)
