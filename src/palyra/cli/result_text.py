# SPDX-License-Identifier: Apache-2.0
"""A call's result in, the words for a person out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from palyra.cli.neutralise import line
from palyra.cli.output import pretty_json

if TYPE_CHECKING:
    from palyra.core.result import ApprovalView, CallResult

_WORDS = {"succeeded": "allowed", "timed_out": "timed out"}
_DRY_WORDS = {
    "allow": "would be allowed",
    "needs_approval": "would ask a human",
    "deny": "would be denied",
}
_TONES = {"succeeded": "good", "pending": "held"}
_DRY_TONES = {"allow": "good", "needs_approval": "held", "deny": "bad"}


def hint_about(hint: str, call_id: str) -> str:
    """Return a hint that can be typed as it is: who writes hints does not know the call."""
    return hint.replace("policy explain CALL_ID", f"policy explain {call_id}")


def tone_of(result: CallResult) -> str:
    """Return the colour of the result."""
    if result.state == "dry_run":
        return _DRY_TONES[result.decision.verdict]
    return _TONES.get(result.state, "bad")


def words_of(result: CallResult) -> tuple[str, ...]:
    """Return the result as paragraphs: what happened and why, the output, where it is recorded."""
    parts = [_summary(result)]
    if result.outcome is not None and result.outcome.ok and result.outcome.output is not None:
        parts.append(pretty_json(bytes(result.outcome.output)))
    record = _record(result)
    return (*parts, record) if record else tuple(parts)


def _summary(result: CallResult) -> str:
    decision = result.decision
    reason, hint, code = decision.reason, decision.hint, decision.code
    if result.outcome is not None and result.outcome.error is not None:
        error = result.outcome.error
        reason, hint, code = error.message, error.hint, error.code
    if result.state == "dry_run":
        word = _DRY_WORDS[decision.verdict]
    else:
        word = _WORDS.get(result.state, result.state)
    lines = [f"{word} {result.tool}: {line(reason)}"]
    if result.approval is not None:
        lines.append(f"  approval: {_answer(result.approval)}")
    if hint and result.state != "succeeded":
        lines.append(f"  hint: {line(hint)}")
    lines.append(f"  code: {code}")
    return "\n".join(lines)


def _answer(approval: ApprovalView) -> str:
    if approval.state == "pending":
        return f"pending, {approval.approval_id}"
    told = approval.state
    if approval.decided_by is not None:
        told += f" by {line(approval.decided_by)}"
    if approval.reason is not None:
        told += f": {line(approval.reason)}"
    return told


def _record(result: CallResult) -> str:
    lines = []
    if result.call_id is not None:
        lines.append(f"  call: {result.call_id}")
    if result.attestation is not None:
        attestation = result.attestation
        lines.append(
            f"  attestation: {attestation.attestation_id} (journal entry {attestation.log_index})"
        )
    return "\n".join(lines)
