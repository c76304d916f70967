# SPDX-License-Identifier: Apache-2.0
"""Answers from the database: sessions, calls, budgets, workspaces, journal entries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from palyra.core.chain import Entry, SignedHead
from palyra.core.events import ConfigApplied
from palyra.core.ids import CallId, CredentialId, InstanceId, RequestId, RunId, SessionId
from palyra.core.lifecycle import CallState
from palyra.core.ports import CallRecord
from palyra.core.principal import Principal, PrincipalKind
from palyra.core.proposal import Proposal
from palyra.core.session import BudgetLeft, BudgetLimits, Run, Session
from palyra.core.workspace import Workspace
from palyra.store.sqlite.budgets import read_left, scopes_of
from palyra.store.sqlite.database import store_faults

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    import apsw

_PAGE: Final = 1000
_CALL_COLUMNS: Final = (
    "call_id, calls.principal, runs.session_id, run_id, state, approval_id, request_id,"
    " call_digest, owner, proposal, ending"
)
_proposals = msgspec.msgpack.Decoder(Proposal)
_heads = msgspec.json.Decoder(SignedHead)


def principal_of(text: str) -> Principal:
    """Read ``kind:name`` back."""
    kind, _, name = text.partition(":")
    return Principal(kind=PrincipalKind(kind), name=name)


class Reads:
    """Questions to a read-only connection. Belongs to one thread."""

    def __init__(self, connection: apsw.Connection, *, path: Path) -> None:
        self._connection = connection
        self._path = path

    def _all(self, sql: str, bindings: tuple[object, ...] = ()) -> list[Any]:
        with store_faults(self._path):
            return self._connection.execute(sql, bindings).fetchall()

    def _one(self, sql: str, bindings: tuple[object, ...]) -> Any:  # noqa: ANN401 - a row
        with store_faults(self._path):
            return self._connection.execute(sql, bindings).fetchone()

    def _value(self, sql: str, bindings: tuple[object, ...] = ()) -> Any:  # noqa: ANN401 - a column
        with store_faults(self._path):
            return self._connection.execute(sql, bindings).get

    def session(self, session_id: SessionId) -> Session | None:
        """Return an issued session."""
        row = self._one(
            "SELECT principal, credential, opened_at_ms FROM sessions WHERE session_id = ?",
            (session_id,),
        )
        if row is None:
            return None
        principal, credential, opened_at_ms = row
        return Session(
            session_id=session_id,
            principal=principal_of(principal),
            credential_id=CredentialId(credential),
            opened_at_ms=opened_at_ms,
        )

    def run(self, run_id: RunId) -> Run | None:
        """Return an issued run with the identity of its session."""
        row = self._one(
            "SELECT session_id, principal, credential, runs.opened_at_ms"
            " FROM runs JOIN sessions USING (session_id) WHERE run_id = ?",
            (run_id,),
        )
        if row is None:
            return None
        session_id, principal, credential, opened_at_ms = row
        return Run(
            run_id=run_id,
            session_id=session_id,
            principal=principal_of(principal),
            credential_id=CredentialId(credential),
            opened_at_ms=opened_at_ms,
        )

    def budget_left(
        self, subject: Run | Proposal, *, limits: BudgetLimits, at_ms: int
    ) -> BudgetLeft:
        """Return what each budget of this run still has; the commit checks again."""
        scopes = scopes_of(subject.run_id, subject.session_id, str(subject.principal), at_ms=at_ms)
        with store_faults(self._path):
            return read_left(self._connection, scopes, limits)

    def call(self, call_id: CallId) -> CallRecord | None:
        """Return a recorded call."""
        return next(self._calls("WHERE call_id = ?", (call_id,)), None)

    def by_request(self, principal: Principal, request_id: RequestId) -> CallRecord | None:
        """Return the call that used this request id."""
        where = "WHERE calls.principal = ? AND request_id = ?"
        return next(self._calls(where, (str(principal), request_id)), None)

    def launched(self) -> tuple[CallRecord, ...]:
        """Return the calls that are launched and not ended."""
        return tuple(self._calls("WHERE state = 'launched' ORDER BY call_id", ()))

    def calls(self) -> Iterator[CallRecord]:
        """Yield every call, oldest first."""
        return self._calls("ORDER BY call_id", ())

    def calls_of_runs(self) -> Iterator[tuple[str, int]]:
        """Yield every run with the number of calls charged to it."""
        with store_faults(self._path):
            rows: Iterable[Any] = self._connection.execute(
                "SELECT substr(scope, 5), calls FROM budgets WHERE scope LIKE 'run/%'"
            )
            yield from rows

    def _calls(self, where: str, bindings: tuple[str, ...]) -> Iterator[CallRecord]:
        with store_faults(self._path):
            rows: Iterable[Any] = self._connection.execute(
                f"SELECT {_CALL_COLUMNS} FROM calls JOIN runs USING (run_id) {where}",  # noqa: S608 - constants only
                bindings,
            )
            for row in rows:
                yield _call(row)

    def workspaces(self) -> tuple[Workspace, ...]:
        """Return the registered workspaces by name."""
        rows = self._all("SELECT name, root, device, inode FROM workspaces ORDER BY name")
        return tuple(
            Workspace(name=name, root=root, device=device, inode=inode)
            for name, root, device, inode in rows
        )

    def entries(self, *, first: int = 1, last: int | None = None) -> Iterator[Entry]:
        """Yield journal entries in order, a page at a time so that writers are not held up."""
        while True:
            rows = self._all(
                "SELECT seq, recorded_at_ms, kind, subject, body, link FROM journal"
                " WHERE seq >= ? AND seq <= ? ORDER BY seq LIMIT ?",
                (first, last if last is not None else 1 << 62, _PAGE),
            )
            for row in rows:
                yield _entry(row)
            if len(rows) < _PAGE:
                return
            first = rows[-1][0] + 1

    def of_subject(self, subject: str) -> tuple[Entry, ...]:
        """Return the entries about one call, session or other subject, in order."""
        rows = self._all(
            "SELECT seq, recorded_at_ms, kind, subject, body, link FROM journal"
            " WHERE subject = ? ORDER BY seq",
            (subject,),
        )
        return tuple(_entry(row) for row in rows)

    def attested_at(self, attestation_id: str) -> int | None:
        """Return the index of the entry that holds an attestation: a scan, for people's use."""
        index = self._value(
            "SELECT seq FROM journal WHERE kind IN ('call.ended', 'call.interrupted')"
            " AND body ->> '$.attestation.statement.attestation_id' = ?",
            (attestation_id,),
        )
        return int(index) if index is not None else None

    def latest_configuration(self) -> tuple[str, str] | None:
        """Return the snapshot and policy digests that were last recorded as in force."""
        body = self._value(
            "SELECT body FROM journal WHERE kind = 'config.applied' ORDER BY seq DESC LIMIT 1"
        )
        if body is None:
            return None
        applied = msgspec.json.decode(body, type=ConfigApplied)
        return applied.snapshot_digest, applied.policy_digest

    def size(self) -> int:
        """Return the index of the last entry."""
        return int(self._value("SELECT max(seq) FROM journal") or 0)

    def heads(self, *, first: int = 1) -> Iterator[SignedHead | int]:
        """Yield the signed head of every commit from ``first`` on; its index where unreadable."""
        while True:
            rows = self._all(
                "SELECT seq, head FROM journal WHERE seq >= ? AND head IS NOT NULL"
                " ORDER BY seq LIMIT ?",
                (first, _PAGE),
            )
            for index, text in rows:
                try:
                    yield _heads.decode(text)
                except msgspec.MsgspecError:
                    yield index
            if len(rows) < _PAGE:
                return
            first = rows[-1][0] + 1


def _call(row: Any) -> CallRecord:  # noqa: ANN401 - a row
    return CallRecord(
        call_id=row[0],
        principal=principal_of(row[1]),
        session_id=row[2],
        run_id=row[3],
        state=CallState(row[4]),
        approval_id=row[5],
        request_id=row[6],
        call_digest=row[7],
        owner=InstanceId(row[8]) if row[8] else None,
        kept_proposal=_proposals.decode(row[9]) if row[9] else None,
        ending=row[10],
    )


def _entry(row: tuple[int, int, str, str, bytes, bytes]) -> Entry:
    index, recorded_at_ms, kind, subject, body, link = row
    return Entry(
        index=index,
        recorded_at_ms=recorded_at_ms,
        kind=kind,
        subject=subject,
        body=body,
        link=link,
    )
