# SPDX-License-Identifier: Apache-2.0
"""Calls that do not go on: refused ones are recorded, untaken ones are answered.

The store may refuse to take a call that policy would let through: its request id was used before,
or a budget ran out in the meantime. Whatever it says, the caller gets one clear answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from palyra.core.decision import Verdict
from palyra.core.errors import MEANINGS, Code, NotPermittedError
from palyra.core.result import CallResult
from palyra.core.transitions import Admitted, Conflicting, Flooded, Repeated
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
            case _:
                return await self.refuse(subject, _exhausted(decision))


def _exhausted(decision: Decision) -> Decision:
    """Return the refusal of a call whose budget was used up by others since it was decided."""
    meaning = MEANINGS[Code.BUDGET_EXHAUSTED]
    return msgspec.structs.replace(
        decision,
        verdict=Verdict.FORBID,
        code=Code.BUDGET_EXHAUSTED,
        reason=meaning.sentence,
        hint=meaning.hint,
        policies=(),
    )
