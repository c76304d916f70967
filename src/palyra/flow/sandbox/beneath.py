# SPDX-License-Identifier: Apache-2.0
"""Opening things below the root of a workspace, so that no path and no race leads out of it.

The kernel resolves a whole path at once (``openat2``) and refuses what leaves the root; where it
cannot, a path is walked folder by folder and every symbolic link is refused (I9). Paths have one
spelling each: relative, no empty, ``.`` or ``..`` component; ``.`` alone is the root itself.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import sys
from contextlib import contextmanager
from enum import IntFlag
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from palyra.core.errors import Code, ToolError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from palyra.core.workspace import Workspace

Components = tuple[str, ...]

_LONGEST_PATH_BYTES = 4095
_LONGEST_COMPONENT_BYTES = 255
_SHOWN_CHARACTERS = 120

_OPENAT2: Final = 437  # the same number on every architecture of this century
_ATTEMPTS: Final = 128  # a rename elsewhere may make the kernel ask for another try
_NO_MAGICLINKS: Final = 0x02
_NO_SYMLINKS: Final = 0x04
_BENEATH: Final = 0x08

FOLDER: Final = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
READABLE_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
READABLE_FILE: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_LOOK: Final = os.O_PATH | os.O_CLOEXEC

_CODES: Final = {
    errno.ELOOP: Code.FS_SYMLINK,
    errno.EXDEV: Code.FS_OUTSIDE,
    errno.ENOENT: Code.FS_NOT_FOUND,
    errno.ENOTDIR: Code.FS_NOT_A_FOLDER,
    errno.EISDIR: Code.FS_NOT_A_FILE,
    errno.ENXIO: Code.FS_NOT_A_FILE,
    errno.ENODEV: Code.FS_NOT_A_FILE,
    errno.EEXIST: Code.FS_EXISTS,
    errno.ENAMETOOLONG: Code.FS_OUTSIDE,
}


class Symlinks(IntFlag):
    """Which symbolic links a path may go through; links of ``/proc`` never."""

    WITHIN = _BENEATH | _NO_MAGICLINKS
    """Those that stay below the root. No tool uses it: a link is a name that policy never saw."""
    NONE = WITHIN | _NO_SYMLINKS
    """None at all: whatever was decided by the spelling of its path (I2)."""


class Resolver(Protocol):
    """Opens a path below an open folder. Raises ``OSError`` with ELOOP or EXDEV to refuse."""

    def __call__(
        self, root_fd: int, components: Components, *, flags: int, symlinks: Symlinks
    ) -> int:
        """Return a descriptor that the caller closes."""


class Root(NamedTuple):
    """The open root of a workspace, and how paths below it are resolved."""

    fd: int
    resolve: Resolver


class RegularFile(NamedTuple):
    """An open regular file and what it was when it was opened."""

    fd: int
    status: os.stat_result


def shown(path: str) -> str:
    """Return ``path`` as a message may hold it: bounded, and nothing but printable ASCII (I12)."""
    return ascii(path if len(path) <= _SHOWN_CHARACTERS else f"{path[:_SHOWN_CHARACTERS]}...")


def components_of(path: str) -> Components:
    """Return the components of ``path``, none for ``.``, or refuse a path that is not plain."""
    if path == ".":
        return ()
    components = tuple(path.split("/"))
    if path.startswith("/"):
        raise _not_plain(path, "it is absolute")
    if ".." in components:
        raise _not_plain(path, "it has a '..' component")
    if "" in components or "." in components:
        raise _not_plain(path, "it has an empty or '.' component")
    if "\0" in path:
        raise _not_plain(path, "it has a NUL character")
    if len(path.encode()) > _LONGEST_PATH_BYTES or any(
        len(component.encode()) > _LONGEST_COMPONENT_BYTES for component in components
    ):
        raise _not_plain(path, "it is too long")
    return components


def refusal(error: OSError, path: str) -> ToolError:
    """Return ``error`` as the fault a tool's caller sees."""
    code = _CODES.get(error.errno or 0, Code.FS_IO)
    why = f": {os.strerror(error.errno or errno.EIO).lower()}"
    if error.errno == errno.EXDEV:  # the kernel's words for these two would puzzle people
        why = " leads outside the workspace"
    elif error.errno == errno.ELOOP:
        why = " goes through a symbolic link"
    return ToolError(code, f"{shown(path)}{why}", details={"path": path[:_SHOWN_CHARACTERS]})


@contextmanager
def faults_of(path: str) -> Iterator[None]:
    """Turn what the operating system refuses about ``path`` into the fault a caller sees."""
    try:
        yield
    except OSError as error:
        raise refusal(error, path) from error


@contextmanager
def closing(fd: int) -> Iterator[int]:
    """Yield ``fd`` and close it on every way out."""
    try:
        yield fd
    finally:
        os.close(fd)


def resolve_by_kernel(
    root_fd: int, components: Components, *, flags: int, symlinks: Symlinks
) -> int:
    """Resolve with ``openat2``. Raises ``OSError`` with ENOSYS where there is none."""
    if sys.platform != "linux":
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    path = "/".join(components).encode() or b"."
    how = _OpenHow(flags=flags, mode=0, resolve=symlinks)
    error = errno.EAGAIN
    for _ in range(_ATTEMPTS):
        fd: int = _openat2(_OPENAT2, root_fd, path, ctypes.byref(how), ctypes.sizeof(how))
        if fd >= 0:
            return fd
        error = ctypes.get_errno()
        if error not in {errno.EAGAIN, errno.EINTR}:
            break
    raise OSError(error, os.strerror(error))


def resolve_by_walk(
    root_fd: int,
    components: Components,
    *,
    flags: int,
    symlinks: Symlinks,  # noqa: ARG001 - refuses them all, which is always strict enough
) -> int:
    """Resolve folder by folder, and refuse every symbolic link."""
    if not components:
        return os.open(b".", flags, dir_fd=root_fd)
    *folders, last = components
    folder_fd = os.dup(root_fd)
    try:
        for component in folders:
            next_fd = _open_here(folder_fd, component, flags=FOLDER)
            os.close(folder_fd)
            folder_fd = next_fd
        return _open_here(folder_fd, last, flags=flags)
    finally:
        os.close(folder_fd)


def resolve(
    root_fd: int,
    components: Components,
    *,
    flags: int,
    symlinks: Symlinks,
    first: Resolver = resolve_by_kernel,
) -> int:
    """Resolve by the kernel, or by walking where a kernel or a seccomp filter has no openat2."""
    try:
        return first(root_fd, components, flags=flags, symlinks=symlinks)
    except OSError as error:
        if error.errno not in {errno.ENOSYS, errno.EPERM}:
            raise
    return resolve_by_walk(root_fd, components, flags=flags, symlinks=symlinks)


@contextmanager
def open_root(workspace: Workspace, *, resolver: Resolver = resolve) -> Iterator[Root]:
    """Open the root of ``workspace``, if it still is the folder that was registered.

    Raises:
        ToolError: ``workspace.moved``.
    """
    try:
        fd = os.open(workspace.root, FOLDER | os.O_NOFOLLOW)
    except OSError as error:
        raise _moved(workspace) from error
    with closing(fd):
        status = os.fstat(fd)
        if (status.st_dev, status.st_ino) != (workspace.device, workspace.inode):
            raise _moved(workspace)
        yield Root(fd, resolver)


@contextmanager
def open_folder(
    root: Root, components: Components, *, symlinks: Symlinks, flags: int = READABLE_FOLDER
) -> Iterator[int]:
    """Open a folder below ``root``."""
    with faults_of(spelled(components)):
        fd = root.resolve(root.fd, components, flags=flags, symlinks=symlinks)
    with closing(fd):
        yield fd


@contextmanager
def open_file(root: Root, components: Components, *, symlinks: Symlinks) -> Iterator[RegularFile]:
    """Open a regular file below ``root`` for reading.

    It is looked at before it is opened, because opening a device or a pipe already does something
    to it, and once more afterwards, because it may be another file by then.

    Raises:
        ToolError: ``fs.not_a_file`` for anything else, which never blocks.
    """
    path = spelled(components)
    with faults_of(path):
        with closing(root.resolve(root.fd, components, flags=_LOOK, symlinks=symlinks)) as look_fd:
            _require_regular(os.fstat(look_fd), path)
        fd = root.resolve(root.fd, components, flags=READABLE_FILE, symlinks=symlinks)
    with closing(fd):
        status = os.fstat(fd)
        _require_regular(status, path)
        yield RegularFile(fd, status)


def spelled(components: Components) -> str:
    """Return the one spelling of a path."""
    return "/".join(components) or "."


def _require_regular(status: os.stat_result, path: str) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise ToolError(
            Code.FS_NOT_A_FILE,
            f"{shown(path)} is not a regular file",
            details={"path": path[:_SHOWN_CHARACTERS]},
        )


def _open_here(folder_fd: int, component: str, *, flags: int) -> int:
    """Open one component, never through a symbolic link."""
    name = component.encode()
    try:
        fd = os.open(name, flags | os.O_NOFOLLOW, dir_fd=folder_fd)
    except NotADirectoryError as error:
        status = os.stat(name, dir_fd=folder_fd, follow_symlinks=False)
        if stat.S_ISLNK(status.st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP)) from error
        raise
    if flags & os.O_PATH and stat.S_ISLNK(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    return fd


def _not_plain(path: str, why: str) -> ToolError:
    return ToolError(
        Code.FS_OUTSIDE,
        f"{shown(path)} is not a plain path below the workspace: {why}",
        details={"path": path[:_SHOWN_CHARACTERS]},
    )


def _moved(workspace: Workspace) -> ToolError:
    return ToolError(
        Code.WORKSPACE_MOVED,
        f"the folder of workspace {workspace.name} is not the one that was registered",
        details={"workspace": workspace.name},
    )


class _OpenHow(ctypes.Structure):
    """The ``struct open_how`` of the kernel."""

    _fields_ = (
        ("flags", ctypes.c_uint64),
        ("mode", ctypes.c_uint64),
        ("resolve", ctypes.c_uint64),
    )


_openat2 = ctypes.CDLL(None, use_errno=True).syscall
_openat2.restype = ctypes.c_long
_openat2.argtypes = (
    ctypes.c_long,
    ctypes.c_int,
    ctypes.c_char_p,
    ctypes.POINTER(_OpenHow),
    ctypes.c_size_t,
)
