# SPDX-License-Identifier: Apache-2.0
"""The proposal of a pending call, made again: of what was kept, only the arguments are believed.

Hours may have passed and somebody may have edited the store. Tool, schema, facts, sensitivity,
workspace and plan are taken from what holds now; the digests then say whether it is still the call
that was decided (I4).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from palyra.core.proposal import CallRequest, Proposal
from palyra.flow.intake.receive import Parent

if TYPE_CHECKING:
    from palyra.core.session import Run
    from palyra.flow.intake.receive import Receiver


def renew(receiver: Receiver, kept: Proposal, *, run: Run) -> Proposal | None:
    """Return the proposal that the kept arguments make today, or ``None`` if they make none."""
    parent = None
    if kept.parent_call_id is not None:
        parent = Parent(call_id=kept.parent_call_id, depth=kept.depth - 1)
    request = CallRequest(
        tool=kept.tool,
        raw_arguments=bytes(kept.arguments),
        run_id=run.run_id,
        request_id=kept.request_id,
        timeout_ms=kept.timeout_ms,
    )
    again = receiver.receive(request, run=run, parent=parent)
    if not isinstance(again, Proposal):
        return None
    return msgspec.structs.replace(again, call_id=kept.call_id, proposed_at_ms=kept.proposed_at_ms)
