# SPDX-License-Identifier: Apache-2.0
"""What files shall become, checked against what they are before anything is written."""

from __future__ import annotations

import contextlib
import os
import stat
from typing import TYPE_CHECKING, Final

import msgspec

from palyra.core.digest import content_sha256
from palyra.core.errors import Code, ToolError
from palyra.core.events import PlannedChange
from palyra.core.protected import (
    REPOSITORY_HEAD,
    REPOSITORY_STORES,
    Danger,
    fold,
    is_of_repository,
    is_repository,
)
from palyra.flow.sandbox.beneath import FOLDER, Components, Symlinks, open_folder, shown
from palyra.flow.sandbox.swap import look_at, writable_components

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from palyra.flow.sandbox.beneath import Root
    from palyra.flow.sandbox.blocking import StopToken
    from palyra.flow.sandbox.staging import Seen, Staging

MAX_CHANGES: Final = 2000
_NEW_FILE_MODE = 0o644
_FOLDED_HEAD: Final = REPOSITORY_HEAD.lower()


class FileChange(msgspec.Struct, frozen=True, kw_only=True):
    """What one file shall become, given what it is: no content deletes it."""

    path: str
    before_sha256: str
    """Empty if there must be no file."""
    content: bytes | None
    mode: int | None = None
    """Permission bits; ``None`` keeps those of the file, or gives a new one 0o644."""


def effective(
    root: Root, changes: Sequence[FileChange], *, stop: StopToken
) -> list[tuple[FileChange, Seen]]:
    """Return the changes that would change something, each with what is there now.

    Raises:
        ToolError: a path outside or protected, two changes of one path, a file that is not
            what a change expects, or a part of what is, or would become, a repository.
    """
    if len(changes) > MAX_CHANGES:
        raise ToolError(Code.FS_TOO_LARGE, f"more than {MAX_CHANGES} files would change")
    paths = [writable_components(change.path) for change in changes]
    folders = {path[:depth] for path in paths for depth in range(1, len(path))}
    if len(set(paths)) < len(paths) or not folders.isdisjoint(paths):
        raise ToolError(Code.FS_NOT_A_FOLDER, "one changed path is another one, or a folder of it")
    wanted = []
    for change, components in zip(changes, paths, strict=True):
        stop.check()
        seen = look_at(root, components)
        _require_expected(change, seen)
        if _changes_something(change, seen):
            wanted.append((change, seen))
    _require_no_repository(root, [writable_components(change.path) for change, _ in wanted])
    return wanted


def write_slot(staging: Staging, index: int, change: FileChange, seen: Seen) -> PlannedChange:
    """Write the new content of a change into its slot; return the change as it is recorded."""
    after, mode = "", 0
    if change.content is not None:
        after = content_sha256(change.content)
        mode = change.mode if change.mode is not None else _NEW_FILE_MODE
        if seen.status is not None and change.mode is None:
            mode = seen.mode
        mode = staging.write(staging.slot(index), change.content, mode=mode, like=seen)
    return PlannedChange(
        path=change.path, before_sha256=change.before_sha256, after_sha256=after, mode=mode
    )


def _require_no_repository(root: Root, paths: Iterable[Components]) -> None:
    """Refuse to change parts of a repository that has no ``.git``, or to complete one (I10).

    Deletions count as changes, and never as making a repository less of one.
    """
    names_in: dict[Components, set[str]] = {}
    for path in paths:
        for depth, name in enumerate(path):
            is_folder = depth < len(path) - 1
            if is_of_repository(name) and not (is_folder and fold(name) == _FOLDED_HEAD):
                names_in.setdefault(path[:depth], set()).add(name)
    for folder, names in names_in.items():
        if is_repository(names | _repository_names(root, folder)):
            path_shown = shown("/".join((*folder, min(names))))
            raise ToolError(
                Code.FS_PROTECTED,
                f"{path_shown} is a part of a repository: {Danger.VERSION_CONTROL}",
                details={"path": "/".join((*folder, min(names)))},
            )


def _repository_names(root: Root, folder: Components) -> set[str]:
    """Return which of the names that make a repository are in a folder now."""
    names: set[str] = set()
    try:
        with open_folder(root, folder, symlinks=Symlinks.NONE, flags=FOLDER) as fd:
            for name in (REPOSITORY_HEAD, *REPOSITORY_STORES):
                with contextlib.suppress(FileNotFoundError):
                    status = os.stat(name, dir_fd=fd, follow_symlinks=False)
                    if name != REPOSITORY_HEAD or not stat.S_ISDIR(status.st_mode):
                        names.add(name)
    except ToolError as error:
        if error.code is not Code.FS_NOT_FOUND:
            raise
    return names


def _changes_something(change: FileChange, seen: Seen) -> bool:
    if change.content is None:
        return bool(change.before_sha256)
    if content_sha256(change.content) != seen.sha256:
        return True
    return change.mode is not None and change.mode != seen.mode


def _require_expected(change: FileChange, seen: Seen) -> None:
    if seen.sha256 == change.before_sha256:
        return
    code, why = _difference(change, seen)
    raise ToolError(code, f"{shown(change.path)} {why}", details={"path": change.path})


def _difference(change: FileChange, seen: Seen) -> tuple[Code, str]:
    if seen.status is None:
        return Code.FS_NOT_FOUND, "does not exist"
    if stat.S_ISLNK(seen.status.st_mode):
        return Code.FS_SYMLINK, "is a symbolic link"
    if not stat.S_ISREG(seen.status.st_mode):
        return Code.FS_NOT_A_FILE, "is not a regular file"
    if seen.sha256 is None:
        return Code.FS_TOO_LARGE, "is too large to be changed"
    if not change.before_sha256:
        return Code.FS_EXISTS, "exists already"
    return Code.FS_CHANGED, "is not what was expected"
