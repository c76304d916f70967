# SPDX-License-Identifier: Apache-2.0
"""Every way to tamper with every entry of a journal, and where a verifier must find it."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import msgspec

from palyra.core.chain import SignedHead
from tests.support.store import OTHER_KEY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from palyra.trust.signing_key import SigningKey
    from tests.support.journals import Copy, Original, Row

Attack = tuple[str, "Callable[[Copy], object]", range]
"""What is done, the deed, and the entries of which the first problem must name one."""


def only(seq: int) -> range:
    return range(seq, seq + 1)


def flipped(content: bytes, position: int, *, bit: int = 0) -> bytes:
    """Return the content with one bit changed."""
    changed = bytearray(content)
    changed[position] ^= 1 << bit
    return bytes(changed)


def missed(original: Original, at: Path, attacks: Iterator[Attack]) -> list[str]:
    """Return the attacks that a verifier did not find, or did not place right."""
    wrong = []
    for name, deed, expected in attacks:
        with original.tampered(at / "copy") as copy:
            deed(copy)
            problems = copy.verify().problems
        if not problems or problems[0].index not in expected:
            wrong.append(f"{name}: expected {expected}, found {problems[:2]}")
    return wrong


def replaced(row: Row, **columns: Any) -> Callable[[Copy], None]:  # noqa: ANN401 - columns
    return lambda copy: copy.put(row._replace(**columns))


def body_bytes_flipped(original: Original) -> Iterator[Attack]:
    chance = random.Random(1)  # noqa: S311 - repeatable
    for row in original.rows:
        last = len(row.body) - 1
        for position in {0, last // 2, last, chance.randrange(last), chance.randrange(last)}:
            changed = flipped(row.body, position, bit=chance.randrange(8))
            yield f"byte {position} of {row.seq}", replaced(row, body=changed), only(row.seq)


def bodies_of_other_entries(original: Original) -> Iterator[Attack]:
    for row in original.rows:
        for other in original.rows:
            if other.kind == row.kind and other.body != row.body:
                name = f"body of {other.seq} in {row.seq}"
                yield name, replaced(row, body=other.body), only(row.seq)
                break
        other = original.rows[-row.seq]
        if other.body != row.body:
            name = f"body of {other.seq} in {row.seq}"
            yield name, replaced(row, body=other.body), only(row.seq)


def kinds_changed(original: Original) -> Iterator[Attack]:
    for row in original.rows:
        for kind in ("flood.suppressed", "unknown.kind", "", f"{row.kind}\0"):
            if kind != row.kind:
                yield f"kind {kind!r} of {row.seq}", replaced(row, kind=kind), only(row.seq)


def kinds_that_are_no_text(original: Original) -> Iterator[Attack]:
    for row in original.rows:

        def spoil(copy: Copy, seq: int = row.seq) -> None:
            changed = "CAST(x'ff' || substr(kind, 2) AS TEXT)"
            copy.do(f"UPDATE journal SET kind = {changed} WHERE seq = ?", seq)  # noqa: S608

        yield f"kind of {row.seq}", spoil, only(row.seq)


def subjects_changed(original: Original) -> Iterator[Attack]:
    for row in original.rows:
        for subject in (original.rows[-row.seq].subject, "", f"{row.subject} "):
            if subject != row.subject:
                name = f"subject {subject!r} of {row.seq}"
                yield name, replaced(row, subject=subject), only(row.seq)


def times_changed(original: Original) -> Iterator[Attack]:
    for row in original.rows:
        for time in (row.recorded_at_ms + 1, 0, -1, (1 << 63) - 1):
            yield f"time of {row.seq}", replaced(row, recorded_at_ms=time), only(row.seq)


def links_changed(original: Original) -> Iterator[Attack]:
    for row in original.rows:
        other = original.rows[-row.seq].link
        for link in (flipped(row.link, 0), flipped(row.link, 31, bit=7), b"", row.link + b"\0"):
            yield f"link of {row.seq}", replaced(row, link=link), only(row.seq)
        if other != row.link:
            yield f"another's link in {row.seq}", replaced(row, link=other), only(row.seq)


def heads_changed(original: Original) -> Iterator[Attack]:
    heads = [row.head for row in original.rows if row.head is not None]
    chance = random.Random(2)  # noqa: S311 - repeatable
    for row in original.rows:
        others: list[bytes | None] = [chance.choice(heads), b"", b"{}", b"\xff"]
        if row.head is None:
            others.append(original.row(original.commit_of(row.seq)[-1]).head)
        else:
            others += [None, row.head + b" ", row.head.replace(b'"format"', b'"fprmat"')]
            others += [
                flipped(row.head, chance.randrange(len(row.head)), bit=chance.randrange(8))
                for _ in range(3)
            ]
        for head in others:
            if head != row.head:
                yield f"head {head!r} beside {row.seq}", replaced(row, head=head), only(row.seq)


def every_byte_of_one_head(original: Original) -> Iterator[Attack]:
    row = next(row for row in original.rows[20:] if row.head is not None)
    assert row.head is not None
    for position in range(len(row.head)):
        changed = flipped(row.head, position, bit=5)  # also makes upper case of lower case
        yield f"byte {position}", replaced(row, head=changed), only(row.seq)


def indices_changed(original: Original) -> Iterator[Attack]:
    for row in original.rows:
        for seq in (0, -1, original.last + 1, original.last + 1000, 1 << 40, (1 << 63) - 1):

            def move(copy: Copy, row: Row = row, seq: int = seq) -> None:
                copy.do("UPDATE journal SET seq = ? WHERE seq = ?", seq, row.seq)

            # An entry moved before the first one is itself the first that is wrong.
            yield f"{row.seq} became {seq}", move, only(seq if seq < 1 else row.seq)


def entries_removed(original: Original) -> Iterator[Attack]:
    for row in original.rows:

        def remove(copy: Copy, seq: int = row.seq) -> None:
            copy.do("DELETE FROM journal WHERE seq = ?", seq)

        yield f"{row.seq} removed", remove, range(original.commit_of(row.seq)[0], row.seq + 1)


def entries_removed_and_closed_up(original: Original) -> Iterator[Attack]:
    for row in original.rows:

        def close_up(copy: Copy, seq: int = row.seq) -> None:
            copy.do("DELETE FROM journal WHERE seq = ?", seq)
            copy.do("UPDATE journal SET seq = -seq WHERE seq > ?", seq)
            copy.do("UPDATE journal SET seq = -seq - 1 WHERE seq < 0")

        first = original.commit_of(row.seq)[0]
        yield f"{row.seq} removed and closed up", close_up, range(first, row.seq + 1)


def neighbours_swapped(original: Original) -> Iterator[Attack]:
    for row, following in zip(original.rows, original.rows[1:], strict=False):
        yield f"{row.seq} with the next", _swapped(row, following), only(row.seq)


def distant_entries_swapped(original: Original) -> Iterator[Attack]:
    for row in original.rows[: original.last // 2]:
        other = original.rows[-row.seq]
        yield f"{row.seq} with {other.seq}", _swapped(row, other), only(row.seq)


def _swapped(row: Row, other: Row) -> Callable[[Copy], None]:
    def swap(copy: Copy) -> None:
        copy.put(other._replace(seq=row.seq))
        copy.put(row._replace(seq=other.seq))

    return swap


def entries_duplicated(original: Original) -> Iterator[Attack]:
    for row in original.rows:

        def append(copy: Copy, row: Row = row) -> None:
            copy.insert(row._replace(seq=original.last + 1))

        def repeat(copy: Copy, row: Row = row) -> None:
            _make_room(copy, after=row.seq)
            copy.insert(row._replace(seq=row.seq + 1))

        yield f"{row.seq} once more at the end", append, only(original.last + 1)
        yield f"{row.seq} once more after itself", repeat, only(row.seq + 1)


def _make_room(copy: Copy, *, after: int) -> None:
    copy.do("UPDATE journal SET seq = -seq WHERE seq > ?", after)
    copy.do("UPDATE journal SET seq = -seq + 1 WHERE seq < 0")


def forged_entries_inserted(original: Original) -> Iterator[Attack]:
    forged = next(row for row in original.rows if row.kind == "flood.suppressed")
    for row in original.rows:

        def insert(copy: Copy, seq: int = row.seq) -> None:
            _make_room(copy, after=seq)
            copy.insert(forged._replace(seq=seq + 1, head=None))
            copy.relink(first=seq + 1)

        if row.seq == original.last:
            expected = only(row.seq + 1)
        else:
            commit = original.commit_of(row.seq + 1)
            expected = range(commit.start, commit.stop + 1)
        yield f"a forged entry after {row.seq}", insert, expected


def tails_cut_off(original: Original) -> Iterator[Attack]:
    for row in original.rows:

        def cut(copy: Copy, seq: int = row.seq) -> None:
            copy.do("DELETE FROM journal WHERE seq >= ?", seq)

        yield f"cut off from {row.seq}", cut, range(original.commit_of(row.seq)[0], row.seq + 1)


def tails_rewritten_without_the_key(original: Original) -> Iterator[Attack]:
    for row in original.rows:
        others = [each for each in original.rows if each.kind == row.kind and each != row]
        for other in others[:1]:

            def rewrite(copy: Copy, row: Row = row, other: Row = other) -> None:
                copy.put(row._replace(subject=other.subject, body=other.body))
                copy.relink(first=row.seq)

            def rewrite_headless(
                copy: Copy, row: Row = row, rewrite: Callable[[Copy], None] = rewrite
            ) -> None:
                rewrite(copy)
                copy.do("UPDATE journal SET head = NULL WHERE seq >= ?", row.seq)

            commit = original.commit_of(row.seq)
            yield f"rewritten from {row.seq}", rewrite, commit
            yield f"rewritten without heads from {row.seq}", rewrite_headless, commit


def tails_rewritten_with_another_key(original: Original) -> Iterator[Attack]:
    for row in original.rows[1:]:

        def rewrite(copy: Copy, seq: int = row.seq) -> None:
            row = original.row(seq)
            copy.put(row._replace(recorded_at_ms=row.recorded_at_ms + 1))
            copy.relink(first=seq)
            _sign_heads(copy, OTHER_KEY, first=seq)

        yield f"signed by another from {row.seq}", rewrite, original.commit_of(row.seq)


def _sign_heads(copy: Copy, key: SigningKey, *, first: int) -> None:
    rows: list[Any] = copy.connection.execute(
        "SELECT seq, link, head FROM journal WHERE seq >= ? AND head IS NOT NULL", (first,)
    ).fetchall()
    for seq, link, text in rows:
        head = msgspec.structs.replace(
            msgspec.json.decode(text, type=SignedHead).head, link=link.hex()
        )
        signed = SignedHead(
            head=head, key_id=key.key_id, signature=key.sign(head.signed_bytes).hex()
        )
        written = msgspec.json.encode(signed, order="sorted")
        copy.do("UPDATE journal SET head = ? WHERE seq = ?", written, seq)


def entries_appended(original: Original) -> Iterator[Attack]:
    for row in original.rows:

        def append(copy: Copy, row: Row = row) -> None:
            copy.insert(row._replace(seq=original.last + 1, head=None))
            copy.relink(first=original.last + 1)

        yield f"{row.seq} linked to the end", append, only(original.last + 1)


def whole_table(original: Original) -> Iterator[Attack]:
    everything = range(1, original.last + 2)
    yield "emptied", lambda copy: copy.do("DELETE FROM journal"), only(1)
    yield "all heads taken", lambda copy: copy.do("UPDATE journal SET head = NULL"), only(1)
    yield "all bodies taken", lambda copy: copy.do("UPDATE journal SET body = x''"), only(1)
    yield (
        "all the same time",
        lambda copy: copy.do("UPDATE journal SET recorded_at_ms = 1"),
        only(1),
    )
    yield "turned round", _turn_round, everything


def _turn_round(copy: Copy) -> None:
    copy.do("UPDATE journal SET seq = -seq")
    copy.do("UPDATE journal SET seq = seq + 1 + (SELECT count(*) FROM journal)")


ATTACKS = (
    body_bytes_flipped,
    bodies_of_other_entries,
    kinds_changed,
    kinds_that_are_no_text,
    subjects_changed,
    times_changed,
    links_changed,
    heads_changed,
    every_byte_of_one_head,
    indices_changed,
    entries_removed,
    entries_removed_and_closed_up,
    neighbours_swapped,
    distant_entries_swapped,
    entries_duplicated,
    forged_entries_inserted,
    tails_cut_off,
    tails_rewritten_without_the_key,
    tails_rewritten_with_another_key,
    entries_appended,
    whole_table,
)
