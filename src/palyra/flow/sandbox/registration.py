# SPDX-License-Identifier: Apache-2.0
"""Which folders can be workspaces: folders of their own, away from homes and our state (I10)."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from palyra.core.errors import Code, InputError
from palyra.core.protected import (
    REPOSITORY_HEAD,
    REPOSITORY_STORES,
    Danger,
    is_of_repository,
    is_repository,
    leading_to_protected,
    protecting,
)
from palyra.core.workspace import Workspace

if TYPE_CHECKING:
    from collections.abc import Iterable


def inspect_folder(
    folder: Path, *, name: str | None, state: Path, homes: Iterable[Path]
) -> Workspace:
    """Return the workspace that ``folder`` would be.

    Raises:
        InputError: it does not exist, is ``/``, a home directory or above one, it and the
            state directory contain each other, or protected names would lose their protection
            because they are counted from the root.
    """
    try:
        root = Path(os.path.realpath(folder, strict=True))
        found = root.stat()
    except OSError as error:
        raise _refused(folder, f"cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise _refused(folder, "is not a path") from error
    if not _is_text(str(root)) or not _is_text(name or ""):
        raise _refused(folder, "has a name that is not UTF-8")
    if not stat.S_ISDIR(found.st_mode):
        raise _refused(folder, "is not a folder")
    if root == Path(root.anchor):
        raise _refused(root, "is the whole file system")
    real_state = Path(os.path.realpath(state))
    if real_state.is_relative_to(root) or root.is_relative_to(real_state):
        raise _refused(root, f"and the state directory {real_state} contain each other")
    for home in homes:
        if Path(os.path.realpath(home)).is_relative_to(root):
            raise _refused(root, f"holds the home directory {home}")
    _require_unprotected(root)
    return Workspace(
        name=name or root.name, root=str(root), device=found.st_dev, inode=found.st_ino
    )


def require_apart(workspaces: Iterable[Workspace], *, state: Path) -> None:
    """Refuse to start when a registered workspace and the state directory contain each other."""
    real_state = Path(os.path.realpath(state))
    for workspace in workspaces:
        root = Path(workspace.root)
        if real_state.is_relative_to(root) or root.is_relative_to(real_state):
            raise _refused(root, f"and the state directory {real_state} contain each other")


def _require_unprotected(root: Path) -> None:
    components = root.parts[1:]
    if danger := protecting(components):  # I10
        raise _refused(root, f"is, or lies in, a protected name: {danger}")
    if danger := leading_to_protected(components):  # I10
        raise _refused(root, f"holds protected names that would not be known as such: {danger}")
    for folder, part in zip(root.parents, reversed(components), strict=True):
        if is_of_repository(part) and _is_repository(folder):  # I10
            raise _refused(root, f"is a part of the repository {folder}: {Danger.VERSION_CONTROL}")


def _is_repository(folder: Path) -> bool:
    names = (REPOSITORY_HEAD, *REPOSITORY_STORES)
    return is_repository(name for name in names if os.path.lexists(folder / name))


def _is_text(name: str) -> bool:
    """Say whether the journal could hold this name."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _refused(folder: Path, why: str) -> InputError:
    shown = str(folder).encode(errors="backslashreplace").decode()
    return InputError(Code.WORKSPACE_REFUSED, f"{shown} {why}")
