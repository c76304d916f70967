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
from palyra.cli.policy_text import counted
from palyra.core.errors import Code, InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from palyra.daemon.policy_folder import FolderContent
    from palyra.daemon.staging import CheckedPack, InvalidPoliciesError

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
    policies = counted(own, "policy", "policies")
    examples = counted(len(checked.outcomes), "example", "examples")
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
        text=(f"ok, {policies}, {examples} held",),
        tone="good",
    )


def checked_content(frame: Frame, content: FolderContent, *, preset: str) -> CheckedPack:
    """Return the pack that some policies make on top of a preset.

    Raises:
        InputError: something is wrong with them, or an example came out otherwise.
    """
    from palyra.daemon.staging import InvalidPoliciesError, check

    try:
        return check(content, preset=preset, progress=frame.output.progress)
    except InvalidPoliciesError as error:
        raise _as_typed(error, content.typed) from error
    finally:
        frame.output.progress("")


def faults_reply(error: InputError) -> Reply:
    """Return an error that tells every fault to people too, one on each line."""
    reply = error_reply(error.code, error.message, hint=error.hint, details=error.details)
    failed = "failed" if error.code is Code.POLICY_EXAMPLE else "faults"
    faults = error.details.get(failed)
    if not isinstance(faults, list):
        return reply
    found = counted(len(faults), "fault", "faults")
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


def _as_typed(error: InvalidPoliciesError, typed: Mapping[str, str]) -> InvalidPoliciesError:
    """Return the faults with the paths that somebody typed, for them to find the files."""
    import msgspec

    from palyra.daemon.staging import InvalidPoliciesError

    return InvalidPoliciesError(
        tuple(
            msgspec.structs.replace(fault, source=typed.get(fault.source, fault.source))
            for fault in error.faults
        )
    )


def _names(content: FolderContent) -> frozenset[str]:
    return frozenset(source.name for source in content.sources)
