# SPDX-License-Identifier: Apache-2.0
"""``palyra why``: the story of one call, and what would change the answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from palyra.cli.clock_text import rfc3339
from palyra.cli.frame import Command, Frame
from palyra.cli.neutralise import line
from palyra.cli.opening import opened_archive
from palyra.cli.output import Reply
from palyra.cli.result_text import hint_about

if TYPE_CHECKING:
    from palyra.flow.seal.story import Changed, Effect, Story

_VERDICTS = {"allow": "allowed", "needs_approval": "a human must agree", "deny": "denied"}
_MOST_SHOWN_CHANGES = 20


@click.command("why", cls=Command)
@click.argument("call_id")
@click.pass_obj
def command(frame: Frame, *, call_id: str) -> Reply:
    """Tell what happened to the call CALL_ID, why, and what would change the answer."""
    import msgspec

    from palyra.flow.seal.story import tell

    with opened_archive(frame) as archive:
        story = tell(call_id, journal=archive)
    document = {
        **{name: getattr(story, name) for name in msgspec.structs.asdict(story)},
        "code": story.code,
        "hint": hint_about(story.hint, story.call_id),
    }
    return Reply(document=document, text=("\n".join(_words(story)),))


def _words(story: Story) -> list[str]:
    lines = [f"call {story.call_id} of {line(story.tool)} {line(story.tool_version)}".rstrip()]
    lines.append(_step(story.at_ms, story.entry, f"proposed by {line(story.principal)}"))
    if story.request_id is not None:
        lines.append(f"    request id {line(story.request_id)}")
    if story.parent_call_id is not None:
        lines.append(f"    within call {story.parent_call_id}, {story.depth} deep")
    lines.append(f"    in run {story.run_id} of session {story.session_id}")
    lines.append(f"    arguments {line(bytes(story.arguments).decode())}")
    decision = story.decision
    verdict = _VERDICTS.get(decision.verdict, line(decision.verdict))
    lines.append(_step(story.at_ms, story.entry, f"decided: {verdict}, {line(decision.reason)}"))
    lines.append(f"    by policy {', '.join(map(line, decision.policies)) or 'none'}")
    lines.append(f"    code {line(decision.code)}")
    if decision.verdict != "allow":
        lines.append(f"    more: palyra policy explain {story.call_id}")
    lines += _approved(story)
    if story.redecided is not None:
        again = story.redecided.decision
        verdict = _VERDICTS.get(again.verdict, line(again.verdict))
        what = f"decided again: {verdict}, {line(again.reason)}"
        lines.append(_step(story.redecided.at_ms, story.redecided.entry, what))
        lines.append(f"    by policy {', '.join(map(line, again.policies)) or 'none'}")
    if story.launched is not None:
        launched = story.launched
        what = f"launched by {line(launched.executor)}, permitted by {line(launched.permit.basis)}"
        lines.append(_step(launched.at_ms, launched.entry, what))
    for effect in story.effects:
        lines += _changes(effect)
    lines += _ending(story)
    for recovery in story.recoveries:
        lines.append(
            _step(recovery.at_ms, recovery.entry, f"after a crash: {line(recovery.result)}")
        )
        lines += [f"    {line(path)}" for path in recovery.paths[:_MOST_SHOWN_CHANGES]]
    if story.is_refused_or_failed:
        lines.append(f"what would change the answer: {hint_about(story.hint, story.call_id)}")
    return lines


def _approved(story: Story) -> list[str]:
    if story.decision.verdict != "needs_approval":
        return []
    if story.approval_id is not None:
        asked = f"  asked: question {line(story.approval_id)}"
    else:
        asked = "  asked: nobody"
    if story.launched is not None:
        return [f"{asked}; the answer was yes"]
    if story.ended is None:
        return [f"{asked}; not answered yet"]
    return [f"{asked}; the answer was no ({line(story.code)})"]


def _changes(effect: Effect) -> list[str]:
    count = len(effect.changes)
    what = (
        f"planned {count} change{'' if count == 1 else 's'} in workspace {line(effect.workspace)}"
    )
    lines = [_step(effect.at_ms, effect.entry, what)]
    lines += [f"    {_change(change)}" for change in effect.changes[:_MOST_SHOWN_CHANGES]]
    if count > _MOST_SHOWN_CHANGES:
        lines.append(f"    and {count - _MOST_SHOWN_CHANGES} more")
    return lines


def _change(change: Changed) -> str:
    if not change.before_sha256:
        return f"add {line(change.path)}"
    return f"{'change' if change.after_sha256 else 'delete'} {line(change.path)}"


def _ending(story: Story) -> list[str]:
    if story.ended is None:
        return ["  not ended"]
    ended, statement = story.ended, story.ended.statement
    outcome = statement.outcome
    what = f"ended: {line(outcome.state)} after {outcome.duration_ms} ms"
    if outcome.error_code:
        what = f"ended: {line(outcome.state)}, {line(outcome.error_code)}"
    return [
        _step(ended.at_ms, ended.entry, what),
        f"    attested by {line(statement.attestation_id)}, assurance {line(statement.assurance)}",
    ]


def _step(at_ms: int, entry: int, what: str) -> str:
    return f"  {rfc3339(at_ms)} [entry {entry}] {what}"
