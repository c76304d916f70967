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
        Code.FACTS_INCOMPLETE,
        Code.POLICY_FORBIDDEN,
        Code.TOOL_NOT_ALLOWLISTED,
        Code.SKILL_NOT_ALLOWLISTED,
        Code.POLICY_NO_PERMIT,
        Code.BUDGET_EXHAUSTED,
    ),
    Verdict.ASK: (
        Code.TOOL_SENSITIVE,
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


_RUNNING: Final = frozenset({"tool.execute", "tool.preview", "skill.execute"})


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
    if verdict is Verdict.FORBID:
        candidates |= _unlisted(inquiry)
        candidates[Code.POLICY_NO_PERMIT] = MEANINGS[Code.POLICY_NO_PERMIT].sentence
    for policy in sorted(policies, key=lambda each: each.policy_id):
        is_waiver = policy.policy_id in waived
        code = Code.POLICY_WAIVED if is_waiver else _code(policy, verdict)
        candidates.setdefault(code, policy.reason)
    foremost = next(code for code in PRECEDENCE[verdict] if code in candidates)
    return Reason(foremost, candidates[foremost])


def _unlisted(inquiry: Inquiry) -> dict[Code, str]:
    """Say what is not on a list of the configuration, by its name where it is part of the scope."""
    if inquiry.action not in _RUNNING:
        return {}
    caller = f"{inquiry.principal.type.lower()}:{inquiry.principal.id}"
    said = {}
    if not inquiry.is_true("is_principal_allowed"):
        said[Code.PRINCIPAL_NOT_ALLOWED] = f"{caller} is not in tool_call.allowed_principals"
    if not inquiry.is_true("is_channel_allowed"):
        said[Code.CHANNEL_NOT_ALLOWED] = MEANINGS[Code.CHANNEL_NOT_ALLOWED].sentence
    if inquiry.action == "skill.execute":
        if not inquiry.is_true("is_allowlisted_skill"):
            said[Code.SKILL_NOT_ALLOWLISTED] = MEANINGS[Code.SKILL_NOT_ALLOWLISTED].sentence
    elif not inquiry.is_true("is_allowlisted_tool"):
        tool = inquiry.resource.id
        said[Code.TOOL_NOT_ALLOWLISTED] = f"tool {tool} is not in tool_call.allowed_tools"
    return said


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
