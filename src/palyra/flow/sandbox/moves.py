# SPDX-License-Identifier: Apache-2.0
"""Moving files between names so that nothing is ever overwritten unseen.

Three moves are enough: take a file out, put a file where there is none, and exchange two. The
kernel does each of them in one step (``renameat2``); where a file system cannot, hard links help.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import shutil
import stat
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from palyra.flow.sandbox.beneath import READABLE_FILE

_NOREPLACE: Final = 1
_EXCHANGE: Final = 2
_CANNOT: Final = frozenset({errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP})
_CANNOT_LINK: Final = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS})
FRESH_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

OnStep = Callable[[str], None]
"""Told the name of every change on disk right after it happened. A test raises from it."""


def no_step(_: str) -> None:
    """Go on: nobody watches."""


class Place(NamedTuple):
    """A name in an open folder."""

    folder_fd: int
    name: str

    @property
    def raw_name(self) -> bytes:
        """The name as the kernel takes it."""
        return self.name.encode()


class Moves(Protocol):
    """How files change places. Each raises ``OSError`` and then have changed nothing."""

    def exchange(self, slot: Place, target: Place, *, aside: Place, on_step: OnStep) -> None:
        """Exchange what ``slot`` and ``target`` hold; ``aside`` is a free name beside ``slot``.

        After a crash, ``aside`` without ``slot`` is the slot; ``aside`` beside it is waste.
        """

    def put(self, source: Place, target: Place, *, on_step: OnStep) -> None:
        """Move ``source`` to ``target``, which must be free.

        After a crash, both names may hold the same file; then the move has happened.
        """


class PortableMoves:
    """Moves by hard links: what a name held is never lost, but for one race.

    A file that somebody renames onto ``target`` between the last look and the replacement is
    overwritten. Only the kernel's exchange has no such moment.
    """

    def exchange(self, slot: Place, target: Place, *, aside: Place, on_step: OnStep) -> None:
        """Keep a second name of the target, replace it, and call the second name the slot."""
        _keep_second_name(target, aside)
        os.fsync(aside.folder_fd)
        on_step("kept a second name")
        os.replace(
            slot.raw_name, target.raw_name, src_dir_fd=slot.folder_fd, dst_dir_fd=target.folder_fd
        )
        on_step("replaced")
        os.rename(
            aside.raw_name, slot.raw_name, src_dir_fd=aside.folder_fd, dst_dir_fd=slot.folder_fd
        )
        on_step("exchanged")

    def put(self, source: Place, target: Place, *, on_step: OnStep) -> None:
        """Link, which never replaces, then unlink."""
        _link(source, target)
        on_step("linked")
        os.unlink(source.raw_name, dir_fd=source.folder_fd)
        on_step("put")


class KernelMoves:
    """Moves by ``renameat2``, each one step; by hard links where a file system cannot."""

    def __init__(self) -> None:
        self._otherwise = PortableMoves()

    def exchange(self, slot: Place, target: Place, *, aside: Place, on_step: OnStep) -> None:
        """Exchange in one step."""
        try:
            _renameat2(slot, target, flags=_EXCHANGE)
        except OSError as error:
            if error.errno not in _CANNOT:
                raise
            self._otherwise.exchange(slot, target, aside=aside, on_step=on_step)
        else:
            on_step("exchanged")

    def put(self, source: Place, target: Place, *, on_step: OnStep) -> None:
        """Move in one step."""
        try:
            _renameat2(source, target, flags=_NOREPLACE)
        except OSError as error:
            if error.errno not in _CANNOT:
                raise
            self._otherwise.put(source, target, on_step=on_step)
        else:
            on_step("put")


def take_out(source: Place, slot: Place, *, on_step: OnStep) -> None:
    """Move ``source`` to the free name ``slot`` of a folder that is ours alone."""
    os.rename(
        source.raw_name, slot.raw_name, src_dir_fd=source.folder_fd, dst_dir_fd=slot.folder_fd
    )
    on_step("taken out")


def _link(source: Place, target: Place) -> None:
    os.link(
        source.raw_name,
        target.raw_name,
        src_dir_fd=source.folder_fd,
        dst_dir_fd=target.folder_fd,
        follow_symlinks=False,
    )


def _keep_second_name(target: Place, aside: Place) -> None:
    """Give the file at ``target`` a second name, or copy it where there are no hard links."""
    try:
        _link(target, aside)
    except OSError as error:
        if error.errno not in _CANNOT_LINK:
            raise
        _copy(target, aside)


def _copy(source: Place, target: Place) -> None:
    flags = READABLE_FILE | os.O_NOFOLLOW
    with os.fdopen(os.open(source.raw_name, flags, dir_fd=source.folder_fd), "rb") as reader:
        mode = stat.S_IMODE(os.fstat(reader.fileno()).st_mode) & 0o777
        fd = os.open(target.raw_name, FRESH_FILE, mode, dir_fd=target.folder_fd)
        with os.fdopen(fd, "wb") as writer:
            shutil.copyfileobj(reader, writer)
            writer.flush()
            os.fchmod(fd, mode)
            os.fsync(fd)


def _renameat2(source: Place, target: Place, *, flags: int) -> None:
    if _libc_renameat2 is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    failed = _libc_renameat2(
        source.folder_fd, source.raw_name, target.folder_fd, target.raw_name, flags
    )
    if failed:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))


_libc_renameat2 = None
with contextlib.suppress(AttributeError):  # Not every C library has it.
    _libc_renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    _libc_renameat2.restype = ctypes.c_int
    _libc_renameat2.argtypes = (
        ctypes.c_int,
        ctypes.c_char_p,
        ctypes.c_int,
        ctypes.c_char_p,
        ctypes.c_uint,
    )
