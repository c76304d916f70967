# SPDX-License-Identifier: Apache-2.0
"""Answers from the database: sessions, calls, budgets, workspaces, rules, journal entries."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

import apsw
import msgspec

from palyra.core.chain import Entry, SignedHead
from palyra.core.digest import PolicyDigest
from palyra.core.errors import Code, InputError, IntegrityError
from palyra.core.events import ConfigApplied
from palyra.core.ids import CallId, CredentialId, InstanceId, RequestId, RunId, SessionId
from palyra.core.lifecycle import CallState
from palyra.core.ports import CallRecord, RulesInForce, StagedPack
from palyra.core.posture import Posture, PostureScope, PostureSetting
from palyra.core.principal import Principal, PrincipalKind
from palyra.core.proposal import Proposal
from palyra.core.session import BudgetLeft, BudgetLimits, Run, Session
from palyra.core.workspace import Workspace
from palyra.store.sqlite.budgets import read_left, scopes_of
from palyra.store.sqlite.database import store_faults
from palyra.store.sqlite.rules import POSTURE_COLUMNS
from palyra.store.sqlite.schema import differences

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

_PAGE: Final = 1000
_LAST: Final = (1 << 63) - 1
_MOST_DAMAGE: Final = 20
_CALL_COLUMNS: Final = (
    "call_id, calls.principal, runs.session_id, run_id, state, approval_id, request_id,"
    " call_digest, owner, proposal, ending"
)
# As bytes, so that a damaged entry can still be read, and then be named.
_ENTRY_COLUMNS: Final = (
    "seq, recorded_at_ms, CAST(kind AS BLOB), CAST(subject AS BLOB), CAST(body AS BLOB),"
    " CAST(link AS BLOB)"
)
_RULES: Final = "SELECT only, version, policy_digest FROM rules LIMIT 2"
_RULES_VERSION: Final = "SELECT version FROM rules"
_UNREADABLE: Final = (ValueError, msgspec.MsgspecError, InputError, RecursionError)
_proposals = msgspec.json.Decoder(Proposal)
_heads = msgspec.json.Decoder(SignedHead)
_encode_head = msgspec.json.Encoder(order="sorted").encode

T = TypeVar("T")


def principal_of(text: str) -> Principal:
    """Read ``kind:name`` back."""
    kind, _, name = text.partition(":")
    return Principal(kind=PrincipalKind(kind), name=name)


class Reads:
    """Questions to a connection, which they do not change. Belongs to one thread."""

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

    def _each(self, sql: str, bindings: tuple[object, ...] = ()) -> Iterator[Any]:
        with store_faults(self._path):
            rows: Iterable[Any] = self._connection.execute(sql, bindings)
            yield from rows

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Let all reads within see one moment, whatever is written meanwhile."""
        with store_faults(self._path):
            self._connection.execute("BEGIN")
        try:
            yield
        finally:
            with store_faults(self._path):
                self._connection.execute("ROLLBACK")

    def session(self, session_id: SessionId) -> Session | None:
        """Return an issued session."""
        row = self._one(
            "SELECT session_id, principal, credential, opened_at_ms FROM sessions"
            " WHERE session_id = ?",
            (session_id,),
        )
        return _readable(_session(row)) if row is not None else None

    def sessions(self) -> Iterator[Session | SessionId]:
        """Yield every session; only its id where it cannot be read."""
        sql = "SELECT session_id, principal, credential, opened_at_ms FROM sessions"
        return map(_session, self._each(sql))

    def run(self, run_id: RunId) -> Run | None:
        """Return an issued run with the identity of its session."""
        row = self._one(
            "SELECT run_id, session_id, principal, credential, runs.opened_at_ms"
            " FROM runs JOIN sessions USING (session_id) WHERE run_id = ?",
            (run_id,),
        )
        return _readable(_run(row)) if row is not None else None

    def runs(self) -> Iterator[Run | RunId]:
        """Yield every run with the identity of its session; only its id where it has none."""
        sql = (
            "SELECT run_id, session_id, principal, credential, runs.opened_at_ms"
            " FROM runs LEFT JOIN sessions USING (session_id)"
        )
        return map(_run, self._each(sql))

    def budget_left(
        self, subject: Run | Proposal, *, limits: BudgetLimits, at_ms: int
    ) -> BudgetLeft:
        """Return what each budget of this run still has; the commit checks again."""
        scopes = scopes_of(subject.run_id, subject.session_id, str(subject.principal), at_ms=at_ms)
        with store_faults(self._path):
            return read_left(self._connection, scopes, limits)

    def call(self, call_id: CallId) -> CallRecord | None:
        """Return a recorded call."""
        return next(self._readable_calls("WHERE call_id = ?", (call_id,)), None)

    def by_request(self, principal: Principal, request_id: RequestId) -> CallRecord | None:
        """Return the call that used this request id."""
        where = "WHERE calls.principal = ? AND request_id = ?"
        return next(self._readable_calls(where, (str(principal), request_id)), None)

    def launched(self) -> tuple[CallRecord, ...]:
        """Return the calls that are launched and not ended."""
        return tuple(self._readable_calls("WHERE state = 'launched' ORDER BY call_id", ()))

    def calls(self) -> Iterator[CallRecord | CallId]:
        """Yield every call, oldest first; only its id where it cannot be read."""
        return self._calls("ORDER BY call_id", ())

    def charges(self) -> Iterator[tuple[str, str, int]]:
        """Yield the calls charged so far: to each ``run``, ``session`` and ``agent``, by name."""
        agents: Counter[str] = Counter()
        for scope, calls in self._each("SELECT scope, calls FROM budgets"):
            kind, _, name = scope.partition("/")
            if kind == "hour":
                agents[name.rpartition("/")[0]] += calls
            else:
                yield kind, name, calls
        for agent, calls in agents.items():
            yield "agent", agent, calls

    def _readable_calls(self, where: str, bindings: tuple[str, ...]) -> Iterator[CallRecord]:
        return map(_readable, self._calls(where, bindings))

    def _calls(self, where: str, bindings: tuple[str, ...]) -> Iterator[CallRecord | CallId]:
        sql = f"SELECT {_CALL_COLUMNS} FROM calls LEFT JOIN runs USING (run_id) {where}"  # noqa: S608 - constants only
        return map(_call, self._each(sql, bindings))

    def workspaces(self) -> tuple[Workspace, ...]:
        """Return the registered workspaces by name."""
        rows = self._all("SELECT name, root, device, inode FROM workspaces ORDER BY name")
        return tuple(
            Workspace(name=name, root=root, device=device, inode=inode)
            for name, root, device, inode in rows
        )

    def rules_version(self) -> int:
        """Count the changes of the rules so far; 0 before the first start.

        Asked before every decision. A look at whether anything has changed (``data_version``)
        costs what the answer costs, so the answer is read each time and never stale.
        """
        version: Any
        try:  # without a context manager, which would take a third of the time
            version = self._connection.execute(_RULES_VERSION).get
        except (apsw.Error, UnicodeDecodeError):
            version = self._value(_RULES_VERSION)  # once more, so that the fault is named
        return version or 0

    def rules_in_force(self) -> RulesInForce | None:
        """Return which rules hold at this moment; ``None`` before the first start."""
        rows = self._all(_RULES)
        if not rows:
            return None
        only, version, digest = rows[0]
        if (len(rows), only) != (1, 1) or version < 1:  # a reader's SQLite checks no constraints
            raise _unreadable("the row of the rules in force")
        return RulesInForce(version=version, policy_digest=digest)

    def pack(self, policy_digest: PolicyDigest) -> StagedPack | None:
        """Return a kept pack."""
        row = self._one(
            "SELECT digest, staged_at_ms, was_active, body FROM packs WHERE digest = ?",
            (policy_digest,),
        )
        return _pack(row) if row is not None else None

    def packs(self) -> tuple[StagedPack, ...]:
        """Return the kept packs without their bodies, the latest first."""
        rows = self._all(
            "SELECT digest, staged_at_ms, was_active, x'' FROM packs"
            " ORDER BY staged_at_ms DESC, digest"
        )
        return tuple(map(_pack, rows))

    def postures(self) -> tuple[PostureSetting, ...]:
        """Return every posture that is set, expired or not."""
        rows = self._all(
            f"SELECT {POSTURE_COLUMNS} FROM postures ORDER BY tool, scope, scope_id"  # noqa: S608 - constants only
        )
        return tuple(map(_posture, rows))

    def entries(self, *, first: int = 1, last: int | None = None) -> Iterator[Entry]:
        """Yield journal entries in order, a page at a time so that writers are not held up."""
        while True:
            rows = self._all(
                f"SELECT {_ENTRY_COLUMNS} FROM journal"  # noqa: S608 - constants only
                " WHERE seq >= ? AND seq <= ? ORDER BY seq LIMIT ?",
                (first, last if last is not None else _LAST, _PAGE),
            )
            for row in rows:
                yield _entry(row)
            if len(rows) < _PAGE or rows[-1][0] == _LAST:
                return
            first = rows[-1][0] + 1

    def of_subject(self, subject: str) -> tuple[Entry, ...]:
        """Return the entries about one call, session or other subject, in order."""
        rows = self._all(
            f"SELECT {_ENTRY_COLUMNS} FROM journal WHERE subject = ? ORDER BY seq",  # noqa: S608 - constants only
            (subject,),
        )
        return tuple(_entry(row) for row in rows)

    def of_kind(self, kind: str, *, since_ms: int = 0) -> Iterator[Entry]:
        """Yield the entries of one kind recorded at or after a time, in order.

        A scan, for people's use: an index by kind would make every append slower.
        """
        first = -_LAST - 1
        while True:
            rows = self._all(
                f"SELECT {_ENTRY_COLUMNS} FROM journal"  # noqa: S608 - constants only
                " WHERE seq >= ? AND kind = ? AND recorded_at_ms >= ? ORDER BY seq LIMIT ?",
                (first, kind, since_ms, _PAGE),
            )
            for row in rows:
                yield _entry(row)
            if len(rows) < _PAGE or rows[-1][0] == _LAST:
                return
            first = rows[-1][0] + 1

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
        try:
            applied = msgspec.json.decode(body, type=ConfigApplied)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise IntegrityError(
                Code.JOURNAL_BROKEN, "the entry of the latest configuration cannot be read"
            ) from error
        return applied.snapshot_digest, applied.policy_digest

    def size(self) -> int:
        """Return the index of the last entry."""
        return int(self._value("SELECT max(seq) FROM journal") or 0)

    def damage(self) -> Iterator[str]:
        """Yield what is wrong with the store's own pages and indexes."""
        with store_faults(self._path):
            for kind, name in differences(self._connection):
                yield f"{kind} {name[:64]!r} of the database is not as Palyra made it"
        for (found,) in self._each(f"PRAGMA integrity_check({_MOST_DAMAGE})"):
            if found != "ok":
                yield f"the database is damaged: {found}"

    def heads(self, *, first: int = 1) -> Iterator[tuple[int, SignedHead | None]]:
        """Yield the entries with a signed head beside them, and ``None`` for an unreadable one."""
        while True:
            rows = self._all(
                "SELECT seq, head FROM journal WHERE seq >= ? AND head IS NOT NULL"
                " ORDER BY seq LIMIT ?",
                (first, _PAGE),
            )
            for index, text in rows:
                yield index, _head(text)
            if len(rows) < _PAGE or rows[-1][0] == _LAST:
                return
            first = rows[-1][0] + 1


def _readable(row: T | str) -> T:
    if isinstance(row, str):
        raise _unreadable(f"the state of {row}")
    return row


def _unreadable(what: str) -> IntegrityError:
    return IntegrityError(Code.JOURNAL_BROKEN, f"{what} cannot be read")


def _pack(row: Any) -> StagedPack:  # noqa: ANN401 - a row
    digest, staged_at_ms, was_active, body = row
    if was_active not in (0, 1):
        raise _unreadable(f"the row of policies {digest[:64]!r}")
    return StagedPack(
        policy_digest=PolicyDigest(digest),
        staged_at_ms=staged_at_ms,
        was_active=bool(was_active),
        body=body,
    )


def _posture(row: Any) -> PostureSetting:  # noqa: ANN401 - a row
    tool, scope, scope_id, state, reason, set_by, by_administrator, set_at_ms, expires_at_ms = row
    try:
        if by_administrator not in (0, 1):
            raise ValueError(by_administrator)
        return PostureSetting(
            tool=tool,
            scope=PostureScope(scope),
            scope_id=scope_id,
            state=Posture(state),
            reason=reason,
            set_by=principal_of(set_by),
            by_administrator=bool(by_administrator),
            set_at_ms=set_at_ms,
            expires_at_ms=expires_at_ms,
        )
    except _UNREADABLE as error:
        where = f"{scope} {scope_id}".strip()
        raise _unreadable(f"the posture of {tool[:64]!r} for {where[:80]!r}") from error


def _session(row: Any) -> Session | SessionId:  # noqa: ANN401 - a row
    session_id, principal, credential, opened_at_ms = row
    try:
        return Session(
            session_id=session_id,
            principal=principal_of(principal),
            credential_id=CredentialId(credential),
            opened_at_ms=opened_at_ms,
        )
    except _UNREADABLE:
        return SessionId(session_id)


def _run(row: Any) -> Run | RunId:  # noqa: ANN401 - a row
    run_id, session_id, principal, credential, opened_at_ms = row
    if principal is None:
        return RunId(run_id)
    try:
        return Run(
            run_id=run_id,
            session_id=session_id,
            principal=principal_of(principal),
            credential_id=CredentialId(credential),
            opened_at_ms=opened_at_ms,
        )
    except _UNREADABLE:
        return RunId(run_id)


def _call(row: Any) -> CallRecord | CallId:  # noqa: ANN401 - a row
    call_id, principal, session_id = row[:3]
    if session_id is None:
        return CallId(call_id)
    try:
        return CallRecord(
            call_id=call_id,
            principal=principal_of(principal),
            session_id=session_id,
            run_id=row[3],
            state=CallState(row[4]),
            approval_id=row[5],
            request_id=row[6],
            call_digest=row[7],
            owner=InstanceId(row[8]) if row[8] else None,
            kept_proposal=_proposals.decode(row[9]) if row[9] else None,
            ending=row[10],
        )
    except _UNREADABLE:
        return CallId(call_id)


def _head(text: bytes) -> SignedHead | None:
    """Read a head back; written in any other way than ours, it is not one of ours."""
    try:
        head = _heads.decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return head if _encode_head(head) == text else None


def _entry(row: tuple[int, int, bytes, bytes, bytes, bytes]) -> Entry:
    index, recorded_at_ms, kind, subject, body, link = row
    return Entry(
        index=index,
        recorded_at_ms=recorded_at_ms,
        kind=kind.decode("utf-8", "replace"),
        subject=subject.decode("utf-8", "replace"),
        body=body,
        link=link,
    )
