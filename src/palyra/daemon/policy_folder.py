# SPDX-License-Identifier: Apache-2.0
"""An operator's folder of policies in, the texts of its files out, if they are theirs alone.

Whoever can write a policy can write the rules. So a file counts only if it is a plain file of this
user's own, which no workspace and no other user can reach (I1, I10). Every check is made on the
descriptor that is read from: nothing can be swapped between the check and its use.
"""

from __future__ import annotations

import errno
import os
import re
import shlex
import stat
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from palyra.core.errors import Code, ConfigError
from palyra.core.pack import LARGEST_PACK_BYTES
from palyra.flow.policy.sources import Source, printable

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from palyra.core.workspace import Workspace

MEMBERS_NAME: Final = "members.toml"
MOST_FILES: Final = 1_000
_SUFFIX: Final = ".cedar"
_CASES_SUFFIX: Final = ".toml"
_NAME: Final = re.compile(r"[A-Za-z0-9._-]+\.cedar", re.ASCII)
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
_READ: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
_ABOVE: Final = os.O_PATH | os.O_CLOEXEC | os.O_DIRECTORY  # which needs no right to read
_MOST_LOOKED_AT: Final = 10_000
_MOST_NOTES: Final = 20
_CHUNK_BYTES: Final = 1 << 20


class FolderContent(msgspec.Struct, frozen=True, kw_only=True):
    """What a folder holds, each kind in the order of names."""

    sources: tuple[Source, ...] = ()
    members_toml: bytes | None = None
    cases: tuple[tuple[str, bytes], ...] = ()
    """Tables of cases: names, such as ``NAME.toml`` beside ``NAME.cedar``, and bytes."""
    notes: tuple[str, ...] = ()
    """What looks like a policy and is not read, for people."""
    typed: dict[str, str] = {}
    """Paths as somebody typed them, by the names of files: for faults, never part of a pack."""


class _Identity(NamedTuple):
    """Which folder it is, whatever leads to it."""

    device: int
    inode: int


def read_folder(
    folder: Path,
    *,
    state: Path | None,
    workspaces: Iterable[Workspace],
    is_trusted: bool = True,
) -> FolderContent:
    """Return the policies of a folder; one that does not exist is empty.

    ``is_trusted`` is whether what is read may come into force. Otherwise it is only looked at, and
    then it may belong to anybody, lie in a workspace, and has to exist.

    Raises:
        ConfigError: the folder or one of its files cannot be a source of policies.
    """
    descriptor = _open_folder(folder)
    if descriptor is None:
        if is_trusted:
            return FolderContent()
        raise _refused(str(folder), "does not exist")
    try:
        if is_trusted:
            _require_own(os.fstat(descriptor), str(folder))
            _require_apart(descriptor, folder, state=state, workspaces=workspaces)
        return _content(descriptor, folder, is_trusted=is_trusted)
    except OSError as error:  # also of a file that is gone by now: half a folder is not its rules
        raise _refused(str(folder), f"cannot be read: {error.strerror}") from error
    finally:
        os.close(descriptor)


def _open_folder(folder: Path) -> int | None:
    """Return a descriptor, or ``None`` where nothing of this name exists."""
    try:
        return os.open(folder, _READ | os.O_DIRECTORY)
    except FileNotFoundError:
        return None
    except NotADirectoryError as error:
        is_link = folder.is_symlink()  # for the message alone: it was not followed either way
        why = "is a symbolic link" if is_link else "is not a folder"
        raise _refused(str(folder), why) from error
    except (OSError, ValueError) as error:
        raise _refused(str(folder), "cannot be read") from error


def _require_own(status: os.stat_result, name: str) -> None:
    """Refuse what others could have written."""
    user = os.geteuid()
    if status.st_uid != user:
        raise _refused(name, f"belongs to uid {status.st_uid}, not to uid {user}")
    if status.st_mode & _OTHERS_WRITE:
        mode = stat.S_IMODE(status.st_mode)
        raise _refused(
            name,
            f"can be written by others (mode {mode:04o})",
            hint=f"chmod go-w {shlex.quote(printable(name))}",
        )


def _require_apart(
    descriptor: int, folder: Path, *, state: Path | None, workspaces: Iterable[Workspace]
) -> None:
    """Refuse a folder that agents could reach, or that Palyra itself writes to (I10)."""
    real = os.path.realpath(folder)
    above = _identities_above(descriptor)
    if state is not None and (
        _is_within(os.path.realpath(state), real) or above[0] in _identities_of(state)
    ):
        raise _refused(str(folder), f"holds the state directory {state}")
    for workspace in workspaces:
        root = os.path.realpath(workspace.root)
        # By the text, also where the workspace is gone; by identity, also through other mounts.
        stands_there = _identities_of(root)
        if _is_within(real, root) or (stands_there and stands_there[0] in above):
            raise _refused(str(folder), f"lies in the workspace {workspace.name}")
        if _is_within(root, real) or above[0] in stands_there:
            raise _refused(str(folder), f"holds the workspace {workspace.name}")


def _is_within(inner: str, outer: str) -> bool:
    return os.path.commonpath((inner, outer)) == outer


def _identities_of(folder: Path | str) -> tuple[_Identity, ...]:
    """Return which folder stands there and which it is in; nothing where there is none."""
    try:
        descriptor = os.open(folder, _ABOVE)
    except (FileNotFoundError, NotADirectoryError):
        return ()
    try:
        return _identities_above(descriptor)
    finally:
        os.close(descriptor)


def _identities_above(descriptor: int) -> tuple[_Identity, ...]:
    """Return the folder itself and every one it is in, nearest first."""
    found = [_identity(descriptor)]
    below = os.dup(descriptor)
    try:
        while True:
            above = os.open("..", _ABOVE, dir_fd=below)
            os.close(below)
            below = above
            identity = _identity(below)
            if identity == found[-1]:  # the root is in itself
                return tuple(found)
            found.append(identity)
    finally:
        os.close(below)


def _identity(descriptor: int) -> _Identity:
    status = os.fstat(descriptor)
    return _Identity(status.st_dev, status.st_ino)


def _content(descriptor: int, folder: Path, *, is_trusted: bool) -> FolderContent:
    names, notes = _listed(descriptor, folder)
    room_bytes = LARGEST_PACK_BYTES
    read: dict[str, bytes] = {}
    for name in names:
        shown = _shown(folder, name)
        read[name] = _file(descriptor, name, shown, room_bytes=room_bytes, is_trusted=is_trusted)
        room_bytes -= len(read[name])
    return FolderContent(
        sources=tuple(
            Source(name, _text(content, _shown(folder, name)))
            for name, content in read.items()
            if name.endswith(_SUFFIX)
        ),
        members_toml=read.get(MEMBERS_NAME),
        cases=tuple(
            (name, content)
            for name, content in read.items()
            if name.endswith(_CASES_SUFFIX) and name != MEMBERS_NAME
        ),
        notes=notes,
    )


def _listed(descriptor: int, folder: Path) -> tuple[list[str], tuple[str, ...]]:
    """Return the names of the files to read, and notes on what is passed over."""
    policies: set[str] = set()
    tables: set[str] = set()
    notes: list[str] = []
    with os.scandir(descriptor) as entries:
        for entry in entries:
            if entry.name.endswith(_SUFFIX):
                policies.add(_checked(entry.name, folder))
            elif entry.name.endswith(_CASES_SUFFIX):
                tables.add(entry.name)
            elif len(notes) < _MOST_NOTES and (note := _note(descriptor, entry)):
                notes.append(note)
            if len(policies) + len(tables) > MOST_FILES:  # I13
                raise _refused(str(folder), f"holds more than {MOST_FILES} files")
    beside = {name.removesuffix(_SUFFIX) + _CASES_SUFFIX for name in policies} | {MEMBERS_NAME}
    alone = sorted(tables - beside)[:_MOST_NOTES]
    notes.extend(f"{printable(name)} is not read: no policies have this name" for name in alone)
    return sorted(policies | (tables & beside)), tuple(sorted(notes)[:_MOST_NOTES])


def _checked(name: str, folder: Path) -> str:
    if not _NAME.fullmatch(name):
        raise _refused(_shown(folder, name), "has a name with more than letters, digits, . _ -")
    return name


def _note(descriptor: int, entry: os.DirEntry[str]) -> str:
    """Say why something that looks like policies is not read, or nothing."""
    name = entry.name
    if name.casefold().endswith(_SUFFIX):
        return f"{printable(name)} is not read: policies are in files named *{_SUFFIX}"
    if entry.is_dir(follow_symlinks=False) and _holds_policies(descriptor, name):
        return f"{printable(name)}/ is not read: policies are not taken from subfolders"
    return ""


def _holds_policies(descriptor: int, subfolder: str) -> bool:
    """Say whether files that look like policies lie below; looks at so many names only (I13)."""
    looked_at = 0
    for _, _, names, _ in os.fwalk(subfolder, dir_fd=descriptor, follow_symlinks=False):
        if any(name.endswith(_SUFFIX) for name in names):
            return True
        looked_at += len(names) + 1
        if looked_at > _MOST_LOOKED_AT:
            return False
    return False


def _file(folder: int, name: str, shown: str, *, room_bytes: int, is_trusted: bool) -> bytes:
    """Return a file's bytes, once its own descriptor shows that it may be read."""
    try:
        descriptor = os.open(name, _READ, dir_fd=folder)
    except OSError as error:
        is_link = error.errno == errno.ELOOP  # which O_NOFOLLOW makes of one
        why = "is a symbolic link" if is_link else f"cannot be read: {error.strerror}"
        raise _refused(shown, why) from error
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise _refused(shown, "is not a regular file")
        if status.st_nlink > 1:
            raise _refused(shown, "has more than one name (hard links)")
        if is_trusted:
            _require_own(status, shown)
        return _read(descriptor, shown, room_bytes=room_bytes)
    finally:
        os.close(descriptor)


def _read(descriptor: int, shown: str, *, room_bytes: int) -> bytes:
    chunks: list[bytes] = []
    while chunk := os.read(descriptor, _CHUNK_BYTES):
        room_bytes -= len(chunk)
        if room_bytes < 0:  # I13
            raise _refused(shown, f"is too much: all files may hold {LARGEST_PACK_BYTES} bytes")
        chunks.append(chunk)
    return b"".join(chunks)


def _text(content: bytes, shown: str) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _refused(shown, "is not UTF-8") from error


def _shown(folder: Path, name: str) -> str:
    return f"{folder}/{name}"


def _refused(path: str, why: str, *, hint: str = "") -> ConfigError:
    return ConfigError(Code.POLICY_SOURCE, f"{printable(path)} {why}", hint=hint)
