# SPDX-License-Identifier: Apache-2.0
"""The configuration: defaults, then ``palyra.toml``, then the environment in; frozen settings out.

Each field's meaning and range stand in its annotation, and every message, template and check is
made from there. Nothing runs on a configuration that cannot be read to the last key (I1).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any

import msgspec

from palyra.core.errors import Code, ConfigError
from palyra.core.manifest import LONGEST_TOOL_NAME, TOOL_NAME_PATTERN
from palyra.core.session import BudgetLimits
from palyra.core.snapshot import ToolCallPolicySnapshot
from palyra.daemon.settings_keys import integer, keys_of, switch, texts
from palyra.daemon.settings_sources import values_in_file, variables_in

CONFIG_NAME = "palyra.toml"
BUILT_IN_TOOLS = (
    "palyra.echo",
    "palyra.sleep",
    "palyra.fs.read",
    "palyra.fs.list",
    "palyra.fs.search",
    "palyra.fs.write",
    "palyra.fs.apply_patch",
)
_MOST_CALLS = 1_000_000
_ToolName = Annotated[
    str, msgspec.Meta(pattern=rf"\A(?:{TOOL_NAME_PATTERN})\Z", max_length=LONGEST_TOOL_NAME)
]

_PrincipalName = Annotated[
    str,
    msgspec.Meta(pattern=r"\A(agent|operator|service):[A-Za-z0-9][A-Za-z0-9._@-]{0,63}\Z"),
]
_ChannelName = Annotated[str, msgspec.Meta(pattern=r"\A[a-z][a-z0-9_.-]{0,63}\Z")]


class ToolCallConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What may be called, how often, how deep and for how long."""

    allowed_tools: Annotated[
        tuple[_ToolName, ...],
        texts("The tools that may be called at all; any other is refused.", of="dotted tool names"),
    ] = BUILT_IN_TOOLS
    allowed_principals: Annotated[
        tuple[_PrincipalName, ...],
        texts("Who may call tools; empty means everybody.", of="principals such as agent:ada"),
    ] = ()
    allowed_channels: Annotated[
        tuple[_ChannelName, ...],
        texts("By which surfaces tools may be called; empty means by all.", of="channel names"),
    ] = ()
    allow_sensitive_tools: Annotated[
        bool, switch("Whether sensitive tools run without a human's agreement.")
    ] = False
    max_calls_per_run: Annotated[
        int, integer("Calls that one run may make; refused ones count.", least=1, most=_MOST_CALLS)
    ] = 32
    max_calls_per_session: Annotated[
        int, integer("Calls that all runs of one session may make.", least=1, most=_MOST_CALLS)
    ] = 1024
    max_calls_per_agent_hour: Annotated[
        int, integer("Calls that one agent may make in one hour.", least=1, most=_MOST_CALLS)
    ] = 4096
    max_depth: Annotated[
        int, integer("How deep tools may call tools; 0 forbids it.", least=0, most=16)
    ] = 4
    execution_timeout_ms: Annotated[
        int, integer("Milliseconds after which a running tool is stopped.", least=1, most=600_000)
    ] = 30_000


class LimitsConfig(msgspec.Struct, frozen=True, kw_only=True):
    """How fast one caller may propose."""

    proposals_per_second: Annotated[
        int, integer("Proposals per second, over time, of one caller.", least=1, most=100_000)
    ] = 50
    proposal_burst: Annotated[
        int, integer("Proposals of one caller at once, after a pause.", least=1, most=1_000_000)
    ] = 200


class StoreConfig(msgspec.Struct, frozen=True, kw_only=True):
    """How the store is used."""

    busy_timeout_ms: Annotated[
        int,
        integer(
            "Milliseconds to wait for a store that another process holds.", least=0, most=60_000
        ),
    ] = 5000


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The whole configuration."""

    tool_call: ToolCallConfig = ToolCallConfig()
    limits: LimitsConfig = LimitsConfig()
    store: StoreConfig = StoreConfig()


KEYS = MappingProxyType({key.name: key for key in keys_of(Settings)})
"""Every key there is, by its dotted name."""


class Loaded(msgspec.Struct, frozen=True, kw_only=True):
    """Settings, and where each of them came from."""

    settings: Settings
    origins: Mapping[str, str]
    """Dotted key to ``default``, ``file PATH`` or ``environment NAME``."""


def load(home: Path, config_file: str | Path | None, environ: Mapping[str, str]) -> Loaded:
    """Return the configuration in force: defaults, overridden by the file, by the environment.

    The file is ``config_file``, else ``PALYRA_CONFIG``, and both must exist; else ``palyra.toml``
    in the home, if there is one.

    Raises:
        ConfigError: an unreadable or untrusted file, an unknown key, or a value that is wrong.
    """
    values = {name: key.default for name, key in KEYS.items()}
    origins = dict.fromkeys(KEYS, "default")
    path = _file(home, config_file, environ)
    if path is not None:
        for name, value in values_in_file(path, keys=KEYS).items():
            origins[name] = f"file {path}"
            values[name] = KEYS[name].read(value, origin=origins[name])
    for name, variable in variables_in(environ, keys=KEYS).items():
        origins[name] = f"environment {variable}"
        values[name] = KEYS[name].read(KEYS[name].parse(environ[variable]), origin=origins[name])
    return Loaded(settings=_nested(values), origins=MappingProxyType(origins))


def snapshot(settings: Settings) -> ToolCallPolicySnapshot:
    """Return what of ``settings`` can change a decision; spelling and order do not."""
    config = settings.tool_call
    return ToolCallPolicySnapshot(
        allowed_tools=tuple(sorted(set(config.allowed_tools))),
        allowed_principals=tuple(sorted(set(config.allowed_principals))),
        allowed_channels=tuple(sorted(set(config.allowed_channels))),
        allow_sensitive_tools=config.allow_sensitive_tools,
        max_calls_per_run=config.max_calls_per_run,
        max_calls_per_session=config.max_calls_per_session,
        max_calls_per_agent_hour=config.max_calls_per_agent_hour,
        max_depth=config.max_depth,
        execution_timeout_ms=config.execution_timeout_ms,
    )


def budget_limits(settings: Settings) -> BudgetLimits:
    """Return how many calls ``settings`` allow."""
    config = settings.tool_call
    return BudgetLimits(
        max_calls_per_run=config.max_calls_per_run,
        max_calls_per_session=config.max_calls_per_session,
        max_calls_per_agent_hour=config.max_calls_per_agent_hour,
    )


def render_default_toml() -> str:
    """Return a ``palyra.toml`` that sets nothing and explains every key."""
    lines = [
        "# The configuration of Palyra. Every key is optional and shown with its default.",
        "# An environment variable overrides a key: tool_call.max_depth is",
        f"# {KEYS['tool_call.max_depth'].variable}.",
    ]
    section = ""
    for key in KEYS.values():
        within, _, name = key.name.rpartition(".")
        if within != section:
            section = within
            lines += ["", f"[{section}]"]
        default = msgspec.json.encode(key.default).decode()
        lines += [f"# {key.meaning} Takes {key.expected}.", f"# {name} = {default}"]
    return "\n".join(lines) + "\n"


def _file(home: Path, config_file: str | Path | None, environ: Mapping[str, str]) -> Path | None:
    if named := config_file or environ.get("PALYRA_CONFIG"):
        return Path(named).absolute()
    usual = home / CONFIG_NAME
    try:
        usual.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ConfigError(
            Code.CONFIG_UNREADABLE,
            f"{usual} cannot be read: {error.strerror}",
            hint="use a state directory of your own: --home DIR, or PALYRA_HOME",
        ) from error
    return usual


def _nested(values: Mapping[str, Any]) -> Settings:
    tree: dict[str, Any] = {}
    for name, value in values.items():
        *sections, last = name.split(".")
        table = tree
        for section in sections:
            table = table.setdefault(section, {})
        table[last] = value
    return msgspec.convert(tree, Settings)
