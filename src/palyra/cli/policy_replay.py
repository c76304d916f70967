# SPDX-License-Identifier: Apache-2.0
"""``palyra policy replay``: past calls, decided again by policies that are not in force."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from palyra.cli.duration import AGE
from palyra.cli.frame import Command, Frame
from palyra.cli.opening import opened_rules
from palyra.cli.output import Reply
from palyra.cli.policy_reading import (
    content_in,
    journal_of,
    own_content,
    rules_in_force,
    short,
    since_ms,
)
from palyra.cli.policy_stage import reported
from palyra.cli.policy_text import difference_document, replay_document, replay_lines
from palyra.cli.policy_validate import checked_content, faults_reply
from palyra.core.errors import InputError
from palyra.surfaces.status import Exit

if TYPE_CHECKING:
    from palyra.core.pack import Pack


@click.command("replay", cls=Command)
@click.option("--policies", metavar="DIR", help="The policies, instead of the operator's own.")
@click.option("--since", type=AGE, default="7d", help="How far back: 12h, 30d; 7d, if left out.")
@click.option(
    "--fail-on-widening",
    is_flag=True,
    help="End with code 10 if any call would have been decided less strictly.",
)
@click.pass_obj
def command(frame: Frame, *, policies: str | None, since: int, fail_on_widening: bool) -> Reply:
    """Decide past calls again by policies that are not in force, and list what changes.

    The policies are taken on top of the preset in force. Nothing is staged or changed.
    """
    begin_ms = since_ms(since)
    with opened_rules(frame) as store:
        content = own_content(frame, store) if policies is None else content_in(policies)
        in_force = rules_in_force(store).pack
        try:
            checked = checked_content(frame, content, preset=in_force.preset)
        except InputError as error:
            return faults_reply(error)
        report = reported(
            frame, checked, in_force=in_force, journal=journal_of(store), begin_ms=begin_ms
        )
    is_refused = fail_on_widening and report.replayed.widening > 0
    lines = [
        f"policies {short(checked.pack.digest)}, which {_are(checked.pack, in_force)} in force",
        *replay_lines(report.replayed, since_ms=begin_ms),
    ]
    return Reply(
        document={
            "policy_digest": checked.pack.digest,
            "in_force": in_force.digest,
            "differences": difference_document(report.differences),
            **replay_document(report.replayed, since_ms=begin_ms),
        },
        text=("\n".join(lines),),
        status=Exit.PROBLEM_FOUND if is_refused else Exit.DONE,
    )


def _are(pack: Pack, in_force: Pack) -> str:
    return "are" if pack.digest == in_force.digest else "are not"
