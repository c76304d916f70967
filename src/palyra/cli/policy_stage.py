# SPDX-License-Identifier: Apache-2.0
"""``palyra policy stage``: the operator's files in, a checked pack and what it would change out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from palyra.cli.duration import AGE
from palyra.cli.frame import Command, Frame
from palyra.cli.neutralise import line
from palyra.cli.opening import opened_rules, through_gate
from palyra.cli.output import Reply
from palyra.cli.policy_reading import journal_of, own_content, rules_in_force, short, since_ms
from palyra.cli.policy_text import (
    counted,
    difference_document,
    difference_lines,
    replay_document,
    replay_lines,
)
from palyra.cli.policy_validate import checked_content, faults_reply, warn
from palyra.core.errors import InputError

if TYPE_CHECKING:
    from palyra.core.pack import Pack
    from palyra.core.ports import JournalReader, RulesStore
    from palyra.daemon.embedded import EmbeddedGate
    from palyra.daemon.staging import CheckedPack, StageReport

_MOST_SHOWN = 20


@click.command("stage", cls=Command)
@click.option("--preset", metavar="NAME", help="Build on this preset, not on the one in force.")
@click.option(
    "--since",
    type=AGE,
    default="7d",
    help="How far back to decide calls again: 12h, 30d; 7d, if left out.",
)
@click.pass_obj
def command(frame: Frame, *, preset: str | None, since: int) -> Reply:
    """Check the folder 'policies' of the state directory, and keep it ready to be activated.

    Tells what differs from the policies in force, and how calls of the past would have come out.
    Nothing is in force yet.
    """
    require_preset(preset)
    begin_ms = since_ms(since)
    with opened_rules(frame) as store:
        in_force = _pack_in_force(frame, store)
        content = own_content(frame, store)
        try:
            checked = checked_content(frame, content, preset=preset or in_force.preset)
        except InputError as error:
            return faults_reply(error)
        report = reported(
            frame, checked, in_force=in_force, journal=journal_of(store), begin_ms=begin_ms
        )

    async def act(gate: EmbeddedGate) -> None:
        await gate.stage_policies(checked.pack)

    through_gate(frame, act)
    warn(frame, checked)
    return _reply(report, in_force=in_force, begin_ms=begin_ms)


def _pack_in_force(frame: Frame, store: RulesStore) -> Pack:
    """Return the pack in force, or the packaged one: a way out must not need what is broken."""
    from palyra.core.errors import IntegrityError
    from palyra.flow.policy.presets import packaged_pack

    try:
        return rules_in_force(store).pack
    except IntegrityError as error:
        frame.output.note(f"palyra: {line(error.message)}; compared with the packaged policies")
        return packaged_pack()


def require_preset(name: str | None) -> None:
    """Refuse a preset that does not exist.

    Raises:
        click.UsageError: it does not.
    """
    from palyra.core.nearest import nearest
    from palyra.flow.policy.presets import PRESETS

    if name is None or name in PRESETS:
        return
    close = nearest(name, PRESETS)
    hint = f"did you mean {close}?" if close else f"there are {', '.join(PRESETS)}"
    raise click.UsageError(f"there is no such preset; {hint}")


def reported(
    frame: Frame,
    checked: CheckedPack,
    *,
    in_force: Pack,
    journal: JournalReader | None,
    begin_ms: int,
) -> StageReport:
    """Return what a pack would change, for past calls too if there were any."""
    from palyra.daemon.staging import StageReport, report
    from palyra.flow.policy.compare import compare
    from palyra.flow.policy.replay import replay
    from palyra.flow.policy.rules import Rules

    if journal is None:
        return StageReport(
            checked=checked,
            differences=compare(in_force, checked.pack),
            replayed=replay((), Rules(checked.pack)),
        )
    try:
        return report(
            checked,
            in_force=in_force,
            reader=journal,
            since_ms=begin_ms,
            progress=frame.output.progress,
        )
    finally:
        frame.output.progress("")


def _reply(report: StageReport, *, in_force: Pack, begin_ms: int) -> Reply:
    pack = report.checked.pack
    digest, before = pack.digest, in_force.digest
    is_in_force = digest == before
    policies = counted(len(pack.policies), "policy", "policies")
    held = f"{counted(len(report.checked.outcomes), 'example', 'examples')} held"
    lines = [
        f"staged {digest}",
        f"  preset {line(pack.preset)}, {policies}, {held}",
        f"against {short(before)}, which is in force:",
        *difference_lines(report.differences),
        *replay_lines(report.replayed, since_ms=begin_ms, most=_MOST_SHOWN),
        "It is in force already."
        if is_in_force
        else f"Not in force yet. To put it into force: palyra policy activate {short(digest)}",
    ]
    return Reply(
        document={
            "policy_digest": digest,
            "is_in_force": is_in_force,
            "preset": pack.preset,
            "policies": len(pack.policies),
            "examples": len(report.checked.outcomes),
            "unexampled": report.checked.unexampled,
            "notes": report.checked.notes,
            "in_force": before,
            "differences": difference_document(report.differences),
            "replay": replay_document(report.replayed, since_ms=begin_ms),
        },
        text=("\n".join(lines),),
    )
