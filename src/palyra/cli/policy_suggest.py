# SPDX-License-Identifier: Apache-2.0
"""``palyra policy suggest``: what humans agreed to in, policies to be read and used by hand out.

All of the text is Cedar, remarks included, so that it can go into a file as it stands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from palyra.cli.clock_text import rfc3339
from palyra.cli.duration import AGE
from palyra.cli.frame import Command, Frame
from palyra.cli.neutralise import line
from palyra.cli.opening import opened_rules
from palyra.cli.output import Reply
from palyra.cli.policy_reading import journal_of, rules_in_force, since_ms
from palyra.cli.policy_text import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from palyra.flow.policy.suggest import Suggestion, Suggestions

_MOST_SHOWN = 20


@click.command("suggest", cls=Command)
@click.option("--since", type=AGE, default="30d", help="How far back: 12h, 7d; 30d, if left out.")
@click.pass_obj
def command(frame: Frame, *, since: int) -> Reply:
    """Suggest policies that would have spared humans the questions they said yes to.

    Prints Cedar text and applies nothing. Read it, put what you want into a file in the folder
    'policies' of the state directory, then stage it.
    """
    from palyra.flow.policy.replay import past_decisions
    from palyra.flow.policy.suggest import Suggestions, approved_calls, suggest

    begin_ms = since_ms(since)
    with opened_rules(frame) as store:
        journal = journal_of(store)
        if journal is None:
            found = Suggestions(suggestions=(), uncovered=(), left_out=0)
        else:
            frame.output.progress("reading approved calls")
            try:
                found = suggest(
                    approved_calls(journal, since_ms=begin_ms),
                    rules_in_force(store),
                    past=past_decisions(journal, since_ms=begin_ms),
                )
            finally:
                frame.output.progress("")
    return Reply(
        document={"since_ms": begin_ms, **_document(found)},
        text=("\n".join(suggestion_lines(found, begin_ms=begin_ms)),),
    )


def suggestion_lines(found: Suggestions, *, begin_ms: int) -> Iterator[str]:
    """Yield Cedar text: each policy below remarks on the calls that it rests on."""
    since = rfc3339(begin_ms)
    if not found.suggestions and not found.uncovered:
        yield f"// No human has approved a call since {since}, so there is nothing to suggest."
        return
    yield f"// Suggested from calls that humans approved since {since}. Not in force."
    for suggestion in found.suggestions:
        yield ""
        yield from _remarks(suggestion)
        yield suggestion.text
    if not found.suggestions:
        yield "// There is nothing to suggest."
    if found.uncovered:
        yield ""
        yield "// Approved, but no policy is suggested:"
    for call in found.uncovered[:_MOST_SHOWN]:
        yield (
            f"//   {rfc3339(call.at_ms)} call {line(call.call_id)} of {line(call.tool)} "
            f"by {line(call.principal)}: {line(call.reason)}"
        )
    if len(found.uncovered) > _MOST_SHOWN:
        yield f"//   and {len(found.uncovered) - _MOST_SHOWN} more"
    if found.left_out:
        calls = counted(found.left_out, "more approved call was", "more approved calls were")
        yield f"// {calls} not looked at."


def _remarks(suggestion: Suggestion) -> Iterator[str]:
    count = len(suggestion.calls)
    yield f"// Rests on {counted(count, 'approved call', 'approved calls')}:"
    for call in suggestion.calls[:_MOST_SHOWN]:
        yield f"//   {rfc3339(call.at_ms)} {line(call.call_id)}"
    if count > _MOST_SHOWN:
        yield f"//   and {count - _MOST_SHOWN} more"
    if suggestion.would_change:
        ids = ", ".join(line(call_id) for call_id in suggestion.others)
        more = suggestion.would_change - len(suggestion.others)
        further = f" and {more} more" if more > 0 else ""
        yield f"// Would also have let run, without a question: {ids}{further}"


def _document(found: Suggestions) -> dict[str, object]:
    return {
        "suggestions": found.suggestions,
        "uncovered": found.uncovered,
        "left_out": found.left_out,
    }
