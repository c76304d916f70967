# SPDX-License-Identifier: Apache-2.0
"""Why: the policies that decided in, one typed code and one sentence for people out.

Several things can be true of a call at once. The tables below say which of them is told: the first
that applies, from what concerns the caller to what concerns the call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from palyra.core.decision import Verdict
from palyra.core.errors import MEANINGS, Code
from palyra.core.pack import Effect
from palyra.flow.policy.annotations import code_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from palyra.core.pack import Policy
    from palyra.flow.policy.inquiry import Inquiry

PRECEDENCE: Final = {
    Verdict.FORBID: (
        Code.POLICY_FAULT,
        Code.POLICY_REQUEST_INVALID,
        Code.POLICY_ACTION_UNKNOWN,
        Code.PRINCIPAL_NOT_ALLOWED,
        Code.CHANNEL_NOT_ALLOWED,
        Code.TOOL_DISABLED,
        Code.POLICY_FORBIDDEN,
        Code.TOOL_NOT_ALLOWLISTED,
        Code.SKILL_NOT_ALLOWLISTED,
        Code.POLICY_NO_PERMIT,
        Code.BUDGET_EXHAUSTED,
    ),
    Verdict.ASK: (
        Code.TOOL_SENSITIVE,
        Code.FACTS_INCOMPLETE,
        Code.TOOL_POSTURE_ASKS,
        Code.POLICY_ASKS,
    ),
    Verdict.ALLOW: (
        Code.OPERATOR_INITIATED,
        Code.POLICY_WAIVED,
        Code.TOOL_ALLOWLISTED,
        Code.POLICY_PERMITTED,
    ),
}
"""For each verdict its codes, the one that is told before the others first."""

_RUNNING: Final = ("tool.execute", "tool.preview", "skill.execute")
_LISTED: Final = (
    (
        "is_principal_allowed",
        ("tool.execute", "tool.preview", "skill.execute"),
        Code.PRINCIPAL_NOT_ALLOWED,
    ),
    (
        "is_channel_allowed",
        ("tool.execute", "tool.preview", "skill.execute"),
        Code.CHANNEL_NOT_ALLOWED,
    ),
    ("is_allowlisted_tool", ("tool.execute", "tool.preview"), Code.TOOL_NOT_ALLOWLISTED),
    ("is_allowlisted_skill", ("skill.execute",), Code.SKILL_NOT_ALLOWLISTED),
)
"""Attributes whose absence alone explains why nothing permits an action."""


class Reason(NamedTuple):
    """What is told."""

    code: Code
    sentence: str


def reason_for(
    verdict: Verdict,
    policies: Iterable[Policy],
    inquiry: Inquiry,
    *,
    waived: frozenset[str] = frozenset(),
) -> Reason:
    """Return the foremost reason for a verdict that rests on ``policies``.

    ``waived`` are the ids of those that only withdrew a question.
    """
    candidates: dict[Code, str] = {}
    for policy in sorted(policies, key=lambda each: each.policy_id):
        is_waiver = policy.policy_id in waived
        code = Code.POLICY_WAIVED if is_waiver else _code(policy, verdict)
        candidates.setdefault(code, policy.reason)
    if verdict is Verdict.FORBID:
        for attribute, concerned, code in _LISTED:
            if inquiry.action in concerned and not inquiry.is_true(attribute):
                candidates.setdefault(code, _unlisted(code, inquiry))
        candidates.setdefault(Code.POLICY_NO_PERMIT, MEANINGS[Code.POLICY_NO_PERMIT].sentence)
    foremost = next(code for code in PRECEDENCE[verdict] if code in candidates)
    return Reason(foremost, candidates[foremost])


def _unlisted(code: Code, inquiry: Inquiry) -> str:
    """Say what is not on a list, by its name where that is part of the question's scope."""
    if code is Code.TOOL_NOT_ALLOWLISTED:
        return f"tool {inquiry.resource.id} is not in tool_call.allowed_tools"
    if code is Code.PRINCIPAL_NOT_ALLOWED:
        caller = f"{inquiry.principal.type.lower()}:{inquiry.principal.id}"
        return f"{caller} is not in tool_call.allowed_principals"
    return MEANINGS[code].sentence


def _code(policy: Policy, verdict: Verdict) -> Code:
    """Return the code a policy gives to a verdict: its own where that fits, else the general."""
    own = code_of(policy.annotations, policy.effect)
    if own is not None and own in PRECEDENCE[verdict]:
        return own
    if verdict is Verdict.ALLOW:
        return Code.POLICY_PERMITTED
    if verdict is Verdict.ASK:
        return Code.POLICY_ASKS
    return Code.POLICY_FORBIDDEN if policy.effect is Effect.FORBID else Code.POLICY_NO_PERMIT
