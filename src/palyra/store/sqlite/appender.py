# SPDX-License-Identifier: Apache-2.0
"""Appends to the journal: transitions in, one durable commit with linked entries and a signed head.

This is the only code that writes the database once it is open. Everything of one commit is there
afterwards, or nothing is; a transition that is refused leaves the others standing.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import apsw
import msgspec

from palyra.core.attestation import Anchor
from palyra.core.canonical import canonical_record
from palyra.core.chain import GENESIS, Head, Receipt, SignedHead, leaf_hash, link_hash
from palyra.core.errors import (
    Code,
    InputError,
    IntegrityError,
    NotFoundError,
    PalyraError,
    StateConflictError,
)
from palyra.core.ports import Clock, Recorded, Signer
from palyra.core.transitions import Note
from palyra.store.sqlite.apply import apply
from palyra.store.sqlite.budgets import Budgets, KnownBudgets
from palyra.store.sqlite.database import as_store_error
from palyra.store.sqlite.rules import Rules

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from palyra.core.events import Event
    from palyra.core.ids import InstanceId, LogId
    from palyra.core.transitions import Admission, Transition
    from palyra.store.head_file import HeadFile

_INSERT = "INSERT INTO journal VALUES (?, ?, ?, ?, ?, ?, ?)"
_encode_head = msgspec.json.Encoder(order="sorted").encode
_heads = msgspec.json.Decoder(SignedHead)

_Row = tuple[int, int, str, str, bytes, bytes, bytes | None]


class _Batch:
    """The entries of one commit, linked as they are added."""

    def __init__(self, *, index: int, link: bytes, recorded_at_ms: int) -> None:
        self.first = index + 1
        self.index = index
        self.link = link
        self.recorded_at_ms = recorded_at_ms
        self.rows: list[_Row] = []
        self._links_before: list[bytes] = []
        self._leaves: list[bytes] = []
        self._shown_leaves: tuple[str, ...] = ()

    def add(self, events: tuple[Event, ...]) -> int:
        """Add an entry for each event and return the last one's position, -1 if there is none."""
        recorded_at_ms = self.recorded_at_ms
        for event in events:
            kind, subject, body = event.kind, event.subject, canonical_record(event)
            before = self.link
            self.index = index = self.index + 1
            leaf = leaf_hash(
                index=index, recorded_at_ms=recorded_at_ms, kind=kind, subject=subject, body=body
            )
            self.link = link = link_hash(previous=before, leaf=leaf)
            self.rows.append((index, recorded_at_ms, kind, subject, body, link, None))
            self._links_before.append(before)
            self._leaves.append(leaf)
        return len(self.rows) - 1 if events else -1

    def close(self, head: SignedHead) -> None:
        """Put the signed head of the commit beside its last entry."""
        self.rows[-1] = (*self.rows[-1][:-1], _encode_head(head))

    def receipt(self, position: int, *, head: SignedHead) -> Receipt:
        row = self.rows[position]
        if not self._shown_leaves:  # once for all receipts of the commit, and only if one is asked
            self._shown_leaves = tuple(leaf.hex() for leaf in self._leaves)
        return Receipt(
            index=row[0],
            recorded_at_ms=row[1],
            kind=row[2],
            subject=row[3],
            previous=self._links_before[position].hex(),
            leaves_after=self._shown_leaves[position + 1 :],
            head=head,
        )


class Appender:
    """The writer's connection, and where the journal ends as far as this process knows."""

    def __init__(
        self,
        connection: apsw.Connection,
        *,
        path: Path,
        head_file: HeadFile,
        signer: Signer,
        clock: Clock,
        log_id: LogId,
        owner: InstanceId,
    ) -> None:
        self._connection = connection
        self._path = path
        self._head_file = head_file
        self._signer = signer
        self._clock = clock
        self._log_id = log_id
        self._owner = owner
        self._end: tuple[int, bytes] = (0, GENESIS)
        self.known_budgets = KnownBudgets()

    @property
    def anchor(self) -> Anchor:
        """The latest place this process has seen durable."""
        index, link = self._end
        return Anchor(index=index, link=link.hex())

    def commit(self, transitions: Sequence[Transition]) -> list[Recorded | PalyraError]:
        """Make ``transitions`` durable together and return what became of each.

        A fault of the store fails them all; a fault that only one of them brings about (it raised
        after it had begun to write) fails that one alone.
        """
        try:
            return self._commit_together(transitions)
        except (apsw.ConstraintError, UnicodeEncodeError, InputError) as error:
            if len(transitions) == 1:
                return [self._own_fault(error)]
            return [self.commit([transition])[0] for transition in transitions]
        except apsw.Error as error:
            fault: PalyraError = as_store_error(error, path=self._path)
        except PalyraError as error:
            fault = error
        return [fault for _ in transitions]

    def _own_fault(self, error: Exception) -> PalyraError:
        """Return the fault of a transition that cannot be written as it is."""
        if isinstance(error, apsw.Error):
            return as_store_error(error, path=self._path)
        return InputError(Code.INPUT_NOT_CANONICAL, "the record holds text that is not Unicode")

    def _commit_together(self, transitions: Sequence[Transition]) -> list[Recorded | PalyraError]:
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        try:
            index, link = self._find_end()
            batch = _Batch(index=index, link=link, recorded_at_ms=self._clock.now_ms())
            budgets, rules = Budgets(connection), Rules(connection)
            applied = [self._apply(each, batch, budgets, rules) for each in transitions]
            budgets.write()
            if not batch.rows:
                connection.execute("COMMIT")  # counters may have changed
                return [self._recorded(item, batch, head=None) for item in applied]
            head = self._sign(batch)
            batch.close(head)
            connection.executemany(_INSERT, batch.rows)
            connection.execute("COMMIT")
        except BaseException:
            self._roll_back()
            raise
        self._end = (batch.index, batch.link)
        self.known_budgets.update(budgets)
        self._head_file.keep(head)
        return [self._recorded(item, batch, head=head) for item in applied]

    def _apply(
        self, transition: Transition, batch: _Batch, budgets: Budgets, rules: Rules
    ) -> tuple[Admission | None, int] | PalyraError:
        if isinstance(transition, Note):  # it changes no state, and may come in great numbers
            return None, batch.add(transition.events)
        try:
            applied = apply(
                self._connection, transition, owner=self._owner, budgets=budgets, rules=rules
            )
        except (StateConflictError, NotFoundError) as refusal:
            return refusal  # checked before anything was written: the rest of the commit stands
        return applied.admission, batch.add(applied.events)

    @staticmethod
    def _recorded(
        item: tuple[Admission | None, int] | PalyraError,
        batch: _Batch,
        *,
        head: SignedHead | None,
    ) -> Recorded | PalyraError:
        if isinstance(item, PalyraError):
            return item
        admission, position = item
        if head is None or position < 0:
            return Recorded(admission=admission, prove=None)
        return Recorded(admission=admission, prove=partial(batch.receipt, position, head=head))

    def _find_end(self) -> tuple[int, bytes]:
        """Return where the journal ends now: other processes may have appended to it.

        What they appended must be signed to its end. Otherwise the head of the next commit would
        vouch for entries that somebody without the key has put there (I8).
        """
        row = self._connection.execute(
            "SELECT seq, link, head FROM journal ORDER BY seq DESC LIMIT 1"
        ).fetchone()
        index, link, head = row or (0, GENESIS, None)
        if (index, link) != self._end and not self._is_signed(index, link, head):
            raise IntegrityError(
                Code.JOURNAL_BROKEN, f"the journal is not signed up to its last entry {index}"
            )
        return index, link

    def _is_signed(self, index: int, link: bytes, head: bytes | None) -> bool:
        try:
            signed = _heads.decode(head or b"")
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return False
        return (signed.head.index, signed.head.link) == (index, link.hex()) and is_own_head(
            signed, self._signer
        )

    def _sign(self, batch: _Batch) -> SignedHead:
        head = Head(
            log_id=self._log_id,
            first=batch.first,
            index=batch.index,
            link=batch.link.hex(),
            recorded_at_ms=batch.recorded_at_ms,
        )
        signature = self._signer.sign(head.signed_bytes)
        return SignedHead(head=head, key_id=self._signer.key_id, signature=signature.hex())

    def _roll_back(self) -> None:
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")


def is_own_head(signed: SignedHead, signer: Signer) -> bool:
    """Say whether ``signer`` signed the head: Ed25519 signs the same bytes the same way."""
    return signed.key_id == signer.key_id and (
        signed.signature == signer.sign(signed.head.signed_bytes).hex()
    )
