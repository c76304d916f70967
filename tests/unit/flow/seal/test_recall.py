# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec
import pytest

from palyra.core.digest import CallDigest, call_digest
from palyra.core.errors import Code, IntegrityError, NotFoundError, StateConflictError
from palyra.core.ids import CallId, RequestId
from palyra.core.lifecycle import CallState
from palyra.core.obligations import Obligations
from palyra.core.result import CallResult, call_result, ending_of, with_place
from palyra.flow.seal.recall import Recall, conflict
from tests.support.samples import ALLOW, ATTESTATION, DECISION_RECORD, FORBID, PROPOSAL
from tests.support.store import admit, call_id, decided, end, ledger_with_run

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator
    from pathlib import Path

    from palyra.core.proposal import Proposal
    from palyra.store.sqlite.ledger import Ledger

REQUEST = RequestId("r1")
ASKED = msgspec.structs.replace(PROPOSAL, request_id=REQUEST)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    yield from ledger_with_run(tmp_path / "home")


def nobody(_: CallId) -> None:
    return None


def kept_proposal(number: int) -> Proposal:
    """Return a proposal whose digest is that of its arguments."""
    digest = call_digest(
        tool=PROPOSAL.tool,
        version=PROPOSAL.tool_version,
        canonical_arguments=bytes(PROPOSAL.arguments),
    )
    return msgspec.structs.replace(PROPOSAL, call_id=call_id(number), call_digest=digest)


def told(number: int, state: CallState) -> CallResult:
    proposal = msgspec.structs.replace(PROPOSAL, call_id=call_id(number))
    return call_result(proposal, ALLOW, state=state, attestation=ATTESTATION)


def test_an_ended_call_is_told_as_it_was(ledger: Ledger) -> None:
    ending = ending_of(told(1, CallState.SUCCEEDED))
    ledger.record_now(admit(1))
    ledger.record_now(end(1, CallState.LAUNCHED, CallState.SUCCEEDED, ending=ending))
    expected = with_place(told(1, CallState.SUCCEEDED), None, index=6)
    assert Recall(ledger, under_way=nobody).result(call_id(1)) == expected


def test_what_was_demanded_is_told_again(ledger: Ledger) -> None:
    demand = Obligations(timeout_ms=5, redact=("/token",))
    record = msgspec.structs.replace(DECISION_RECORD, obligations=demand)
    entry = msgspec.structs.replace(decided(1), decision=record)
    ending = ending_of(told(1, CallState.SUCCEEDED))
    ledger.record_now(admit(1, CallState.DENIED, events=(entry,), ending=ending))
    result = Recall(ledger, under_way=nobody).result(call_id(1))
    assert result.decision.obligations == demand


def test_a_denied_call_is_told_as_it_was(ledger: Ledger) -> None:
    ending = ending_of(call_result(PROPOSAL, FORBID, state=CallState.DENIED))
    ledger.record_now(admit(1, CallState.DENIED, ending=ending))
    result = Recall(ledger, under_way=nobody).result(call_id(1))
    assert (result.state, result.outcome) == ("denied", None)
    assert result.attestation is not None
    assert result.attestation.log_index == 5


def test_a_pending_call_is_told_without_an_attestation(ledger: Ledger) -> None:
    kept = kept_proposal(1)
    ledger.record_now(admit(1, CallState.PENDING, kept_proposal=kept, call_digest=kept.call_digest))
    result = Recall(ledger, under_way=nobody).result(call_id(1))
    assert (result.state, result.attestation) == ("pending", None)


def test_a_running_call_is_not_told(ledger: Ledger) -> None:
    ledger.record_now(admit(1))
    with pytest.raises(StateConflictError) as fault:
        Recall(ledger, under_way=nobody).result(call_id(1))
    assert (fault.value.code, dict(fault.value.details)) == (
        Code.CALL_UNDER_WAY,
        {"call_id": call_id(1), "state": "launched"},
    )


async def test_a_call_that_runs_here_is_waited_for(ledger: Ledger) -> None:
    ledger.record_now(admit(1))
    walk: asyncio.Future[CallResult] = asyncio.get_running_loop().create_future()

    def under_way(asked: CallId) -> Awaitable[CallResult] | None:
        return walk if asked == call_id(1) else None

    telling = asyncio.create_task(Recall(ledger, under_way=under_way).tell(call_id(1)))
    await asyncio.sleep(0)
    assert not telling.done()
    walk.set_result(told(1, CallState.SUCCEEDED))
    assert await telling == told(1, CallState.SUCCEEDED)


@pytest.mark.parametrize("unknown", ["", "no ulid", "01J00000000000000000000009"])
def test_an_unknown_call_is_not_found(ledger: Ledger, unknown: str) -> None:
    with pytest.raises(NotFoundError) as fault:
        Recall(ledger, under_way=nobody).record(CallId(unknown))
    assert fault.value.code is Code.CALL_UNKNOWN


class TestEarlier:
    """The call that used the same request id."""

    async def test_without_a_request_id_there_is_none(self, ledger: Ledger) -> None:
        assert await Recall(ledger, under_way=nobody).earlier(PROPOSAL) is None

    async def test_a_new_request_id_has_none(self, ledger: Ledger) -> None:
        assert await Recall(ledger, under_way=nobody).earlier(ASKED) is None

    async def test_the_same_call_is_told_again(self, ledger: Ledger) -> None:
        ending = ending_of(call_result(PROPOSAL, FORBID, state=CallState.DENIED))
        ledger.record_now(admit(1, CallState.DENIED, request_id=REQUEST, ending=ending))
        recall = Recall(ledger, under_way=nobody)
        assert await recall.earlier(ASKED) == recall.result(call_id(1))

    async def test_another_call_is_a_conflict(self, ledger: Ledger) -> None:
        ledger.record_now(admit(1, request_id=REQUEST))
        other = msgspec.structs.replace(ASKED, call_digest=CallDigest("9" * 64))
        with pytest.raises(StateConflictError) as fault:
            await Recall(ledger, under_way=nobody).earlier(other)
        assert (fault.value.code, fault.value.details) == (
            conflict(call_id(1)).code,
            conflict(call_id(1)).details,
        )


@pytest.mark.invariant("I8")
def test_a_call_without_a_recorded_decision_is_a_broken_journal(ledger: Ledger) -> None:
    ledger.record_now(admit(1, CallState.DENIED, events=(decided(2),)))
    with pytest.raises(IntegrityError) as fault:
        Recall(ledger, under_way=nobody).result(call_id(1))
    assert fault.value.code is Code.JOURNAL_BROKEN


@pytest.mark.invariant("I8")
@pytest.mark.parametrize("ending", [b"[]", b"\xff", b"{", b'{"hint":1}'])
def test_an_ending_that_cannot_be_read_is_a_broken_journal(ledger: Ledger, ending: bytes) -> None:
    ledger.record_now(admit(1, CallState.DENIED, ending=ending))
    with pytest.raises(IntegrityError) as fault:
        Recall(ledger, under_way=nobody).result(call_id(1))
    assert fault.value.code is Code.JOURNAL_BROKEN


def as_recorded(proposal: Proposal) -> Proposal:
    """Return the proposal that the entry of the same number records."""
    entry = decided(1)
    return msgspec.structs.replace(
        proposal,
        call_digest=entry.call_digest,
        plan_digest=entry.plan_digest,
        tool=entry.tool,
        tool_version=entry.tool_version,
    )


@pytest.mark.invariant("I4")
def test_what_was_decided_is_confirmed(ledger: Ledger) -> None:
    kept = as_recorded(kept_proposal(1))
    ledger.record_now(admit(1, CallState.PENDING, kept_proposal=kept))
    recall = Recall(ledger, under_way=nobody)
    assert recall.as_decided(kept, call_id=call_id(1)) == kept


@pytest.mark.invariant("I4")
@pytest.mark.parametrize(
    "change",
    [
        {"call_id": call_id(2)},
        {"tool": "palyra.fs.write"},
        {"tool_version": "2.0.0"},
        {"call_digest": "0" * 64},
        {"plan_digest": "0" * 64},
        {"depth": 3},
    ],
    ids=["call", "tool", "version", "arguments", "plan", "depth"],
)
def test_what_was_not_decided_is_not_resumed(ledger: Ledger, change: dict[str, object]) -> None:
    kept = as_recorded(kept_proposal(1))
    ledger.record_now(admit(1, CallState.PENDING, kept_proposal=kept))
    recall = Recall(ledger, under_way=nobody)
    for proposal in (None, msgspec.structs.replace(kept, **change)):
        with pytest.raises(StateConflictError) as fault:
            recall.as_decided(proposal, call_id=call_id(1))
        assert fault.value.code is Code.PERMIT_MISMATCH
