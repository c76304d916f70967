# SPDX-License-Identifier: Apache-2.0
import ctypes
import errno
import functools
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from palyra.core.errors import Code, ToolError
from palyra.flow.sandbox import beneath
from palyra.flow.sandbox.beneath import (
    Resolver,
    Root,
    Symlinks,
    components_of,
    open_file,
    open_folder,
    open_root,
    refusal,
    resolve,
    resolve_by_kernel,
    resolve_by_walk,
    shown,
)
from tests.support.workspaces import workspace_at

BOTH_WAYS = pytest.mark.parametrize(
    "resolver",
    [
        pytest.param(resolve_by_kernel, id="by-kernel"),
        pytest.param(resolve_by_walk, id="by-walk"),
    ],
)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Return a workspace folder with a secret beside it."""
    root = tmp_path / "work"
    (root / "sub" / "deep").mkdir(parents=True)
    (root / "sub" / "file").write_text("inside")
    (tmp_path / "secret").write_text("outside")
    return root


def read(root: Root, path: str, symlinks: Symlinks = Symlinks.WITHIN) -> str:
    with open_file(root, components_of(path), symlinks=symlinks) as file:
        return os.read(file.fd, 100).decode()


def code_of_reading(root: Root, path: str, symlinks: Symlinks = Symlinks.WITHIN) -> Code:
    with pytest.raises(ToolError) as caught:
        read(root, path, symlinks)
    return caught.value.code


def names_in(folder_fd: int) -> list[str]:
    with os.scandir(folder_fd) as entries:
        return [entry.name for entry in entries]


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.fixture(autouse=True)
def every_descriptor_is_closed() -> Iterator[None]:
    before = open_descriptors()
    yield
    assert open_descriptors() == before


@pytest.mark.parametrize(
    ("path", "components"),
    [(".", ()), ("a", ("a",)), ("a/b c/\u00e9", ("a", "b c", "\u00e9")), ("...", ("...",))],
)
def test_plain_paths(path: str, components: tuple[str, ...]) -> None:
    assert components_of(path) == components


@pytest.mark.parametrize(
    "path",
    [
        pytest.param("", id="empty"),
        pytest.param("/etc/passwd", id="absolute"),
        pytest.param("//x", id="absolute-twice"),
        pytest.param("..", id="parent"),
        pytest.param("a/../b", id="parent-within"),
        pytest.param("a/..", id="parent-at-the-end"),
        pytest.param("./a", id="dot-first"),
        pytest.param("a/.", id="dot-last"),
        pytest.param("a//b", id="empty-component"),
        pytest.param("a/", id="slash-at-the-end"),
        pytest.param("a\0b", id="nul"),
        pytest.param("x" * 256, id="long-component"),
        pytest.param("\u00e9" * 128, id="component-long-in-bytes"),
        pytest.param("/".join(["x" * 200] * 21), id="long-path"),
    ],
)
def test_other_paths_are_refused(path: str) -> None:
    with pytest.raises(ToolError) as caught:
        components_of(path)
    assert caught.value.code is Code.FS_OUTSIDE


def test_messages_show_paths_as_bounded_ascii() -> None:
    assert shown("a\x1b[2J\u202e\n") == r"'a\x1b[2J\u202e\n'"
    assert len(shown("\U0001f600" * 4096)) < 1300


@BOTH_WAYS
def test_opens_what_is_below(place: Path, resolver: Resolver) -> None:
    with open_root(workspace_at(place), resolver=resolver) as root:
        assert read(root, "sub/file") == "inside"
        assert read(root, "sub/file", Symlinks.NONE) == "inside"
        with open_folder(root, (), symlinks=Symlinks.NONE) as fd:
            assert names_in(fd) == ["sub"]
        with open_folder(root, ("sub", "deep"), symlinks=Symlinks.NONE) as fd:
            assert names_in(fd) == []


@BOTH_WAYS
@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("none", Code.FS_NOT_FOUND),
        ("none/file", Code.FS_NOT_FOUND),
        ("sub/file/x", Code.FS_NOT_A_FOLDER),
        ("sub", Code.FS_NOT_A_FILE),
        (".", Code.FS_NOT_A_FILE),
    ],
)
def test_names_what_is_wrong(place: Path, resolver: Resolver, path: str, code: Code) -> None:
    with open_root(workspace_at(place), resolver=resolver) as root:
        assert code_of_reading(root, path) is code


@BOTH_WAYS
def test_no_symlink_leads_out(place: Path, resolver: Resolver) -> None:
    (place / "absolute").symlink_to(place.parent / "secret")
    (place / "relative").symlink_to("../secret")
    (place / "folder").symlink_to("..")
    (place / "self").symlink_to("self")
    (place / "magic").symlink_to("/proc/self/root")
    with open_root(workspace_at(place), resolver=resolver) as root:
        for path in ("absolute", "relative", "folder/secret", "magic/etc/passwd", "self"):
            assert code_of_reading(root, path) in {Code.FS_OUTSIDE, Code.FS_SYMLINK}
            assert code_of_reading(root, path, Symlinks.NONE) is Code.FS_SYMLINK


def test_links_within_are_followed_only_where_that_is_asked_for(place: Path) -> None:
    (place / "link").symlink_to("sub/file")
    (place / "sub" / "up").symlink_to("../sub")
    with open_root(workspace_at(place)) as root:
        assert read(root, "link") == "inside"
        assert read(root, "sub/up/file") == "inside"
        assert code_of_reading(root, "link", Symlinks.NONE) is Code.FS_SYMLINK
        assert code_of_reading(root, "sub/up/file", Symlinks.NONE) is Code.FS_SYMLINK


def test_the_walk_refuses_even_links_within(place: Path) -> None:
    (place / "link").symlink_to("sub/file")
    with open_root(workspace_at(place), resolver=resolve_by_walk) as root:
        assert code_of_reading(root, "link") is Code.FS_SYMLINK


@BOTH_WAYS
def test_special_files_are_refused_at_once(place: Path, resolver: Resolver) -> None:
    os.mkfifo(place / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(place / "socket"))
        with open_root(workspace_at(place), resolver=resolver) as root:
            assert code_of_reading(root, "pipe") is Code.FS_NOT_A_FILE
            assert code_of_reading(root, "socket") is Code.FS_NOT_A_FILE


def test_what_becomes_a_pipe_between_look_and_opening_does_not_block(place: Path) -> None:
    def replacing(
        root_fd: int, components: tuple[str, ...], *, flags: int, symlinks: Symlinks
    ) -> int:
        fd = resolve(root_fd, components, flags=flags, symlinks=symlinks)
        if (place / "sub" / "file").is_file():
            (place / "sub" / "file").unlink()
            os.mkfifo(place / "sub" / "file")
        return fd

    with open_root(workspace_at(place), resolver=replacing) as root:
        assert code_of_reading(root, "sub/file") is Code.FS_NOT_A_FILE


@pytest.mark.parametrize("missing", [errno.ENOSYS, errno.EPERM])
def test_walks_where_the_kernel_cannot(place: Path, missing: int) -> None:
    def no_openat2(*_: object, **__: object) -> int:
        raise OSError(missing, os.strerror(missing))

    (place / "link").symlink_to("sub/file")
    resolver = functools.partial(resolve, first=no_openat2)
    with open_root(workspace_at(place), resolver=resolver) as root:
        assert read(root, "sub/file") == "inside"
        assert code_of_reading(root, "link") is Code.FS_SYMLINK


def test_a_kernel_that_never_stops_asking_for_another_try_is_given_up(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = []

    def busy(*_: object) -> int:
        tries.append(1)
        ctypes.set_errno(errno.EAGAIN)
        return -1

    monkeypatch.setattr(beneath, "_openat2", busy)
    with open_root(workspace_at(place)) as root:
        assert code_of_reading(root, "sub/file") is Code.FS_IO
    assert 1 < len(tries) < 1000


@pytest.mark.invariant("I10")
def test_a_replaced_root_is_refused(place: Path) -> None:
    workspace = workspace_at(place)
    place.rename(place.with_name("moved"))
    with pytest.raises(ToolError) as gone, open_root(workspace):
        pass
    place.mkdir()
    with pytest.raises(ToolError) as replaced, open_root(workspace):
        pass
    place.rmdir()
    place.symlink_to("moved")
    with pytest.raises(ToolError) as linked, open_root(workspace):
        pass
    assert {gone.value.code, replaced.value.code, linked.value.code} == {Code.WORKSPACE_MOVED}


def test_an_unknown_fault_is_an_io_fault_that_names_the_path() -> None:
    fault = refusal(OSError(errno.ENOSPC, "x"), "a/b")
    assert (fault.code, fault.message) == (Code.FS_IO, "'a/b': no space left on device")
