# SPDX-License-Identifier: Apache-2.0
"""Checks a whole journal: the store in, every problem with the entry it lies at out (I8).

Trusts nothing in the store but the public key it is given: entries must follow each other without
a gap, each link must fit, each commit must be signed to its end, each attestation must be genuine
and stand where it claims, and the kept head must be reached. Reads in order, in bounded memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import msgspec

from palyra.core.attestation import Anchor, Attestation, expected_execution_sha256
from palyra.core.canonical import canonicalize
from palyra.core.chain import GENESIS, Entry, SignedHead, link_hash
from palyra.core.errors import Code, InputError
from palyra.core.events import EVENT_TYPES, CallEnded, CallInterrupted, Event, LogOpened
from palyra.core.strict_json import JsonLimits, decode
from palyra.flow.seal.agreement import StateAgreement
from palyra.flow.seal.signatures import PublicKey

if TYPE_CHECKING:
    from palyra.core.ports import JournalReader

_LINK_BYTES: Final = 32
_MOST_PROBLEMS: Final = 100
_PROGRESS_EVERY: Final = 1000
_LIMITS: Final = JsonLimits(max_bytes=1 << 26, max_depth=64)

Progress = Callable[[int, int], None]


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is not as it was recorded, and the entry it lies at."""

    index: int
    code: str
    sentence: str


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What was checked and what was found, first entry first."""

    entries: int
    attestations: int
    heads: int
    kept_index: int | None
    problems: tuple[Problem, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return not self.problems


def verify_journal(
    reader: JournalReader,
    *,
    expected_key: PublicKey | None = None,
    quick: bool = False,
    progress: Progress | None = None,
) -> Report:
    """Check the journal from its first entry to the kept head.

    ``expected_key`` pins whose journal it must be; without it the key of the first entry is taken,
    and a journal replaced as a whole by another key's goes unnoticed. ``quick`` leaves out what
    lies in the bodies: attestations, and the agreement of the state with the entries.
    """
    check = _Check(reader, expected_key=expected_key, quick=quick)
    check.entries(progress)
    check.heads()
    check.kept_head()
    if not quick:
        check.state()
    return check.report()


class _Check:
    def __init__(
        self, reader: JournalReader, *, expected_key: PublicKey | None, quick: bool
    ) -> None:
        self._reader = reader
        self._key = expected_key
        self._quick = quick
        self._links = bytearray(GENESIS)  # the link of entry n at n * 32
        self._last = 0
        self._attestations = 0
        self._heads = 0
        self._kept: SignedHead | None = None
        self._agreement = StateAgreement()
        self._problems: list[Problem] = []

    def report(self) -> Report:
        problems = sorted(self._problems, key=lambda problem: problem.index)
        return Report(
            entries=self._last,
            attestations=self._attestations,
            heads=self._heads,
            kept_index=self._kept.head.index if self._kept is not None else None,
            problems=tuple(problems[:_MOST_PROBLEMS]),
        )

    def entries(self, progress: Progress | None) -> None:
        total = self._reader.size()
        previous = GENESIS
        for entry in self._reader.entries():
            if entry.index != self._last + 1:
                self._add(
                    self._last + 1, f"entries {self._last + 1} to {entry.index - 1} are missing"
                )
                self._links.extend(bytes(_LINK_BYTES) * (entry.index - self._last - 1))
            elif entry.link != link_hash(previous=previous, leaf=entry.leaf):
                self._add(entry.index, "the entry does not fit its link and the entry before it")
            self._last = entry.index
            previous = entry.link.ljust(_LINK_BYTES, b"\0")[:_LINK_BYTES]
            self._links.extend(previous)
            if entry.index == 1:
                self._opening(entry)
            if not self._quick:
                self._body(entry)
            if progress is not None and entry.index % _PROGRESS_EVERY == 0:
                progress(entry.index, total)

    def heads(self) -> None:
        """Check that every commit was signed, and that nothing follows the last signature."""
        last = 0
        for head in self._reader.heads():
            self._heads += 1
            if isinstance(head, int):
                self._add(head, "the signed head of this commit cannot be read")
                continue
            last = max(last, head.head.index)
            self._head(head, "the signed head of this commit")
        if self._last > last:
            self._add(last + 1, f"entries {last + 1} to {self._last} follow the last signed head")

    def kept_head(self) -> None:
        self._kept = self._reader.kept_head()
        if self._kept is None:
            if self._last:
                self._add(self._last, "the head kept outside the database is missing")
            return
        index = self._kept.head.index
        if index > self._last:
            self._add(self._last + 1, f"entries {self._last + 1} to {index} were cut off")
            return
        self._head(self._kept, "the head kept outside the database")

    def state(self) -> None:
        for index, sentence in self._agreement.disagreements(self._reader):
            self._add(index, sentence)

    def _head(self, signed: SignedHead, name: str) -> None:
        head = signed.head
        if self._key is None or not self._key.signed_head(signed):
            self._add(head.index, f"{name} is not signed by the journal's key")
        elif self._link(head.index) != head.link:
            self._add(head.index, f"{name} is about another entry {head.index}")

    def _opening(self, entry: Entry) -> None:
        opened = self._event(entry)
        if not isinstance(opened, LogOpened):
            self._add(1, "the first entry does not open a log")
            return
        try:
            named = PublicKey(bytes.fromhex(opened.public_key))
        except (InputError, ValueError):
            self._add(1, "the first entry names no public key")
            return
        if self._key is None:
            self._key = named
        elif self._key.key_id != named.key_id:
            self._add(1, "the journal was opened with another key than the expected one")

    def _body(self, entry: Entry) -> None:
        event = self._event(entry)
        if event is None:
            self._add(entry.index, f"the body is not a canonical {entry.kind} event")
            return
        if event.subject != entry.subject:
            self._add(entry.index, "the entry is filed under another subject")
        trouble = self._agreement.follow(entry.index, event)
        if trouble is not None:
            self._add(entry.index, trouble)
        if isinstance(event, CallEnded | CallInterrupted):
            self._attestations += 1
            self._attestation(entry.index, event.attestation)

    def _attestation(self, index: int, attestation: Attestation) -> None:
        statement = attestation.statement
        if self._key is None or not self._key.signed_attestation(attestation):
            self._add(index, "the attestation is not signed by the journal's key")
        elif statement.execution_sha256 != expected_execution_sha256(statement):
            self._add(index, "the attestation's execution_sha256 does not fit its fields")
        elif not self._holds(statement.anchor, before=index):
            self._add(index, "the journal before this attestation is not the one it was signed on")

    def _holds(self, anchor: Anchor, *, before: int) -> bool:
        return anchor.index < before and self._link(anchor.index) == anchor.link

    def _link(self, index: int) -> str:
        return self._links[index * _LINK_BYTES : (index + 1) * _LINK_BYTES].hex()

    def _event(self, entry: Entry) -> Event | None:
        kind = EVENT_TYPES.get(entry.kind)
        if kind is None:
            return None
        try:
            if canonicalize(decode(entry.body, limits=_LIMITS)) != entry.body:
                return None
            return msgspec.json.decode(entry.body, type=kind)
        except (InputError, msgspec.MsgspecError):
            return None

    def _add(self, index: int, sentence: str) -> None:
        if len(self._problems) < _MOST_PROBLEMS * 2:
            self._problems.append(
                Problem(index=index, code=Code.JOURNAL_BROKEN.value, sentence=sentence)
            )
