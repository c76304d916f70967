# SPDX-License-Identifier: Apache-2.0
"""The staging folder of one call, and looking at files by what they hold.

Every planned change has a *slot*: before it is applied the slot holds the new file (nothing for a
deletion), afterwards what was there before (nothing for a creation). What a crash left is known
from the contents of slot and path alone.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from palyra.core.errors import Code, ToolError
from palyra.core.protected import STAGING_PREFIX
from palyra.flow.sandbox.beneath import (
    READABLE_FILE,
    READABLE_FOLDER,
    Root,
    Symlinks,
    closing,
    open_folder,
    shown,
)
from palyra.flow.sandbox.moves import FRESH_FILE, OnStep, Place

if TYPE_CHECKING:
    from collections.abc import Iterator

    from palyra.core.ids import CallId

LARGEST_FILE_BYTES: Final = 64 * 1024 * 1024
_CHUNK_BYTES = 1024 * 1024
_FOLDERS = "folders"
_UNDO = "undo"
_MAX_FOLDERS_BYTES = 16 * 1024 * 1024
_PERMISSIONS = 0o777


class Seen(NamedTuple):
    """What stands at a name: its content's digest, empty for nothing, ``None`` for no file."""

    sha256: str | None
    status: os.stat_result | None = None

    @property
    def mode(self) -> int:
        """The permission bits; setuid, setgid and sticky are never taken over."""
        return stat.S_IMODE(self.status.st_mode) & _PERMISSIONS if self.status else 0


NOTHING: Final = Seen("")


def look(place: Place) -> Seen:
    """Return what stands at ``place``. Never follows a link, never blocks on a pipe or device."""
    try:
        status = os.stat(place.raw_name, dir_fd=place.folder_fd, follow_symlinks=False)
        if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST_FILE_BYTES:
            return Seen(None, status)
        fd = os.open(place.raw_name, READABLE_FILE | os.O_NOFOLLOW, dir_fd=place.folder_fd)
    except FileNotFoundError:
        return NOTHING
    except OSError as error:
        if error.errno in {errno.ELOOP, errno.ENXIO}:  # It became something else in between.
            return Seen(None)
        raise
    with closing(fd):
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            return Seen(None, status)
        return Seen(sha256_of(fd), status)


def sha256_of(fd: int) -> str | None:
    """Return the digest of an open file, ``None`` if it has grown beyond all bounds."""
    digest = hashlib.sha256()
    position = 0
    while chunk := os.pread(fd, _CHUNK_BYTES, position):
        digest.update(chunk)
        position += len(chunk)
        if position > LARGEST_FILE_BYTES:
            return None
    return digest.hexdigest()


class Staging(NamedTuple):
    """An open staging folder."""

    root: Root
    fd: int
    name: str
    on_step: OnStep

    def slot(self, index: int) -> Place:
        """Return the slot of a change."""
        return Place(self.fd, f"{index}")

    def aside(self, index: int) -> Place:
        """Return the free name beside a slot."""
        return Place(self.fd, f"{index}.aside")

    def write(self, place: Place, content: bytes, *, mode: int, like: Seen = NOTHING) -> int:
        """Write a new file durably and return its permission bits.

        A new file gets ``mode`` under the umask; one that replaces a file gets exactly ``mode``
        and, as far as we may, that file's owner.
        """
        fd = os.open(place.raw_name, FRESH_FILE, mode, dir_fd=place.folder_fd)
        with os.fdopen(fd, "wb") as file:
            file.write(content)
            file.flush()
            if like.status is not None:
                with contextlib.suppress(PermissionError):
                    os.fchown(fd, like.status.st_uid, like.status.st_gid)
                os.fchmod(fd, mode & _PERMISSIONS)
            os.fsync(fd)
            written = stat.S_IMODE(os.fstat(fd).st_mode)
        self.on_step(f"wrote {place.name}")
        return written

    def settle(self, index: int, target: Place | None) -> None:
        """Tidy what a crash within a move left, so that the slot alone tells the state."""
        slot, aside = self.slot(index), self.aside(index)
        if _exists(aside):
            if _exists(slot):
                os.unlink(aside.raw_name, dir_fd=self.fd)
            else:
                os.rename(aside.raw_name, slot.raw_name, src_dir_fd=self.fd, dst_dir_fd=self.fd)
            self.on_step(f"settled {aside.name}")
        if target is not None and _is_same_file(slot, target):
            os.unlink(slot.raw_name, dir_fd=self.fd)
            self.on_step(f"settled {slot.name}")

    def commit(self, new_folders: tuple[str, ...]) -> None:
        """Make the folder durable and live: from now on it tells what to do after a crash."""
        self.write(Place(self.fd, _FOLDERS), msgspec.json.encode(new_folders), mode=0o600)
        self.sync()
        with open_folder(self.root, (), symlinks=Symlinks.NONE) as root_fd:
            os.fsync(root_fd)
        self.on_step("staged")

    def is_live(self) -> bool:
        """Say whether it was committed and its removal has not begun."""
        return _exists(Place(self.fd, _FOLDERS))

    def new_folders(self) -> tuple[str, ...]:
        """Return the folders that did not exist before, as far as can still be told."""
        try:
            fd = os.open(_FOLDERS, READABLE_FILE | os.O_NOFOLLOW, dir_fd=self.fd)
            with closing(fd):
                raw = os.read(fd, _MAX_FOLDERS_BYTES)
            return msgspec.json.decode(raw, type=tuple[str, ...])
        except (OSError, msgspec.DecodeError):
            return ()

    def is_being_undone(self) -> bool:
        """Say whether undoing has begun: then it is never finished forward."""
        return _exists(Place(self.fd, _UNDO))

    def mark_undo(self) -> None:
        """Record durably that undoing has begun."""
        if not self.is_being_undone():
            self.write(Place(self.fd, _UNDO), b"", mode=0o600)
            self.sync()

    def sync(self) -> None:
        """Make the names in this folder durable."""
        os.fsync(self.fd)

    def remove(self) -> None:
        """Remove the folder, now that all is taken or all is taken back.

        What cannot be removed stays, such as what a stranger nested into it: waste fails no call.
        """
        with contextlib.suppress(OSError, ToolError):
            self._remove()

    def _remove(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(_FOLDERS, dir_fd=self.fd)
        self.sync()
        self.on_step("no longer live")
        for name in os.listdir(self.fd):  # noqa: PTH208 - pathlib knows no descriptors
            if name == _UNDO:
                continue
            with contextlib.suppress(IsADirectoryError, PermissionError, FileNotFoundError):
                os.unlink(name, dir_fd=self.fd)
            self.on_step("removed a staged file")
        with contextlib.suppress(OSError):
            os.unlink(_UNDO, dir_fd=self.fd)
        with contextlib.suppress(OSError):
            os.rmdir(self.name, dir_fd=self.root.fd)
        with open_folder(self.root, (), symlinks=Symlinks.NONE) as root_fd:
            os.fsync(root_fd)
        self.on_step("removed staging")


def staging_name(call_id: CallId) -> str:
    """Return the name of a call's staging folder."""
    return f"{STAGING_PREFIX}{call_id}"


@contextmanager
def create_staging(root: Root, name: str, *, on_step: OnStep) -> Iterator[Staging]:
    """Create a staging folder that nobody else may enter, and open it."""
    os.mkdir(name, 0o700, dir_fd=root.fd)
    on_step("made staging")
    with open_staging(root, name, on_step=on_step) as staging:
        if staging is None:
            raise ToolError(Code.FS_CHANGED, f"{shown(name)} was taken away")
        yield staging


@contextmanager
def open_staging(root: Root, name: str, *, on_step: OnStep) -> Iterator[Staging | None]:
    """Open a staging folder; ``None`` if there is none, or a stranger's thing in its place."""
    if not name.startswith(STAGING_PREFIX) or "/" in name:
        raise ValueError("not the name of a staging folder")
    fd = _open_own_folder(root, name)
    if fd is None:
        yield None
        return
    with closing(fd):
        yield Staging(root, fd, name, on_step)


def _open_own_folder(root: Root, name: str) -> int | None:
    try:
        return os.open(name, READABLE_FOLDER | os.O_NOFOLLOW, dir_fd=root.fd)
    except OSError as error:
        if error.errno in {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}:
            return None
        raise


def _exists(place: Place) -> bool:
    try:
        os.stat(place.raw_name, dir_fd=place.folder_fd, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _is_same_file(one: Place, other: Place) -> bool:
    try:
        first = os.stat(one.raw_name, dir_fd=one.folder_fd, follow_symlinks=False)
        second = os.stat(other.raw_name, dir_fd=other.folder_fd, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return (first.st_dev, first.st_ino) == (second.st_dev, second.st_ino)
