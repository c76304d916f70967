# SPDX-License-Identifier: Apache-2.0
"""Where settings come from: a TOML file and the environment in, values by dotted key out.

A configuration decides what agents may do, so a file that others could have written is refused,
and so is every key that is not known: a misspelt limit must not be a missing one (I1).
"""

from __future__ import annotations

import os
import re
import stat
from typing import TYPE_CHECKING, Any

from palyra.core.errors import Code, ConfigError
from palyra.core.nearest import nearest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from palyra.daemon.settings_keys import Key

PREFIX = "PALYRA_"
_NESTING = "__"
_LARGEST_FILE_BYTES = 1 << 20
_OTHERS_MAY_WRITE = 0o022
_SHOWN_CHARACTERS = 64
_PLACE = re.compile(r"\(at line ([0-9]+), column ([0-9]+)\)$")


def values_in_file(path: Path, *, keys: Mapping[str, Key]) -> dict[str, Any]:
    """Return the raw value of every key that the TOML file at ``path`` sets.

    Raises:
        ConfigError: the file cannot be read or trusted, is not TOML, or names an unknown key.
    """
    document = _parse(_read_trusted(path), path)
    sections = {name.rpartition(".")[0] for name in keys}
    return dict(_flatten(document, "", keys=keys, sections=sections, origin=f"file {path}"))


def variables_in(environ: Mapping[str, str], *, keys: Mapping[str, Key]) -> dict[str, str]:
    """Return the name of every key that the environment sets, with its variable.

    A variable is ours if it begins with ``PALYRA_`` and contains ``__``.

    Raises:
        ConfigError: a variable of ours names no key.
    """
    by_variable = {key.variable: name for name, key in keys.items()}
    ours = sorted(name for name in environ if name.startswith(PREFIX) and _NESTING in name)
    for variable in ours:
        if variable not in by_variable:
            raise _unknown(variable, by_variable, origin="environment")
    return {by_variable[variable]: variable for variable in ours}


def _read_trusted(path: Path) -> bytes:
    """Read a small regular file that only this user or root can have written."""
    try:
        # Without blocking: a pipe must not hold up the start. Checked once open: what is read is
        # what was checked.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with open(descriptor, "rb") as file:  # noqa: PTH123 - a Path cannot take a descriptor
            _require_trusted(os.fstat(descriptor), path)
            content = file.read(_LARGEST_FILE_BYTES + 1)
    except OSError as error:
        raise ConfigError(
            Code.CONFIG_UNREADABLE, f"file {path} cannot be read: {error.strerror}"
        ) from error
    if len(content) > _LARGEST_FILE_BYTES:
        raise ConfigError(
            Code.CONFIG_UNREADABLE, f"file {path} has more than {_LARGEST_FILE_BYTES} bytes"
        )
    return content


def _require_trusted(found: os.stat_result, path: Path) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise ConfigError(Code.CONFIG_UNREADABLE, f"{path} is not a regular file")
    if found.st_uid not in {0, os.geteuid()}:
        raise ConfigError(
            Code.CONFIG_UNREADABLE,
            f"file {path} belongs to uid {found.st_uid}, who could change the configuration",
            hint=f"make the file yours: chown {os.geteuid()} {path}",
        )
    if found.st_mode & _OTHERS_MAY_WRITE:
        raise ConfigError(
            Code.CONFIG_UNREADABLE,
            f"file {path} can be written by others (mode {stat.S_IMODE(found.st_mode):04o})",
            hint=f"chmod go-w {path}",
        )


def _parse(content: bytes, path: Path) -> dict[str, Any]:
    import tomllib  # noqa: PLC0415 - only where there is a file, and start-up time is a promise

    try:
        return tomllib.loads(content.decode("utf-8"))
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(
            Code.CONFIG_UNREADABLE, f"file {path} is not UTF-8 in line {line}"
        ) from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(
            Code.CONFIG_UNREADABLE,
            f"file {path} is not TOML: {_place(error, content)}",
            hint="correct the file; 'palyra config check' reads it again",
        ) from error


def _place(error: Exception, content: bytes) -> str:
    if place := _PLACE.search(str(error)):
        return f"line {place[1]}, column {place[2]}"
    if str(error).endswith("(at end of document)"):
        return f"line {len(content.rstrip().splitlines())}, at its end"
    return "a value is too large or nests too deeply"


def _flatten(
    table: Mapping[str, Any],
    section: str,
    *,
    keys: Mapping[str, Key],
    sections: set[str],
    origin: str,
) -> Iterator[tuple[str, Any]]:
    for step, value in table.items():
        # A quoted step may contain dots, and would be a second spelling of another key.
        name = f'{section}"{step}"' if "." in step else f"{section}{step}"
        if name in keys:
            yield name, value
        elif name not in sections:
            raise _unknown(name, [*keys, *sections], origin=origin)
        elif isinstance(value, dict):
            yield from _flatten(value, f"{name}.", keys=keys, sections=sections, origin=origin)
        else:
            raise ConfigError(
                Code.CONFIG_INVALID,
                f"{origin}: {name} is not a table",
                hint=f"write [{name}], and its keys below",
                details={"key": name, "expected": "a table", "origin": origin},
            )


def _unknown(name: str, known: Iterable[str], *, origin: str) -> ConfigError:
    shown = ascii(name[:_SHOWN_CHARACTERS])[1:-1]
    meant = nearest(name, known)
    return ConfigError(
        Code.CONFIG_UNKNOWN_KEY,
        f"{origin}: unknown key {shown}" + (f"; the nearest known key is {meant}" if meant else ""),
        hint=f"did you mean {meant}?" if meant else "",
        details={"key": shown, "nearest": meant, "origin": origin},
    )
