# SPDX-License-Identifier: Apache-2.0
"""The state directory: where it is, and the proof that it is this user's alone (I10)."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Final

from palyra.core.errors import Code, ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

POLICIES_NAME: Final = "policies"
"""The folder in it for the operator's own policies."""
_OWNER_ONLY = 0o700
_OTHERS = 0o077


def home_directory(environ: Mapping[str, str], override: str | Path | None = None) -> Path:
    """Return where the state directory is, existing or not.

    In order: ``override`` (``--home``), ``PALYRA_HOME``, ``XDG_STATE_HOME/palyra``,
    ``~/.local/state/palyra``. An empty variable counts as unset, and so does a relative
    ``XDG_STATE_HOME``, as its specification demands.
    """
    if chosen := override or environ.get("PALYRA_HOME"):
        return Path(chosen).absolute()
    state = environ.get("XDG_STATE_HOME", "")
    if os.path.isabs(state):  # noqa: PTH117 - a Path of "" is ".", not nothing
        return Path(state, "palyra")
    if user := environ.get("HOME"):
        return Path(user, ".local", "state", "palyra").absolute()
    raise ConfigError(
        Code.HOME_UNSAFE,
        "none of PALYRA_HOME, XDG_STATE_HOME and HOME is set",
        hint="set PALYRA_HOME, or pass --home DIR",
    )


def prepare_home(path: Path) -> None:
    """Create the state directory with mode 0700, or check that it is safe as it is.

    A directory that exists keeps its mode: whoever could read it may have done so already. One
    that is empty, so new, gets a folder for policies that nobody else can write to.

    Raises:
        ConfigError: not a directory, a symbolic link, somebody else's, or open to others.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _make(path)
        found = path.lstat()
    except OSError as error:
        raise _not_made(path, error) from error
    if stat.S_ISLNK(found.st_mode):
        raise ConfigError(Code.HOME_UNSAFE, f"{path} is a symbolic link", hint="name its target")
    if not stat.S_ISDIR(found.st_mode):
        raise ConfigError(Code.HOME_UNSAFE, f"{path} is not a directory")
    if found.st_uid != os.geteuid():
        raise ConfigError(
            Code.HOME_UNSAFE,
            f"{path} belongs to uid {found.st_uid}, not to uid {os.geteuid()}",
            hint="choose a directory of your own",
        )
    if found.st_mode & _OTHERS:
        mode = stat.S_IMODE(found.st_mode)
        raise ConfigError(
            Code.HOME_UNSAFE,
            f"{path} is open to others (mode {mode:04o})",
            hint=f"chmod 700 {path}",
        )
    try:
        if not any(path.iterdir()):
            _make(path / POLICIES_NAME)
    except OSError as error:
        raise _not_made(path, error) from error


def _make(folder: Path) -> None:
    """Create a folder for this user alone; one that exists is left as it is."""
    try:
        folder.mkdir(mode=_OWNER_ONLY)
    except FileExistsError:
        return
    folder.chmod(_OWNER_ONLY)  # a strange umask may have taken the owner's own rights


def _not_made(path: Path, error: OSError) -> ConfigError:
    return ConfigError(
        Code.HOME_UNSAFE,
        f"{path} cannot be made: {error.filename or path}: {error.strerror}",
        hint="choose a place of your own: --home DIR, or PALYRA_HOME",
    )
