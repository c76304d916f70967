# SPDX-License-Identifier: Apache-2.0
"""A symbolic link leads out of the workspace, or around a rule; a file tool is asked to follow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from palyra import Gate
from palyra.core.errors import Code, ToolError
from palyra.flow.sandbox.beneath import Symlinks, components_of, open_root
from palyra.flow.sandbox.reading import read_whole
from tests.support.policies import pack_of
from tests.support.simulator import failure_of, output_of, refusal_of
from tests.support.workspaces import tree, use, workspace_at

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

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

    assert (await refused("read", root, path=path)).code is Code.FS_SYMLINK
    assert (await refused("list", root, path=path)).code is Code.FS_SYMLINK
    assert (await refused("search", root, path=path, text="secret")).code is Code.FS_SYMLINK
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
    assert (await refused("read", root, path=path)).code is Code.FS_SYMLINK
    assert tree(root.parent) == before


async def test_a_deletion_does_not_reach_through_a_link(root: Path, outside: Path) -> None:
    plant(root, outside, {"folder": "../outside", "file": "../outside/secret"})
    for path in ("folder/secret", "file"):
        patch = f"--- a/{path}\n+++ /dev/null\n@@ -1 +0,0 @@\n-{SECRET}\n"
        assert (await refused("apply_patch", root, patch=patch)).code is Code.FS_SYMLINK
    assert tree(outside) == {"secret": f"{SECRET}\n"}


NO_SECRETS = """
@id("no.secrets") @reason("agents leave the secrets alone")
forbid (principal is Agent, action == Action::"tool.execute", resource)
when {
  context has files &&
  (context.files.reads_under == "secrets" || context.files.reads_under like "secrets/*")
};
"""
ONLY_DOCS = """
@id("only.docs") @reason("agents read below docs only")
forbid (
  principal is Agent,
  action == Action::"tool.execute",
  resource in Capability::"filesystem_read"
)
unless {
  context has files && context.files.workspace == "work" &&
  (context.files.reads_under == "docs" || context.files.reads_under like "docs/*")
};
"""
LINKS = {
    "docs/readme.md": "../secrets/key.txt",
    "docs/more": "../secrets",
    "chain": "docs/readme.md",
}
AROUND = [
    ("read", {"path": "docs/readme.md"}),
    ("read", {"path": "docs/more/key.txt"}),
    ("read", {"path": "chain"}),
    ("list", {"path": "docs/more"}),
    ("search", {"path": "docs/more", "text": "secret"}),
]
STRAIGHT = [
    ("read", {"path": "secrets/key.txt"}),
    ("list", {"path": "secrets"}),
    ("list", {"path": "secrets/old"}),
    ("search", {"path": "secrets", "text": "secret"}),
]


@pytest.fixture
async def guarded(root: Path, outside: Path) -> AsyncIterator[Gate]:
    """Open a gate whose policies forbid agents a folder that links in the workspace lead to."""
    (root / "docs").mkdir()
    (root / "secrets" / "old").mkdir(parents=True)
    (root / "secrets" / "key.txt").write_text(SECRET)
    plant(root, outside, LINKS)
    async with Gate.open(environ={"PALYRA_HOME": str(root.parent / "state")}) as gate:
        await gate.add_workspace(root)
        await put_into_force(gate, NO_SECRETS)
        yield gate


async def put_into_force(gate: Gate, policies: str) -> None:
    pack = pack_of(policies)
    await gate.stage_policies(pack)
    await gate.activate_policies(pack.digest, reason="for the test")


@pytest.mark.invariant("I2")
@pytest.mark.parametrize(("tool", "arguments"), AROUND)
async def test_no_link_within_leads_around_a_rule(
    guarded: Gate, root: Path, tool: str, arguments: dict[str, Any]
) -> None:
    assert set(LINKS) <= set(tree(root))
    if tool == "read":  # what a tool that only keeps below the workspace would read
        components = components_of(arguments["path"])
        with open_root(workspace_at(root)) as opened:
            read = read_whole(opened, components, symlinks=Symlinks.WITHIN, limit_bytes=100)
        assert read.content == SECRET.encode()
    result = await guarded.call(f"palyra.fs.{tool}", arguments, agent="demo")
    assert result.decision.verdict == "allow"  # policy sees the spelling, so it is no help
    assert failure_of(result) == ("failed", "fs.symlink")
    assert SECRET not in str(result)


@pytest.mark.invariant("I2")
@pytest.mark.parametrize(("tool", "arguments"), STRAIGHT)
async def test_a_rule_about_a_folder_holds_for_tools_that_go_through_it(
    guarded: Gate, tool: str, arguments: dict[str, Any]
) -> None:
    assert output_of(await guarded.call(f"palyra.fs.{tool}", arguments, agent=None))
    result = await guarded.call(f"palyra.fs.{tool}", arguments, agent="demo")
    assert refusal_of(result) == ("denied", "policy.forbidden")
    assert result.decision.policies == ("no.secrets",)


@pytest.mark.invariant("I2")
@pytest.mark.parametrize("arguments", [{"text": SECRET}, {"text": SECRET, "path": "."}])
async def test_a_search_from_above_is_seen_by_a_rule_that_says_what_is_allowed(
    guarded: Gate, arguments: dict[str, Any]
) -> None:
    above = await guarded.call("palyra.fs.search", arguments, agent="demo")
    assert output_of(above)["matches"]  # a rule that lists what is bad does not see it
    await put_into_force(guarded, ONLY_DOCS)
    refused = await guarded.call("palyra.fs.search", arguments, agent="demo")
    assert refused.decision.policies == ("only.docs",)
    below = {**arguments, "path": "docs"}
    assert output_of(await guarded.call("palyra.fs.search", below, agent="demo"))
