# SPDX-License-Identifier: Apache-2.0
"""Stage 2: a proposal in, a decision out, whatever the engine does (I1)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import msgspec

from palyra.core.decision import Decision, forbid
from palyra.core.errors import MEANINGS, Code
from palyra.core.proposal import Malformed, Proposal
from palyra.core.session import BudgetLeft, BudgetLimits
from palyra.core.trace import trace_of

if TYPE_CHECKING:
    from palyra.core.act import Act
    from palyra.core.digest import CallDigest
    from palyra.core.ports import CallStore, PolicyEngine
    from palyra.core.principal import Principal

_log: Final = logging.getLogger(__name__)


class Decider:
    """Puts a call and its remaining budget before the policy engine."""

    def __init__(self, *, engine: PolicyEngine, store: CallStore, limits: BudgetLimits) -> None:
        self._engine = engine
        self._store = store
        self._limits = limits

    def decide(self, subject: Proposal | Malformed, *, is_charged: bool = False) -> Decision:
        """Return the verdict; what is malformed or cannot be evaluated is forbidden (I1).

        ``is_charged``: the call was counted when it was taken, so neither its own unit nor what
        was refused since is held against it.
        """
        if isinstance(subject, Malformed):
            decision = self._forbid(subject, subject.code, subject.reason, hint=subject.hint)
            return msgspec.structs.replace(decision, path=subject.path)
        left = self._store.budget_left(subject, limits=self._limits, at_ms=subject.proposed_at_ms)
        if is_charged:
            left = BudgetLeft(
                run=max(left.run, 0) + 1,
                session=max(left.session, 0) + 1,
                agent_hour=max(left.agent_hour, 0) + 1,
            )
        try:
            # Whoever was charged before comes back because time has passed, or the rules changed.
            self._engine.refresh(at_once=is_charged)
            decision = self._engine.decide(subject, left=left)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is a refusal (I1)
            _log.error("policy failed on call %s: %s", subject.call_id, trace_of(error))
            return self._forbid(subject, Code.POLICY_FAULT, MEANINGS[Code.POLICY_FAULT].sentence)
        if decision.call_digest != subject.call_digest:
            return self._forbid(subject, Code.POLICY_FAULT, "policy decided about another call")
        return decision

    def decide_act(self, act: Act) -> Decision:
        """Return the verdict on what somebody wants to manage; a fault is a refusal (I1)."""
        try:
            return self._engine.decide_act(act)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is a refusal (I1)
            _log.error("policy failed on act %s: %s", act.action, trace_of(error))
            return self._refusal(act.digest, Code.POLICY_FAULT, "", hint="")

    def roles_of(self, principal: Principal) -> tuple[str, ...]:
        """Return the roles that the rules in force give to somebody."""
        self._engine.refresh()
        return self._engine.roles_of(principal)

    def confirm(self, proposal: Proposal, decision: Decision) -> Decision:
        """Return the decision under the policies of this moment: the same one if none changed."""
        engine = self._engine
        try:
            engine.refresh()
        except Exception as error:  # noqa: BLE001 - whatever it is, it is a refusal (I1)
            _log.error("policy failed on call %s: %s", proposal.call_id, trace_of(error))
            return self._forbid(proposal, Code.POLICY_FAULT, "")
        now = (engine.rules_version, engine.policy_digest, engine.snapshot_digest)
        if now == (decision.rules_version, decision.policy_digest, decision.snapshot_digest):
            return decision
        return self.decide(proposal, is_charged=True)

    def _forbid(
        self, subject: Proposal | Malformed, code: Code, reason: str, *, hint: str = ""
    ) -> Decision:
        return self._refusal(subject.call_digest, code, reason, hint=hint)

    def _refusal(self, digest: CallDigest, code: Code, reason: str, *, hint: str) -> Decision:
        return forbid(
            digest,
            code=code,
            reason=reason or MEANINGS[code].sentence,
            hint=hint or MEANINGS[code].hint,
            policy_digest=self._engine.policy_digest,
            snapshot_digest=self._engine.snapshot_digest,
        )
