# SPDX-License-Identifier: Apache-2.0
"""The program ``palyra``: arguments in, one reply and an exit code out.

Every way to end passes through :func:`main`, so that ``--json`` always prints one document and no
trace reaches a person who did not ask for it.
"""

from __future__ import annotations

import os
import sys

import click

from palyra.cli.frame import Frame, LazyGroup, Noun, claims_json
from palyra.cli.output import Output, Reply, Stream

_INTERRUPTED = 130

NOUNS = {
    "attest": Noun(module="palyra.cli.attest", summary="Show or verify one attestation."),
    "call": Noun(module="palyra.cli.call", summary="Propose one tool call and tell its result."),
    "completion": Noun(
        module="palyra.cli.completion", summary="Print the completion script of a shell."
    ),
    "config": Noun(module="palyra.cli.config", summary="Show, check or begin the configuration."),
    "journal": Noun(
        module="palyra.cli.journal",
        summary="Read, verify or export the log of everything decisive.",
    ),
    "policy": Noun(
        module="palyra.cli.policy",
        summary="Show, check, change or explain the policies in force.",
    ),
    "posture": Noun(
        module="palyra.cli.posture",
        summary="Disable single tools, or be asked about them each time.",
    ),
    "tools": Noun(
        module="palyra.cli.tools", summary="Show which tools there are and who may call."
    ),
    "why": Noun(module="palyra.cli.why", summary="Tell what happened to one call, and why."),
    "workspaces": Noun(
        module="palyra.cli.workspaces", summary="Manage the folders that file tools may act in."
    ),
}

ROOT = LazyGroup(
    name="palyra",
    nouns=NOUNS,
    help=(
        "A security boundary for the tool calls of AI agents.\n\n"
        "Nothing an agent asks for runs until policy allows it and a human has agreed to what "
        "policy says needs one; what was decided and what ran is signed and can be verified "
        "offline."
    ),
    epilog="'palyra COMMAND --help' tells more about a command.",
)


def _tell_version(ctx: click.Context, _: click.Parameter, value: bool) -> None:  # noqa: FBT001 - click's signature
    if not value or ctx.resilient_parsing:
        return
    from palyra import __version__

    frame = ctx.find_object(Frame)
    if frame is not None:
        document = {"version": __version__}
        frame.output.tell(Reply(document=document, text=(f"palyra {__version__}",)))
    ctx.exit()


ROOT.params.append(
    click.Option(
        ["--version"],
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_tell_version,
        help="Show the version and exit.",
    )
)


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    output = Output(as_json=claims_json(arguments))
    frame = Frame(output=output, environ=os.environ)
    try:
        _require_unicode(arguments)
        answer = ROOT.main(arguments, prog_name="palyra", standalone_mode=False, obj=frame)
    except (click.Abort, KeyboardInterrupt):
        output.note("palyra: interrupted")
        return _INTERRUPTED
    except Exception as error:  # noqa: BLE001 - nothing else may reach a person
        return output.tell(_fault(error, frame))
    if not isinstance(answer, Reply | Stream):
        return int(answer or 0)
    try:
        return output.tell(answer)
    except KeyboardInterrupt:
        return _INTERRUPTED
    except Exception as error:  # noqa: BLE001 - nothing else may reach a person
        if isinstance(answer, Stream) or isinstance(error, OSError):
            output.as_json = False  # a document may have begun; a second one would spoil it
        return output.tell(_fault(error, frame))


def _fault(error: Exception, frame: Frame) -> Reply:
    from palyra.cli.faults import fault_reply

    if frame.is_verbose and not isinstance(error, click.ClickException):
        import traceback

        frame.output.note("".join(traceback.format_exception(error)).rstrip())
    return fault_reply(error)


def _require_unicode(arguments: list[str]) -> None:
    for place, argument in enumerate(arguments, start=1):
        try:
            argument.encode()
        except UnicodeEncodeError:
            raise click.UsageError(f"argument {place} is not UTF-8 text") from None
