# SPDX-License-Identifier: Apache-2.0
"""Any exception in, the error reply of the contract out.

With ``--json`` it is ``{"error": {"code", "message", "hint", "details"}}``; for people, what
failed, what to do, and the stable code. Traces are for ``-v`` only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from click.exceptions import NoArgsIsHelpError

from palyra.cli.neutralise import line, well_formed
from palyra.cli.output import Reply
from palyra.core.errors import MEANINGS, Code, PalyraError
from palyra.surfaces.status import EXITS

if TYPE_CHECKING:
    from collections.abc import Mapping

_CLICKS_FIRST_WORDS = frozenset({"Got", "Invalid", "Missing", "No", "Option"})


def fault_reply(error: Exception) -> Reply:
    """Return what to say about ``error``."""
    match error:
        case PalyraError():
            return error_reply(error.code, error.message, hint=error.hint, details=error.details)
        case NoArgsIsHelpError():
            return _help_instead(error)
        case click.UsageError():
            return error_reply(Code.USAGE, _sentence(error), hint=_usage_hint(error))
        case click.ClickException():
            return error_reply(Code.USAGE, _sentence(error))
        case OSError(strerror=str(why)):
            return error_reply(Code.INTERNAL, f"the operating system refused: {why}")
        case _:
            return error_reply(Code.INTERNAL, f"an internal fault: {type(error).__name__}")


def error_reply(
    code: Code,
    message: str = "",
    *,
    hint: str = "",
    details: Mapping[str, object] | None = None,
    status: int | None = None,
) -> Reply:
    """Return the reply of one error."""
    message = message or MEANINGS[code].sentence
    hint = hint or MEANINGS[code].hint
    return Reply(
        document={
            "error": {
                "code": code.value,
                "message": well_formed(message),
                "hint": well_formed(hint),
                "details": {name: _plain(value) for name, value in (details or {}).items()},
            }
        },
        text=(f"palyra: {line(message)}\n  hint: {line(hint)}\n  code: {code.value}",),
        status=EXITS[code] if status is None else status,
        is_error=True,
    )


def _help_instead(error: NoArgsIsHelpError) -> Reply:
    """Tell a person who named no command which ones there are; tell a program that it did not."""
    missing = error_reply(Code.USAGE, "no command is named", hint=_usage_hint(error))
    return Reply(
        document=missing.document,
        text=(error.format_message(),),
        status=missing.status,
        is_error=True,
    )


def _sentence(error: click.ClickException) -> str:
    """Return click's message as ours are written: lower case, no full stop."""
    is_suggesting = isinstance(error, click.NoSuchCommand | click.NoSuchOption)
    text = (error.message if is_suggesting else error.format_message()).strip()
    is_clicks_own = text.partition(" ")[0] in _CLICKS_FIRST_WORDS
    return (text[:1].lower() + text[1:] if is_clicks_own else text).rstrip(".")


def _usage_hint(error: click.UsageError) -> str:
    if isinstance(error, click.NoSuchCommand | click.NoSuchOption) and error.possibilities:
        return f"did you mean {error.possibilities[0]}?"
    return f"'{error.ctx.command_path} --help' shows what it takes" if error.ctx else ""


def _plain(value: object) -> object:
    return well_formed(value) if isinstance(value, str) else value
