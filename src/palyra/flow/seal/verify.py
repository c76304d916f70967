# SPDX-License-Identifier: Apache-2.0
"""Checks a whole journal: the store in, every problem with the entry it lies at out (I8).

Trusts nothing in the store but the public key it is given: entries must follow each other without
a gap, each link must fit, each commit must be signed to its end, each attestation must be genuine
and stand where it claims, the kept head must be reached, and the state must be what the entries add
up to. Reads in order; keeps the links (32 bytes an entry) and what is under way.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Callable, Sequence
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
_LOWEST: Final = -(1 << 63)
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
    """What was checked and what was found: first in the journal by entry, then in the state.

    The state follows from the journal, so that where both are wrong the journal's fault is first.
    """

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
    held: Sequence[SignedHead] = (),
    quick: bool = False,
    progress: Progress | None = None,
) -> Report:
    """Check the journal from its first entry to the kept head.

    ``expected_key`` pins whose journal it must be; without it the key of the first entry is taken,
    and a journal replaced as a whole by another key's goes unnoticed. ``held`` are heads that were
    kept elsewhere, which the journal must still reach. ``quick`` leaves out what
    lies in the bodies: attestations, and the agreement of the state with the entries.
    """
    # The kept head first: it may be behind the entries that are read after it, never ahead.
    check = _Check(reader, kept=reader.kept_head(), expected_key=expected_key, quick=quick)
    with reader.snapshot():
        check.entries(progress)
        check.heads()
        check.kept_head()
        check.held_heads(held)
        if not quick:
            check.state()
    return check.report()


class _Links:
    """The links read so far, in stretches without a gap."""

    def __init__(self) -> None:
        self._firsts = [0]
        self._stretches = [bytearray(GENESIS)]

    def add(self, index: int, link: bytes) -> None:
        """Keep the link of an entry that comes after all others."""
        stretch = self._stretches[-1]
        if index != self._firsts[-1] + len(stretch) // _LINK_BYTES:
            self._firsts.append(index)
            self._stretches.append(stretch := bytearray())
        stretch.extend(link)

    def at(self, index: int) -> str:
        """Return the link of an entry; nothing for one that is not there."""
        position = max(bisect_right(self._firsts, index) - 1, 0)
        offset = (index - self._firsts[position]) * _LINK_BYTES
        if offset < 0:
            return ""
        return self._stretches[position][offset : offset + _LINK_BYTES].hex()


class _Check:
    def __init__(
        self,
        reader: JournalReader,
        *,
        kept: SignedHead | None,
        expected_key: PublicKey | None,
        quick: bool,
    ) -> None:
        self._reader = reader
        self._kept = kept
        self._key = expected_key
        self._log_id: str | None = None
        self._quick = quick
        self._links = _Links()
        self._last = 0
        self._attestations = 0
        self._heads = 0
        self._agreement = StateAgreement()
        self._problems: list[Problem] = []
        self._state_problems: list[Problem] = []

    def report(self) -> Report:
        return Report(
            entries=self._last,
            attestations=self._attestations,
            heads=self._heads,
            kept_index=self._kept.head.index if self._kept is not None else None,
            problems=(*self._problems, *self._state_problems)[:_MOST_PROBLEMS],
        )

    def entries(self, progress: Progress | None) -> None:
        total = self._reader.size()
        previous = GENESIS
        for entry in self._reader.entries(first=_LOWEST):
            if entry.index < 1:
                self._add(entry.index, "an entry stands before the first one")
                continue
            if entry.index != self._last + 1:
                self._add(
                    self._last + 1, f"entries {self._last + 1} to {entry.index - 1} are missing"
                )
            elif entry.link != link_hash(previous=previous, leaf=entry.leaf):
                self._add(entry.index, "the entry does not fit its link and the entry before it")
            self._last = entry.index
            previous = entry.link.ljust(_LINK_BYTES, b"\0")[:_LINK_BYTES]
            self._links.add(entry.index, previous)
            if entry.index == 1:
                self._opening(entry)
            if not self._quick:
                self._body(entry)
            if progress is not None and entry.index % _PROGRESS_EVERY == 0:
                progress(entry.index, total)

    def heads(self) -> None:
        """Check that every commit is signed: heads follow each other, and nothing the last one."""
        last, last_sound = 0, 0
        for index, signed in self._reader.heads():
            self._heads += 1
            last = index
            if signed is None:
                self._add(index, "the signed head of this commit cannot be read")
            elif signed.head.index != index:
                self._add(index, "the signed head beside this entry is another entry's")
            elif self._is_sound(index, signed, "the signed head of this commit"):
                if signed.head.first != last_sound + 1:
                    self._add(signed.head.first - 1, "this commit has lost its signed head")
                last_sound = index
        if self._last > last:
            self._add(last + 1, f"entries {last + 1} to {self._last} follow the last signed head")

    def kept_head(self) -> None:
        if self._kept is None:
            if self._last or self._key is not None:
                self._add(self._last, "the head kept outside the database is missing")
            return
        index = self._kept.head.index
        if index > self._last:
            self._add(self._last + 1, f"entries {self._last + 1} to {index} were cut off")
            return
        self._is_sound(index, self._kept, "the head kept outside the database")

    def held_heads(self, held: Sequence[SignedHead]) -> None:
        for signed in held:
            index = signed.head.index
            is_witness = self._key is not None and self._key.signed_head(signed)
            if is_witness and index > self._last:
                self._add(self._last + 1, f"entries {self._last + 1} to {index} were cut off")
            else:
                self._is_sound(index, signed, "a head that was held elsewhere")

    def state(self) -> None:
        for index, sentence in self._agreement.disagreements(self._reader):
            _insert(self._state_problems, index, sentence)
        for sentence in self._reader.damage():
            _insert(self._state_problems, self._last, sentence)

    def _is_sound(self, index: int, signed: SignedHead, name: str) -> bool:
        head = signed.head
        if self._key is None or not self._key.signed_head(signed):
            self._add(index, f"{name} is not signed by the journal's key")
        elif head.log_id != self._log_id:
            self._add(index, f"{name} is about another journal")
        elif self._links.at(index) != head.link:
            self._add(index, f"{name} is about another entry {index}")
        else:
            return True
        return False

    def _opening(self, entry: Entry) -> None:
        opened = self._event(entry)
        if not isinstance(opened, LogOpened):
            self._add(1, "the first entry does not open a log")
            return
        self._log_id = opened.log_id
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
        return 0 <= anchor.index < before and self._links.at(anchor.index) == anchor.link

    def _event(self, entry: Entry) -> Event | None:
        kind = EVENT_TYPES.get(entry.kind)
        if kind is None:
            return None
        try:
            if canonicalize(decode(entry.body, limits=_LIMITS)) != entry.body:
                return None
            return msgspec.json.decode(entry.body, type=kind)
        except (InputError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return None

    def _add(self, index: int, sentence: str) -> None:
        _insert(self._problems, index, sentence)


def _insert(problems: list[Problem], index: int, sentence: str) -> None:
    """Keep the problems of the first entries, in order and bounded (I13)."""
    problem = Problem(index=index, code=Code.JOURNAL_BROKEN.value, sentence=sentence)
    insort(problems, problem, key=lambda each: each.index)
    del problems[_MOST_PROBLEMS:]
