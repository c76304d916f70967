# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
from pathlib import Path

import pytest

from palyra.core.errors import Code, ConfigError
from palyra.daemon.home import POLICIES_NAME, home_directory, prepare_home


@pytest.mark.parametrize(
    ("environ", "override", "home"),
    [
        pytest.param(
            {"PALYRA_HOME": "/p", "XDG_STATE_HOME": "/x", "HOME": "/h"},
            "/o",
            "/o",
            id="the-command-line-first",
        ),
        pytest.param(
            {"PALYRA_HOME": "/p", "XDG_STATE_HOME": "/x", "HOME": "/h"},
            None,
            "/p",
            id="then-palyra-home",
        ),
        pytest.param(
            {"XDG_STATE_HOME": "/x", "HOME": "/h"}, None, "/x/palyra", id="then-xdg-state-home"
        ),
        pytest.param({"HOME": "/h"}, None, "/h/.local/state/palyra", id="then-home"),
        pytest.param(
            {"PALYRA_HOME": "", "XDG_STATE_HOME": "", "HOME": "/h"},
            None,
            "/h/.local/state/palyra",
            id="empty-is-unset",
        ),
        pytest.param(
            {"XDG_STATE_HOME": "relative", "HOME": "/h"},
            None,
            "/h/.local/state/palyra",
            id="a-relative-xdg-path-is-ignored",
        ),
    ],
)
def test_home_directory(environ: dict[str, str], override: str | None, home: str) -> None:
    assert home_directory(environ, override) == Path(home)


def test_relative_override_is_below_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert home_directory({}, "state") == tmp_path / "state"


def test_no_home_at_all_is_refused() -> None:
    with pytest.raises(ConfigError, match="none of PALYRA_HOME, XDG_STATE_HOME and HOME is set"):
        home_directory({})


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o277])
def test_home_is_created_for_the_owner_alone(tmp_path: Path, umask: int) -> None:
    home = tmp_path / "palyra"
    before = os.umask(umask)
    try:
        prepare_home(home)
    finally:
        os.umask(before)
    assert home.stat().st_mode & 0o7777 == 0o700
    assert (home / POLICIES_NAME).stat().st_mode & 0o7777 == 0o700


def test_an_empty_home_gets_a_folder_for_policies(tmp_path: Path) -> None:
    prepare_home(tmp_path)
    assert [each.name for each in tmp_path.iterdir()] == [POLICIES_NAME]
    prepare_home(tmp_path)


def test_missing_parents_are_created(tmp_path: Path) -> None:
    home = tmp_path / "one" / "two" / "palyra"
    prepare_home(home)
    assert home.is_dir()


def test_safe_home_is_left_as_it_is(tmp_path: Path) -> None:
    home = tmp_path / "palyra"
    home.mkdir(mode=0o700)
    (home / "kept").touch()
    prepare_home(home)
    assert [each.name for each in home.iterdir()] == ["kept"]


@pytest.mark.parametrize("mode", [0o701, 0o710, 0o704, 0o770, 0o777])
def test_home_that_is_open_to_others_is_refused_and_not_repaired(tmp_path: Path, mode: int) -> None:
    home = tmp_path / "palyra"
    home.mkdir()
    home.chmod(mode)
    with pytest.raises(ConfigError) as caught:
        prepare_home(home)
    assert caught.value.code is Code.HOME_UNSAFE
    assert caught.value.message == f"{home} is open to others (mode 0{mode:o})"
    assert caught.value.hint == f"chmod 700 {home}"
    assert home.stat().st_mode & 0o777 == mode


@pytest.mark.parametrize("target_exists", [True, False], ids=["to-a-folder", "dangling"])
def test_home_that_is_a_symbolic_link_is_refused(tmp_path: Path, *, target_exists: bool) -> None:
    target = tmp_path / "target"
    if target_exists:
        target.mkdir(mode=0o700)
    home = tmp_path / "palyra"
    home.symlink_to(target)
    with pytest.raises(ConfigError, match="is a symbolic link"):
        prepare_home(home)


def test_home_that_is_a_file_is_refused(tmp_path: Path) -> None:
    home = tmp_path / "palyra"
    home.touch(mode=0o600)
    with pytest.raises(ConfigError, match="is not a directory"):
        prepare_home(home)


def test_home_below_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError) as caught:
        prepare_home(tmp_path / "file" / "palyra")
    assert caught.value.code is Code.HOME_UNSAFE
    made = tmp_path / "file" / "palyra"
    assert caught.value.message == f"{made} cannot be made: {tmp_path / 'file'}: File exists"


def test_home_of_somebody_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "palyra"
    home.mkdir(mode=0o700)
    owner = home.stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    with pytest.raises(ConfigError, match=f"belongs to uid {owner}, not to uid {owner + 1}"):
        prepare_home(home)
