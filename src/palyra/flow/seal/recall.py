# SPDX-License-Identifier: Apache-2.0
"""What was told of a call before, told again: for retries, for resumes, for lost races."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import msgspec

from palyra.core.errors import Code, IntegrityError, NotFoundError, StateConflictError
from palyra.core.events import CallDecided, CallEnded, CallInterrupted, read_event
from palyra.core.ids import is_ulid
from palyra.core.result import CallResult, read_ending, recorded_result, with_place

if TYPE_CHECKING:
    from palyra.core.attestation import Attestation
    from palyra.core.ids import CallId
    from palyra.core.ports import CallRecord, CallStore
    from palyra.core.proposal import Malformed, Proposal


UnderWay = Callable[["CallId"], "Awaitable[CallResult] | None"]
"""How to wait for a call that this process is running."""


class Recall:
    """Reads recorded calls back."""

    def __init__(self, store: CallStore, *, under_way: UnderWay) -> None:
        self._store = store
        self._under_way = under_way

    def record(self, call_id: CallId) -> CallRecord:
        """Return what the store knows of a call.

        Raises:
            NotFoundError: there is no such call.
        """
        record = self._store.call(call_id) if is_ulid(call_id) else None
        if record is None:
            raise NotFoundError(Code.CALL_UNKNOWN)
        return record

    def as_decided(self, proposal: Proposal | None, *, call_id: CallId) -> Proposal:
        """Return ``proposal`` if the journal says that exactly this call was decided (I4).

        Raises:
            StateConflictError: the call, or how it would run, is not what was decided.
        """
        decided = self._decided(call_id)
        if proposal is None or _identity(proposal) != _identity(decided):
            raise StateConflictError(
                Code.PERMIT_MISMATCH, f"call {call_id} would not run as it was decided"
            )
        return proposal

    def asked_by(self, call_id: CallId) -> tuple[str, ...]:
        """Return the policies that a call's question was about, as the journal has them (I4)."""
        return self._decided(call_id).decision.policies

    def _decided(self, call_id: CallId) -> CallDecided:
        for entry in self._store.of_subject(call_id):
            if entry.kind == CallDecided.kind:
                return read_event(entry, CallDecided)
        raise IntegrityError(Code.JOURNAL_BROKEN, f"call {call_id} has no recorded decision")

    async def earlier(self, subject: Proposal | Malformed) -> CallResult | None:
        """Return the result of the call that used the same request id, if there is one.

        Raises:
            StateConflictError: that call was about something else.
        """
        if subject.request_id is None:
            return None
        record = self._store.by_request(subject.principal, subject.request_id)
        if record is None:
            return None
        if record.call_digest != subject.call_digest:
            raise conflict(record.call_id)
        return await self.tell(record.call_id)

    async def tell(self, call_id: CallId) -> CallResult:
        """Return a call's result, waiting for it if this process is running it."""
        walk = self._under_way(call_id)
        return await walk if walk is not None else self.result(call_id)

    def result(self, call_id: CallId) -> CallResult:
        """Return a call's result as it was told.

        Raises:
            StateConflictError: the call is still running.
        """
        record = self.record(call_id)
        if not record.ending:
            raise StateConflictError(
                Code.CALL_UNDER_WAY,
                f"call {call_id} is {record.state}",
                details={"call_id": call_id, "state": record.state.value},
            )
        attestation: Attestation | None = None
        index = 0
        for entry in self._store.of_subject(call_id):
            if entry.kind in (CallEnded.kind, CallInterrupted.kind):
                attestation = read_event(entry, CallEnded).attestation
                index = entry.index
        decided = self._decided(call_id)
        try:
            ending = read_ending(record.ending)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise IntegrityError(
                Code.JOURNAL_BROKEN, f"the ending of call {call_id} cannot be read"
            ) from error
        result = recorded_result(decided, ending, state=record.state, attestation=attestation)
        return with_place(result, None, index=index)


def _identity(subject: Proposal | CallDecided) -> tuple[object, ...]:
    """Return what makes a call this call, as it is proposed and as it was recorded."""
    return (
        subject.call_id,
        str(subject.principal),
        subject.session_id,
        subject.run_id,
        subject.parent_call_id,
        subject.depth,
        subject.tool,
        subject.tool_version,
        subject.call_digest,
        subject.plan_digest,
    )


def conflict(call_id: CallId) -> StateConflictError:
    """Return the fault of a request id that was used for another call."""
    return StateConflictError(Code.REQUEST_CONFLICT, details={"call_id": call_id})
