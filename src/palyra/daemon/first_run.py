# SPDX-License-Identifier: Apache-2.0
"""``python -m palyra.daemon.first_run``: one allowed and one denied call, and how to go on.

Uses the real state directory and leaves only its journal behind: the folder that the denied call
asks to write in is registered for that call, then removed. Running it again does the same again.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from palyra.core.errors import PalyraError
from palyra.daemon.embedded import EmbeddedGate
from palyra.daemon.home import home_directory
from palyra.daemon.settings import load
from palyra.flow.seal.verify import verify_journal
from palyra.store.sqlite.ledger import Archive
from palyra.surfaces.status import EXITS, Exit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from palyra.core.result import CallResult
    from palyra.flow.seal.verify import Report

AGENT = "demo"
WORKSPACE = "palyra-first-run"
_ECHO = '{"text": "hello"}'
_WRITE = f'{{"workspace": "{WORKSPACE}", "path": "notes.txt", "content": "hello"}}'


async def demonstrate(environ: Mapping[str, str]) -> tuple[CallResult, CallResult]:
    """Make one call that policy allows an agent, and one that it does not."""
    async with EmbeddedGate.open(environ=environ) as gate:
        allowed = await gate.call("palyra.echo", _ECHO.encode(), agent=AGENT)
        if any(workspace.name == WORKSPACE for workspace in gate.workspaces()):
            await gate.remove_workspace(WORKSPACE)  # an earlier run was cut off
        with tempfile.TemporaryDirectory(prefix="palyra-first-run-") as folder:
            await gate.add_workspace(folder, name=WORKSPACE)
            try:
                denied = await gate.call("palyra.fs.write", _WRITE.encode(), agent=AGENT)
            finally:
                await gate.remove_workspace(WORKSPACE)
    return allowed, denied


def verify(environ: Mapping[str, str]) -> Report:
    """Check the journal that the calls were recorded in."""
    home = home_directory(environ)
    settings = load(home, None, environ).settings
    archive = Archive(home, busy_timeout_ms=settings.store.busy_timeout_ms)
    try:
        return verify_journal(archive)
    finally:
        archive.close()


def main(environ: Mapping[str, str] | None = None) -> int:
    """Demonstrate, verify, and print how to go on."""
    environ = os.environ if environ is None else environ
    try:
        allowed, denied = asyncio.run(demonstrate(environ))
        report = verify(environ)
    except PalyraError as error:
        sys.stderr.write(f"palyra: {error.message}\n  hint: {error.hint}\n  code: {error.code}\n")
        return EXITS[error.code]
    sys.stdout.write(
        f"Agent '{AGENT}' asked for palyra.echo {_ECHO}:\n{_told(allowed)}\n"
        f"Agent '{AGENT}' asked for palyra.fs.write {_WRITE}:\n{_told(denied)}\n"
    )
    if not report.ok:
        problem = report.problems[0]
        sys.stderr.write(f"The journal is broken at entry {problem.index}: {problem.sentence}\n")
        return Exit.PROBLEM_FOUND
    sys.stdout.write(
        f"Both are in the journal in {home_directory(environ)}, signed:"
        f" {report.entries} entries verified.\n\n"
        f"Go on with:\n{_examples(denied)}"
    )
    return Exit.DONE


def _told(result: CallResult) -> str:
    decision = result.decision
    word = "allowed" if result.state == "succeeded" else result.state
    lines = [f"  {word}: {decision.reason} ({decision.code})"]
    if result.outcome is not None and result.outcome.ok:
        lines.append(f"  output: {bytes(result.outcome.output).decode()}")
    if decision.hint:
        lines.append(f"  hint: {decision.hint}")
    lines.append(f"  call: {result.call_id}")
    if result.attestation is not None:
        lines.append(f"  attestation: {result.attestation.attestation_id}")
    return "\n".join((*lines, ""))


def _examples(denied: CallResult) -> str:
    program = _program()
    commands = (
        f"{program} call palyra.echo '{_ECHO}' --agent {AGENT}",
        f"{program} tools list --agent {AGENT}",
        f"{program} why {denied.call_id}",
        f"{program} attest show {denied.call_id}",
        f"{program} journal verify",
    )
    return "".join(f"  {command}\n" for command in commands)


def _program() -> str:
    """Return the command beside this interpreter, as it is typed from here."""
    beside = Path(sys.executable).with_name("palyra")
    here = Path.cwd()
    return str(beside.relative_to(here)) if beside.is_relative_to(here) else str(beside)


if __name__ == "__main__":
    sys.exit(main())
