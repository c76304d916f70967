# SPDX-License-Identifier: Apache-2.0
"""Which processes live: each holds a lock on a file of its own for as long as it runs.

The kernel drops the lock when the process dies, however it dies, so a launched call whose owner's
lock is free was interrupted; process ids are never compared, because they are used again.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Self

from palyra.core.errors import Code, StoreError
from palyra.core.ids import InstanceId, is_ulid

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Instance:
    """This process's entry in the folder of living instances."""

    def __init__(self, instance_id: InstanceId, *, path: Path, descriptor: int) -> None:
        self.instance_id = instance_id
        self._path = path
        self._descriptor = descriptor

    @classmethod
    def start(cls, folder: Path, *, instance_id: InstanceId) -> Self:
        """Declare this process alive, and forget those that were killed.

        The caller holds :func:`starting`, so that no other one is just about to take its lock.
        """
        path = folder / f"{instance_id}.lock"
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            for left in folder.glob("*.lock"):
                is_alive(folder, InstanceId(left.stem))
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
            descriptor = os.open(path, flags, 0o600)
        except OSError as error:
            raise StoreError(
                Code.STORE_READ_ONLY, f"{folder} cannot be written: {error.strerror}"
            ) from error
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        return cls(instance_id, path=path, descriptor=descriptor)

    def close(self) -> None:
        """Declare this process ended."""
        self._path.unlink(missing_ok=True)
        os.close(self._descriptor)


@contextmanager
def starting(home: Path) -> Iterator[None]:
    """Hold the lock under which one process at a time opens or creates the store."""
    path = home / "start.lock"
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise StoreError(
            Code.STORE_READ_ONLY, f"{path} cannot be opened: {error.strerror}"
        ) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def is_alive(folder: Path, instance_id: InstanceId) -> bool:
    """Say whether the process of ``instance_id`` still runs; forget it if it does not."""
    if not is_ulid(instance_id):  # never a path of somebody's choice
        return False
    path = folder / f"{instance_id}.lock"
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise StoreError(
            Code.STORE_UNREACHABLE, f"{path} cannot be read: {error.strerror}"
        ) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    else:
        path.unlink(missing_ok=True)
        return False
    finally:
        os.close(descriptor)
