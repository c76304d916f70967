# SPDX-License-Identifier: Apache-2.0
"""Ways to change the rules without an entry: what somebody would do who wants a call to run.

Each comes with the entries of which the first problem must name one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from palyra.core.digest import policy_digest
from palyra.core.events import PolicyActivated, PolicyStaged, PostureChanged
from palyra.core.posture import Posture, PostureScope
from tests.support.tampering import only

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.journals import Copy, Original, Row
    from tests.support.tampering import Attack


def _last_of(original: Original, *kinds: str) -> int:
    return max(row.seq for row in original.rows if row.kind in kinds)


def _last_change(original: Original) -> range:
    return only(_last_of(original, PolicyActivated.kind, PostureChanged.kind))


def _postures(original: Original) -> dict[tuple[str, str, str], PostureChanged]:
    """Return the postures that are set, as their entries say."""
    found: dict[tuple[str, str, str], PostureChanged] = {}
    for row in original.rows:
        if row.kind == PostureChanged.kind:
            event = msgspec.json.decode(row.body, type=PostureChanged)
            key = (event.tool, event.scope, event.scope_id)
            found.pop(key, None)
            if event.after:
                found[key] = event
    return found


def _posture_entry(original: Original, event: PostureChanged) -> range:
    return only(
        next(
            row.seq
            for row in reversed(original.rows)
            if row.kind == PostureChanged.kind
            and msgspec.json.decode(row.body, type=PostureChanged) == event
        )
    )


_WHERE = " WHERE tool = ? AND scope = ? AND scope_id = ?"


def postures_edited(original: Original) -> Iterator[Attack]:
    for key, event in _postures(original).items():
        expected = _posture_entry(original, event)
        weaker = [("state", state.value) for state in Posture if state.value != event.after]
        times = [("expires_at_ms", 1), ("expires_at_ms", event.set_at_ms + 5), ("set_at_ms", 1)]
        hands = [("by_administrator", 0), ("set_by", "operator:eve"), ("reason", "")]
        for column, value in (*weaker, *times, *hands):

            def edit(
                copy: Copy,
                key: tuple[str, str, str] = key,
                column: str = column,
                value: object = value,
            ) -> None:
                copy.do(f"UPDATE postures SET {column} = ?{_WHERE}", value, *key)  # noqa: S608

            yield f"{column} = {value!r} for {key}", edit, expected


def postures_moved(original: Original) -> Iterator[Attack]:
    for key, event in _postures(original).items():
        expected = range(_posture_entry(original, event)[0], original.last + 1)
        scopes = [("scope", scope.value) for scope in PostureScope if scope.value != event.scope]
        for column, value in (*scopes, ("scope_id", "elsewhere"), ("tool", "palyra.other")):

            def move(
                copy: Copy,
                key: tuple[str, str, str] = key,
                column: str = column,
                value: str = value,
            ) -> None:
                copy.do(f"UPDATE postures SET {column} = ?{_WHERE}", value, *key)  # noqa: S608

            yield f"{key} moved to {column} {value!r}", move, expected


def postures_removed(original: Original) -> Iterator[Attack]:
    for key, event in _postures(original).items():

        def remove(copy: Copy, key: tuple[str, str, str] = key) -> None:
            copy.do(f"DELETE FROM postures{_WHERE}", *key)  # noqa: S608 - constants

        yield f"{key} removed", remove, _posture_entry(original, event)
    first = min(_posture_entry(original, event)[0] for event in _postures(original).values())
    yield "all removed", lambda copy: copy.do("DELETE FROM postures"), only(first)


def postures_added(original: Original) -> Iterator[Attack]:
    for state in Posture:

        def add(copy: Copy, state: Posture = state) -> None:
            row = ("palyra.echo", "global", "", state.value, "", "operator:eve", 1, 1, None)
            copy.do("INSERT INTO postures VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", *row)

        yield f"{state} added", add, only(original.last)


def cleared_postures_put_back(original: Original) -> Iterator[Attack]:
    for row in original.rows:
        event = msgspec.json.decode(row.body, type=PostureChanged) if _is_clearing(row) else None
        if event is None:
            continue

        def put_back(copy: Copy, event: PostureChanged = event) -> None:
            key = (event.tool, event.scope, event.scope_id)
            rest = (event.before, event.reason, event.principal, 1, event.set_at_ms, None)
            copy.do("INSERT INTO postures VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", *key, *rest)

        yield f"{event.tool} for {event.scope} put back", put_back, only(original.last)


def _is_clearing(row: Row) -> bool:
    return row.kind == PostureChanged.kind and b'"after":""' in row.body


def other_policies_in_force(original: Original) -> Iterator[Attack]:
    in_force = original.row(_last_of(original, PolicyActivated.kind)).subject
    for digest in {row.subject for row in original.rows if row.kind == PolicyStaged.kind}:
        if digest == in_force:
            continue

        def replace(copy: Copy, digest: str = digest) -> None:
            copy.do("UPDATE rules SET policy_digest = ?", digest)

        def replace_and_count(copy: Copy, digest: str = digest) -> None:
            copy.do("UPDATE rules SET policy_digest = ?, version = version + 1", digest)

        yield f"{digest} in force", replace, _last_change(original)
        yield f"{digest} in force and counted", replace_and_count, _last_change(original)


def versions_changed(original: Original) -> Iterator[Attack]:
    for change in ("version + 1", "version - 1", "1", "0", "-version", "9223372036854775807"):

        def edit(copy: Copy, change: str = change) -> None:
            copy.do(f"UPDATE rules SET version = {change}")  # noqa: S608 - constants

        yield f"version = {change}", edit, range(_last_change(original)[0], original.last + 1)
    yield "no rules", lambda copy: copy.do("DELETE FROM rules"), _last_change(original)


def unrecorded_policies_in_force(original: Original) -> Iterator[Attack]:
    def bring(copy: Copy) -> None:
        digest = policy_digest(b"{}")
        copy.do("INSERT INTO packs VALUES (?, 1, 1, x'7b7d')", digest)
        copy.do("UPDATE rules SET policy_digest = ?, version = version + 1", digest)

    yield "a pack of one's own", bring, _last_change(original)


def bodies_of_packs_changed(original: Original) -> Iterator[Attack]:
    activated = {row.subject: row.seq for row in original.rows if row.kind == PolicyActivated.kind}
    for digest in {row.subject for row in original.rows if row.kind == PolicyStaged.kind}:
        expected = only(activated.get(digest, original.last))
        for name, body in (
            ("forbid", "CAST(replace(CAST(body AS TEXT), 'forbid', 'permit') AS BLOB)"),
            ("another's", "(SELECT body FROM packs WHERE digest != ?1)"),
            ("nothing", "x''"),
            ("a blank more", "CAST(body || x'20' AS BLOB)"),
        ):

            def change(copy: Copy, digest: str = digest, body: str = body) -> None:
                copy.do(f"UPDATE packs SET body = {body} WHERE digest = ?1", digest)  # noqa: S608

            yield f"{name} in {digest}", change, expected


def packs_that_were_in_force_disowned(original: Original) -> Iterator[Attack]:
    for row in original.rows:
        if row.kind != PolicyActivated.kind:
            continue

        def disown(copy: Copy, digest: str = row.subject) -> None:
            copy.do("UPDATE packs SET was_active = 0 WHERE digest = ?", digest)

        def remove(copy: Copy, digest: str = row.subject) -> None:
            copy.do("DELETE FROM packs WHERE digest = ?", digest)

        yield f"{row.subject} was never active", disown, only(row.seq)
        yield f"{row.subject} removed", remove, only(row.seq)


RULE_ATTACKS = (
    postures_edited,
    postures_moved,
    postures_removed,
    postures_added,
    cleared_postures_put_back,
    other_policies_in_force,
    versions_changed,
    unrecorded_policies_in_force,
    bodies_of_packs_changed,
    packs_that_were_in_force_disowned,
)
