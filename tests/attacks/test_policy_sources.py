# SPDX-License-Identifier: Apache-2.0
"""Somebody who may not write the rules tries to get a file read as a policy.

Each test first shows that it would be read by whoever does not look where it comes from.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from palyra.core.errors import Code, ConfigError
from palyra.core.workspace import Workspace
from palyra.daemon.policy_folder import read_folder
from tests.support.ordinary_user import as_ordinary_user
from tests.support.workspaces import workspace_at

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

EVIL = "// permit everything"
GOOD = "// the operator's own"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "policies"
    folder.mkdir(mode=0o755)
    return folder


def plant(path: Path, text: str = EVIL, *, mode: int = 0o644) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path


def would_be_read(folder: Path) -> bool:
    """Say whether the attack succeeds against whoever just reads the files."""
    return any(path.read_text() == EVIL for path in folder.glob("*.cedar"))


def refusal(
    folder: Path,
    *,
    state: Path | None = None,
    workspaces: Iterable[Workspace] = (),
    is_trusted: bool = True,
) -> str:
    with pytest.raises(ConfigError) as caught:
        read_folder(folder, state=state, workspaces=workspaces, is_trusted=is_trusted)
    assert caught.value.code is Code.POLICY_SOURCE
    return caught.value.message


def texts(folder: Path, *, workspaces: Iterable[Workspace] = ()) -> list[str]:
    """Read what is only looked at."""
    content = read_folder(folder, state=None, workspaces=workspaces, is_trusted=False)
    return [source.text for source in content.sources]


# --- Links -------------------------------------------------------------------------------------


@pytest.mark.invariant("I10")
@pytest.mark.parametrize("is_trusted", [True, False])
def test_a_file_is_a_symbolic_link(folder: Path, tmp_path: Path, *, is_trusted: bool) -> None:
    (folder / "a.cedar").symlink_to(plant(tmp_path / "work" / "evil"))
    assert would_be_read(folder)
    expected = f"{folder}/a.cedar is a symbolic link"
    assert refusal(folder, is_trusted=is_trusted) == expected


@pytest.mark.invariant("I10")
@pytest.mark.parametrize("name", ["members.toml", "a.toml"])
def test_who_is_who_and_the_cases_are_not_read_through_links_either(
    folder: Path, tmp_path: Path, name: str
) -> None:
    plant(folder / "a.cedar", GOOD)
    (folder / name).symlink_to(plant(tmp_path / "work" / "evil"))
    assert (folder / name).read_text() == EVIL
    assert refusal(folder) == f"{folder}/{name} is a symbolic link"


@pytest.mark.invariant("I10")
@pytest.mark.parametrize("is_trusted", [True, False])
def test_the_folder_is_a_symbolic_link(folder: Path, tmp_path: Path, *, is_trusted: bool) -> None:
    plant(folder / "a.cedar")
    link = tmp_path / "link"
    link.symlink_to(folder)
    assert would_be_read(link)
    assert refusal(link, is_trusted=is_trusted) == f"{link} is a symbolic link"


@pytest.mark.invariant("I10")
def test_a_file_has_a_second_name_in_a_workspace(folder: Path, tmp_path: Path) -> None:
    (folder / "a.cedar").hardlink_to(plant(tmp_path / "work" / "notes.txt", GOOD))
    (tmp_path / "work" / "notes.txt").write_text(EVIL)  # what an agent can do
    assert would_be_read(folder)
    assert refusal(folder) == f"{folder}/a.cedar has more than one name (hard links)"


# --- What is not a file ------------------------------------------------------------------------


def test_a_pipe_waits_to_be_fed(folder: Path) -> None:
    os.mkfifo(folder / "a.cedar", mode=0o644)
    feeder = threading.Thread(target=lambda: (folder / "a.cedar").write_text(EVIL))
    feeder.start()
    assert would_be_read(folder)
    feeder.join()
    assert refusal(folder) == f"{folder}/a.cedar is not a regular file"  # and at once


def test_a_folder_and_a_socket_are_named_like_policies(folder: Path) -> None:
    plant(folder / "a.cedar" / "b.cedar")
    assert would_be_read(folder / "a.cedar")
    assert refusal(folder) == f"{folder}/a.cedar is not a regular file"
    (folder / "a.cedar" / "b.cedar").unlink()
    (folder / "a.cedar").rmdir()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "a.cedar"))
        assert "a.cedar cannot be read" in refusal(folder)


def test_a_device_is_named_like_a_policy(folder: Path) -> None:
    try:
        os.mknod(folder / "a.cedar", 0o020644, os.makedev(1, 3))  # /dev/null
    except PermissionError:
        pytest.skip("only root makes devices")
    assert (folder / "a.cedar").read_bytes() == b""
    assert refusal(folder) == f"{folder}/a.cedar is not a regular file"


# --- Other users -------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["the-file", "the-folder"])
def test_it_belongs_to_somebody_else(folder: Path, what: str) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root gives files away")
    file = plant(folder / "a.cedar")
    given_away = file if what == "the-file" else folder
    os.chown(given_away, 65534, 65534)
    assert would_be_read(folder)
    assert refusal(folder) == f"{given_away} belongs to uid 65534, not to uid 0"
    assert texts(folder) == [EVIL]  # to look at, never to stage


def test_it_belongs_to_root_and_the_reader_is_not(folder: Path) -> None:
    """Also where permissions bind: as an ordinary user."""
    with as_ordinary_user() as home:
        shared = home / "policies"
        shared.mkdir(mode=0o755)
        plant(shared / "a.cedar")
        owner = os.geteuid()
        if owner == os.getuid():
            pytest.skip("needs two users")
        os.seteuid(0)
        os.chown(shared / "a.cedar", 0, 0)
        os.seteuid(owner)
        assert would_be_read(shared)
        assert refusal(shared) == f"{shared}/a.cedar belongs to uid 0, not to uid {owner}"
    assert folder.exists()


@pytest.mark.parametrize("mode", [0o664, 0o646, 0o666, 0o620, 0o602])
def test_others_can_write_the_file(folder: Path, mode: int) -> None:
    plant(folder / "a.cedar", mode=mode)
    assert would_be_read(folder)
    assert refusal(folder) == f"{folder}/a.cedar can be written by others (mode {mode:04o})"
    assert texts(folder) == [EVIL]


@pytest.mark.parametrize("mode", [0o775, 0o757, 0o777, 0o1777])
def test_others_can_put_files_into_the_folder(folder: Path, mode: int) -> None:
    plant(folder / "a.cedar")
    folder.chmod(mode)
    assert would_be_read(folder)
    assert refusal(folder) == f"{folder} can be written by others (mode {mode:04o})"
    assert texts(folder) == [EVIL]


# --- Workspaces --------------------------------------------------------------------------------


@pytest.mark.invariant("I10")
@pytest.mark.parametrize("below", ["work", "work/policies", "work/a/b/policies"])
def test_the_folder_lies_in_a_workspace(tmp_path: Path, below: str) -> None:
    folder = plant(tmp_path / below / "a.cedar").parent
    folder.chmod(0o755)
    work = workspace_at(tmp_path / "work")
    assert would_be_read(folder)
    assert refusal(folder, workspaces=(work,)) == f"{folder} lies in the workspace work"
    assert texts(folder, workspaces=(work,)) == [EVIL]


@pytest.mark.invariant("I10")
def test_a_workspace_lies_in_the_folder(folder: Path) -> None:
    plant(folder / "a.cedar")
    (folder / "sub" / "work").mkdir(parents=True)
    work = workspace_at(folder / "sub" / "work")
    assert would_be_read(folder)
    assert refusal(folder, workspaces=(work,)) == f"{folder} holds the workspace work"


@pytest.mark.invariant("I10")
def test_the_way_to_the_folder_leads_through_a_link_into_a_workspace(tmp_path: Path) -> None:
    folder = plant(tmp_path / "work" / "policies" / "a.cedar").parent
    folder.chmod(0o755)
    (tmp_path / "etc").symlink_to(tmp_path / "work")
    seemingly_outside = tmp_path / "etc" / "policies"
    assert would_be_read(seemingly_outside)
    work = workspace_at(tmp_path / "work")
    assert "lies in the workspace work" in refusal(seemingly_outside, workspaces=(work,))


@pytest.mark.invariant("I10")
def test_the_workspace_was_registered_through_a_link(tmp_path: Path, folder: Path) -> None:
    plant(folder / "a.cedar")
    (tmp_path / "link").symlink_to(tmp_path)
    work = Workspace(name="work", root=str(tmp_path / "link"), device=0, inode=0)
    assert "lies in the workspace work" in refusal(folder, workspaces=(work,))


@pytest.mark.invariant("I10")
def test_a_way_back_up_does_not_hide_where_the_folder_is(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "work" / "sub").mkdir(parents=True)
    plant(tmp_path / "work" / "policies" / "a.cedar")
    (tmp_path / "work" / "policies").chmod(0o755)
    (folder / "in").symlink_to(tmp_path / "work" / "sub")
    roundabout = folder / "in" / ".." / "policies"
    assert would_be_read(roundabout)
    work = workspace_at(tmp_path / "work")
    assert "lies in the workspace work" in refusal(roundabout, workspaces=(work,))


_MOUNTED = """
mount --bind "$1/work" "$1/elsewhere" || exit 77
exec "$0" -c '
import sys
from pathlib import Path
from palyra.core.errors import ConfigError
from palyra.core.workspace import Workspace
from palyra.daemon.policy_folder import read_folder
base = Path(sys.argv[1])
folder = base / "elsewhere" / "policies"
print((folder / "a.cedar").read_text())
work = Workspace(name="work", root=str(base / "work"), device=1, inode=2)
try:
    print(read_folder(folder, state=None, workspaces=(work,)))
except ConfigError as error:
    print(error)
' "$1"
"""


@pytest.mark.invariant("I10")
def test_the_workspace_is_mounted_elsewhere_too(tmp_path: Path) -> None:
    plant(tmp_path / "work" / "policies" / "a.cedar").parent.chmod(0o755)
    (tmp_path / "elsewhere").mkdir()
    unshare = shutil.which("unshare")
    if os.geteuid() != 0 or unshare is None:
        pytest.skip("only root mounts")
    command = (unshare, "--mount", "sh", "-c", _MOUNTED, sys.executable, str(tmp_path))
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode == 77 or "unshare failed" in ran.stderr:
        pytest.skip("mounts are not permitted here")
    elsewhere = tmp_path / "elsewhere" / "policies"
    assert ran.stdout.splitlines() == [EVIL, f"{elsewhere} lies in the workspace work"], ran.stderr


@pytest.mark.invariant("I10")
def test_a_workspace_that_is_gone_still_keeps_policies_out(tmp_path: Path) -> None:
    """It may come back with whatever is in it."""
    folder = plant(tmp_path / "work" / "policies" / "a.cedar").parent
    folder.chmod(0o755)
    registered = Workspace(name="work", root=str(tmp_path / "work"), device=1, inode=2)
    assert "lies in the workspace work" in refusal(folder, workspaces=(registered,))


@pytest.mark.parametrize("above", [False, True], ids=["is-it", "holds-it"])
def test_the_folder_holds_the_state_directory(folder: Path, *, above: bool) -> None:
    """What Palyra writes there itself must not become its rules."""
    plant(folder / "a.cedar")
    state = folder / "state" if above else folder
    state.mkdir(exist_ok=True)
    assert would_be_read(folder)
    assert refusal(folder, state=state) == f"{folder} holds the state directory {state}"


# --- Races -------------------------------------------------------------------------------------


@contextmanager
def flipping(path: Path, evil: Path) -> Iterator[None]:
    """Replace the file at ``path`` by a link and back, as fast as possible."""
    good, link = path.with_name("good"), path.with_name("link")
    is_over = threading.Event()

    def flip() -> None:
        while not is_over.is_set():
            link.symlink_to(evil)
            link.replace(path)
            plant(good, GOOD)
            good.replace(path)

    thread = threading.Thread(target=flip)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


@pytest.mark.invariant("I10")
def test_a_file_is_swapped_between_the_check_and_its_use(folder: Path, tmp_path: Path) -> None:
    evil = plant(tmp_path / "work" / "evil")
    path = plant(folder / "a.cedar", GOOD)
    fooled = read = refused = 0
    with flipping(path, evil):
        for _ in range(200_000):
            if not path.is_symlink() and path.read_text() == EVIL:  # a check, then a use
                fooled += 1
            try:
                content = read_folder(folder, state=None, workspaces=())
            except ConfigError:
                refused += 1
            else:
                read += 1
                assert [source.text for source in content.sources] == [GOOD]
            if fooled and read > 20 and refused > 20:
                break
    assert fooled
    assert read
    assert refused
