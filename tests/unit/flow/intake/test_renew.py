# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import msgspec

from palyra.core.proposal import CallRequest, Malformed, Proposal
from palyra.core.session import Run
from palyra.flow.intake.receive import Parent
from palyra.flow.intake.renew import renew
from tests.support.samples import AGENT, CALL_ID, CREDENTIAL_ID, NOW_MS, PROPOSAL, RUN_ID
from tests.support.samples import SESSION_ID as SESSION

RUN = Run(
    run_id=RUN_ID,
    session_id=SESSION,
    principal=AGENT,
    credential_id=CREDENTIAL_ID,
    opened_at_ms=NOW_MS,
)
FRESH = msgspec.structs.replace(PROPOSAL, call_id="01JCZK5M8N0000000000000055", timeout_ms=7)


class FixedReceiver:
    """Gives one answer, and remembers what it was given."""

    def __init__(self, answer: Proposal | Malformed) -> None:
        self.answer = answer
        self.given: list[tuple[CallRequest, Parent | None]] = []

    def receive(
        self, request: CallRequest, *, run: Run, parent: Parent | None = None
    ) -> Proposal | Malformed:
        assert run == RUN
        self.given.append((request, parent))
        return self.answer


def test_only_the_call_id_and_its_time_are_taken_over() -> None:
    receiver = FixedReceiver(FRESH)
    kept = msgspec.structs.replace(PROPOSAL, is_sensitive=not FRESH.is_sensitive, proposed_at_ms=5)
    again = renew(receiver, kept, run=RUN)  # type: ignore[arg-type]  # of the same shape
    assert again == msgspec.structs.replace(FRESH, call_id=CALL_ID, proposed_at_ms=5)
    request, parent = receiver.given[0]
    assert (request.raw_arguments, request.tool) == (bytes(kept.arguments), kept.tool)
    assert parent is None


def test_a_nested_call_stays_nested() -> None:
    receiver = FixedReceiver(FRESH)
    kept = msgspec.structs.replace(PROPOSAL, parent_call_id=CALL_ID, depth=3)
    renew(receiver, kept, run=RUN)  # type: ignore[arg-type]  # of the same shape
    assert receiver.given[0][1] == Parent(call_id=CALL_ID, depth=2)


def test_what_makes_no_proposal_any_more_is_none() -> None:
    malformed = msgspec.convert(
        dict.fromkeys(Malformed.__struct_fields__, "")
        | {
            "principal": {"kind": "agent", "name": "ada"},
            "request_id": None,
            "parent_call_id": None,
            "depth": 0,
            "proposed_at_ms": 0,
            "code": "input.invalid",
        },
        Malformed,
    )
    receiver = FixedReceiver(malformed)
    assert renew(receiver, PROPOSAL, run=RUN) is None  # type: ignore[arg-type]  # same shape
