# SPDX-License-Identifier: Apache-2.0
"""Calls that do not go on: refused ones are recorded, untaken ones are answered.

The store may refuse to take a call that policy would let through: its request id was used before,
a budget ran out or the rules changed in the meantime. Whatever it says, the caller gets one clear
answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from palyra.core.decision import Verdict
from palyra.core.errors import MEANINGS, Code, NotPermittedError
from palyra.core.result import CallResult
from palyra.core.transitions import Admitted, Conflicting, Flooded, Outdated, Repeated
from palyra.flow.seal.recall import conflict

if TYPE_CHECKING:
    from palyra.core.approval import Pending, Rejection
    from palyra.core.decision import Decision
    from palyra.core.permit import Permit
    from palyra.core.proposal import Malformed, Proposal
    from palyra.core.transitions import Admission
    from palyra.flow.seal.recall import Recall
    from palyra.flow.seal.scribe import Scribe


class Admissions:
    """Puts new calls before the store."""

    def __init__(self, *, scribe: Scribe, recall: Recall) -> None:
        self._scribe = scribe
        self._recall = recall

    async def launch(
        self, proposal: Proposal, decision: Decision, permit: Permit
    ) -> CallResult | None:
        """Record the intent to run; return ``None`` to go on, or the answer that ends the call."""
        admission = await self._scribe.launched(proposal, decision, permit)
        if isinstance(admission, Admitted):
            return None
        return await self._untaken(admission, proposal, decision)

    async def suspend(
        self, proposal: Proposal, decision: Decision, pending: Pending
    ) -> CallResult | None:
        """Record a question; return ``None`` if it is to be announced, or the answer."""
        admission = await self._scribe.suspended(proposal, decision, pending)
        if isinstance(admission, Admitted):
            return None
        return await self._untaken(admission, proposal, decision)

    async def refuse(
        self, subject: Proposal | Malformed, decision: Decision, answer: Rejection | None = None
    ) -> CallResult:
        """Record a refusal and return it as the call's result."""
        refused = await self._scribe.refused(subject, decision, answer=answer)
        if isinstance(refused, CallResult):
            return refused
        return await self._untaken(refused, subject, decision)

    async def _untaken(
        self, admission: Admission, subject: Proposal | Malformed, decision: Decision
    ) -> CallResult:
        match admission:
            case Repeated():
                return await self._recall.tell(admission.call_id)
            case Conflicting():
                raise conflict(admission.call_id)
            case Flooded():
                details = {"dropped": admission.count}
                raise NotPermittedError(Code.BUDGET_EXHAUSTED, details=details)
            case Outdated():
                return await self.refuse(subject, _overtaken(decision, Code.POLICY_CHANGED))
            case _:
                return await self.refuse(subject, _overtaken(decision, Code.BUDGET_EXHAUSTED))


def _overtaken(decision: Decision, code: Code) -> Decision:
    """Return the refusal of a call for what others have done since it was decided."""
    meaning = MEANINGS[code]
    return msgspec.structs.replace(
        decision,
        verdict=Verdict.FORBID,
        code=code,
        reason=meaning.sentence,
        hint=meaning.hint,
        policies=(),
    )
