# SPDX-License-Identifier: Apache-2.0
"""The signed head, kept outside the database: what truncation and rollback are measured against.

Two slots are written in turn, so that a torn write leaves the other one whole. Writers of several
processes exclude each other, and an older head never replaces a newer one.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Self

import msgspec

from palyra.core.chain import SignedHead
from palyra.core.errors import Code, StoreError

if TYPE_CHECKING:
    from pathlib import Path

_SLOT_BYTES: Final = 1024
_SLOTS: Final = 2
_INDEX_DIGITS: Final = 20
_encode = msgspec.json.Encoder(order="sorted").encode
_decoder = msgspec.json.Decoder(SignedHead)


IsGenuine = Callable[[SignedHead], bool]


def _any_head(_: SignedHead) -> bool:
    """Take every head for genuine: only whoever holds the key can tell, and only it writes."""
    return True


class HeadFile:
    """The file of the kept head. Open it once per process."""

    def __init__(self, descriptor: int, *, path: Path, is_genuine: IsGenuine = _any_head) -> None:
        self._descriptor = descriptor
        self._path = path
        self._is_genuine = is_genuine
        self._seen: tuple[bytes, bytes] | None = None
        self._indices = (-1, -1)

    @classmethod
    def open(cls, path: Path, *, is_genuine: IsGenuine = _any_head) -> Self:
        """Open the file, creating it blank if it is missing.

        Its full size is written at once: a disk that is full later cannot refuse a head.
        """
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            descriptor = os.open(path, flags, 0o600)
            if os.fstat(descriptor).st_size == 0:
                os.pwrite(descriptor, b" " * (_SLOT_BYTES * _SLOTS), 0)
            return cls(descriptor, path=path, is_genuine=is_genuine)
        except OSError as error:
            raise StoreError(
                Code.STORE_READ_ONLY, f"the kept head {path} cannot be opened: {error.strerror}"
            ) from error

    def read(self) -> SignedHead | None:
        """Return the newest head in the file, or ``None`` if it holds none."""
        fcntl.flock(self._descriptor, fcntl.LOCK_SH)  # a slot being written would look torn
        try:
            return newest_head_in(b"".join(self._slots()))
        finally:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def keep(self, signed: SignedHead) -> None:
        """Write ``signed`` unless a head at least as new is there."""
        index = signed.head.index
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)
            try:
                slots = self._slots()
                if slots != self._seen:  # somebody else wrote; believe only genuine heads
                    self._indices = (self._index_of(slots[0]), self._index_of(slots[1]))
                first, second = self._indices
                if max(first, second) >= index:
                    self._seen = slots
                    return
                written = _slot(signed)
                if first <= second:
                    os.pwrite(self._descriptor, written, 0)
                    self._seen, self._indices = (written, slots[1]), (index, second)
                else:
                    os.pwrite(self._descriptor, written, _SLOT_BYTES)
                    self._seen, self._indices = (slots[0], written), (first, index)
            finally:
                fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        except OSError as error:
            raise StoreError(
                Code.STORE_FULL, f"the kept head {self._path} cannot be written: {error.strerror}"
            ) from error

    def sync(self) -> None:
        """Make the file survive a power cut."""
        os.fsync(self._descriptor)

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)

    def _index_of(self, slot: bytes) -> int:
        """Return the index of a genuine head; anything else may be overwritten."""
        head = _decode(slot)
        return head.head.index if head is not None and self._is_genuine(head) else -1

    def _slots(self) -> tuple[bytes, bytes]:
        text = os.pread(self._descriptor, _SLOT_BYTES * _SLOTS, 0)
        return text[:_SLOT_BYTES], text[_SLOT_BYTES:]


def read_kept_head(path: Path) -> SignedHead | None:
    """Return the newest head in the file at ``path``, without creating or changing it."""
    try:
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        descriptor = os.open(path, flags)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreError(
            Code.STORE_UNREACHABLE, f"the kept head {path} cannot be read: {error.strerror}"
        ) from error
    head_file = HeadFile(descriptor, path=path)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise StoreError(Code.STORE_CORRUPT, f"the kept head {path} is not a regular file")
        return head_file.read()
    finally:
        head_file.close()


def _slot(signed: SignedHead) -> bytes:
    text = b"%0*d %b" % (_INDEX_DIGITS, signed.head.index, _encode(signed))
    return text.ljust(_SLOT_BYTES - 1) + b"\n"


def newest_head_in(content: bytes) -> SignedHead | None:
    """Return the newest head in a copy of the file."""
    slots = (content[:_SLOT_BYTES], content[_SLOT_BYTES : _SLOT_BYTES * _SLOTS])
    heads = [head for head in map(_decode, slots) if head is not None]
    return max(heads, key=lambda signed: signed.head.index, default=None)


def _decode(slot: bytes) -> SignedHead | None:
    """Read a slot back; an empty, torn or otherwise written one holds nothing."""
    try:
        head = _decoder.decode(slot[_INDEX_DIGITS:])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return head if slot == _slot(head) else None
