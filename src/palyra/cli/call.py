# SPDX-License-Identifier: Apache-2.0
"""``palyra call``: propose one tool call and tell its result."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from palyra.cli.duration import DURATION
from palyra.cli.faults import error_reply
from palyra.cli.frame import Command, Frame
from palyra.cli.opening import through_gate
from palyra.cli.output import Reply
from palyra.cli.result_text import hint_about, tone_of, words_of
from palyra.core.errors import Code
from palyra.surfaces.status import exit_of_result, is_callers_mistake

if TYPE_CHECKING:
    from palyra.core.result import CallResult
    from palyra.daemon.embedded import EmbeddedGate

_MOST_INPUT_BYTES = 16 * 1024 * 1024
"""Above the size cap of every tool, so that the gate refuses what is cut off here (I13)."""


@click.command("call", cls=Command)
@click.argument("tool")
@click.argument("arguments", metavar="[ARGS_JSON|-]", required=False)
@click.option("--agent", metavar="NAME", help="Act as this agent, not as the operator.")
@click.option("--session", metavar="ID", help="Open the run in this session.")
@click.option("--run", metavar="ID", help="Make the call in this run.")
@click.option("--workspace", metavar="NAME", help="Name the workspace in the arguments.")
@click.option("--dry-run", is_flag=True, help="Decide only: nothing runs.")
@click.option("--no-wait", is_flag=True, help="Do not wait for a human; tell what is pending.")
@click.option(
    "--request-id", metavar="TEXT", help="Make a retry safe: the same id never runs twice."
)
@click.option("--timeout", type=DURATION, help="Stop the tool sooner: 500ms, 10s, 2m.")
@click.pass_obj
def command(  # noqa: PLR0913 - the options of one command
    frame: Frame,
    *,
    tool: str,
    arguments: str | None,
    agent: str | None,
    session: str | None,
    run: str | None,
    workspace: str | None,
    dry_run: bool,
    no_wait: bool,
    request_id: str | None,
    timeout: int | None,
) -> Reply:
    """Propose one call of TOOL and tell its result.

    ARGS_JSON is one JSON object, '-' reads it from standard input, and without it the arguments are
    empty. The call is the operator's own, or with --agent that agent's.
    """
    if session is not None and run is not None:
        raise click.UsageError("--session and --run exclude each other: a run has its session")
    raw = _raw(arguments)
    if workspace is not None:
        raw = _within_workspace(raw, tool=tool, workspace=workspace)

    async def act(gate: EmbeddedGate) -> CallResult:
        return await gate.call(
            tool,
            raw,
            agent=agent,
            session_id=session,
            run_id=run,
            request_id=request_id,
            timeout_ms=timeout,
            wait=not no_wait,
            dry_run=dry_run,
        )

    return result_reply(through_gate(frame, act))


def result_reply(result: CallResult) -> Reply:
    """Return a call's result, or the error of a call that was no proper call."""
    status = exit_of_result(result)
    result = _with_its_id(result)
    decision = result.decision
    if is_callers_mistake(result):
        known = {"call_id": result.call_id or "", "path": decision.path}
        details = {name: value for name, value in known.items() if value}
        return error_reply(
            Code(decision.code),
            decision.reason,
            hint=decision.hint,
            details=details,
            status=status,
        )
    return Reply(document=result, text=words_of(result), status=status, tone=tone_of(result))


def _with_its_id(result: CallResult) -> CallResult:
    """Return the result with hints that can be typed as they are, where the call has an id."""
    from msgspec.structs import replace

    if result.call_id is None:
        return result
    decision, outcome = result.decision, result.outcome
    decision = replace(decision, hint=hint_about(decision.hint, result.call_id))
    if outcome is not None and outcome.error is not None:
        hint = hint_about(outcome.error.hint, result.call_id)
        outcome = replace(outcome, error=replace(outcome.error, hint=hint))
    return replace(result, decision=decision, outcome=outcome)


def _raw(arguments: str | None) -> bytes:
    """Return the arguments as they came: only the strict decoder may judge them."""
    if arguments is None:
        return b"{}"
    if arguments == "-":
        return sys.stdin.buffer.read(_MOST_INPUT_BYTES) if sys.stdin is not None else b""
    return os.fsencode(arguments)


def _within_workspace(raw: bytes, *, tool: str, workspace: str) -> bytes:
    """Add the workspace to arguments that do not name it.

    Arguments that no strict parser accepts stay as they are, for the gate to refuse and record.
    """
    import orjson

    from palyra.core.errors import InputError
    from palyra.core.strict_json import JsonLimits, decode
    from palyra.tools.built_in import built_in_catalogue

    manifest = built_in_catalogue().find(tool)
    if manifest is None:
        return raw
    if "workspace" not in manifest.input_schema.get("properties", {}):
        raise click.UsageError(f"tool {tool} takes no workspace")
    limits = JsonLimits(max_bytes=manifest.max_input_bytes, max_depth=manifest.max_depth)
    try:
        arguments = decode(raw, limits=limits)
    except InputError:
        return raw
    if not isinstance(arguments, dict):
        raise click.UsageError("--workspace needs arguments that are a JSON object")
    if arguments.setdefault("workspace", workspace) != workspace:
        raise click.UsageError("the arguments name another workspace than --workspace")
    return orjson.dumps(arguments)
