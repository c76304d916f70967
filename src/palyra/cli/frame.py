# SPDX-License-Identifier: Apache-2.0
"""What all commands have in common: the global options, before and after the command's name.

A command is a function that takes the :class:`Frame` and its own parameters and returns a reply.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from palyra.cli.output import Reply

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from palyra.cli.output import Output

_EPILOG = "The global options of 'palyra --help' are accepted here, too."


class Frame:
    """The global options of one invocation, and where its output goes."""

    def __init__(self, *, output: Output, environ: Mapping[str, str]) -> None:
        self.output = output
        self.environ = environ
        self.home_option: str | None = None
        self.config_option: str | None = None
        self.is_verbose = False

    @property
    def home(self) -> Path:
        """The state directory, existing or not."""
        from palyra.daemon.home import home_directory

        return home_directory(self.environ, self.home_option)


def claims_json(arguments: list[str]) -> bool:
    """Say whether ``--json`` was asked for, even where the rest cannot be understood."""
    ours = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return "--json" in ours


def global_options(*, hidden: bool) -> list[click.Parameter]:
    """Return the options that every command takes. Given twice, the later one counts."""
    return [
        click.Option(
            ["--json"],
            is_flag=True,
            hidden=hidden,
            expose_value=False,
            help="Print one JSON document on standard output.",
        ),
        click.Option(
            ["--home"],
            metavar="DIR",
            hidden=hidden,
            expose_value=False,
            callback=_keep("home_option"),
            help="The state directory, instead of $PALYRA_HOME.",
        ),
        click.Option(
            ["--config"],
            metavar="FILE",
            hidden=hidden,
            expose_value=False,
            callback=_keep("config_option"),
            help="The configuration, instead of palyra.toml in the state directory.",
        ),
        click.Option(
            ["--no-color"],
            is_flag=True,
            hidden=hidden,
            expose_value=False,
            callback=_keep("no_color"),
            help="Print without colours.",
        ),
        click.Option(
            ["-v", "--verbose"],
            is_flag=True,
            hidden=hidden,
            expose_value=False,
            callback=_keep("is_verbose"),
            help="Print the log, and where a fault came from, on standard error.",
        ),
    ]


class Command(click.Command):
    """A command that takes the global options."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - click's own signature
        kwargs.setdefault("epilog", _EPILOG)
        super().__init__(*args, **kwargs)
        self.params += global_options(hidden=True)

    def get_help_option(self, ctx: click.Context) -> click.Option | None:
        """Return ``--help``, which is a reply like any other."""
        return _with_reply(super().get_help_option(ctx))


class Group(click.Group):
    """A noun whose commands take the global options."""

    command_class = Command
    hides_options = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - click's own signature
        super().__init__(*args, **kwargs)
        if self.hides_options:
            self.epilog = _EPILOG
        self.params += global_options(hidden=self.hides_options)

    def get_help_option(self, ctx: click.Context) -> click.Option | None:
        """Return ``--help``, which is a reply like any other."""
        return _with_reply(super().get_help_option(ctx))


class Noun(NamedTuple):
    """Where a command is defined, and its line in the list of commands."""

    module: str
    summary: str


class LazyGroup(Group):
    """The root: imports the module of the invoked command, and of no other."""

    hides_options = False

    def __init__(self, *args: Any, nouns: Mapping[str, Noun], **kwargs: Any) -> None:  # noqa: ANN401
        super().__init__(*args, **kwargs)
        self._nouns = nouns

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return every name, imported or not."""
        return sorted(self._nouns)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import and return one command."""
        noun = self._nouns.get(cmd_name)
        if noun is None:
            return None
        command: click.Command = import_module(noun.module).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands from the table."""
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, self._nouns[name].summary) for name in self.list_commands(ctx)]
            )

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or suggest one of the names that are not imported."""
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchCommand as error:
            raise click.NoSuchCommand(
                error.command_name, possibilities=self.list_commands(ctx), ctx=ctx
            ) from None


def _keep(attribute: str) -> Any:  # noqa: ANN401 - a callback as click types it
    def keep(ctx: click.Context, _: click.Parameter, value: Any) -> None:  # noqa: ANN401
        frame = ctx.find_object(Frame)
        if frame is not None and value:
            setattr(frame.output if attribute == "no_color" else frame, attribute, value)

    return keep


def _with_reply(option: click.Option | None) -> click.Option | None:
    if option is not None:
        option.callback = _tell_help
    return option


def _tell_help(ctx: click.Context, _: click.Parameter, value: bool) -> None:  # noqa: FBT001 - click's signature
    if not value or ctx.resilient_parsing:
        return
    text = ctx.get_help()
    frame = ctx.find_object(Frame)
    if frame is not None:
        frame.output.tell(Reply(document={"help": text}, text=(text,)))
    ctx.exit()
