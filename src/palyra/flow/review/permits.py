# SPDX-License-Identifier: Apache-2.0
"""The end of stage 3: what was decided and answered in, a permit or the reason for none out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from palyra.core.approval import Rejection
from palyra.core.decision import Verdict
from palyra.core.errors import Code, StateConflictError
from palyra.core.ids import PermitId
from palyra.core.obligations import combined
from palyra.core.permit import Permit

if TYPE_CHECKING:
    from palyra.core.approval import Answer
    from palyra.core.decision import Decision
    from palyra.core.ports import Clock, IdSource
    from palyra.core.proposal import Proposal


class Permits:
    """Builds permits from their evidence."""

    def __init__(self, *, clock: Clock, ids: IdSource) -> None:
        self._clock = clock
        self._ids = ids

    def build(
        self,
        proposal: Proposal,
        decision: Decision,
        answer: Answer | None,
        *,
        still: Decision,
        asked_by: tuple[str, ...] | None = None,
    ) -> Permit | Rejection:
        """Return the permit that decision and answer give, if it still holds now (I4).

        ``still`` is the decision under the policies of this moment; ``asked_by`` are the policies
        that the question was about, where it was put earlier: no answer covers one that asks since.
        """
        if isinstance(answer, Rejection):
            return answer
        if asked_by is not None and decision.verdict is Verdict.ASK:
            others = sorted(set(decision.policies) - set(asked_by))
            if others:
                return Rejection(
                    code=Code.POLICY_STRICTER, reason=f"policy {others[0]} asks since the answer"
                )
        if still.obligations != decision.obligations:
            demands = combined((decision.obligations, still.obligations))
            decision = msgspec.structs.replace(decision, obligations=demands)
        permit_id, now_ms = PermitId(self._ids.ulid()), self._clock.now_ms()
        try:
            permit = Permit.from_answer(
                proposal, decision, answer, permit_id=permit_id, now_ms=now_ms
            )
            permit.check_launch(proposal, still, now_ms=now_ms)
        except StateConflictError as error:
            return Rejection(code=error.code, reason=error.message)
        return permit
