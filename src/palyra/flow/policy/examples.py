# SPDX-License-Identifier: Apache-2.0
"""Rules and cases in; out comes, for each case, whether it came out as expected, and why not.

Policies ship with their examples: a case that a policy applies to, and one that it does not. Both
are put to the real engine, to that policy alone, so no other policy can make them true.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

import msgspec

from palyra.core.errors import Code, PalyraError
from palyra.core.nearest import nearest
from palyra.core.policy_request import EntityUid
from palyra.flow.policy.cases import Case, inquiry_for
from palyra.flow.policy.cedar import build_entities, build_policies, evaluate
from palyra.flow.policy.heads import request_keys
from palyra.flow.policy.inquiry import WAIVE
from palyra.flow.policy.members import Memberships
from palyra.flow.policy.rules import Judgement
from palyra.flow.policy.sources import printable
from palyra.flow.policy.vocabulary import actions, schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import cedarpy

    from palyra.core.pack import Pack, Policy
    from palyra.flow.policy.assumed import Assumed
    from palyra.flow.policy.inquiry import Inquiry
    from palyra.flow.policy.rules import Rules

_UNASKED = frozenset({Code.POLICY_FAULT, Code.POLICY_REQUEST_INVALID, Code.POLICY_ACTION_UNKNOWN})
"""Refusals that say something of the case rather than of the policies."""


class Application(Enum):
    """Whether one policy, alone, applies to a request as it stands."""

    APPLIES = "applies"
    DOES_NOT_APPLY = "does not apply"
    FAILS = "cannot be evaluated"
    """It cannot be told: the policy or the request failed."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """How one case came out."""

    case: Case
    judgement: Judgement
    differed: str = ""
    """In a sentence, what is otherwise than expected; empty if nothing is."""

    @property
    def ok(self) -> bool:
        """Whether everything is as expected."""
        return not self.differed


def run_cases(rules: Rules, cases: Iterable[Case], *, assumed: Assumed) -> tuple[Outcome, ...]:
    """Put every case to the rules."""
    alone = Alone(rules)
    return tuple(_run(rules, alone, case, assumed=assumed) for case in cases)


def unexampled(pack: Pack, cases: Sequence[Case]) -> tuple[str, ...]:
    """Return the policies that lack a case they apply to, or one they do not, in pack order."""
    with_example = {policy_id for case in cases for policy_id in case.applies}
    with_counter_example = {policy_id for case in cases for policy_id in case.does_not_apply}
    both = with_example & with_counter_example
    return tuple(policy.policy_id for policy in pack.policies if policy.policy_id not in both)


def applies(rules: Rules, policy_id: str, inquiry: Inquiry) -> bool:
    """Say whether a policy applies, whatever the others say; one that fails does not.

    Raises:
        KeyError: the rules have no such policy.
    """
    return Alone(rules).put(policy_id, inquiry) is Application.APPLIES


def concerns(policy: Policy, action: str) -> bool:
    """Say whether an action is in a policy's head."""
    families = [EntityUid("Action", family) for family in actions().get(action, ())]
    keys = request_keys(EntityUid("Action", action), families)
    return not frozenset(keys).isdisjoint(policy.action)


class Alone:
    """Puts questions to single policies of some rules."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._memberships = Memberships(rules.pack.members)

    @property
    def known(self) -> frozenset[str]:
        """The ids of all policies."""
        return frozenset(policy.policy_id for policy in self._rules.pack.policies)

    def put(self, policy_id: str, inquiry: Inquiry) -> Application:
        """Say whether a policy applies; of one about waiving, whether it would waive.

        Raises:
            KeyError: the rules have no such policy.
        """
        policy = self._rules.policy(policy_id)
        action = inquiry.action
        if not concerns(policy, action) and inquiry.resource.type in {"Tool", "Skill"}:
            # As Rules does: whether the question is waived is asked as if it were answered.
            inquiry, action = inquiry.supposing(approved=True, allow_sensitive_tools=True), WAIVE
        try:
            answer = evaluate(
                build_policies([policy.text]),
                self._entities(inquiry),
                schema(),
                principal=inquiry.principal,
                action=EntityUid("Action", action),
                resource=inquiry.resource,
                context_json=inquiry.context_json,
            )
        except PalyraError:
            return Application.FAILS
        if answer.errors or not answer.is_decided:
            return Application.FAILS
        # Alone, a permit that applies allows, and a forbid that applies is why not.
        return Application.APPLIES if answer.policies else Application.DOES_NOT_APPLY

    def _entities(self, inquiry: Inquiry) -> cedarpy.Entities:
        above = (
            *(EntityUid("Role", role) for role in inquiry.roles),
            *self._memberships.parents_of(inquiry.principal),
        )
        groups = (*inquiry.groups, *self._memberships.groups_of_tool(inquiry.resource))
        return build_entities({inquiry.principal: above, inquiry.resource: groups}, schema())


def _run(rules: Rules, alone: Alone, case: Case, *, assumed: Assumed) -> Outcome:
    inquiry = inquiry_for(case, assumed=assumed)
    judgement = rules.judge(inquiry, afresh=True)
    differences = (*_verdict(case, judgement), *_applications(alone, case, inquiry))
    return Outcome(case=case, judgement=judgement, differed="; ".join(differences))


def _verdict(case: Case, judgement: Judgement) -> Iterable[str]:
    if judgement.code in _UNASKED and case.code is not judgement.code:
        # Whatever was expected, the policies were not what answered.
        because = f": {printable(judgement.errors[0])}" if judgement.errors else ""
        yield f"no answer, because {judgement.reason}{because}"
        return
    got = f"{judgement.verdict.wire} ({judgement.code})"
    if case.expect is not None and judgement.verdict is not case.expect:
        yield f"expected {case.expect.wire}, got {got}: {judgement.reason}"
    elif case.code is not None and judgement.code is not case.code:
        yield f"expected the code {case.code}, got {judgement.code}"
    if case.policies is not None and set(case.policies) != set(judgement.policies):
        yield (
            f"expected to rest on {_names(case.policies)}, rests on {_names(judgement.policies)}"
        )


def _applications(alone: Alone, case: Case, inquiry: Inquiry) -> Iterable[str]:
    expected = {
        **dict.fromkeys(case.applies, Application.APPLIES),
        **dict.fromkeys(case.does_not_apply, Application.DOES_NOT_APPLY),
    }
    for policy_id, application in expected.items():
        try:
            found = alone.put(policy_id, inquiry)
        except KeyError:
            close = nearest(policy_id, alone.known)
            hint = f"; did you mean {close}?" if close else ""
            yield f"there is no policy {printable(policy_id)}{hint}"
            continue
        if found is not application:
            yield f"{policy_id} {found.value}"


def _names(policy_ids: Iterable[str]) -> str:
    return ", ".join(printable(each) for each in sorted(set(policy_ids))) or "no policy"
