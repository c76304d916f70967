# SPDX-License-Identifier: Apache-2.0
"""``palyra policy activate``: a staged pack comes into force, all of it at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from palyra.cli.frame import Command, Frame
from palyra.cli.opening import through_gate
from palyra.cli.output import Reply
from palyra.cli.policy_reading import kept_digest, rules_of
from palyra.cli.reason import REASON

if TYPE_CHECKING:
    from palyra.core.digest import PolicyDigest
    from palyra.daemon.embedded import EmbeddedGate


@click.command("activate", cls=Command)
@click.argument("digest")
@click.option("--reason", type=REASON, default=None, help="Why, for the record.")
@click.pass_obj
def command(frame: Frame, *, digest: str, reason: str | None) -> Reply:
    """Put the staged policies DIGEST into force; its first digits suffice, at least 8.

    Policies that were in force before are kept, and can be activated again.
    """

    async def act(gate: EmbeddedGate) -> tuple[PolicyDigest, PolicyDigest]:
        ledger = gate.composition.ledger
        wanted = kept_digest(ledger, digest)
        rules_of(ledger, wanted)  # what cannot be loaded would forbid everything
        in_force = ledger.rules_in_force()
        before = in_force.policy_digest if in_force is not None else wanted
        if wanted != before:
            await gate.activate_policies(wanted, reason=reason or "")
        return wanted, before

    now, before = through_gate(frame, act)
    return Reply(
        document={"policy_digest": now, "before": before, "is_changed": now != before},
        text=(_words(now, before),),
    )


def _words(now: PolicyDigest, before: PolicyDigest) -> str:
    if now == before:
        return f"policies {now} are in force already"
    return (
        f"policies {now} are in force\n"
        f"  before: {before}\n"
        f"  'palyra policy activate {before[:12]}' goes back"
    )
