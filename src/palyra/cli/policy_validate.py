# SPDX-License-Identifier: Apache-2.0
"""``palyra policy validate``: every fault of some policies, each with its place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from palyra.cli.faults import error_reply
from palyra.cli.frame import Command, Frame
from palyra.cli.neutralise import line
from palyra.cli.opening import opened_rules
from palyra.cli.output import Reply
from palyra.cli.policy_reading import content_at, own_content, rules_in_force
from palyra.core.errors import Code, InputError

if TYPE_CHECKING:
    from palyra.daemon.policy_folder import FolderContent
    from palyra.daemon.staging import CheckedPack

_MOST_SHOWN = 20


@click.command("validate", cls=Command)
@click.argument("paths", metavar="[PATH]...", nargs=-1)
@click.pass_obj
def command(frame: Frame, *, paths: tuple[str, ...]) -> Reply:
    """Check policies on top of the preset in force, and list every fault with its place.

    PATH is a folder, or a file: policies (*.cedar), their examples (*.toml) or members.toml.
    Without any, the folder 'policies' of the state directory is checked.
    """
    with opened_rules(frame) as store:
        content = content_at(paths) if paths else own_content(frame, store)
        preset = rules_in_force(store).pack.preset
    try:
        checked = checked_content(frame, content, preset=preset)
    except InputError as error:
        return faults_reply(error)
    own = sum(policy.source in _names(content) for policy in checked.pack.policies)
    warn(frame, checked)
    return Reply(
        document={
            "ok": True,
            "preset": preset,
            "policies": own,
            "examples": len(checked.outcomes),
            "unexampled": checked.unexampled,
            "notes": checked.notes,
        },
        text=(f"ok, {_count(own, 'policy', 'policies')}, {_count(len(checked.outcomes))} held",),
        tone="good",
    )


def checked_content(frame: Frame, content: FolderContent, *, preset: str) -> CheckedPack:
    """Return the pack that some policies make on top of a preset.

    Raises:
        InputError: something is wrong with them, or an example came out otherwise.
    """
    from palyra.daemon.staging import check

    try:
        return check(content, preset=preset, progress=frame.output.progress)
    finally:
        frame.output.progress("")


def faults_reply(error: InputError) -> Reply:
    """Return an error that tells every fault to people too, one on each line."""
    reply = error_reply(error.code, error.message, hint=error.hint, details=error.details)
    failed = "failed" if error.code is Code.POLICY_EXAMPLE else "faults"
    faults = error.details.get(failed)
    if not isinstance(faults, list):
        return reply
    found = f"{len(faults)} fault{'' if len(faults) == 1 else 's'}"
    lines = [line(fault) for fault in faults]
    lines += [f"palyra: {found}", f"  hint: {line(error.hint)}", f"  code: {error.code.value}"]
    return reply._replace(text=("\n".join(lines),))


def warn(frame: Frame, checked: CheckedPack) -> None:
    """Say what is in order, but could be better."""
    for note in checked.notes:
        frame.output.note(f"palyra: {note}")
    if checked.unexampled:
        ids = ", ".join(line(policy_id) for policy_id in checked.unexampled[:_MOST_SHOWN])
        further = len(checked.unexampled) - _MOST_SHOWN
        more = f" and {further} more" if further > 0 else ""
        frame.output.note(f"palyra: without an example and a counter-example: {ids}{more}")


def _names(content: FolderContent) -> frozenset[str]:
    return frozenset(source.name for source in content.sources)


def _count(number: int, one: str = "example", many: str = "examples") -> str:
    return f"{number} {one if number == 1 else many}"
