# SPDX-License-Identifier: Apache-2.0
import io
import os
import stat
import sys
from pathlib import Path

import click
import pytest

from palyra.cli.callers_file import read_file, write_private_file


def test_a_file_is_read_whole(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"\x00content")
    assert read_file(str(tmp_path / "file")) == b"\x00content"


def test_a_dash_is_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"piped")))
    assert read_file("-") == b"piped"


def test_a_missing_file_is_the_callers_mistake(tmp_path: Path) -> None:
    with pytest.raises(click.UsageError, match="cannot be read: No such file"):
        read_file(str(tmp_path / "none"))


@pytest.mark.invariant("I13")
def test_an_endless_file_is_refused(tmp_path: Path) -> None:
    with (tmp_path / "file").open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(click.UsageError, match="has more than 16777216 bytes"):
        read_file(str(tmp_path / "file"))


@pytest.mark.invariant("I13")
@pytest.mark.parametrize("name", ["pipe", "folder", "/dev/zero"])
def test_only_a_regular_file_is_read_and_nothing_else_hangs(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    with pytest.raises(click.UsageError) as caught:
        read_file(str(tmp_path / name))
    assert caught.value.message == f"file {tmp_path / name} is not a regular file"


def test_a_name_that_is_no_path_is_the_callers_mistake() -> None:
    with pytest.raises(click.UsageError, match="cannot be read"):
        read_file("a\0b")


def test_closed_standard_input_is_the_callers_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = io.TextIOWrapper(io.BytesIO())
    closed.close()
    for stream in (None, closed):
        monkeypatch.setattr(sys, "stdin", stream)
        with pytest.raises(click.UsageError, match="file - cannot be read"):
            read_file("-")


def test_a_new_file_is_its_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_private_file(str(path), (b"one", b"two"))
    assert path.read_bytes() == b"onetwo"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_an_old_file_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"a longer text than the new one")
    write_private_file(str(path), (b"new",))
    assert path.read_bytes() == b"new"


def test_a_file_that_cannot_be_written_is_the_callers_mistake(tmp_path: Path) -> None:
    with pytest.raises(click.UsageError, match="cannot be written: Is a directory"):
        write_private_file(str(tmp_path), (b"",))
