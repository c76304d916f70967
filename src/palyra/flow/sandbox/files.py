# SPDX-License-Identifier: Apache-2.0
"""The bodies of the file tools: arguments in, JSON out, and never a step outside the workspace.

Arguments are valid under the schemas in ``palyra.tools.files``. Messages name paths, never
contents.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import threading
from typing import TYPE_CHECKING, Final, TypeVar

from palyra.core import unified_diff
from palyra.core.digest import content_sha256
from palyra.core.errors import Code, ToolError
from palyra.flow.sandbox.beneath import Root, Symlinks, open_root, shown
from palyra.flow.sandbox.blocking import StopToken, run_blocking, tidy_blocking
from palyra.flow.sandbox.file_change import FileChange
from palyra.flow.sandbox.reading import WholeFile, read_part, read_whole, text_of
from palyra.flow.sandbox.staged import StagedChanges, apply, discard, stage
from palyra.flow.sandbox.swap import look_at, writable_components
from palyra.flow.sandbox.walking import Query, list_folder, search_folder

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from palyra.core.canonical import JsonValue
    from palyra.core.ids import CallId
    from palyra.core.unified_diff import FilePatch
    from palyra.core.workspace import Workspace
    from palyra.flow.sandbox.tool_call import ToolCall

T = TypeVar("T")

DEFAULT_READ_BYTES: Final = 256 * 1024
DEFAULT_ENTRIES: Final = 1000
DEFAULT_MATCHES: Final = 100
MAX_WRITTEN_BYTES: Final = 1024 * 1024
MAX_PATCHED_FILE_BYTES: Final = 8 * 1024 * 1024
MAX_PATCHED_BYTES: Final = 64 * 1024 * 1024


async def read_file(call: ToolCall) -> JsonValue:
    """Read a file, or a part of it."""
    arguments = call.arguments
    return await _beneath(
        call,
        lambda root, _: read_part(
            root,
            arguments["path"],
            offset_bytes=int(arguments.get("offset_bytes", 0)),
            limit_bytes=int(arguments.get("limit_bytes", DEFAULT_READ_BYTES)),
            encoding=arguments.get("encoding", "utf-8"),
        ),
    )


async def list_files(call: ToolCall) -> JsonValue:
    """List a folder, or everything below it."""
    arguments = call.arguments
    return await _beneath(
        call,
        lambda root, stop: list_folder(
            root,
            arguments.get("path", "."),
            is_recursive=arguments.get("recursive", False),
            max_entries=int(arguments.get("max_entries", DEFAULT_ENTRIES)),
            stop=stop,
        ),
    )


async def search_files(call: ToolCall) -> JsonValue:
    """Search the files below a folder for a literal text."""
    arguments = call.arguments
    query = Query(
        text=arguments["text"],
        ignores_case=arguments.get("ignore_case", False),
        name_glob=arguments.get("name_glob"),
        max_matches=int(arguments.get("max_matches", DEFAULT_MATCHES)),
    )
    return await _beneath(
        call, lambda root, stop: search_folder(root, arguments.get("path", "."), query, stop=stop)
    )


async def write_file(call: ToolCall) -> JsonValue:
    """Create a file, or replace one if that is allowed explicitly."""
    arguments = call.arguments
    path: str = arguments["path"]
    content = _content(arguments)
    before = await _beneath(call, lambda root, _: _replaceable(root, arguments))
    change = FileChange(path=path, before_sha256=before, content=content)
    await _change_files(call, (change,))
    return {
        "path": path,
        "created": not before,
        "sha256": content_sha256(content),
        "size_bytes": len(content),
        "before_sha256": before or None,
    }


async def apply_patch(call: ToolCall) -> JsonValue:
    """Apply a unified diff to the files of the workspace, all of it or nothing."""
    patches = unified_diff.parse(call.arguments["patch"])
    changes = await _beneath(call, lambda root, stop: _patched(root, patches, stop=stop))
    await _change_files(call, changes)
    return {"files": [_changed(change) for change in changes]}


FILE_BODIES: Final[Mapping[str, Callable[[ToolCall], Awaitable[JsonValue]]]] = {
    "palyra.fs.read": read_file,
    "palyra.fs.list": list_files,
    "palyra.fs.search": search_files,
    "palyra.fs.write": write_file,
    "palyra.fs.apply_patch": apply_patch,
}


def _workspace(call: ToolCall) -> Workspace:
    if call.workspace is None:
        raise ToolError(Code.WORKSPACE_AMBIGUOUS)
    return call.workspace


async def _beneath(call: ToolCall, work: Callable[[Root, StopToken], T]) -> T:
    """Run blocking work on the open root of the call's workspace."""
    workspace = _workspace(call)

    def below_root(stop: StopToken) -> T:
        with open_root(workspace) as root:
            return work(root, stop)

    return await run_blocking(below_root)


async def _change_files(call: ToolCall, changes: tuple[FileChange, ...]) -> None:
    """Stage the changes, record the plan, and only then apply it (I7)."""
    workspace = _workspace(call)
    is_begun = threading.Event()

    def work(stop: StopToken) -> StagedChanges:
        is_begun.set()
        return stage(workspace, changes, call_id=call.call_id, stop=stop)

    try:
        staged = await run_blocking(work)
        if not staged.changes:
            return
        await call.effects.plan(
            workspace=workspace.name, staging=staged.staging, changes=staged.changes
        )
    except BaseException:  # A cancellation, too, must leave nothing behind.
        with contextlib.suppress(ToolError):
            if is_begun.is_set():
                await tidy_blocking(lambda: discard(workspace, call.call_id))
        raise
    await _apply(workspace, staged, call_id=call.call_id)


async def _apply(workspace: Workspace, staged: StagedChanges, *, call_id: CallId) -> None:
    """Apply the changes. A cancellation undoes them, unless it comes when all are made.

    Then it comes too late, and the call ends as what it is: done.
    """
    is_begun, is_done = threading.Event(), threading.Event()

    def work(stop: StopToken) -> None:
        is_begun.set()
        apply(workspace, staged, stop=stop)
        is_done.set()

    try:
        await run_blocking(work)
    except asyncio.CancelledError:
        if not is_begun.is_set():  # Or recovery could make the changes of a cancelled call.
            with contextlib.suppress(ToolError):
                await tidy_blocking(lambda: discard(workspace, call_id))
        task = asyncio.current_task()
        if not is_done.is_set() or task is None:
            raise
        task.uncancel()


def _content(arguments: Mapping[str, str]) -> bytes:
    raw = arguments["content"].encode()
    if arguments.get("encoding", "utf-8") == "base64":
        try:
            raw = base64.b64decode(raw, validate=True)
        except binascii.Error as error:
            raise ToolError(Code.INPUT_INVALID, "the content is not base64") from error
    if len(raw) > MAX_WRITTEN_BYTES:
        raise ToolError(Code.FS_TOO_LARGE, f"the content has more than {MAX_WRITTEN_BYTES} bytes")
    return raw


def _replaceable(root: Root, arguments: Mapping[str, str]) -> str:
    """Return the digest of the file that may be replaced, empty if there is none."""
    path = arguments["path"]
    seen = look_at(root, writable_components(path))
    expected = arguments.get("expected_sha256")
    if seen.sha256 and arguments.get("if_exists", "fail") == "fail":
        raise ToolError(Code.FS_EXISTS, f"{shown(path)} exists already", details={"path": path})
    if expected is not None and seen.sha256 != expected:
        raise ToolError(
            Code.FS_CHANGED, f"{shown(path)} is not what was expected", details={"path": path}
        )
    return seen.sha256 or ""


def _patched(
    root: Root, patches: tuple[FilePatch, ...], *, stop: StopToken
) -> tuple[FileChange, ...]:
    """Return what the files become. A rename is an addition and a deletion."""
    changes: list[FileChange] = []
    left_bytes = MAX_PATCHED_BYTES
    for patch in patches:
        stop.check()
        for path in patch.paths:
            writable_components(path)
        file = _pre_image(root, patch)
        left_bytes -= len(file.content)
        if left_bytes < 0:
            raise ToolError(Code.FS_TOO_LARGE, "the patched files are too large together")
        changes += _changes_of(patch, file)
    return tuple(changes)


def _pre_image(root: Root, patch: FilePatch) -> WholeFile:
    if patch.path_before is None:
        return WholeFile(b"", 0o644)
    return read_whole(
        root,
        writable_components(patch.path_before),
        symlinks=Symlinks.NONE,
        limit_bytes=MAX_PATCHED_FILE_BYTES,
    )


def _changes_of(patch: FilePatch, file: WholeFile) -> list[FileChange]:
    before, after = patch.path_before, patch.path_after
    text = unified_diff.apply(patch, text_of(file.content, before or ""))
    before_sha256 = "" if before is None else content_sha256(file.content)
    is_in_place = before == after
    changes: list[FileChange] = []
    if before is not None and not is_in_place:
        changes.append(FileChange(path=before, before_sha256=before_sha256, content=None))
    if after is not None:
        changes.append(
            FileChange(
                path=after,
                before_sha256=before_sha256 if is_in_place else "",
                content=text.encode(),
                mode=patch.mode if is_in_place or patch.mode else file.mode,
            )
        )
    return changes


def _changed(change: FileChange) -> JsonValue:
    kind = "modified" if change.before_sha256 else "added"
    return {
        "path": change.path,
        "change": "deleted" if change.content is None else kind,
        "before_sha256": change.before_sha256 or None,
        "after_sha256": None if change.content is None else content_sha256(change.content),
    }
