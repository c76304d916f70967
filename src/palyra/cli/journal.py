# SPDX-License-Identifier: Apache-2.0
"""``palyra journal``: read, verify or export the log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from palyra.cli.callers_file import read_file, write_private_file
from palyra.cli.clock_text import rfc3339
from palyra.cli.faults import error_reply
from palyra.cli.frame import Frame, Group
from palyra.cli.neutralise import line
from palyra.cli.opening import opened_archive
from palyra.cli.output import Reply, Stream, Table, pretty_json
from palyra.surfaces.status import Exit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from palyra.core.chain import Entry, SignedHead
    from palyra.flow.seal.signatures import PublicKey
    from palyra.flow.seal.verify import Report
    from palyra.store.sqlite.ledger import Archive

_MOST_SHOWN_PROBLEMS = 10
_LARGEST_INDEX = (1 << 53) - 1


@click.group("journal", cls=Group)
def command() -> None:
    """Read, verify or export the log of everything decisive."""


@command.command("tail")
@click.option(
    "-n", "count", type=click.IntRange(1, 10_000), default=20, help="How many entries; 20."
)
@click.pass_obj
def tail(frame: Frame, *, count: int) -> Reply:
    """Show the latest entries, the newest last."""
    with opened_archive(frame) as archive:
        last = archive.size()
        entries = list(archive.entries(first=max(1, last - count + 1), last=last))
    return Reply(
        document={"entries": [_document(entry) for entry in entries]},
        text=(
            Table(
                columns=("ENTRY", "TIME", "KIND", "ABOUT"),
                rows=tuple(
                    (str(entry.index), rfc3339(entry.recorded_at_ms), entry.kind, entry.subject)
                    for entry in entries
                ),
            ),
        ),
    )


@command.command("show")
@click.argument("index", type=click.IntRange(min=1, max=_LARGEST_INDEX))
@click.pass_obj
def show(frame: Frame, *, index: int) -> Reply:
    """Show the entry INDEX with its body."""
    from palyra.core.errors import Code, NotFoundError

    with opened_archive(frame) as archive:
        entry = next(archive.entries(first=index, last=index), None)
        last = archive.size()
    if entry is None:
        raise NotFoundError(
            Code.ENTRY_UNKNOWN, f"there is no entry {index}; the last one is {last}"
        )
    lines = [
        f"entry {entry.index}: {line(entry.kind)} about {line(entry.subject)}",
        f"  time: {rfc3339(entry.recorded_at_ms)}",
        f"  leaf: {entry.leaf.hex()}",
        f"  link: {entry.link.hex()}",
    ]
    body = pretty_json(entry.body) if _is_json(entry.body) else repr(entry.body)
    return Reply(document=_document(entry), text=("\n".join(lines), body))


@command.command("verify")
@click.option("--quick", is_flag=True, help="Check links and heads, not attestations and state.")
@click.option("--key", metavar="PUB", help="The public key it must be of; a PEM file.")
@click.option(
    "--holds",
    metavar="FILE",
    multiple=True,
    help="An attestation, or a copy of journal.head, that the journal must still reach.",
)
@click.pass_obj
def verify(frame: Frame, *, quick: bool, key: str | None, holds: tuple[str, ...]) -> Reply:
    """Check every entry, signature and link, up to the kept head.

    Without --key, the journal must be of the key beside it (keys/journal.pub), so name the key that
    you kept elsewhere if the whole state directory may have been replaced.
    """
    from palyra.core.errors import Code, StoreError
    from palyra.flow.seal.verify import verify_journal

    expected = _expected_key(frame, key)
    held = [_held_head(path) for path in holds]
    try:
        with opened_archive(frame) as archive:
            report = verify_journal(
                archive,
                expected_key=expected,
                held=held,
                quick=quick,
                progress=lambda done, total: frame.output.progress(f"{done} of {total} entries"),
            )
    except StoreError as error:
        is_gone = error.code is Code.STORE_UNREACHABLE and _has_key(frame)
        if error.code is not Code.STORE_CORRUPT and not is_gone:
            raise
        # To any other command the store is out of reach; to this one it is the finding.
        return error_reply(
            error.code,
            error.message,
            hint=error.hint,
            details=error.details,
            status=Exit.PROBLEM_FOUND,
        )
    finally:
        frame.output.progress("")
    return _report_reply(report)


@command.command("export")
@click.option(
    "--format",
    "form",
    type=click.Choice(["ndjson", "json"]),
    help="One entry per line (ndjson), or one array (json). ndjson, or json with --json.",
)
@click.option(
    "--from", "first", type=click.IntRange(1, _LARGEST_INDEX), default=1, help="The first entry."
)
@click.option("--to", "last", type=click.IntRange(1, _LARGEST_INDEX), help="The last entry.")
@click.option("-o", "--output", "path", metavar="FILE", help="Write to this file.")
@click.pass_obj
def export(
    frame: Frame, *, form: str | None, first: int, last: int | None, path: str | None
) -> Reply | Stream:
    """Print the journal as JSON, with the bodies and links as they were recorded."""
    form = form or ("json" if frame.output.as_json else "ndjson")
    if path is None and frame.output.as_json and form != "json":
        raise click.UsageError("--json prints one document: choose --format json, or -o FILE")
    if path is None:
        return Stream(chunks=_exported(frame, form=form, first=first, last=last))
    exported = _Count()
    write_private_file(path, exported.through(_exported(frame, form=form, first=first, last=last)))
    return Reply(
        document={"file": path, "format": form, "entries": exported.entries},
        text=(f"wrote {exported.entries} entries to {line(path)}",),
    )


class _Count:
    """Counts the entries that pass: every chunk but the brackets of an array is one."""

    def __init__(self) -> None:
        self.entries = 0

    def through(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        for chunk in chunks:
            self.entries += len(chunk) > len(b"\n]\n")
            yield chunk


def _exported(frame: Frame, *, form: str, first: int, last: int | None) -> Iterator[bytes]:
    import msgspec

    with opened_archive(frame) as archive:
        separator = b"[\n" if form == "json" else b""
        heads = archive.heads(first=first)
        signed_at, head = next(heads, (_LARGEST_INDEX, None))
        for entry in _snapshot(archive, first=first, last=last):
            document = _document(entry)
            if entry.index == signed_at:
                document["head"] = head
                signed_at, head = next(heads, (_LARGEST_INDEX, None))
            yield (separator + msgspec.json.encode(document) + (b"\n" if form == "ndjson" else b""))
            separator = b",\n" if form == "json" else b""
        if form == "json":
            yield b"[]\n" if separator == b"[\n" else b"\n]\n"


def _snapshot(archive: Archive, *, first: int, last: int | None) -> Iterator[Entry]:
    """Yield the entries that are there now, not those that come while they are printed."""
    size = archive.size()
    return archive.entries(first=first, last=size if last is None else min(last, size))


def _document(entry: Entry) -> dict[str, Any]:
    import msgspec

    readable = {"body": msgspec.Raw(entry.body)} if _is_json(entry.body) else {}
    return {
        "index": entry.index,
        "recorded_at_ms": entry.recorded_at_ms,
        "kind": entry.kind,
        "subject": entry.subject,
        **(readable or {"unreadable_body_hex": entry.body.hex()}),
        "leaf": entry.leaf.hex(),
        "link": entry.link.hex(),
    }


def _is_json(body: bytes) -> bool:
    """Say whether a body can be printed as what it is; a damaged one is printed as bytes."""
    import msgspec

    try:
        msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return True


def _expected_key(frame: Frame, path: str | None) -> PublicKey | None:
    from palyra.daemon.compose import KEYS_NAME
    from palyra.flow.seal.signatures import PublicKey
    from palyra.trust.signing_key import PUBLIC_KEY_NAME

    beside = frame.home / KEYS_NAME / PUBLIC_KEY_NAME
    if path is None and not beside.exists():
        return None
    return PublicKey.from_pem(read_file(path if path is not None else str(beside)))


def _has_key(frame: Frame) -> bool:
    """Say whether there was a journal here: its key is written before it and never removed."""
    from palyra.daemon.compose import KEYS_NAME
    from palyra.trust.signing_key import KEY_NAME

    return (frame.home / KEYS_NAME / KEY_NAME).exists()


def _held_head(path: str) -> SignedHead:
    """Return the head in an attestation or in a copy of the head file."""
    from palyra.core.errors import Code, InputError
    from palyra.flow.seal.envelope import head_in
    from palyra.store.head_file import newest_head_in

    content = read_file(path)
    head = newest_head_in(content)
    try:
        return head if head is not None else head_in(content)
    except InputError as error:
        raise InputError(
            Code.INPUT_INVALID,
            f"{line(path)} is neither an attestation nor a copy of journal.head",
            hint="'palyra attest show CALL_ID -o FILE' writes an attestation",
        ) from error


def _report_reply(report: Report) -> Reply:
    document = {
        "ok": report.ok,
        "entries": report.entries,
        "attestations": report.attestations,
        "heads": report.heads,
        "kept_index": report.kept_index,
        "first_bad_entry": report.problems[0].index if report.problems else None,
        "problems": report.problems,
    }
    if report.ok:
        head = "no head" if report.kept_index is None else f"head {report.kept_index}"
        attestations = (
            "1 attestation" if report.attestations == 1 else (f"{report.attestations} attestations")
        )
        told = f"ok, {report.entries} entries, {attestations}, {head} kept"
        return Reply(document=document, text=(told,), tone="good")
    shown = report.problems[:_MOST_SHOWN_PROBLEMS]
    lines = [f"broken at entry {shown[0].index}: {line(shown[0].sentence)}"]
    lines += [f"  entry {problem.index}: {line(problem.sentence)}" for problem in shown[1:]]
    further = len(report.problems) - len(shown)
    if further:
        lines.append(f"  and {further} more")
    lines.append("  hint: nothing from that entry on can be relied on; keep this state as evidence")
    return Reply(document=document, text=("\n".join(lines),), status=Exit.PROBLEM_FOUND, tone="bad")
