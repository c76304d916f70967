# SPDX-License-Identifier: Apache-2.0
"""The reviewer of a gate that no operator attends: every question is answered with no (I1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from palyra.core.approval import Answer, Pending, Rejection
from palyra.core.errors import MEANINGS, Code

if TYPE_CHECKING:
    from palyra.core.decision import Decision
    from palyra.core.ids import ApprovalId
    from palyra.core.proposal import Proposal


class Unattended:
    """Asks nobody, so nothing that needs a human ever runs."""

    async def ask(self, proposal: Proposal, decision: Decision) -> Answer | Pending:  # noqa: ARG002 - the port's signature
        """Reject at once."""
        return Rejection(
            code=Code.APPROVAL_NO_OPERATOR, reason=MEANINGS[Code.APPROVAL_NO_OPERATOR].sentence
        )

    async def announce(self, pending: Pending) -> None:
        """Refuse: this reviewer leaves nothing pending."""
        raise RuntimeError(f"question {pending.approval_id} was not put by this reviewer")

    async def wait(self, approval_id: ApprovalId) -> Answer:
        """Reject a question that another reviewer had put: nobody is here to answer it."""
        return Rejection(
            code=Code.APPROVAL_NO_OPERATOR,
            reason=MEANINGS[Code.APPROVAL_NO_OPERATOR].sentence,
            approval_id=approval_id,
        )
