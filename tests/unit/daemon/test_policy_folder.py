# SPDX-License-Identifier: Apache-2.0
"""How a folder is read; that nobody else's hand is in it, :mod:`tests.attacks` shows."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from palyra.core.errors import Code, ConfigError
from palyra.daemon import policy_folder
from palyra.daemon.policy_folder import FolderContent, read_folder
from palyra.flow.policy.sources import Source
from tests.support.ordinary_user import as_ordinary_user
from tests.support.workspaces import workspace_at


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "policies"
    folder.mkdir(mode=0o755)
    return folder


def write(path: Path, content: bytes = b"", *, mode: int = 0o644) -> None:
    path.write_bytes(content)
    path.chmod(mode)


def read(folder: Path, *, is_trusted: bool = True) -> FolderContent:
    return read_folder(folder, state=None, workspaces=(), is_trusted=is_trusted)


def refusal(folder: Path, *, is_trusted: bool = True) -> str:
    with pytest.raises(ConfigError) as caught:
        read(folder, is_trusted=is_trusted)
    assert caught.value.code is Code.POLICY_SOURCE
    return caught.value.message


def test_a_folder_that_does_not_exist_is_empty(folder: Path) -> None:
    assert read(folder / "none") == FolderContent()
    assert read(folder) == FolderContent()


def test_a_folder_that_was_named_to_look_at_has_to_exist(folder: Path) -> None:
    assert refusal(folder / "none", is_trusted=False) == f"{folder}/none does not exist"


def test_policies_members_and_cases_are_read_in_the_order_of_names(folder: Path) -> None:
    write(folder / "b.cedar", "// \u00fc".encode())
    write(folder / "a.cedar", b"// a", mode=0o400)
    write(folder / "b.toml", b"cases of b")
    write(folder / "a.toml", b"cases of \xff")
    write(folder / "members.toml", b"who")
    write(folder / "README.md", b"read me")
    expected = FolderContent(
        sources=(Source("a.cedar", "// a"), Source("b.cedar", "// \u00fc")),
        members_toml=b"who",
        cases=(("a.toml", b"cases of \xff"), ("b.toml", b"cases of b")),
    )
    assert read(folder) == expected
    assert read(folder, is_trusted=False) == expected


def test_what_looks_like_policies_and_is_not_read_is_noted(folder: Path) -> None:
    (folder / "old" / "deep").mkdir(parents=True)
    (folder / "empty").mkdir()
    write(folder / "old" / "deep" / "x.cedar", b"// x")
    write(folder / "B.CEDAR", b"// b")
    write(folder / "alone.toml")
    (folder / "linked").symlink_to(folder / "old")
    content = read(folder)
    assert content.sources == ()
    assert content.notes == (
        "B.CEDAR is not read: policies are in files named *.cedar",
        "alone.toml is not read: no policies have this name",
        "old/ is not read: policies are not taken from subfolders",
    )


@pytest.mark.invariant("I13")
def test_notes_are_bounded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(30):
        write(folder / f"{number}.CEDAR")
        write(folder / f"{number}.toml")
    assert len(read(folder).notes) == 20
    monkeypatch.setattr(policy_folder, "_MOST_LOOKED_AT", 3)
    (folder / "a" / "b").mkdir(parents=True)
    for number in range(3):
        write(folder / "a" / str(number))
    write(folder / "a" / "b" / "x.cedar")
    assert not any(note.startswith("a/") for note in read(folder).notes)


@pytest.mark.parametrize("name", ["a b.cedar", "\u00e4.cedar", "a\n.cedar", "$(x).cedar", ".cedar"])
def test_strange_names_are_refused_and_shown_safely(folder: Path, name: str) -> None:
    write(folder / name)
    message = refusal(folder)
    assert "has a name with more than letters, digits, . _ -" in message
    assert message.isprintable()


def test_a_name_that_is_not_text_is_refused(folder: Path) -> None:
    write(folder / os.fsdecode(b"\xff.cedar"))
    assert refusal(folder).startswith(f"{folder}/\\u{{dcff}}.cedar has a name")


def test_text_that_is_not_utf_8_is_refused(folder: Path) -> None:
    write(folder / "a.cedar", b"// \xff")
    assert refusal(folder) == f"{folder}/a.cedar is not UTF-8"


@pytest.mark.invariant("I13")
def test_too_many_files_are_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy_folder, "MOST_FILES", 3)
    for number in range(3):
        write(folder / f"{number}.cedar")
    assert len(read(folder).sources) == 3
    write(folder / "members.toml")
    assert refusal(folder) == f"{folder} holds more than 3 files"


@pytest.mark.invariant("I13")
def test_too_many_bytes_in_all_are_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy_folder, "LARGEST_PACK_BYTES", 10)
    write(folder / "a.cedar", b"12345")
    write(folder / "members.toml", b"12345")
    assert read(folder).members_toml == b"12345"
    write(folder / "members.toml", b"123456")
    expected = f"{folder}/members.toml is too much: all files may hold 10 bytes"
    assert refusal(folder) == expected


def test_a_file_in_place_of_the_folder_is_refused(folder: Path) -> None:
    write(folder / "file")
    assert refusal(folder / "file") == f"{folder}/file is not a folder"


def test_what_cannot_be_read_is_refused_and_not_empty() -> None:
    with as_ordinary_user() as home:
        folder = home / "policies"
        folder.mkdir(mode=0o755)
        write(folder / "a.cedar", b"// a", mode=0o000)
        assert refusal(folder) == f"{folder}/a.cedar cannot be read: Permission denied"
        folder.chmod(0o000)
        assert refusal(folder) == f"{folder} cannot be read"
        folder.chmod(0o755)


def test_where_a_workspace_cannot_be_looked_at_nothing_is_read() -> None:
    with as_ordinary_user() as home:
        folder, work = home / "policies", home / "closed" / "work"
        folder.mkdir(mode=0o755)
        work.mkdir(parents=True)
        workspace = workspace_at(work)
        work.parent.chmod(0o000)
        with pytest.raises(ConfigError, match="policies cannot be read: Permission denied"):
            read_folder(folder, state=None, workspaces=(workspace,))
        work.parent.chmod(0o755)


def test_a_path_that_is_none_is_refused(folder: Path) -> None:
    assert refusal(folder / "\0").endswith("cannot be read")


def test_a_file_that_is_gone_once_it_was_listed_is_a_refusal(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a folder would be other rules: perhaps without what forbids."""
    write(folder / "a.cedar")
    write(folder / "b.cedar")
    monkeypatch.setattr(policy_folder, "_text", lambda *_: "")
    listed = policy_folder._listed

    def list_and_remove(*arguments: object) -> object:
        names = listed(*arguments)  # type: ignore[arg-type]
        (folder / "b.cedar").unlink()
        return names

    monkeypatch.setattr(policy_folder, "_listed", list_and_remove)
    expected = f"{folder}/b.cedar cannot be read: No such file or directory"
    assert refusal(folder) == expected


def test_a_folder_below_what_cannot_be_listed_is_fine() -> None:
    with as_ordinary_user() as home:
        folder = home / "closed" / "policies"
        folder.mkdir(parents=True, mode=0o755)
        write(folder / "a.cedar", b"// a")
        folder.parent.chmod(0o711)
        work = home / "work"
        work.mkdir()
        content = read_folder(folder, state=home / "state", workspaces=(workspace_at(work),))
        assert content.sources == (Source("a.cedar", "// a"),)


def test_the_folder_may_lie_in_the_state_directory_and_beside_workspaces(tmp_path: Path) -> None:
    folder = tmp_path / "state" / "policies"
    folder.mkdir(parents=True, mode=0o755)
    write(folder / "a.cedar", b"// a")
    (tmp_path / "policies-and-more").mkdir()
    gone = workspace_at(tmp_path / "policies-and-more", name="gone")
    (tmp_path / "policies-and-more").rmdir()
    (tmp_path / "state" / "pol").mkdir()
    near = workspace_at(tmp_path / "state" / "pol")
    content = read_folder(folder, state=tmp_path / "state", workspaces=(gone, near))
    assert content.sources == (Source("a.cedar", "// a"),)


def test_descriptors_are_given_back(folder: Path) -> None:
    write(folder / "a.cedar", b"// \xff")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(20):
        refusal(folder)
        read_folder(folder / "none", state=folder, workspaces=())
    assert len(list(Path("/proc/self/fd").iterdir())) == before


@pytest.mark.invariant("I10")
def test_what_others_can_write_is_refused_with_the_command_that_mends_it(tmp_path: Path) -> None:
    folder = tmp_path / "my policies"
    folder.mkdir(mode=0o755)
    write(folder / "a.cedar", b"// a", mode=0o664)
    for path in (folder / "a.cedar", folder):
        path.chmod(path.stat().st_mode | 0o020)
        with pytest.raises(ConfigError, match="can be written by others") as caught:
            read(folder)
        assert caught.value.hint == f"chmod go-w '{path}'"
        subprocess.run(caught.value.hint, shell=True, check=True)  # noqa: S602 - as people do
    assert read(folder).sources == (Source("a.cedar", "// a"),)
