# SPDX-License-Identifier: Apache-2.0
"""``palyra attest``: one attestation as a document of its own, and its check without a store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from palyra.cli.callers_file import read_file, write_private_file
from palyra.cli.clock_text import rfc3339
from palyra.cli.frame import Frame, Group
from palyra.cli.neutralise import line
from palyra.cli.opening import opened_archive
from palyra.cli.output import Reply, Stream

if TYPE_CHECKING:
    from palyra.core.attestation import Statement


@click.group("attest", cls=Group)
def command() -> None:
    """Show or verify one attestation."""


@command.command("show")
@click.argument("identifier", metavar="CALL_ID|ATTESTATION_ID")
@click.option("-o", "--output", "path", metavar="FILE", help="Write to this file.")
@click.pass_obj
def show(frame: Frame, *, identifier: str, path: str | None) -> Reply | Stream:
    """Print the signed envelope of a call's attestation, with its place in the log."""
    from palyra.flow.seal.envelope import attestation_document

    with opened_archive(frame) as archive:
        document = attestation_document(archive, identifier)
    if path is None:
        return Stream(chunks=(document, b"\n"))
    write_private_file(path, (document, b"\n"))
    return Reply(
        document={"file": path, "bytes": len(document) + 1},
        text=(f"wrote the attestation to {line(path)}",),
    )


@command.command("verify")
@click.argument("file", metavar="FILE|-")
@click.option("--key", metavar="PUB", required=True, help="The signer's public key; a PEM file.")
def verify(*, file: str, key: str) -> Reply:
    """Check an attestation's signatures, digest and place in the log. Needs no store."""
    from palyra.flow.seal.envelope import verify_document

    statement = verify_document(read_file(file), public_key_pem=read_file(key))
    return Reply(
        document={"valid": True, "statement": statement},
        text=(_words(statement),),
        tone="good",
    )


def _words(statement: Statement) -> str:
    decision, outcome = statement.decision, statement.outcome
    lines = [
        f"valid: call {line(statement.call_id)} of {line(statement.tool)}",
        f"  by: {line(statement.principal)}",
        f"  decision: {line(decision.verdict)}, {line(decision.reason)} ({line(decision.code)})",
        f"  outcome: {line(outcome.state)} {line(outcome.error_code)}".rstrip(),
        f"  executor: {line(statement.executor)}",
        f"  confinement: {_confinement(statement)}",
        f"  ended: {rfc3339(statement.ended_at_ms)}",
        f"  assurance: {line(statement.assurance)}",
        f"  execution: {line(statement.execution_sha256)}",
    ]
    return "\n".join(lines)


def _confinement(statement: Statement) -> str:
    """Say what held the tool, in words that promise nothing: what was not seen was not there."""
    if statement.permit is None:
        return "none needed, nothing ran"
    observed = line(bytes(statement.observed).decode("utf-8", "replace"))
    network = {"none": "not restricted", "preflight": "checked beforehand, not enforced"}.get(
        statement.sandbox_enforcement, line(statement.sandbox_enforcement)
    )
    return f"network {network}; observed {observed}"
