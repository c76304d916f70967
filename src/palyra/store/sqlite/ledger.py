# SPDX-License-Identifier: Apache-2.0
"""The store as the flow sees it: one recorder, and the reads beside it."""

from __future__ import annotations

import os
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Self

import msgspec

from palyra.core.chain import GENESIS, Entry, Head, SignedHead
from palyra.core.errors import Code, IntegrityError, PalyraError, StoreError
from palyra.core.events import LogOpened
from palyra.core.ids import CallId, InstanceId, LogId, RequestId, RunId, SessionId
from palyra.core.transitions import Note, Transition
from palyra.store.head_file import HeadFile, read_kept_head
from palyra.store.instances import Instance, is_alive
from palyra.store.sqlite.appender import Appender, is_own_head
from palyra.store.sqlite.budgets import scopes_of
from palyra.store.sqlite.database import connect_reader, connect_writer
from palyra.store.sqlite.group_commit import GroupCommit
from palyra.store.sqlite.reads import Reads
from palyra.store.sqlite.schema import prepare, require_tables

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from palyra.core.attestation import Anchor
    from palyra.core.digest import PolicyDigest
    from palyra.core.ports import (
        CallRecord,
        Clock,
        IdSource,
        Recorded,
        RulesInForce,
        Signer,
        StagedPack,
    )
    from palyra.core.posture import PostureSetting
    from palyra.core.principal import Principal
    from palyra.core.proposal import Proposal
    from palyra.core.session import BudgetLeft, BudgetLimits, Run, Session
    from palyra.core.workspace import Workspace

DATABASE_NAME = "palyra.db"
HEAD_NAME = "journal.head"
INSTANCES_NAME = "instances"

_openings = msgspec.json.Decoder(LogOpened)


class Archive(Reads):
    """The store opened for reading only: no key is needed, and nothing is changed."""

    def __init__(self, home: Path, *, busy_timeout_ms: int) -> None:
        path = home / DATABASE_NAME
        if not os.access(path, os.R_OK):
            raise StoreError(
                Code.STORE_UNREACHABLE,
                f"there is no readable journal in {home}",
                hint="it begins with the first 'palyra call'; --home names another place",
            )
        connection = connect_reader(path, busy_timeout_ms=busy_timeout_ms)
        require_tables(connection, path=path)
        super().__init__(connection, path=path)
        self._head_path = home / HEAD_NAME

    def kept_head(self) -> SignedHead | None:
        """Return the head kept outside the database."""
        return read_kept_head(self._head_path)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


class Ledger:
    """The store opened for writing, by one living instance."""

    def __init__(
        self,
        *,
        appender: Appender,
        reads: Reads,
        rules: Reads,
        instance: Instance,
        instances: Path,
        opened: ExitStack,
    ) -> None:
        self.reads = reads
        self._rules = rules
        self._appender = appender
        self._group = GroupCommit(appender.commit)
        self._instance = instance
        self._instances = instances
        self._opened = opened

    @classmethod
    def open(
        cls, home: Path, *, signer: Signer, clock: Clock, ids: IdSource, busy_timeout_ms: int
    ) -> Self:
        """Open the store for writing, and refuse if it is not the one that was left (I8).

        The caller holds :func:`palyra.store.instances.starting`, so that two first starts do not
        open two logs.

        Raises:
            StoreError: the database cannot be opened or written.
            IntegrityError: another key, or a journal that does not reach the kept head.
        """
        path = home / DATABASE_NAME
        instances = home / INSTANCES_NAME
        with ExitStack() as opened:
            writer = connect_writer(path, busy_timeout_ms=busy_timeout_ms)
            opened.callback(writer.close)
            prepare(writer, path=path)
            reader = connect_reader(path, busy_timeout_ms=busy_timeout_ms)
            opened.callback(reader.close)
            reads = Reads(reader, path=path)
            head_file = HeadFile.open(
                home / HEAD_NAME, is_genuine=partial(is_own_head, signer=signer)
            )
            opened.callback(head_file.close)
            log_id = _recognise(reads, head_file, signer=signer)
            instance = Instance.start(instances, instance_id=InstanceId(ids.ulid()))
            opened.callback(instance.close)
            appender = Appender(
                writer,
                path=path,
                head_file=head_file,
                signer=signer,
                clock=clock,
                log_id=log_id,
                owner=instance.instance_id,
            )
            if reads.size() == 0:
                _open_log(appender, signer, log_id=log_id)
            opened.callback(head_file.sync)
            return cls(
                appender=appender,
                reads=reads,
                # By the writer's connection: an iterator that somebody has not finished would hold
                # the other one at an older moment, and old rules must never count as new (I4).
                rules=Reads(writer, path=path),
                instance=instance,
                instances=instances,
                opened=opened.pop_all(),
            )

    async def record(self, transition: Transition) -> Recorded:
        """Return once ``transition`` is durable (I7)."""
        return await self._group.record(transition)

    def record_now(self, transition: Transition) -> Recorded:
        """Record before any event loop runs: start-up and recovery."""
        return _commit(self._appender, transition)

    def attend(self, is_alone: Callable[[], bool]) -> None:
        """Take word of whether a single producer is at work, who then need not wait for others."""
        self._group.is_alone = is_alone

    @property
    def anchor(self) -> Anchor:
        """The latest place in the journal this process has seen durable."""
        return self._appender.anchor

    def budget_left(
        self, subject: Run | Proposal, *, limits: BudgetLimits, at_ms: int
    ) -> BudgetLeft:
        """Return what each budget still has as far as this process knows; the commit decides."""
        scopes = scopes_of(subject.run_id, subject.session_id, str(subject.principal), at_ms=at_ms)
        known = self._appender.known_budgets.left(scopes, limits)
        return known or self.reads.budget_left(subject, limits=limits, at_ms=at_ms)

    def session(self, session_id: SessionId) -> Session | None:
        """Return an issued session."""
        return self.reads.session(session_id)

    def run(self, run_id: RunId) -> Run | None:
        """Return an issued run."""
        return self.reads.run(run_id)

    def call(self, call_id: CallId) -> CallRecord | None:
        """Return a recorded call."""
        return self.reads.call(call_id)

    def by_request(self, principal: Principal, request_id: RequestId) -> CallRecord | None:
        """Return the call that used this request id."""
        return self.reads.by_request(principal, request_id)

    def workspaces(self) -> tuple[Workspace, ...]:
        """Return the registered workspaces."""
        return self.reads.workspaces()

    def rules_version(self) -> int:
        """Count the changes of the rules so far; 0 before the first start."""
        return self._rules.rules_version()

    def rules_in_force(self) -> RulesInForce | None:
        """Return which rules hold at this moment; ``None`` before the first start."""
        return self._rules.rules_in_force()

    def pack(self, policy_digest: PolicyDigest) -> StagedPack | None:
        """Return a kept pack."""
        return self._rules.pack(policy_digest)

    def packs(self) -> tuple[StagedPack, ...]:
        """Return the kept packs without their bodies, the latest first."""
        return self._rules.packs()

    def postures(self) -> tuple[PostureSetting, ...]:
        """Return every posture that is set, expired or not."""
        return self._rules.postures()

    def of_subject(self, subject: str) -> tuple[Entry, ...]:
        """Return the journal's entries about a call, in order."""
        return self.reads.of_subject(subject)

    def orphans(self) -> tuple[CallRecord, ...]:
        """Return launched calls whose process is gone."""
        mine = self._instance.instance_id
        return tuple(
            call
            for call in self.reads.launched()
            if call.owner is None
            or (call.owner != mine and not is_alive(self._instances, call.owner))
        )

    def close(self) -> None:
        """Close everything, with the kept head on disk."""
        self._opened.close()


def _commit(appender: Appender, transition: Transition) -> Recorded:
    recorded = appender.commit([transition])[0]
    if isinstance(recorded, PalyraError):
        raise recorded
    return recorded


def _open_log(appender: Appender, signer: Signer, *, log_id: LogId) -> None:
    opened = LogOpened(log_id=log_id, key_id=signer.key_id, public_key=signer.public_key.hex())
    _commit(appender, Note(events=(opened,)))


def opening_of(reads: Reads) -> LogOpened | None:
    """Return the journal's first entry, or ``None`` while it is empty."""
    first = next(reads.entries(first=1, last=1), None)
    if first is None:
        return None
    if first.kind != LogOpened.kind:
        raise IntegrityError(Code.JOURNAL_BROKEN, "the first entry does not open a log")
    try:
        return _openings.decode(first.body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise IntegrityError(Code.JOURNAL_BROKEN, "the first entry cannot be read") from error


def _recognise(reads: Reads, head_file: HeadFile, *, signer: Signer) -> LogId:
    """Return the log's id once key, journal and kept head agree."""
    opening = opening_of(reads)
    kept = head_file.read()
    if opening is not None and opening.key_id != signer.key_id:
        raise IntegrityError(Code.KEY_REPLACED, details={"expected_key_id": opening.key_id})
    if kept is not None and not is_own_head(kept, signer):
        raise IntegrityError(
            Code.JOURNAL_ROLLED_BACK, "the kept head is not signed by the journal's key"
        )
    if kept is None:
        raise IntegrityError(Code.JOURNAL_HEAD_MISSING)
    if opening is None:
        if kept.head.index > 0:
            raise IntegrityError(
                Code.JOURNAL_ROLLED_BACK,
                f"the journal is empty but the kept head is at entry {kept.head.index}",
            )
        return kept.head.log_id
    _require_reached(reads, kept)
    return opening.log_id


def _require_reached(reads: Reads, kept: SignedHead) -> None:
    if kept.head.index == 0:
        return
    entry: Entry | None = next(reads.entries(first=kept.head.index, last=kept.head.index), None)
    if entry is None or entry.link.hex() != kept.head.link:
        raise IntegrityError(
            Code.JOURNAL_ROLLED_BACK,
            f"the journal does not hold entry {kept.head.index} as the kept head has it",
            details={"kept_index": kept.head.index},
        )


def keep_first_head(home: Path, *, signer: Signer, log_id: LogId) -> None:
    """Keep the head of a journal without entries, before there is a key or a database.

    A key without a kept head therefore always means that the head was removed.
    """
    path = home / HEAD_NAME
    path.unlink(missing_ok=True)  # of a first start that was cut off before it had a key
    head_file = HeadFile.open(path)
    try:
        head_file.keep(_empty_head(signer, log_id=log_id))
        head_file.sync()
    finally:
        head_file.close()


def _empty_head(signer: Signer, *, log_id: LogId) -> SignedHead:
    head = Head(log_id=log_id, first=1, index=0, link=GENESIS.hex(), recorded_at_ms=0)
    return SignedHead(
        head=head, key_id=signer.key_id, signature=signer.sign(head.signed_bytes).hex()
    )
