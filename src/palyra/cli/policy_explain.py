# SPDX-License-Identifier: Apache-2.0
"""``palyra policy explain``: why a call is decided as it is, and what would change the answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import click

from palyra.cli.clock_text import rfc3339
from palyra.cli.frame import Command, Frame
from palyra.cli.neutralise import line
from palyra.cli.opening import loaded_settings, opened_archive, opened_rules
from palyra.cli.output import Reply
from palyra.cli.policy_question import asked_case, circumstances
from palyra.cli.policy_reading import rules_in_force, rules_of, short
from palyra.cli.policy_text import VERDICTS
from palyra.cli.result_text import hint_about
from palyra.surfaces.status import Exit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from palyra.core.attestation import DecisionRecord
    from palyra.flow.policy.explain import Explanation, Told
    from palyra.flow.policy.inquiry import Inquiry
    from palyra.flow.policy.replay import PastDecision
    from palyra.flow.policy.rules import Rules
    from palyra.store.sqlite.ledger import Archive

_MOST_SHOWN = 10


@click.command("explain", cls=Command)
@click.argument("call_id", required=False)
@click.option(
    "--principal", metavar="P", help="Who would ask: user:ada, agent:x; you, if left out."
)
@click.option("--agent", metavar="NAME", help="Short for --principal agent:NAME.")
@click.option("--action", metavar="A", help="What they would do; tool.execute, if left out.")
@click.option("--resource", metavar="R", help="What they would do it to: tool:palyra.fs.write.")
@click.option("--context", metavar="JSON", help="What else is known of it, as a JSON object.")
@click.pass_obj
def command(
    frame: Frame,
    *,
    call_id: str | None,
    principal: str | None,
    agent: str | None,
    action: str | None,
    resource: str | None,
    context: str | None,
) -> Reply:
    """Tell why the call CALL_ID was decided as it was, or what would be said to another.

    A recorded call is put again to the policies it was decided by. With --resource, a call that
    nobody made is put to the policies in force, under the configuration of now.
    """
    options = (principal, agent, action, resource, context)
    if call_id is not None:
        if any(option is not None for option in options):
            raise click.UsageError("a recorded call has its own question: leave the options out")
        return _recorded(frame, call_id)
    if resource is None:
        raise click.UsageError("name a recorded call, or what would be acted on with --resource")
    if principal is not None and agent is not None:
        raise click.UsageError("--agent and --principal exclude each other")
    return _supposed(
        frame,
        principal=f"agent:{agent}" if agent is not None else principal,
        action=action or "tool.execute",
        resource=resource,
        context=context,
    )


def _supposed(
    frame: Frame, *, principal: str | None, action: str, resource: str, context: str | None
) -> Reply:
    from palyra.flow.policy.cases import inquiry_for
    from palyra.flow.policy.explain import explain

    settings = loaded_settings(frame).settings
    with opened_rules(frame) as store:
        rules = rules_in_force(store)
        here = circumstances(settings, store)
    case = asked_case(
        principal=principal, action=action, resource=resource, context=context, here=here
    )
    inquiry = inquiry_for(case, assumed=here.assumed)
    explanation = explain(rules, inquiry)
    who = principal or f"operator:{here.operator.id}"
    lines = [
        f"{action} on {line(resource)} by {line(who)}: {VERDICTS[explanation.verdict]}",
        *_answer(explanation),
        f"  by the policies in force, {short(rules.policy_digest)}",
    ]
    return Reply(
        document={
            "call": None,
            "request": inquiry.request,
            "policy_digest": rules.policy_digest,
            "recorded": None,
            "is_reproduced": None,
            "is_overtaken": False,
            "explanation": explanation,
            "in_force": None,
        },
        text=("\n".join(lines),),
        tone=_tone(explanation.verdict),
    )


class _Call(NamedTuple):
    """A recorded call: what was decided, and by what."""

    past: PastDecision
    decision: DecisionRecord

    @property
    def title(self) -> str:
        past = self.past
        return f"call {line(past.call_id)} of {line(past.tool)} by {line(past.principal)}"


def _recorded(frame: Frame, call_id: str) -> Reply:
    from palyra.flow.policy.replay import inquiry_about

    with opened_archive(frame) as archive:
        call = _call(archive, call_id)
        inquiry = inquiry_about(call.past)
        if inquiry is None:
            return _before_policy(call)
        rules = _rules_of(archive, call.past)
        in_force = rules_in_force(archive)
    return _reply(call, inquiry, rules=rules, in_force=in_force)


def _call(archive: Archive, call_id: str) -> _Call:
    from palyra.core.errors import Code, NotFoundError
    from palyra.flow.policy.replay import last_decision
    from palyra.flow.seal.story import tell

    story = tell(call_id, journal=archive)
    past = last_decision(archive.of_subject(call_id))
    if past is None:
        raise NotFoundError(Code.CALL_UNKNOWN)
    counted = story.redecided.decision if story.redecided is not None else story.decision
    return _Call(past=past, decision=counted)


def _rules_of(archive: Archive, past: PastDecision) -> Rules:
    from palyra.core.digest import PolicyDigest

    return rules_of(archive, PolicyDigest(past.policy_digest))


def _before_policy(call: _Call) -> Reply:
    from palyra.core.errors import MEANINGS, Code

    decision = call.decision
    hint = next((MEANINGS[code].hint for code in Code if code.value == decision.code), "")
    hint = hint_about(hint, call.past.call_id)
    lines = [
        f"{call.title}: refused before policy was asked",
        f"  {line(decision.reason)}",
        f"  code: {line(decision.code)}",
        *([f"  hint: {hint}"] if hint else []),
    ]
    document = _document(call, None)
    return Reply(document=document, text=("\n".join(lines),), tone="bad")


def _reply(call: _Call, inquiry: Inquiry, *, rules: Rules, in_force: Rules) -> Reply:
    from palyra.flow.policy.explain import explain
    from palyra.flow.policy.replay import replay

    explanation = explain(rules, inquiry)
    again = replay((call.past,), rules)
    is_reproduced = again.unchanged == 1
    is_overtaken = any(change.is_overtaken for change in again.changes)
    is_other = in_force.policy_digest != rules.policy_digest
    now = explain(in_force, inquiry) if is_other else None
    at = f"{rfc3339(call.past.at_ms)} [entry {call.past.entry}]"
    lines = [
        f"{call.title}: {VERDICTS[call.past.verdict.wire]}",
        f"  decided {at} by policies {short(rules.policy_digest)}",
        *_reproduced(call, explanation, is_reproduced=is_reproduced, is_overtaken=is_overtaken),
        *_answer(explanation),
        *_now(explanation, now, in_force),
        f"  'palyra why {line(call.past.call_id)}' tells what became of it",
    ]
    document = _document(call, explanation)
    document |= {
        "is_reproduced": is_reproduced,
        "is_overtaken": is_overtaken,
        "in_force": {"policy_digest": in_force.policy_digest, "explanation": now}
        if now is not None
        else None,
    }
    is_sound = is_reproduced or is_overtaken
    return Reply(
        document=document,
        text=("\n".join(lines),),
        status=Exit.DONE if is_sound else Exit.PROBLEM_FOUND,
        tone=_tone(call.past.verdict.wire) if is_sound else "bad",
    )


def _document(call: _Call, explanation: Explanation | None) -> dict[str, Any]:
    past = call.past
    return {
        "call": {
            "call_id": past.call_id,
            "tool": past.tool,
            "principal": past.principal,
            "at_ms": past.at_ms,
            "entry": past.entry,
        },
        "request": past.request,
        "policy_digest": past.policy_digest,
        "recorded": call.decision,
        "is_reproduced": None,
        "is_overtaken": False,
        "explanation": explanation,
        "in_force": None,
    }


def _reproduced(
    call: _Call, explanation: Explanation, *, is_reproduced: bool, is_overtaken: bool
) -> list[str]:
    if is_reproduced:
        return ["  the same policies give the same answer again"]
    recorded = f"{VERDICTS[call.past.verdict.wire]} ({line(call.past.code)})"
    again = f"{VERDICTS[explanation.verdict]} ({explanation.code.value})"
    if is_overtaken:
        return [f"  recorded: {recorded}, for what others did after policy had said: {again}"]
    return [
        f"  NOT REPRODUCED: recorded is {recorded}, the same policies now say {again}",
        "  the journal, the policies or the engine are not what they were",
        "  hint: run 'palyra journal verify'",
    ]


def _answer(explanation: Explanation) -> list[str]:
    decisive = [told for told in explanation.matched if told.is_decisive]
    others = [told for told in explanation.matched if not told.is_decisive]
    lines = [f"  {line(explanation.reason)}", f"  code: {explanation.code.value}"]
    lines += [f"  fault: {line(error)}" for error in explanation.errors[:_MOST_SHOWN]]
    lines += _listed("rests on:", decisive)
    lines += _listed("also applies:", others)
    lines += _listed("would permit it, but does not prevail:", explanation.overruled)
    if explanation.verdict != "allow":
        needed = [told for told in explanation.unmatched if told.effect == "permit"]
        lines += _listed("would permit such a call, but the conditions do not hold:", needed)
    if explanation.remedies:
        lines.append("  what would change the answer:")
        for remedy in explanation.remedies:
            such = ":" if remedy.policy else ""
            lines.append(f"    {VERDICTS[remedy.verdict]}, if {line(remedy.sentence)}{such}")
            lines += [f"      {line(each)}" for each in remedy.policy.splitlines()]
    return lines


def _listed(title: str, policies: Sequence[Told]) -> list[str]:
    if not policies:
        return []
    lines = [
        f"    {told.effect} {line(told.policy_id)} ({line(told.source)}:{told.line}): "
        f"{line(told.reason)}"
        for told in policies[:_MOST_SHOWN]
    ]
    further = len(policies) - len(lines)
    return [f"  {title}", *lines, *([f"    and {further} more"] if further else [])]


def _now(then: Explanation, now: Explanation | None, in_force: Rules) -> list[str]:
    if now is None:
        return []
    digest = short(in_force.policy_digest)
    if (now.verdict, now.code, now.policies) == (then.verdict, then.code, then.policies):
        return [f"  the policies in force now, {digest}, say the same"]
    rests = ", ".join(line(policy_id) for policy_id in now.policies) or "no policy"
    answer = f"{VERDICTS[now.verdict]}, {line(now.reason)}"
    return [
        f"  the policies in force now, {digest}, say otherwise: {answer}",
        f"    code: {now.code.value}; rests on {rests}",
    ]


def _tone(verdict: str) -> str:
    return {"allow": "good", "needs_approval": "held"}.get(verdict, "bad")
