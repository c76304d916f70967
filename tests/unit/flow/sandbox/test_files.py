# SPDX-License-Identifier: Apache-2.0
import asyncio
import base64
import os
import threading
from pathlib import Path
from typing import Any

import jsonschema_rs
import msgspec
import pytest

from palyra.core.digest import content_sha256
from palyra.core.errors import Code, StoreError, ToolError
from palyra.core.events import PlannedChange
from palyra.flow.sandbox import files
from palyra.flow.sandbox.blocking import MAX_THREADS, run_blocking
from palyra.flow.sandbox.files import (
    FILE_BODIES,
    MAX_PATCHED_FILE_BYTES,
    MAX_WRITTEN_BYTES,
    apply_patch,
    write_file,
)
from palyra.flow.sandbox.tool_call import ToolCall
from palyra.tools.files import FILE_TOOLS
from tests.support.workspaces import MemoryEffects, no_nested_call, tool_call, tree
from tests.support.workspaces import use as use_unchecked

MANIFESTS = {manifest.name: manifest for manifest in FILE_TOOLS}


async def use(tool: str, root: Path, /, **arguments: object) -> Any:  # noqa: ANN401 - JSON
    """Run a tool with arguments and output checked against its schemas, as the product does."""
    manifest = MANIFESTS[f"palyra.fs.{tool}"]
    jsonschema_rs.validate(dict(manifest.input_schema), arguments)
    output = await use_unchecked(tool, root, **arguments)
    jsonschema_rs.validate(dict(manifest.output_schema), output)
    assert len(msgspec.json.encode(output)) <= manifest.max_output_bytes
    return output


async def refused(tool: str, root: Path, /, **arguments: object) -> Code:
    before = tree(root)
    with pytest.raises(ToolError) as caught:
        await use(tool, root, **arguments)
    assert tree(root) == before
    return caught.value.code


def sha(text: str) -> str:
    return content_sha256(text.encode())


def test_every_tool_has_a_body_and_every_body_a_tool() -> None:
    assert set(FILE_BODIES) == set(MANIFESTS)


def test_defaults_are_those_the_schemas_declare() -> None:
    def default(tool: str, name: str) -> object:
        return MANIFESTS[f"palyra.fs.{tool}"].input_schema["properties"][name]["default"]

    assert default("read", "limit_bytes") == files.DEFAULT_READ_BYTES
    assert default("list", "max_entries") == files.DEFAULT_ENTRIES
    assert default("search", "max_matches") == files.DEFAULT_MATCHES


async def test_a_call_without_a_workspace_is_refused(tmp_path: Path) -> None:
    call = ToolCall(
        arguments={"path": "x"},
        call_id=tool_call(tmp_path).call_id,
        workspace=None,
        effects=MemoryEffects(),
        nested=no_nested_call,
    )
    with pytest.raises(ToolError) as caught:
        await files.read_file(call)
    assert caught.value.code is Code.WORKSPACE_AMBIGUOUS


async def test_read_list_and_search(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("needle\n")
    assert (await use("read", tmp_path, path="x", limit_bytes=4.0))["content"] == "need"
    assert (await use("read", tmp_path, path="x"))["sha256"] == sha("needle\n")
    assert [entry["path"] for entry in (await use("list", tmp_path))["entries"]] == ["x"]
    assert len((await use("search", tmp_path, text="NEED", ignore_case=True))["matches"]) == 1


async def test_the_largest_answers_fit_their_bounds(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"\x01" * (1 << 20))
    for encoding in ("utf-8", "base64"):
        answer = await use("read", tmp_path, path="x", limit_bytes=1 << 20, encoding=encoding)
        assert answer["sha256"]
    for number in range(1500):
        (tmp_path / ("\x01" * 240 + str(number))).write_bytes(b"\x01" * 400)
    await use("list", tmp_path, max_entries=10_000)
    await use("search", tmp_path, text="\x01", max_matches=1000)


async def test_writes_a_new_file_in_new_folders(tmp_path: Path) -> None:
    effects = MemoryEffects()
    answer = await write_file(tool_call(tmp_path, effects, path="a/b", content="new"))
    assert answer == {
        "path": "a/b",
        "created": True,
        "sha256": sha("new"),
        "size_bytes": 3,
        "before_sha256": None,
    }
    assert tree(tmp_path) == {"a": "/", "a/b": "new"}
    (plan,) = effects.plans
    assert plan.workspace == "work"
    assert plan.changes == (
        PlannedChange(path="a/b", before_sha256="", after_sha256=sha("new"), mode=0o644),
    )


async def test_overwrites_only_when_asked(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("old")
    (tmp_path / "x").chmod(0o751)
    assert await refused("write", tmp_path, path="x", content="new") is Code.FS_EXISTS
    answer = await use("write", tmp_path, path="x", content="new", if_exists="overwrite")
    assert (answer["created"], answer["before_sha256"]) == (False, sha("old"))
    assert tree(tmp_path) == {"x": "new"}
    assert (tmp_path / "x").stat().st_mode & 0o777 == 0o751


async def test_an_expected_digest_must_be_met(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("old")
    arguments = {"path": "x", "content": "new", "if_exists": "overwrite"}
    code = await refused("write", tmp_path, **arguments, expected_sha256=sha("other"))
    assert code is Code.FS_CHANGED
    code = await refused("write", tmp_path, path="y", content="", expected_sha256=sha("old"))
    assert code is Code.FS_CHANGED
    await use("write", tmp_path, **arguments, expected_sha256=sha("old"))
    assert tree(tmp_path) == {"x": "new"}


async def test_the_same_content_is_no_effect(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("same")
    effects = MemoryEffects()
    call = tool_call(tmp_path, effects, path="x", content="same", if_exists="overwrite")
    await write_file(call)
    assert effects.plans == []


async def test_writes_bytes(tmp_path: Path) -> None:
    content = base64.b64encode(b"\0\xff").decode()
    await use("write", tmp_path, path="x", content=content, encoding="base64")
    assert (tmp_path / "x").read_bytes() == b"\0\xff"
    code = await refused("write", tmp_path, path="y", content="?", encoding="base64")
    assert code is Code.INPUT_INVALID


async def test_written_content_is_bounded(tmp_path: Path) -> None:
    content = "x" * (MAX_WRITTEN_BYTES + 1)
    assert await refused("write", tmp_path, path="x", content=content) is Code.FS_TOO_LARGE
    await use("write", tmp_path, path="x", content=content[1:])


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("link", Code.FS_SYMLINK),
        ("folder", Code.FS_NOT_A_FILE),
        ("pipe", Code.FS_NOT_A_FILE),
        ("link/x", Code.FS_SYMLINK),
        (".", Code.FS_NOT_A_FILE),
        (".git/config", Code.FS_PROTECTED),
    ],
)
async def test_only_files_are_written(tmp_path: Path, path: str, code: Code) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder")
    os.mkfifo(tmp_path / "pipe")
    assert await refused("write", tmp_path, path=path, content="", if_exists="overwrite") is code


PATCH = """\
diff --git a/modified b/modified
--- a/modified
+++ b/modified
@@ -1,2 +1,2 @@
 one
-two
+2
diff --git a/deleted b/deleted
deleted file mode 100644
--- a/deleted
+++ /dev/null
@@ -1 +0,0 @@
-bye
diff --git a/run b/run
new file mode 100755
--- /dev/null
+++ b/run
@@ -0,0 +1 @@
+#!/bin/sh
diff --git a/from b/sub/to
similarity index 100%
rename from from
rename to sub/to
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "modified").write_bytes(b"one\r\ntwo\r\n")
    (tmp_path / "deleted").write_text("bye\n")
    (tmp_path / "from").write_text("moved\n")
    (tmp_path / "from").chmod(0o700)
    return tmp_path


async def test_applies_a_patch(project: Path) -> None:
    answer = await use("apply_patch", project, patch=PATCH)
    assert tree(project) == {
        "modified": "one\r\n2\r\n",
        "run": "#!/bin/sh\n",
        "sub": "/",
        "sub/to": "moved\n",
    }
    assert (project / "run").stat().st_mode & 0o100
    assert (project / "sub/to").stat().st_mode & 0o777 == 0o700

    def row(path: str, change: str, before: str | None, after: str | None) -> dict[str, object]:
        return {
            "path": path,
            "change": change,
            "before_sha256": before and sha(before),
            "after_sha256": after and sha(after),
        }

    assert answer["files"] == [
        row("modified", "modified", "one\r\ntwo\r\n", "one\r\n2\r\n"),
        row("deleted", "deleted", "bye\n", None),
        row("run", "added", None, "#!/bin/sh\n"),
        row("from", "deleted", "moved\n", None),
        row("sub/to", "added", None, "moved\n"),
    ]


async def test_a_patch_that_fits_only_in_part_changes_nothing(project: Path) -> None:
    (project / "deleted").write_text("other\n")
    assert await refused("apply_patch", project, patch=PATCH) is Code.PATCH_MISMATCH


@pytest.mark.parametrize(
    ("patch", "code"),
    [
        ("garbage", Code.PATCH_MALFORMED),
        ("--- a/none\n+++ b/none\n@@ -1 +1 @@\n-a\n+b\n", Code.FS_NOT_FOUND),
        ("--- /dev/null\n+++ b/modified\n@@ -0,0 +1 @@\n+b\n", Code.FS_EXISTS),
        ("diff --git a/from b/deleted\nrename from from\nrename to deleted\n", Code.FS_EXISTS),
        ("--- a/latin\n+++ b/latin\n@@ -1 +1 @@\n-a\n+b\n", Code.FS_NOT_TEXT),
        ("--- a/huge\n+++ b/huge\n@@ -1 +1 @@\n-a\n+b\n", Code.FS_TOO_LARGE),
        ("--- a/link\n+++ b/link\n@@ -1 +1 @@\n-bye\n+b\n", Code.FS_SYMLINK),
        ("--- /dev/null\n+++ b/.envrc\n@@ -0,0 +1 @@\n+b\n", Code.FS_PROTECTED),
        ("diff --git a/from b/.envrc\nrename from from\nrename to .envrc\n", Code.FS_PROTECTED),
    ],
)
async def test_refused_patches_change_nothing(project: Path, patch: str, code: Code) -> None:
    (project / "latin").write_bytes(b"\xff\n")
    (project / "link").symlink_to("deleted")
    with (project / "huge").open("wb") as huge:
        huge.truncate(MAX_PATCHED_FILE_BYTES + 1)
    assert await refused("apply_patch", project, patch=patch) is code


async def test_the_patched_bytes_are_bounded_together(tmp_path: Path) -> None:
    patch = ""
    for number in range(9):
        with (tmp_path / str(number)).open("wb") as file:
            file.truncate(MAX_PATCHED_FILE_BYTES)
        patch += f"diff --git a/{number} b/{number}\nold mode 100644\nnew mode 100755\n"
    assert await refused("apply_patch", tmp_path, patch=patch) is Code.FS_TOO_LARGE


@pytest.mark.invariant("I7")
async def test_nothing_changes_when_the_plan_cannot_be_recorded(tmp_path: Path) -> None:
    effects = MemoryEffects(failure=StoreError(Code.STORE_FULL))
    with pytest.raises(StoreError):
        await write_file(tool_call(tmp_path, effects, path="x", content="new"))
    assert tree(tmp_path) == {}


@pytest.mark.invariant("I7")
async def test_nothing_is_left_when_the_call_is_cancelled_at_any_time(project: Path) -> None:
    before = tree(project)
    is_cancelled, cancellations = True, 0
    while is_cancelled:
        task = asyncio.create_task(apply_patch(tool_call(project, patch=PATCH)))
        await asyncio.sleep(cancellations * 0.0001)
        task.cancel()
        is_cancelled = isinstance(
            (await asyncio.gather(task, return_exceptions=True))[0], BaseException
        )
        cancellations += is_cancelled
        assert (tree(project) == before) is is_cancelled
    assert cancellations > 10


async def test_a_moved_workspace_is_refused_also_when_cleaning_up(tmp_path: Path) -> None:
    root = tmp_path / "work"
    root.mkdir()
    call = tool_call(root, path="x", content="new")
    root.rename(tmp_path / "elsewhere")
    with pytest.raises(ToolError) as caught:
        await write_file(call)
    assert caught.value.code is Code.WORKSPACE_MOVED


class BusyEffects(MemoryEffects):
    """Lets other work take every thread as soon as a plan is recorded."""

    def __init__(self) -> None:
        super().__init__()
        self.go_on = threading.Event()
        self.hanging: list[asyncio.Task[bool]] = []

    async def plan(
        self, *, workspace: str, staging: str, changes: tuple[PlannedChange, ...]
    ) -> None:
        await super().plan(workspace=workspace, staging=staging, changes=changes)
        self.take_every_thread()
        await asyncio.sleep(0)

    def take_every_thread(self) -> None:
        self.hanging = [
            asyncio.create_task(run_blocking(lambda _: self.go_on.wait()))
            for _ in range(MAX_THREADS)
        ]


@pytest.mark.invariant("I7")
@pytest.mark.parametrize("is_planned", [True, False], ids=["after-the-plan", "before-all"])
async def test_a_call_whose_work_waits_for_a_thread_ends_in_time_and_leaves_nothing(
    tmp_path: Path,
    is_planned: bool,  # noqa: FBT001 - parametrised
) -> None:
    effects = BusyEffects()
    try:
        if not is_planned:
            effects.take_every_thread()
            await asyncio.sleep(0)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await write_file(tool_call(tmp_path, effects, path="new", content="x"))
        assert bool(effects.plans) is is_planned
        assert tree(tmp_path) == {}
        assert not any(task.done() for task in effects.hanging)
    finally:
        effects.go_on.set()
        await asyncio.gather(*effects.hanging)
    assert tree(tmp_path) == {}
