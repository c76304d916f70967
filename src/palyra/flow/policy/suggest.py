# SPDX-License-Identifier: Apache-2.0
"""Calls that humans agreed to in, policies that would have spared them the question out.

Each policy lets one principal call one tool, and only as it was seen to: see
:mod:`palyra.flow.policy.waiver_text`. Every policy is compiled and tried before it is shown. None
is applied or written anywhere: that is for people (I6).
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import islice
from typing import TYPE_CHECKING, Final

import msgspec

from palyra.core.decision import Verdict
from palyra.core.digest import framed_sha256
from palyra.core.errors import Code, ConfigError, IntegrityError
from palyra.core.events import CallDecided, CallLaunched, read_event
from palyra.core.ids import CallId
from palyra.core.pack import Pack
from palyra.core.permit import Basis
from palyra.core.policy_request import EntityUid
from palyra.flow.policy.compile import compile_pack
from palyra.flow.policy.inquiry import EXECUTE
from palyra.flow.policy.replay import PastDecision, inquiry_about, past_decision
from palyra.flow.policy.rules import Rules
from palyra.flow.policy.sources import Source
from palyra.flow.policy.statements import LONGEST_STATEMENT
from palyra.flow.policy.waiver_text import (
    MOST_COMBINATIONS,
    combinations,
    seen_in,
    waiver_text,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from palyra.core.ports import JournalReader
    from palyra.flow.policy.inquiry import Inquiry
    from palyra.flow.policy.rules import Judgement
    from palyra.flow.policy.waiver_text import Likeness, Seen

MOST_CALLS: Final = 10_000
MOST_SUGGESTIONS: Final = 200
SOURCE_NAME: Final = "suggested.cedar"
_MOST_OTHERS: Final = 20
_LONGEST_NAME: Final = 100
_AGREED: Final = frozenset({Basis.APPROVAL.value, Basis.GRANT.value})
_UNUSUAL: Final = re.compile(r"[^A-Za-z0-9._-]", re.ASCII)


class ApprovedCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call that policy asked about, and that ran because a human agreed."""

    past: PastDecision
    basis: str
    """``approval`` of this very call, or a standing ``grant``."""
    launched_at_ms: int


class CoveredCall(msgspec.Struct, frozen=True, kw_only=True):
    """An approved call that a suggestion rests on."""

    call_id: CallId
    at_ms: int


class Suggestion(msgspec.Struct, frozen=True, kw_only=True):
    """One policy that could be added, and what speaks for it."""

    policy_id: str
    principal: EntityUid
    resource: EntityUid
    text: str
    calls: tuple[CoveredCall, ...]
    would_change: int
    """How many other past calls would have run without a question."""
    others: tuple[CallId, ...]
    """The earliest of these."""


class Obstacle(StrEnum):
    """Why nothing is suggested for a call."""

    ALREADY_ALLOWED = "already_allowed"
    FORBIDDEN = "forbidden"
    ASKED_ANYWAY = "asked_anyway"
    """By a posture, for facts that are not complete, or by a policy that no waiver lifts."""
    OUT_OF_BOUNDS = "out_of_bounds"
    WAIVER_FORBIDDEN = "waiver_forbidden"
    TOO_VARIED = "too_varied"
    NO_FACTS = "no_facts"
    """Whatever was asked for, policy sees the same. So a policy would allow all of it."""


class UncoveredCall(msgspec.Struct, frozen=True, kw_only=True):
    """An approved call for which nothing is suggested."""

    call_id: CallId
    tool: str
    principal: str
    at_ms: int
    obstacle: Obstacle
    reason: str
    code: Code | None = None
    """What the rules say of the call now, where that is the reason."""
    policies: tuple[str, ...] = ()
    """The policies in the way."""


class Suggestions(msgspec.Struct, frozen=True, kw_only=True):
    """What could be added: the policy that rests on the most calls first."""

    suggestions: tuple[Suggestion, ...]
    uncovered: tuple[UncoveredCall, ...]
    left_out: int
    """Approved calls that were not looked at, because there are too many."""


def approved_calls(reader: JournalReader, *, since_ms: int = 0) -> Iterator[ApprovedCall]:
    """Yield the calls that ran since a time because a human agreed, in order.

    Raises:
        IntegrityError: an entry is not what its kind says, or a launch has no decision.
    """
    for entry in reader.of_kind(CallLaunched.kind, since_ms=since_ms):
        launched = read_event(entry, CallLaunched)
        if launched.permit.basis not in _AGREED:
            continue
        entries = reader.of_subject(launched.call_id)
        decided = next((each for each in entries if each.kind == CallDecided.kind), None)
        if decided is None:
            raise IntegrityError(
                Code.JOURNAL_BROKEN, f"entry {entry.index} launches a call that nobody decided"
            )
        past = past_decision(decided)
        if past.verdict is Verdict.ASK:
            yield ApprovedCall(
                past=past, basis=launched.permit.basis, launched_at_ms=entry.recorded_at_ms
            )


def suggest(
    approved: Iterable[ApprovedCall], rules: Rules, *, past: Iterable[PastDecision] = ()
) -> Suggestions:
    """Return the narrowest policies that would have let the approved calls run.

    ``past`` are decisions of the past, to count what else each policy would have let through.

    Raises:
        IntegrityError: a question is not one that policy could have been asked.
        ConfigError: the rules leave no room for more policies.
    """
    remaining = iter(approved)
    uncovered: list[UncoveredCall] = []
    groups: defaultdict[object, list[_Candidate]] = defaultdict(list)
    for call in islice(remaining, MOST_CALLS):  # I13
        candidate = _candidate(call, rules)
        if isinstance(candidate, _Candidate):
            groups[candidate.kind].append(candidate)
        elif candidate is not None:
            uncovered.append(candidate)
    left_out = sum(1 for _ in remaining)
    largest = sorted(groups.values(), key=len, reverse=True)
    left_out += sum(map(len, largest[MOST_SUGGESTIONS:]))
    drafts, tried = _drafts_that_hold(largest[:MOST_SUGGESTIONS], rules, uncovered)
    _count_others(drafts, past, rules, tried)
    return Suggestions(
        suggestions=tuple(draft.suggestion() for draft in drafts),
        uncovered=tuple(sorted(uncovered, key=lambda call: (call.at_ms, call.call_id))),
        left_out=left_out,
    )


# --- What the calls are ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Candidate:
    """An approved call that a waiver would let run."""

    past: PastDecision
    inquiry: Inquiry
    seen: Seen

    @property
    def kind(self) -> tuple[EntityUid, EntityUid, Likeness]:
        """What the calls of one suggestion have in common."""
        return self.inquiry.principal, self.inquiry.resource, self.seen.likeness


def _candidate(call: ApprovedCall, rules: Rules) -> _Candidate | UncoveredCall | None:
    """Return what could be covered, or why it cannot; ``None`` for what policy was not asked."""
    inquiry = inquiry_about(call.past)
    if inquiry is None or inquiry.action != EXECUTE:
        return None
    now = rules.judge(inquiry, afresh=True)
    if now.verdict is Verdict.ALLOW:
        return _uncovered(call.past, Obstacle.ALREADY_ALLOWED, "it would run already", now)
    if now.verdict is Verdict.FORBID:
        return _uncovered(call.past, Obstacle.FORBIDDEN, now.reason, now)
    waived = rules.judge(inquiry.supposing(allow_sensitive_tools=True), afresh=True)
    if waived.verdict is not Verdict.ALLOW:
        return _uncovered(call.past, Obstacle.ASKED_ANYWAY, waived.reason, waived)
    seen = seen_in(inquiry)
    if obstacle := _obstacle(seen):
        return _uncovered(call.past, *obstacle)
    return _Candidate(call.past, inquiry, seen)


def _obstacle(seen: Seen) -> tuple[Obstacle, str] | None:
    """Return why no policy can speak of a call, if that is in what it shows."""
    if seen.files is not None and (seen.files.protected or seen.files.outside):
        sentence = "it touches protected names, or files outside the workspace"
        return Obstacle.OUT_OF_BOUNDS, sentence
    if seen.names_nothing and not seen.size_bytes:
        sentence = "policy cannot tell the calls of this tool apart: they show no facts"
        return Obstacle.NO_FACTS, sentence
    return None


def _uncovered(
    past: PastDecision, obstacle: Obstacle, reason: str, judgement: Judgement | None = None
) -> UncoveredCall:
    return UncoveredCall(
        call_id=past.call_id,
        tool=past.tool,
        principal=past.principal,
        at_ms=past.at_ms,
        obstacle=obstacle,
        reason=reason,
        code=judgement.code if judgement is not None else None,
        policies=judgement.policies if judgement is not None else (),
    )


# --- Whether the policies hold -----------------------------------------------------------------


@dataclass(slots=True)
class _Draft:
    """A policy that is being tried."""

    policy_id: str
    text: str
    candidates: list[_Candidate]
    would_change: int = 0
    others: list[CallId] = field(default_factory=list)

    def suggestion(self) -> Suggestion:
        inquiry = self.candidates[0].inquiry
        return Suggestion(
            policy_id=self.policy_id,
            principal=inquiry.principal,
            resource=inquiry.resource,
            text=self.text,
            calls=tuple(
                CoveredCall(call_id=each.past.call_id, at_ms=each.past.at_ms)
                for each in self.candidates
            ),
            would_change=self.would_change,
            others=tuple(self.others),
        )


def _drafts_that_hold(
    groups: list[list[_Candidate]], rules: Rules, uncovered: list[UncoveredCall]
) -> tuple[list[_Draft], Rules]:
    """Return policies under which every call they rest on runs, and the rules with them.

    Calls that still do not are put to ``uncovered``; without them the policies are written anew.
    """
    while True:
        drafts = _short_enough(groups, uncovered)
        tried = _with_drafts(rules.pack, drafts) if drafts else rules
        covered = {
            candidate.past.call_id
            for draft in drafts
            for candidate in draft.candidates
            if _is_covered(tried.judge(candidate.inquiry, afresh=True), draft.policy_id)
        }
        candidates = [candidate for draft in drafts for candidate in draft.candidates]
        in_vain = [each for each in candidates if each.past.call_id not in covered]
        if not in_vain:
            return drafts, tried
        uncovered.extend(_in_vain(candidate, tried) for candidate in in_vain)
        remaining = (
            [each for each in draft.candidates if each.past.call_id in covered] for draft in drafts
        )
        groups = [group for group in remaining if group]


def _short_enough(
    groups: Iterable[list[_Candidate]], uncovered: list[UncoveredCall]
) -> list[_Draft]:
    """Return the policies that people can still read, and put the other calls to ``uncovered``."""
    kept = []
    for candidates in groups:
        sentence = f"over {MOST_COMBINATIONS} different calls like it were approved for one policy"
        if len(combinations(each.seen for each in candidates)) <= MOST_COMBINATIONS:
            draft = _draft(candidates)
            if len(draft.text) <= LONGEST_STATEMENT:
                kept.append(draft)
                continue
            sentence = "the calls like it are too long for one policy"
        uncovered.extend(
            _uncovered(each.past, Obstacle.TOO_VARIED, sentence) for each in candidates
        )
    return kept


def _is_covered(judgement: Judgement, policy_id: str) -> bool:
    return judgement.verdict is Verdict.ALLOW and policy_id in judgement.policies


def _in_vain(candidate: _Candidate, tried: Rules) -> UncoveredCall:
    """Say what keeps a waiver from doing what it says: another policy about waivers."""
    waiver = tried.evaluations(candidate.inquiry).waiver
    uncovered = _uncovered(
        candidate.past, Obstacle.WAIVER_FORBIDDEN, "a policy wants the question to be asked"
    )
    policies = waiver.policies if waiver is not None and not waiver.allowed else ()
    return msgspec.structs.replace(uncovered, policies=policies)


def _with_drafts(pack: Pack, drafts: Sequence[_Draft]) -> Rules:
    """Return the rules as they would be with these policies."""
    texts: defaultdict[str, list[str]] = defaultdict(list)
    for policy in pack.policies:
        texts[policy.source].append(policy.text)
    texts[SOURCE_NAME].extend(draft.text for draft in drafts)
    sources = [Source(name, "\n".join(each)) for name, each in texts.items()]
    compiled = compile_pack(sources, preset=pack.preset, members=pack.members)
    if not isinstance(compiled, Pack):
        raise ConfigError(compiled[0].code, f"with suggestions: {compiled[0]}")
    return Rules(compiled)


def _count_others(
    drafts: Sequence[_Draft], past: Iterable[PastDecision], rules: Rules, tried: Rules
) -> None:
    """Count for each policy the past calls it does not rest on, but would let run."""
    by_id = {draft.policy_id: draft for draft in drafts}
    concerned = {
        (draft.candidates[0].inquiry.principal, draft.candidates[0].inquiry.resource)
        for draft in drafts
    }
    covered = {each.past.call_id for draft in drafts for each in draft.candidates}
    for decision in past:
        inquiry = inquiry_about(decision)
        if inquiry is None or decision.call_id in covered:
            continue
        if (inquiry.principal, inquiry.resource) not in concerned:
            continue
        after = tried.judge(inquiry, afresh=True)
        if after.verdict is rules.judge(inquiry, afresh=True).verdict:
            continue
        for draft in (by_id[each] for each in after.policies if each in by_id):
            draft.would_change += 1
            if len(draft.others) < _MOST_OTHERS:  # I13
                draft.others.append(decision.call_id)


def _draft(candidates: list[_Candidate]) -> _Draft:
    inquiry = candidates[0].inquiry
    policy_id = _policy_id(inquiry, [each.past.call_id for each in candidates])
    count = len(candidates)
    calls = f"{count} call{'s' if count > 1 else ''}"
    text = waiver_text(
        [each.seen for each in candidates],
        policy_id=policy_id,
        reason=f"operators agreed to {calls} like this",
        principal=inquiry.principal,
        resource=inquiry.resource,
    )
    return _Draft(policy_id, text, candidates)


def _policy_id(inquiry: Inquiry, call_ids: Iterable[str]) -> str:
    digest = framed_sha256("palyra.suggestion.v1", *(each.encode() for each in sorted(call_ids)))
    name = _UNUSUAL.sub("-", f"{inquiry.principal.id}.{inquiry.resource.id}")
    return f"suggested.{name[:_LONGEST_NAME]}.{digest.hex()[:8]}"
