# SPDX-License-Identifier: Apache-2.0
"""``palyra policy preset``: the presets there are, or another one beneath the same policies."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from palyra.cli.frame import Command, Frame
from palyra.cli.opening import opened_rules, through_gate
from palyra.cli.output import Reply, Table
from palyra.cli.policy_reading import rules_in_force, short
from palyra.cli.policy_stage import require_preset
from palyra.cli.policy_text import difference_document, difference_lines

if TYPE_CHECKING:
    from palyra.core.pack import Pack
    from palyra.daemon.embedded import EmbeddedGate


@click.command("preset", cls=Command)
@click.argument("name", required=False)
@click.pass_obj
def command(frame: Frame, *, name: str | None) -> Reply:
    """List the presets, or put NAME beneath the policies in force, at once.

    The folder of policies is not read: what operators wrote and is in force stays in force. With
    the preset in force, the packaged policies become those of this version of Palyra.
    """
    if name is None:
        return _list(frame)
    require_preset(name)

    async def act(gate: EmbeddedGate) -> tuple[Pack, Pack]:
        from palyra.daemon.preset_change import with_preset

        before = rules_in_force(gate.composition.ledger).pack
        after = with_preset(before, name)
        if after.digest != before.digest:
            await gate.stage_policies(after)
            await gate.activate_policies(after.digest, reason=f"preset {name}")
        return before, after

    before, after = through_gate(frame, act)
    return _changed(before, after)


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


def _changed(before: Pack, after: Pack) -> Reply:
    from palyra.flow.policy.compare import compare

    differences = compare(before, after)
    is_changed = before.digest != after.digest
    lines = [f"preset {after.preset} is in force already"]
    if is_changed:
        lines = [
            f"preset {after.preset} is in force: policies {after.digest}",
            f"against {short(before.digest)}, which was in force:",
            *difference_lines(differences),
            f"  'palyra policy activate {short(before.digest)}' goes back",
        ]
    return Reply(
        document={
            "preset": after.preset,
            "policy_digest": after.digest,
            "before": before.digest,
            "is_changed": is_changed,
            "differences": difference_document(differences),
        },
        text=("\n".join(lines),),
    )
