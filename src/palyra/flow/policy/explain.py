# SPDX-License-Identifier: Apache-2.0
"""Rules and a question in; out come the answer, what it rests on, and what would change it.

Nothing here is inferred from the texts of policies. Which policies apply is asked of each alone,
and a remedy is told only after the question, so changed, was judged again by the same rules.
"""

from __future__ import annotations

import re
from dataclasses import replace
from enum import StrEnum
from functools import cache
from itertools import combinations
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from palyra.core.decision import Verdict
from palyra.core.errors import Code, PalyraError
from palyra.core.obligations import NO_OBLIGATIONS, Obligations
from palyra.core.pack import Effect, Policy
from palyra.core.plan import SandboxPlan, Tier
from palyra.core.policy_request import EntityUid
from palyra.core.posture import Posture
from palyra.core.session import BudgetLeft, BudgetLimits
from palyra.flow.policy.examples import Alone, Application, concerns
from palyra.flow.policy.inquiry import WAIVE, Inquiry
from palyra.flow.policy.rules import Rules
from palyra.flow.policy.sources import printable
from palyra.flow.policy.waiver_text import cedar_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from palyra.flow.policy.rules import Judgement

MOST_REMEDIES: Final = 12
MOST_LOOKED_AT: Final = 200
"""Policies that are asked alone; of the others only the number is told (I13)."""
_MOST_CHANGES: Final = 32
"""Of which every pair may be tried: some 500 judgements (I13)."""

_BEFORE_POLICY: Final = frozenset(
    {Code.POLICY_FAULT, Code.POLICY_REQUEST_INVALID, Code.POLICY_ACTION_UNKNOWN}
)
"""Refusals that no change of the call's circumstances mends."""
_ROLE: Final = re.compile(r'\bRole::"([^"\\]+)"')
_SOMEBODY: Final = "an operator"
"""Stands for any operator without a role: with the space it is nobody's name."""
_WAIVER_ID: Final = "palyra.explain.supposed-waiver"
_UNUSUAL: Final = re.compile(r"[^A-Za-z0-9._-]+", re.ASCII)
_LONGEST_NAME: Final = 80
_BOXED: Final = SandboxPlan(tier=Tier.C)


class Asked(StrEnum):
    """Which variant of the question a policy determined."""

    AS_IT_STANDS = "as_it_stands"
    AS_IF_APPROVED = "as_if_approved"
    WAIVER = "waiver"


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """A policy, and where to find it."""

    policy_id: str
    effect: Effect
    reason: str
    source: str
    line: int


class Matched(Told, frozen=True, kw_only=True):
    """A policy that applied and determined the answer to a variant of the question."""

    asked: tuple[Asked, ...]
    is_decisive: bool
    """Whether the verdict itself rests on it."""


class Remedy(msgspec.Struct, frozen=True, kw_only=True):
    """What would lead to a less strict verdict, and to which."""

    changes: tuple[str, ...]
    """Stable names, such as ``approve`` or ``role:approver``."""
    sentence: str
    verdict: str
    code: Code
    policy: str = ""
    """Cedar text to be put into a file as it stands, where a policy is what is needed."""


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a question, and why it is not another."""

    verdict: str
    code: Code
    reason: str
    policies: tuple[str, ...]
    """The ids of the policies that the verdict rests on."""
    obligations: Obligations = NO_OBLIGATIONS
    errors: tuple[str, ...] = ()
    matched: tuple[Matched, ...] = ()
    overruled: tuple[Told, ...] = ()
    """Permits whose conditions hold, though something else forbids or asks."""
    unmatched: tuple[Told, ...] = ()
    """Policies about such calls whose conditions do not hold; those that would permit first."""
    not_looked_at: int = 0
    """How many more policies are about such calls."""
    remedies: tuple[Remedy, ...] = ()


def explain(rules: Rules, inquiry: Inquiry, *, for_agent: bool = False) -> Explanation:
    """Explain what the rules say to a question.

    ``for_agent``: tell only the answer. Other rules, and what would get around this one, are for
    operators.
    """
    judgement = rules.judge(inquiry, afresh=True)
    answer = Explanation(
        verdict=judgement.verdict.wire,
        code=judgement.code,
        reason=judgement.reason,
        policies=judgement.policies,
    )
    if for_agent:
        return answer
    answer = msgspec.structs.replace(
        answer, obligations=judgement.obligations, errors=judgement.errors
    )
    if judgement.code is Code.POLICY_ACTION_UNKNOWN:
        return answer
    try:
        matched = _matched(rules, inquiry, judgement)
        candidates = {policy.policy_id: policy for policy in rules.candidates(inquiry)}
        applications = _applications(rules, candidates.values(), inquiry)
    except (PalyraError, RuntimeError):  # why, the judgement says: it is a fault
        return answer
    found = {told.policy_id for told in matched}
    others = [(policy, how) for policy, how in applications if policy.policy_id not in found]
    return msgspec.structs.replace(
        answer,
        matched=matched,
        overruled=_told(
            policy
            for policy, how in others
            if how is Application.APPLIES and policy.effect is Effect.PERMIT
        ),
        unmatched=_told(policy for policy, how in others if how is Application.DOES_NOT_APPLY),
        not_looked_at=len(candidates) - len(applications),
        remedies=remedies(rules, inquiry, judgement),
    )


def remedies(rules: Rules, inquiry: Inquiry, judgement: Judgement) -> tuple[Remedy, ...]:
    """Return what would lead to a less strict verdict, the least strict first.

    Single changes; pairs of them only where no single one helps.
    """
    if judgement.verdict is Verdict.ALLOW or judgement.code in _BEFORE_POLICY:
        return ()
    changes = tuple(_changes(rules, inquiry))[:_MOST_CHANGES]
    for count in (1, 2):
        found = [
            remedy
            for several in combinations(changes, count)
            if (remedy := _tried(several, rules, inquiry, judgement.verdict)) is not None
        ]
        if found:
            by_leniency = sorted(found, key=lambda each: each[0])  # stable: else as in the table
            return tuple(remedy for _, remedy in by_leniency[:MOST_REMEDIES])
    return ()


class _Change(NamedTuple):
    """One thing that could be otherwise."""

    name: str
    sentence: str
    ask: Callable[[Inquiry], Inquiry] = lambda inquiry: inquiry
    under: Callable[[Rules], Rules] = lambda rules: rules
    policy: str = ""


def _tried(
    changes: tuple[_Change, ...], rules: Rules, inquiry: Inquiry, verdict: Verdict
) -> tuple[Verdict, Remedy] | None:
    """Judge again with some things otherwise; ``None`` where that does not help."""
    for change in changes:
        inquiry, rules = change.ask(inquiry), change.under(rules)
    judgement = rules.judge(inquiry, afresh=True)
    if judgement.verdict >= verdict:
        return None
    remedy = Remedy(
        changes=tuple(change.name for change in changes),
        sentence=", and ".join(change.sentence for change in changes),
        verdict=judgement.verdict.wire,
        code=judgement.code,
        policy="\n".join(change.policy for change in changes if change.policy),
    )
    return judgement.verdict, remedy


def _changes(rules: Rules, inquiry: Inquiry) -> Iterator[_Change]:
    """Yield what could be otherwise, from what is easily done to what is not."""
    who, what = _shown(inquiry.principal), printable(inquiry.resource.id)
    channel = printable(inquiry.attributes.get("channel", '""'))
    is_call = inquiry.resource.type in {"Tool", "Skill"}
    yield _Change(
        "approve",
        "a human approves it",
        lambda asked: asked.supposing(approved=True, allow_sensitive_tools=True),
    )
    if inquiry.left.is_exhausted:
        yield _Change(
            "budget", f"the budget of the {inquiry.left.exhausted_scope} is renewed", _renew
        )
    if inquiry.attributes.get("posture") != f'"{Posture.ALWAYS_ALLOW}"':
        yield _Change(
            "posture",
            f"the posture of {what} is cleared",
            lambda asked: _with(asked, "posture", f'"{Posture.ALWAYS_ALLOW}"'),
        )
    for attribute, name, sentence in (
        ("is_complete", "smaller", "it is split into calls that policy can look at in full"),
        ("is_allowlisted_tool", "allowed_tools", f"{what} is added to tool_call.allowed_tools"),
        ("is_allowlisted_skill", "allowed_skills", f"the skill {what} is allowed"),
        (
            "is_principal_allowed",
            "allowed_principals",
            f"{who} is added to tool_call.allowed_principals",
        ),
        (
            "is_channel_allowed",
            "allowed_channels",
            f"the channel {channel} is added to tool_call.allowed_channels",
        ),
        ("allow_sensitive_tools", "allow_sensitive_tools", "tool_call.allow_sensitive_tools is on"),
    ):
        if not inquiry.is_true(attribute) and _concerns(attribute, inquiry):
            yield _Change(name, sentence, _supposing(attribute))
    if inquiry.principal.type != "Operator":
        doer = "an operator who may call tools" if is_call else "an operator"
        yield _Change("operator", f"{doer} does it themselves", _by_operator)
    if is_call and inquiry.action != WAIVE and inquiry.is_true("is_sensitive_action"):
        waiving = cache(lambda: _waiving(rules))  # an index of all policies: made once
        yield _Change(
            "waiver",
            "a policy waives the question",
            under=lambda _: waiving(),
            policy=_waiver(inquiry),
        )
    if inquiry.resource.type == "Tool" and inquiry.action != WAIVE:
        yield _Change(
            "boxed", "it runs in tier C with no network, no secrets and no lasting writes", _boxed
        )
    has = {*inquiry.roles, *rules.roles_of(inquiry.principal)}
    for role in _roles(rules, inquiry.action):
        if role not in has:
            yield _Change(
                f"role:{role}", f"whoever asks has the role {printable(role)}", _in_role(role)
            )


def _concerns(attribute: str, inquiry: Inquiry) -> bool:
    """Say whether a list of tools or skills is about such a resource at all."""
    needed = {"is_allowlisted_tool": "Tool", "is_allowlisted_skill": "Skill"}.get(attribute)
    return needed is None or needed == inquiry.resource.type


def _with(inquiry: Inquiry, name: str, text: str) -> Inquiry:
    return replace(inquiry, attributes={**inquiry.attributes, name: text})


def _supposing(attribute: str) -> Callable[[Inquiry], Inquiry]:
    return lambda inquiry: inquiry.supposing(**{attribute: True})


def _in_role(role: str) -> Callable[[Inquiry], Inquiry]:
    return lambda inquiry: replace(inquiry, roles=(*inquiry.roles, role))


def _renew(inquiry: Inquiry) -> Inquiry:
    usual = BudgetLimits()
    left = BudgetLeft(
        run=max(inquiry.left.run, usual.max_calls_per_run),
        session=max(inquiry.left.session, usual.max_calls_per_session),
        agent_hour=max(inquiry.left.agent_hour, usual.max_calls_per_agent_hour),
    )
    text = msgspec.json.encode(left, order="sorted").decode()
    return replace(_with(inquiry, "budget", text), left=left)


def _by_operator(inquiry: Inquiry) -> Inquiry:
    changed = inquiry.supposing(initiated=True, is_principal_allowed=True)
    # The caller's roles stay with the caller. Those of another change are added afterwards.
    return replace(changed, principal=EntityUid("Operator", _SOMEBODY), roles=())


def _boxed(inquiry: Inquiry) -> Inquiry:
    return _with(inquiry, "plan", msgspec.json.encode(_BOXED, order="sorted").decode())


def _waiving(rules: Rules) -> Rules:
    """Return the rules with a policy that waives everything: it is asked about one call only."""
    waiver = Policy(
        policy_id=_WAIVER_ID,
        effect=Effect.PERMIT,
        source="",
        line=0,
        text=f'@id("{_WAIVER_ID}") permit (principal, action == Action::"{WAIVE}", resource);',
        principal=("*",),
        action=(f'=Action::"{WAIVE}"',),
        resource=("*",),
        reads=(),
        annotations={"id": _WAIVER_ID, "reason": "supposed"},
    )
    pack = msgspec.structs.replace(rules.pack, policies=(*rules.pack.policies, waiver))
    return Rules(pack)


def _roles(rules: Rules, action: str) -> tuple[str, ...]:
    """Return the roles named in policies about an action. A wrong one changes no verdict."""
    return tuple(
        sorted(
            {
                role
                for policy in rules.pack.policies
                if concerns(policy, action) or concerns(policy, WAIVE)
                for role in _ROLE.findall(policy.text)
            }
        )
    )


def _matched(rules: Rules, inquiry: Inquiry, judgement: Judgement) -> tuple[Matched, ...]:
    variants: dict[str, list[Asked]] = {}
    evaluations = rules.evaluations(inquiry)
    for asked, answer in (
        (Asked.AS_IT_STANDS, evaluations.as_it_stands),
        (Asked.AS_IF_APPROVED, evaluations.as_if_approved),
        (Asked.WAIVER, evaluations.waiver),
    ):
        for policy_id in answer.policies if answer is not None else ():
            variants.setdefault(policy_id, []).append(asked)
    return tuple(
        Matched(
            policy_id=policy_id,
            effect=policy.effect,
            reason=policy.reason,
            source=policy.source,
            line=policy.line,
            asked=tuple(asked),
            is_decisive=policy_id in judgement.policies,
        )
        for policy_id, asked in variants.items()
        for policy in (rules.policy(policy_id),)
    )


def _applications(
    rules: Rules, candidates: Iterable[Policy], inquiry: Inquiry
) -> list[tuple[Policy, Application]]:
    """Ask policies, each alone; permits first."""
    ordered = sorted(candidates, key=lambda each: each.effect is not Effect.PERMIT)
    alone = Alone(rules)
    return [(policy, alone.put(policy.policy_id, inquiry)) for policy in ordered[:MOST_LOOKED_AT]]


def _told(policies: Iterable[Policy]) -> tuple[Told, ...]:
    return tuple(
        Told(
            policy_id=policy.policy_id,
            effect=policy.effect,
            reason=policy.reason,
            source=policy.source,
            line=policy.line,
        )
        for policy in policies
    )


def _shown(uid: EntityUid) -> str:
    return f"{uid.type.lower()}:{printable(uid.id)}"


def _waiver(inquiry: Inquiry) -> str:
    """Return a policy that waives the question for this caller and this tool, whatever it does."""
    who, what = inquiry.principal, inquiry.resource
    name = _UNUSUAL.sub("-", f"{who.id}.{what.id}")[:_LONGEST_NAME]
    return (
        f"@id({cedar_text(f'waive.{name}')})\n"
        f"@reason({cedar_text(f'{_plainly(who)} need not ask about {_plainly(what)}')})\n"
        "permit (\n"
        f"  principal == {who.type}::{cedar_text(who.id)},\n"
        f'  action == Action::"{WAIVE}",\n'
        f"  resource == {what.type}::{cedar_text(what.id)}\n"
        ");"
    )


def _plainly(uid: EntityUid) -> str:
    """Return a name as short and printable as the reason of a policy must be."""
    shown = printable(uid.id)
    return shown if len(shown) <= _LONGEST_NAME else f"{shown[:_LONGEST_NAME]}..."
