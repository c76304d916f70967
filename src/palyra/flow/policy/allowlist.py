# SPDX-License-Identifier: Apache-2.0
"""The allowlist policy: what is not listed is forbidden, what is sensitive needs a human.

It sees the proposal's tool, sensitivity and caller. Rules over arguments are not expressible here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from palyra.core.canonical import canonical_record
from palyra.core.decision import Decision, Verdict, forbid
from palyra.core.digest import PolicyDigest, SnapshotDigest, policy_digest
from palyra.core.errors import MEANINGS, Code
from palyra.core.principal import PrincipalKind

if TYPE_CHECKING:
    from palyra.core.proposal import Proposal
    from palyra.core.session import BudgetLeft
    from palyra.core.snapshot import ToolCallPolicySnapshot

_OPERATOR: Final = "palyra.allowlist.operator-initiated"
_HARMLESS: Final = "palyra.allowlist.no-sensitive-capability"
_SENSITIVE: Final = "palyra.allowlist.sensitive-asks"


class _Rules(msgspec.Struct, frozen=True, kw_only=True):
    """What the digest of this policy identifies."""

    format: str = "palyra.allowlist.v1"
    allowed_tools: tuple[str, ...]
    policies: tuple[str, ...] = (_OPERATOR, _HARMLESS, _SENSITIVE)


class AllowlistPolicy:
    """A policy engine over one frozen configuration."""

    def __init__(self, snapshot: ToolCallPolicySnapshot) -> None:
        self._allowed = frozenset(snapshot.allowed_tools)
        self.snapshot_digest: SnapshotDigest = snapshot.digest
        rules = _Rules(allowed_tools=tuple(sorted(self._allowed)))
        self.policy_digest: PolicyDigest = policy_digest(canonical_record(rules))

    def decide(self, proposal: Proposal, *, left: BudgetLeft) -> Decision:
        """Return the verdict on ``proposal``."""
        if left.is_exhausted:
            return self._forbid(
                proposal,
                Code.BUDGET_EXHAUSTED,
                f"the {left.exhausted_scope} has used up its calls",
            )
        if proposal.tool not in self._allowed:  # I1
            return self._forbid(
                proposal,
                Code.TOOL_NOT_ALLOWLISTED,
                f"tool {proposal.tool} is not in tool_call.allowed_tools",
            )
        if proposal.principal.kind is PrincipalKind.OPERATOR:  # I6: never an approval
            return self._rest_on(proposal, _OPERATOR, Verdict.ALLOW, Code.OPERATOR_INITIATED)
        if proposal.is_sensitive:
            return self._rest_on(proposal, _SENSITIVE, Verdict.ASK, Code.TOOL_SENSITIVE)
        return self._rest_on(proposal, _HARMLESS, Verdict.ALLOW, Code.TOOL_ALLOWLISTED)

    def _rest_on(self, proposal: Proposal, policy: str, verdict: Verdict, code: Code) -> Decision:
        meaning = MEANINGS[code]
        return Decision(
            call_digest=proposal.call_digest,
            verdict=verdict,
            code=code,
            reason=meaning.sentence,
            hint=meaning.hint if verdict is not Verdict.ALLOW else "",
            policies=(policy,),
            policy_digest=self.policy_digest,
            snapshot_digest=self.snapshot_digest,
        )

    def _forbid(self, proposal: Proposal, code: Code, reason: str) -> Decision:
        return forbid(
            proposal.call_digest,
            code=code,
            reason=reason,
            hint=MEANINGS[code].hint,
            policy_digest=self.policy_digest,
            snapshot_digest=self.snapshot_digest,
        )
