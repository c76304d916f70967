# SPDX-License-Identifier: Apache-2.0
"""Past decisions and other rules in, what would have come out otherwise out. Changes nothing.

The question that policy was asked stands in the journal, with the budget, the posture and the time
of that moment (I2). So it can be put to any rules. What is compared is what policy said: a human's
answer to a question is not part of it.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

import msgspec

from palyra.core.decision import Verdict
from palyra.core.errors import Code, IntegrityError, PalyraError
from palyra.core.events import CallDecided, CallRedecided, read_event
from palyra.core.ids import CallId
from palyra.core.obligations import NO_OBLIGATIONS, Obligations, combined
from palyra.core.policy_request import PolicyRequest
from palyra.flow.policy.inquiry import inquiry_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from palyra.core.chain import Entry
    from palyra.core.ports import JournalReader
    from palyra.flow.policy.inquiry import Inquiry
    from palyra.flow.policy.rules import Judgement, Rules

MOST_CHANGES: Final = 10_000
_PROGRESS_EVERY: Final = 1_000
_VERDICTS: Final = {verdict.wire: verdict for verdict in Verdict}


class PastDecision(msgspec.Struct, frozen=True, kw_only=True):
    """What policy said of one call, and what it had been asked."""

    entry: int
    """The journal's entry that says so."""
    call_id: CallId
    tool: str
    principal: str
    at_ms: int
    verdict: Verdict
    code: str
    """Text, because a newer Palyra may have written one that is unknown here."""
    policies: tuple[str, ...]
    policy_digest: str
    request: PolicyRequest | None
    """``None`` where the call was refused before policy."""
    obligations: Obligations = NO_OBLIGATIONS


class Direction(StrEnum):
    """Which way a decision would go. ``OTHER``: as strict as before, on other grounds."""

    WIDENING = "widening"
    NARROWING = "narrowing"
    OTHER = "other"


class ChangedDecision(msgspec.Struct, frozen=True, kw_only=True):
    """One call that would be decided otherwise."""

    call_id: CallId
    tool: str
    principal: str
    at_ms: int
    direction: Direction
    before: Verdict
    after: Verdict
    code_before: str
    code_after: str
    policies_before: tuple[str, ...]
    policies_after: tuple[str, ...]
    is_overtaken: bool
    """Whether the call was refused for what others did after policy had spoken.

    What policy had said is not on record then, so the direction is ``OTHER``.
    """


class Replay(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it. ``examined`` is ``unchanged`` and all that changed."""

    examined: int
    unchanged: int
    skipped: int
    """Calls that were refused before policy: no rules could change that."""
    widening: int
    narrowing: int
    other: int
    changes: tuple[ChangedDecision, ...]
    """The earliest, at most as many as were asked for."""

    @property
    def left_out(self) -> int:
        """How many changes are counted but not listed."""
        return self.examined - self.unchanged - len(self.changes)


def past_decisions(reader: JournalReader, *, since_ms: int = 0) -> Iterator[PastDecision]:
    """Yield what policy decided about calls since a time, in order.

    Raises:
        IntegrityError: an entry is not what its kind says.
    """
    for entry in reader.of_kind(CallDecided.kind, since_ms=since_ms):
        yield past_decision(entry)


def last_decision(entries: Sequence[Entry]) -> PastDecision | None:
    """Return the decision about a call that counted, from the entries about it.

    A pending call is decided again once its question is answered. Raises ``IntegrityError``.
    """
    decided = next((entry for entry in entries if entry.kind == CallDecided.kind), None)
    if decided is None:
        return None
    again = [entry for entry in entries if entry.kind == CallRedecided.kind]
    return past_decision(decided, again=again[-1] if again else None)


def past_decision(entry: Entry, *, again: Entry | None = None) -> PastDecision:
    """Return the decision that an entry holds, or a later one about the same call ``again``.

    Raises ``IntegrityError``.
    """
    event = read_event(entry, CallDecided)
    decision, request = event.decision, event.request
    if again is not None:
        entry, later = again, read_event(again, CallRedecided)
        decision, request = later.decision, later.request
    verdict = _VERDICTS.get(decision.verdict)
    if verdict is None:
        raise IntegrityError(Code.JOURNAL_BROKEN, f"entry {entry.index} has an unknown verdict")
    return PastDecision(
        entry=entry.index,
        call_id=event.call_id,
        tool=event.tool,
        principal=event.principal,
        at_ms=entry.recorded_at_ms,
        verdict=verdict,
        code=decision.code,
        policies=decision.policies,
        policy_digest=decision.policy_digest,
        request=request,
        obligations=decision.obligations,
    )


def replay(
    decisions: Iterable[PastDecision],
    rules: Rules,
    *,
    progress: Callable[[int], None] | None = None,
    limit: int = MOST_CHANGES,
) -> Replay:
    """Decide past calls again, by ``rules``.

    ``progress`` is told from time to time how many were examined; ``limit`` bounds how many changes
    are listed, the rest is counted (I13).

    Raises:
        IntegrityError: a question is not one that policy could have been asked.
    """
    examined = unchanged = skipped = 0
    ways = dict.fromkeys(Direction, 0)
    changes: list[ChangedDecision] = []
    for past in decisions:
        inquiry = inquiry_about(past)
        if inquiry is None:
            skipped += 1
            continue
        examined += 1
        change = _change(past, inquiry, rules)
        if change is None:
            unchanged += 1
        else:
            ways[change.direction] += 1
            if len(changes) < limit:
                changes.append(change)
        if progress is not None and examined % _PROGRESS_EVERY == 0:
            progress(examined)
    return Replay(
        examined=examined,
        unchanged=unchanged,
        skipped=skipped,
        widening=ways[Direction.WIDENING],
        narrowing=ways[Direction.NARROWING],
        other=ways[Direction.OTHER],
        changes=tuple(changes),
    )


def is_reproduced(past: PastDecision, rules: Rules) -> bool:
    """Say whether ``rules`` give again exactly what is recorded, given those that held then.

    Never so for a call that was refused before policy, or for what others did after it.
    """
    inquiry = inquiry_about(past)
    return inquiry is not None and _is_same(past, rules.judge(inquiry, afresh=True))


def inquiry_about(past: PastDecision) -> Inquiry | None:
    """Return the question as it was put; ``None`` where none was.

    Raises:
        IntegrityError: it is not one that policy could have been asked.
    """
    if past.request is None:
        return None
    try:
        return inquiry_of(past.request)
    except (ValueError, PalyraError) as error:
        raise IntegrityError(
            Code.JOURNAL_BROKEN, f"entry {past.entry} holds no question to policy"
        ) from error


def _change(past: PastDecision, inquiry: Inquiry, rules: Rules) -> ChangedDecision | None:
    # Afresh, because an older Palyra may have asked what does not fit the schema of today.
    judgement = rules.judge(inquiry, afresh=True)
    if _is_same(past, judgement):
        return None
    is_overtaken = _is_overtaken(past, inquiry)
    return ChangedDecision(
        call_id=past.call_id,
        tool=past.tool,
        principal=past.principal,
        at_ms=past.at_ms,
        direction=Direction.OTHER if is_overtaken else _direction(past, judgement),
        before=past.verdict,
        after=judgement.verdict,
        code_before=past.code,
        code_after=judgement.code.value,
        policies_before=past.policies,
        policies_after=judgement.policies,
        is_overtaken=is_overtaken,
    )


def _is_same(past: PastDecision, judgement: Judgement) -> bool:
    return (
        past.verdict is judgement.verdict
        and past.code == judgement.code.value
        and past.policies == judgement.policies
        and past.obligations == judgement.obligations
    )


def _is_overtaken(past: PastDecision, inquiry: Inquiry) -> bool:
    """Say whether the store refused the call, after policy had let it through."""
    if past.code == Code.BUDGET_EXHAUSTED.value:
        return not inquiry.left.is_exhausted
    return past.code == Code.POLICY_CHANGED.value


def _direction(past: PastDecision, judgement: Judgement) -> Direction:
    if judgement.verdict is not past.verdict:
        is_stricter = judgement.verdict > past.verdict
        return Direction.NARROWING if is_stricter else Direction.WIDENING
    if judgement.obligations == past.obligations:
        return Direction.OTHER
    both = combined((past.obligations, judgement.obligations))
    return Direction.NARROWING if both == combined((judgement.obligations,)) else Direction.WIDENING
