# SPDX-License-Identifier: Apache-2.0
"""``palyra config``: the configuration in force, and where each value comes from."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from palyra.cli.frame import Frame, Group
from palyra.cli.neutralise import line, well_formed
from palyra.cli.opening import known_home, loaded_settings
from palyra.cli.output import Reply, Table

if TYPE_CHECKING:
    from palyra.daemon.settings import Loaded, Settings


@click.group("config", cls=Group)
def command() -> None:
    """Show, check or begin the configuration."""


@command.command("show")
@click.pass_obj
def show(frame: Frame) -> Reply:
    """Show every key with its value and where it comes from."""
    import msgspec

    home = known_home(frame)
    values = _values(loaded_settings(frame))
    return Reply(
        document={
            "home": well_formed(str(home)),
            "values": {name: {"value": value, "origin": origin} for name, value, origin in values},
        },
        text=(
            f"home: {line(str(home))}",
            Table(
                columns=("KEY", "VALUE", "ORIGIN"),
                rows=tuple(
                    (name, msgspec.json.encode(value).decode(), origin)
                    for name, value, origin in values
                ),
            ),
        ),
    )


@command.command("check")
@click.pass_obj
def check(frame: Frame) -> Reply:
    """Read the configuration to its last key, and say what is wrong with it."""
    loaded = loaded_settings(frame)
    values = _values(loaded)
    chosen = [name for name, _, origin in values if origin != "default"]
    unknown = _unknown_tools(loaded.settings)
    for name in unknown:
        frame.output.note(
            f"palyra: tool_call.allowed_tools names {name}, which is no built-in tool"
        )
    return Reply(
        document={"ok": True, "keys": len(values), "set": chosen, "unknown_tools": unknown},
        text=(f"ok, {len(values)} keys, {len(chosen)} of them set",),
        tone="good",
    )


@command.command("init")
@click.option("--force", is_flag=True, help="Replace a file that exists.")
@click.pass_obj
def init(frame: Frame, *, force: bool) -> Reply:
    """Write a palyra.toml that sets nothing and explains every key."""
    from palyra.daemon.home import prepare_home
    from palyra.daemon.settings import CONFIG_NAME, render_default_toml

    if frame.config_option is not None:
        path = Path(frame.config_option).absolute()
    else:
        home = known_home(frame)
        prepare_home(home)
        path = home / CONFIG_NAME
    _write(path, render_default_toml(), replace=force)
    return Reply(document={"file": well_formed(str(path))}, text=(f"wrote {line(str(path))}",))


def _values(loaded: Loaded) -> list[tuple[str, object, str]]:
    """Return key, value and origin, in the order of the documentation."""
    from palyra.daemon.settings import KEYS

    values: list[tuple[str, object, str]] = []
    for name in KEYS:
        value: object = loaded.settings
        for step in name.split("."):
            value = getattr(value, step)
        values.append((name, value, well_formed(loaded.origins[name])))
    return values


def _unknown_tools(settings: Settings) -> list[str]:
    from palyra.tools.built_in import built_in_catalogue

    catalogue = built_in_catalogue()
    return [name for name in settings.tool_call.allowed_tools if catalogue.find(name) is None]


def _write(path: Path, text: str, *, replace: bool) -> None:
    """Write a file of the owner's alone: as a new one, or in place of the old one at once."""
    from palyra.core.errors import Code, ConfigError

    target = path.with_name(f".{path.name}.new") if replace else path
    try:
        if replace:
            target.unlink(missing_ok=True)
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:  # noqa: PTH123 - takes a descriptor
            file.write(text)
        if replace:
            target.replace(path)
    except FileExistsError as error:
        raise ConfigError(Code.CONFIG_EXISTS, f"{path} exists already") from error
    except OSError as error:
        raise ConfigError(
            Code.CONFIG_UNREADABLE, f"{path} cannot be written: {error.strerror}"
        ) from error
