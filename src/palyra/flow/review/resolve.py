# SPDX-License-Identifier: Apache-2.0
"""Stage 3: a question in, an answer or a pending question out; a fault is a no (I1)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from palyra.core.approval import Answer, Approval, Pending, Rejection
from palyra.core.errors import MEANINGS, Code
from palyra.core.trace import trace_of

if TYPE_CHECKING:
    from palyra.core.decision import Decision
    from palyra.core.ids import ApprovalId
    from palyra.core.ports import Reviewer
    from palyra.core.proposal import Proposal

_log: Final = logging.getLogger(__name__)


class Resolver:
    """Puts questions to a reviewer, and takes no fault for an answer."""

    def __init__(self, reviewer: Reviewer) -> None:
        self._reviewer = reviewer

    async def ask(self, proposal: Proposal, decision: Decision) -> Answer | Pending:
        """Answer from what is known, or prepare a question that nobody has been told of yet."""
        try:
            return await self._reviewer.ask(proposal, decision)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is a refusal (I1)
            _log.error("call %s could not be asked about: %s", proposal.call_id, trace_of(error))
            return _unanswered(None)

    async def announce(self, pending: Pending) -> None:
        """Tell operators of a durable question; if that fails, it stays listed and unanswered."""
        try:
            await self._reviewer.announce(pending)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is a refusal (I1)
            _log.error(
                "question %s could not be announced: %s", pending.approval_id, trace_of(error)
            )

    async def wait(self, approval_id: ApprovalId) -> Answer:
        """Return the answer once there is one."""
        try:
            answer = await self._reviewer.wait(approval_id)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is a refusal (I1)
            _log.error("question %s could not be waited for: %s", approval_id, trace_of(error))
            return _unanswered(approval_id)
        if isinstance(answer, Approval) and answer.approval_id != approval_id:
            return _unanswered(approval_id)  # an answer to another question (I4)
        return answer


def _unanswered(approval_id: ApprovalId | None) -> Rejection:
    return Rejection(
        code=Code.APPROVAL_FAULT,
        reason=MEANINGS[Code.APPROVAL_FAULT].sentence,
        approval_id=approval_id,
    )
