# SPDX-License-Identifier: Apache-2.0
"""The rules in force, loaded: a question in, a judgement out. Never changes once loaded.

Three verdicts from a language that has two: the call is evaluated as it stands and, if it is
refused, as if a human had agreed; where only the second answer is yes, a human is asked (I3). Cedar
skips a policy that fails to evaluate, so any such failure forbids (I1).
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from palyra.core.decision import Verdict
from palyra.core.errors import MEANINGS, Code
from palyra.core.obligations import NO_OBLIGATIONS, Obligations, combined
from palyra.core.pack import Effect
from palyra.core.policy_request import EntityUid
from palyra.core.trace import trace_of
from palyra.flow.policy.annotations import obligations_of
from palyra.flow.policy.cedar import build_entities, evaluate
from palyra.flow.policy.heads import request_keys
from palyra.flow.policy.inquiry import WAIVE
from palyra.flow.policy.members import Memberships
from palyra.flow.policy.narrowing import narrowed_schema
from palyra.flow.policy.reasons import reason_for
from palyra.flow.policy.slices import PolicyIndex, Slice, SliceCache
from palyra.flow.policy.vocabulary import actions, declared_actions, schema

if TYPE_CHECKING:
    from collections.abc import Iterable

    import cedarpy

    from palyra.core.digest import PolicyDigest
    from palyra.core.pack import Pack, Policy
    from palyra.flow.policy.cedar import Answer
    from palyra.flow.policy.inquiry import Inquiry

_log: Final = logging.getLogger(__name__)
_MOST_SCOPES: Final = 2048
_MOST_JUDGEMENTS: Final = 64
_EVER_NEW: Final = frozenset({"budget", "run", "time"})
"""Where a policy looks at these, hardly any two questions are the same."""

_LOOKED_AT: Final = frozenset(
    {
        "initiated",
        "is_allowlisted_skill",
        "is_allowlisted_tool",
        "is_channel_allowed",
        "is_principal_allowed",
        "is_sensitive_action",
    }
)
"""What is looked at here and for the reasons, even where no policy does."""
_WAIVING: Final = request_keys(EntityUid("Action", WAIVE), ())
_NAMING_WAIVERS: Final = frozenset(key for key in _WAIVING if key.endswith(f'"{WAIVE}"'))
_NO_POLICIES: Final = Slice(positions=(), policies=())
_UNKEPT: Final = frozenset({Code.POLICY_FAULT, Code.POLICY_REQUEST_INVALID})
"""Judgements that may rest on attributes which no policy looks at."""

K = TypeVar("K")
V = TypeVar("V")

_ScopeKey = tuple[EntityUid, tuple[str, ...], str, EntityUid, tuple[EntityUid, ...]]


class Judgement(NamedTuple):
    """A verdict, why, what it rests on, and what it demands."""

    verdict: Verdict
    code: Code
    reason: str
    policies: tuple[str, ...] = ()
    obligations: Obligations = NO_OBLIGATIONS
    errors: tuple[str, ...] = ()
    """What failed, for people who look into it; it may quote policies and facts."""


class Evaluations(NamedTuple):
    """What Cedar said to each variant of a question; ``None`` where it was not asked."""

    waiver: Answer | None
    as_it_stands: Answer
    as_if_approved: Answer | None


class _Scope:
    """What can be known of a question before its context: which policies could matter, and who."""

    __slots__ = ("entities", "judgements", "policies", "reads", "shown", "waivers")

    def __init__(self, *, policies: Slice, waivers: Slice, entities: cedarpy.Entities) -> None:
        self.policies = policies
        self.waivers = waivers
        self.entities = entities
        self.shown = _shown(policies, waivers)
        self.reads = _key_of(self.shown)
        self.judgements: OrderedDict[tuple[str | None, ...], Judgement] = OrderedDict()


class Rules:
    """One policy pack, indexed."""

    def __init__(self, pack: Pack, *, policy_digest: PolicyDigest | None = None) -> None:
        """Index a pack; ``policy_digest`` is its digest where that is known already."""
        self.pack = pack
        self.policy_digest = policy_digest or pack.digest
        self._policies = {policy.policy_id: policy for policy in pack.policies}
        self._slices = SliceCache(PolicyIndex(pack.policies))
        self._memberships = Memberships(pack.members)
        self._scopes: OrderedDict[_ScopeKey, _Scope] = OrderedDict()

    def judge(self, inquiry: Inquiry, *, afresh: bool = False) -> Judgement:
        """Return the verdict; whatever goes wrong on the way is a refusal (I1).

        ``afresh``: put it to Cedar even if the same was asked before. A question that did not come
        from :class:`palyra.flow.policy.inquiry.Inquiries` may not fit the schema in a place that no
        policy looks at.
        """
        try:
            judgement = self._judged(inquiry, afresh=afresh)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is a refusal (I1)
            _log.error("policy failed to evaluate: %s", trace_of(error))
            return _fault(Code.POLICY_FAULT, (type(error).__name__,))
        if judgement.verdict is not Verdict.FORBID and inquiry.left.is_exhausted:
            return Judgement(
                Verdict.FORBID,
                Code.BUDGET_EXHAUSTED,
                f"the {inquiry.left.exhausted_scope} has used up its calls",
            )
        return judgement

    def policy(self, policy_id: str) -> Policy:
        """Return a policy of this pack."""
        return self._policies[policy_id]

    def roles_of(self, principal: EntityUid) -> tuple[str, ...]:
        """Return the roles that the pack's members give to a principal."""
        above = self._memberships.parents_of(principal)
        return tuple(sorted(each.id for each in above if each.type == "Role"))

    def candidates(self, inquiry: Inquiry) -> tuple[Policy, ...]:
        """Return the policies whose scope fits the question, whatever their conditions say."""
        scope = self._scope(inquiry)
        return (*scope.policies.policies, *scope.waivers.policies)

    def evaluations(self, inquiry: Inquiry) -> Evaluations:
        """Ask Cedar every variant of the question that the verdict depends on."""
        return self._evaluations(self._scope(inquiry), inquiry, whole=True)

    def _judged(self, inquiry: Inquiry, *, afresh: bool) -> Judgement:
        """Return the judgement on a question that looks the same to every policy concerned."""
        if inquiry.action not in declared_actions():
            return _fault(Code.POLICY_ACTION_UNKNOWN)
        scope = self._scope(inquiry)
        if scope.reads is None or afresh:
            return self._judge(scope, inquiry, whole=afresh)
        key = tuple([inquiry.attributes.get(name) for name in scope.reads])
        judgement = scope.judgements.get(key)
        if judgement is None:
            judgement = self._judge(scope, inquiry, whole=False)
            if judgement.code not in _UNKEPT:
                _keep(scope.judgements, key, judgement, limit=_MOST_JUDGEMENTS)
        return judgement

    def _judge(self, scope: _Scope, inquiry: Inquiry, *, whole: bool) -> Judgement:
        asked = self._evaluations(scope, inquiry, whole=whole)
        answers = [answer for answer in asked if answer is not None]
        errors = tuple(error for answer in answers for error in answer.errors)
        if not all(answer.is_decided for answer in answers):
            return _fault(Code.POLICY_REQUEST_INVALID, errors)
        if errors:
            return _fault(Code.POLICY_FAULT, errors)
        waiver, first, second = asked
        if first.allowed:
            waived = waiver.policies if waiver is not None and waiver.allowed else ()
            return self._resting_on(Verdict.ALLOW, first.policies, inquiry, waived=waived)
        if second is not None and second.allowed:
            # What asked, or where nothing did, what permits it only to the approved.
            decisive = first.policies or second.policies
            judgement = self._resting_on(Verdict.ASK, decisive, inquiry)
            waived = waiver.policies if waiver is not None and waiver.allowed else ()
            demands = self._demands((*first.policies, *second.policies, *waived))
            return judgement._replace(obligations=demands)
        return self._resting_on(Verdict.FORBID, second.policies if second else (), inquiry)

    def _evaluations(self, scope: _Scope, inquiry: Inquiry, *, whole: bool) -> Evaluations:
        shown = None if whole else scope.shown
        waiver = None
        is_asked = inquiry.is_true("is_sensitive_action")
        if is_asked and not inquiry.is_true("initiated") and scope.waivers.has_permit:
            supposed = inquiry.supposing(approved=True, allow_sensitive_tools=True)
            waiver = _evaluate(scope, scope.waivers, supposed, action=WAIVE, shown=shown)
            if waiver.allowed and not waiver.errors:
                inquiry = inquiry.supposing(allow_sensitive_tools=True)
        first = _evaluate(scope, scope.policies, inquiry, action=inquiry.action, shown=shown)
        if first.allowed or first.errors or not first.is_decided:
            return Evaluations(waiver, first, None)
        supposed = inquiry.supposing(approved=True, allow_sensitive_tools=True)
        second = _evaluate(scope, scope.policies, supposed, action=inquiry.action, shown=shown)
        return Evaluations(waiver, first, second)

    def _resting_on(
        self,
        verdict: Verdict,
        policy_ids: Iterable[str],
        inquiry: Inquiry,
        *,
        waived: tuple[str, ...] = (),
    ) -> Judgement:
        ids = tuple(sorted({*policy_ids, *waived}))
        policies = [self._policies[policy_id] for policy_id in ids]
        code, sentence = reason_for(verdict, policies, inquiry, waived=frozenset(waived))
        demands = self._demands(ids) if verdict is Verdict.ALLOW else NO_OBLIGATIONS
        return Judgement(verdict, code, sentence, ids, demands)

    def _demands(self, policy_ids: Iterable[str]) -> Obligations:
        return combined(
            obligations_of(self._policies[policy_id].annotations) for policy_id in set(policy_ids)
        )

    def _scope(self, inquiry: Inquiry) -> _Scope:
        key = (
            inquiry.principal,
            inquiry.roles,
            inquiry.action,
            inquiry.resource,
            inquiry.groups,
        )
        scope = self._scopes.get(key)
        if scope is None:
            scope = self._new_scope(inquiry)
            _keep(self._scopes, key, scope, limit=_MOST_SCOPES)
        return scope

    def _new_scope(self, inquiry: Inquiry) -> _Scope:
        above = (
            *(EntityUid("Role", role) for role in inquiry.roles),
            *self._memberships.parents_of(inquiry.principal),
        )
        groups = (*inquiry.groups, *self._memberships.groups_of_tool(inquiry.resource))
        principals = request_keys(inquiry.principal, above)
        resources = request_keys(inquiry.resource, groups)

        families = [EntityUid("Action", family) for family in actions()[inquiry.action]]
        asked = request_keys(EntityUid("Action", inquiry.action), families)
        waivers = _NO_POLICIES
        if inquiry.resource.type in ("Tool", "Skill") and inquiry.action != WAIVE:
            waivers = _only_waivers(self._slices.find(principals, _WAIVING, resources))
        return _Scope(
            policies=self._slices.find(principals, asked, resources),
            waivers=waivers,
            entities=build_entities({inquiry.principal: above, inquiry.resource: groups}, schema()),
        )


def _only_waivers(found: Slice) -> Slice:
    """Leave out permits that do not name the waiver: a permit for any action withdraws nothing."""
    kept = [
        (position, policy)
        for position, policy in zip(found.positions, found.policies, strict=True)
        if policy.effect is Effect.FORBID or not _NAMING_WAIVERS.isdisjoint(policy.action)
    ]
    return Slice(
        positions=tuple(position for position, _ in kept),
        policies=tuple(policy for _, policy in kept),
    )


def _evaluate(
    scope: _Scope,
    policies: Slice,
    inquiry: Inquiry,
    *,
    action: str,
    shown: tuple[str, ...] | None,
) -> Answer:
    """Put a question to Cedar: the attributes that are ``shown``, or all of them."""
    return evaluate(
        policies.policy_set,
        scope.entities,
        schema() if shown is None else narrowed_schema(action, shown),
        principal=inquiry.principal,
        action=EntityUid("Action", action),
        resource=inquiry.resource,
        context_json=inquiry.context_json if shown is None else inquiry.shown(shown),
    )


def _shown(policies: Slice, waivers: Slice) -> tuple[str, ...] | None:
    """Return the attributes that any policy concerned can look at; ``None`` if that is unknown."""
    if policies.reads is None or waivers.reads is None:
        return None
    return tuple(sorted({*policies.reads, *waivers.reads}))


def _key_of(shown: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """Return what a judgement is remembered by; ``None`` where that would not pay or not hold."""
    if shown is None or not _EVER_NEW.isdisjoint(shown):
        return None
    return tuple(sorted(_LOOKED_AT.union(shown)))


def _keep(cache: OrderedDict[K, V], key: K, value: V, *, limit: int) -> None:
    """Remember a value and forget the oldest beyond the limit (I13)."""
    while len(cache) >= limit:
        cache.popitem(last=False)
    cache[key] = value


def _fault(code: Code, errors: tuple[str, ...] = ()) -> Judgement:
    return Judgement(Verdict.FORBID, code, MEANINGS[code].sentence, errors=errors)
