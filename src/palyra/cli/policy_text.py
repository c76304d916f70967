# SPDX-License-Identifier: Apache-2.0
"""What differs between policies in, lines for people and documents for programs out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from palyra.cli.clock_text import rfc3339
from palyra.cli.neutralise import line

if TYPE_CHECKING:
    from collections.abc import Iterable

    from palyra.core.pack import Policy
    from palyra.flow.policy.compare import Differences, MemberChange, PolicyChange
    from palyra.flow.policy.replay import ChangedDecision, Replay

VERDICTS = {"allow": "allowed", "needs_approval": "a human must agree", "deny": "denied"}
_MOST_DIFFERENCES = 100
_WIDENS = ", may let more through"
_WAYS = {"widening": "less strict", "narrowing": "stricter", "other": "other grounds"}
"""Also the order in which they are told."""


def counted(number: int, one: str, many: str) -> str:
    """Return a number with the word for so many things."""
    return f"{number} {one if number == 1 else many}"


def policy_line(policy: Policy) -> str:
    """Return what a policy is in one line."""
    place = f"{line(policy.source)}:{policy.line}"
    return f"{policy.effect} {line(policy.policy_id)} ({place}): {line(policy.reason)}"


def policy_document(policy: Policy) -> dict[str, Any]:
    """Return what a policy is, without its text."""
    return {
        "policy_id": policy.policy_id,
        "effect": policy.effect,
        "reason": policy.reason,
        "source": policy.source,
        "line": policy.line,
    }


def difference_lines(differences: Differences) -> list[str]:
    """Return what differs between two packs, what may let more through first."""
    if differences.is_empty:
        return ["  nothing differs"]
    lines = []
    if differences.is_preset_changed:
        before, after = line(differences.preset_before), line(differences.preset_after)
        lines.append(f"  preset {before} becomes {after}")
    if differences.is_schema_changed:
        lines.append("  the schema is that of another version of Palyra")
    changes = [(change.is_widening, _policy_change(change)) for change in differences.policies]
    changes += [(change.is_widening, _member_change(change)) for change in differences.members]
    changes.sort(key=lambda change: not change[0])
    lines += [words for _, words in changes[:_MOST_DIFFERENCES]]
    if len(changes) > _MOST_DIFFERENCES:
        lines.append(f"  and {len(changes) - _MOST_DIFFERENCES} more; --json tells all")
    return lines


def difference_document(differences: Differences) -> dict[str, Any]:
    """Return what differs between two packs."""
    return {
        "preset_before": differences.preset_before,
        "preset_after": differences.preset_after,
        "is_schema_changed": differences.is_schema_changed,
        "is_widening": differences.is_widening,
        "policies": [
            {
                "change": change.change,
                **policy_document(change.policy),
                "parts": change.parts,
                "is_widening": change.is_widening,
            }
            for change in differences.policies
        ],
        "members": differences.members,
    }


def replay_lines(replayed: Replay, *, since_ms: int, most: int | None = None) -> list[str]:
    """Return how past calls would have come out, what is less strict first."""
    counts = (
        f"{replayed.examined} decided again, {replayed.widening} less strict, "
        f"{replayed.narrowing} stricter, {replayed.other} on other grounds"
    )
    lines = [f"past calls since {rfc3339(since_ms)}: {counts}"]
    changes = in_order(replayed.changes)
    shown = changes if most is None else changes[:most]
    lines += [_changed(change) for change in shown]
    further = len(changes) - len(shown) + replayed.left_out
    if further:
        lines.append(f"  and {further} more")
    return lines


def replay_document(replayed: Replay, *, since_ms: int) -> dict[str, Any]:
    """Return how past calls would have come out, what is less strict first."""
    return {
        "since_ms": since_ms,
        "examined": replayed.examined,
        "unchanged": replayed.unchanged,
        "skipped": replayed.skipped,
        "widening": replayed.widening,
        "narrowing": replayed.narrowing,
        "other": replayed.other,
        "left_out": replayed.left_out,
        "changes": [_changed_document(change) for change in in_order(replayed.changes)],
    }


def in_order(changes: Iterable[ChangedDecision]) -> list[ChangedDecision]:
    """Return changed decisions as they matter: less strict ones first, then by time."""
    ways = tuple(_WAYS)
    return sorted(changes, key=lambda change: (ways.index(change.direction), change.at_ms))


def _policy_change(change: PolicyChange) -> str:
    widens = _WIDENS if change.is_widening else ""
    parts = f" ({', '.join(change.parts)}{widens})" if change.parts else ""
    if widens and not parts:
        parts = f" ({widens.removeprefix(', ')})"
    return f"  {change.change}{parts}: {policy_line(change.policy)}"


def _member_change(change: MemberChange) -> str:
    joins = "joins" if change.is_added else "leaves"
    belonging = change.belonging.replace("_", " ")
    widens = f" ({_WIDENS.removeprefix(', ')})" if change.is_widening else ""
    return f"  {line(change.member)} {joins} {belonging} {line(change.name)}{widens}"


def _changed(change: ChangedDecision) -> str:
    before = f"{VERDICTS[change.before.wire]} ({line(change.code_before)})"
    after = f"{VERDICTS[change.after.wire]} ({line(change.code_after)})"
    overtaken = "; what policy had said then is not on record" if change.is_overtaken else ""
    return (
        f"  {_WAYS[change.direction]}: {rfc3339(change.at_ms)} call {line(change.call_id)} of "
        f"{line(change.tool)} by {line(change.principal)}: {before} -> {after}{overtaken}"
    )


def _changed_document(change: ChangedDecision) -> dict[str, Any]:
    return {
        "call_id": change.call_id,
        "tool": change.tool,
        "principal": change.principal,
        "at_ms": change.at_ms,
        "direction": change.direction,
        "before": {
            "verdict": change.before.wire,
            "code": change.code_before,
            "policies": change.policies_before,
        },
        "after": {
            "verdict": change.after.wire,
            "code": change.code_after,
            "policies": change.policies_after,
        },
        "is_overtaken": change.is_overtaken,
    }
