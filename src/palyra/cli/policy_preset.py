# SPDX-License-Identifier: Apache-2.0
"""``palyra policy preset``: the presets there are, or another one beneath the same policies."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from palyra.cli.frame import Command, Frame
from palyra.cli.opening import opened_archive, opened_rules, through_gate
from palyra.cli.output import Reply, Table
from palyra.cli.policy_reading import rules_in_force, short, since_ms
from palyra.cli.policy_stage import reported, require_preset
from palyra.cli.policy_text import (
    difference_document,
    difference_lines,
    replay_document,
    replay_lines,
)
from palyra.cli.reason import REASON

if TYPE_CHECKING:
    from palyra.core.pack import Pack
    from palyra.daemon.embedded import EmbeddedGate
    from palyra.daemon.staging import StageReport

_WEEK_MS = 7 * 86_400_000
_MOST_SHOWN = 20


@click.command("preset", cls=Command)
@click.argument("name", required=False)
@click.option("--reason", type=REASON, help="Why, for the record; the preset, if left out.")
@click.pass_obj
def command(frame: Frame, *, name: str | None, reason: str | None) -> Reply:
    """List the presets, or put NAME beneath the policies in force, at once.

    The folder of policies is not read: what operators wrote and is in force stays in force. With
    the preset in force, the packaged policies become those of this version of Palyra. How calls of
    the last seven days would have come out is told before.
    """
    if name is None:
        if reason is not None:
            raise click.UsageError("--reason needs a preset to change to")
        return _list(frame)
    require_preset(name)
    begin_ms = since_ms(_WEEK_MS)

    async def act(gate: EmbeddedGate) -> tuple[Pack, StageReport]:
        from palyra.daemon.preset_change import with_preset
        from palyra.daemon.staging import CheckedPack

        before = rules_in_force(gate.composition.ledger).pack
        after = CheckedPack(pack=with_preset(before, name), outcomes=(), unexampled=(), notes=())
        is_changed = after.pack.digest != before.digest
        with opened_archive(frame) as archive:
            journal = archive if is_changed else None
            report = reported(frame, after, in_force=before, journal=journal, begin_ms=begin_ms)
        if is_changed:
            told = replay_lines(report.replayed, since_ms=begin_ms, most=_MOST_SHOWN)
            frame.output.note("\n".join(told))
            await gate.stage_policies(after.pack)
            await gate.activate_policies(after.pack.digest, reason=reason or f"preset {name}")
        return before, report

    before, report = through_gate(frame, act)
    return _changed(before, report, begin_ms=begin_ms)


def _list(frame: Frame) -> Reply:
    from palyra.flow.policy.presets import PRESETS

    with opened_rules(frame) as store:
        in_force = rules_in_force(store).pack.preset
    return Reply(
        document={
            "in_force": in_force,
            "presets": [
                {"preset": name, "description": description}
                for name, description in PRESETS.items()
            ],
        },
        text=(
            Table(
                columns=("PRESET", "IN FORCE", "DESCRIPTION"),
                rows=tuple(
                    (name, "yes" if name == in_force else "-", description)
                    for name, description in PRESETS.items()
                ),
            ),
        ),
    )


def _changed(before: Pack, report: StageReport, *, begin_ms: int) -> Reply:
    after = report.checked.pack
    is_changed = before.digest != after.digest
    lines = [f"preset {after.preset} is in force already"]
    if is_changed:
        lines = [
            f"preset {after.preset} is in force: policies {after.digest}",
            f"against {short(before.digest)}, which was in force:",
            *difference_lines(report.differences),
            f"  'palyra policy activate {short(before.digest)}' goes back",
        ]
    return Reply(
        document={
            "preset": after.preset,
            "policy_digest": after.digest,
            "before": before.digest,
            "is_changed": is_changed,
            "differences": difference_document(report.differences),
            "replay": replay_document(report.replayed, since_ms=begin_ms),
        },
        text=("\n".join(lines),),
    )
