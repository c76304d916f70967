# SPDX-License-Identifier: Apache-2.0
import errno

import click
import pytest
from click.exceptions import NoArgsIsHelpError

from palyra.cli.faults import error_reply, fault_reply
from palyra.core.errors import MEANINGS, Code, NotFoundError
from palyra.surfaces.status import Exit

COMMAND = click.Command("some", help="Does something.")


def error(
    code: str, message: str, hint: str, details: dict[str, object] | None = None
) -> dict[str, object]:
    return {"error": {"code": code, "message": message, "hint": hint, "details": details or {}}}


@pytest.mark.parametrize(
    ("fault", "document", "status"),
    [
        pytest.param(
            NotFoundError(Code.CALL_UNKNOWN, "no call x", hint="look", details={"call_id": "x"}),
            error("call.unknown", "no call x", "look", {"call_id": "x"}),
            Exit.NOT_FOUND,
            id="one-of-ours",
        ),
        pytest.param(
            click.UsageError("Missing argument 'TOOL'.", click.Context(COMMAND, info_name="some")),
            error("usage.invalid", "missing argument 'TOOL'", "'some --help' shows what it takes"),
            Exit.WRONG,
            id="usage",
        ),
        pytest.param(
            click.NoSuchCommand("cal", possibilities=["call", "why"]),
            error("usage.invalid", "no such command 'cal'", "did you mean call?"),
            Exit.WRONG,
            id="a-misspelt-command",
        ),
        pytest.param(
            click.UsageError("README cannot be read"),
            error("usage.invalid", "README cannot be read", MEANINGS[Code.USAGE].hint),
            Exit.WRONG,
            id="a-name-keeps-its-spelling",
        ),
        pytest.param(
            click.ClickException("Missing this."),
            error("usage.invalid", "missing this", MEANINGS[Code.USAGE].hint),
            Exit.WRONG,
            id="anything-else-of-click",
        ),
        pytest.param(
            OSError(errno.ENOSPC, "No space left on device"),
            error(
                "internal.fault",
                "the operating system refused: No space left on device",
                MEANINGS[Code.INTERNAL].hint,
            ),
            Exit.INTERNAL,
            id="the-operating-system",
        ),
        pytest.param(
            KeyError("a secret"),
            error("internal.fault", "an internal fault: KeyError", MEANINGS[Code.INTERNAL].hint),
            Exit.INTERNAL,
            id="a-fault-of-ours-tells-no-values",
        ),
    ],
)
def test_documents(fault: Exception, document: object, status: Exit) -> None:
    reply = fault_reply(fault)
    assert (reply.document, reply.status, reply.is_error) == (document, status, True)


def test_people_read_what_failed_what_to_do_and_the_code() -> None:
    reply = error_reply(Code.CALL_UNKNOWN, "no call \x1b", hint="look")
    assert reply.text == ("palyra: no call \\u001b\n  hint: look\n  code: call.unknown",)


def test_a_code_speaks_for_itself() -> None:
    reply = error_reply(Code.CALL_UNKNOWN)
    meaning = MEANINGS[Code.CALL_UNKNOWN]
    assert reply.document == error("call.unknown", meaning.sentence, meaning.hint)


def test_undecodable_bytes_have_a_json_form() -> None:
    reply = error_reply(Code.USAGE, "\udcff", hint="\udcff", details={"path": "\udcff", "line": 3})
    shown = "\\udcff"
    assert reply.document == error("usage.invalid", shown, shown, {"path": shown, "line": 3})


def test_no_command_is_help_for_people_and_an_error_for_programs() -> None:
    reply = fault_reply(NoArgsIsHelpError(click.Context(COMMAND, info_name="some")))
    assert reply.document == error(
        "usage.invalid", "no command is named", "'some --help' shows what it takes"
    )
    assert "Does something." in str(reply.text[0])
    assert (reply.status, reply.is_error) == (Exit.WRONG, True)
