# SPDX-License-Identifier: Apache-2.0
"""Policies and postures, as SQL: changes of the rules in, a higher version of them out.

Like all of :mod:`palyra.store.sqlite.apply` every function checks before it writes. Whatever is
decided names the version it was decided by, so each change is counted (I4).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from palyra.core.digest import policy_digest
from palyra.core.errors import Code, NotFoundError, StateConflictError

if TYPE_CHECKING:
    import apsw

    from palyra.core.digest import PolicyDigest
    from palyra.core.posture import PostureSetting
    from palyra.core.transitions import ActivatePack, ClearPosture, SetPosture, StagePack

MOST_STAGED: Final = 16
"""Packs that are kept though they were never in force; the oldest are dropped (I13)."""
MOST_POSTURES: Final = 4096
"""Postures that can be set at the same time (I13)."""
POSTURE_COLUMNS: Final = (
    "tool, scope, scope_id, state, reason, set_by, by_administrator, set_at_ms, expires_at_ms"
)

_VERSION: Final = "SELECT version FROM rules WHERE only = 1"


class Rules:
    """The version of the rules within one commit: read once, until one of its changes counts.

    Only valid inside the transaction it was made for: the write lock keeps every other process out.
    """

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._version: int | None = None

    @property
    def version(self) -> int:
        """Which rules are in force; 0 before there are any."""
        if self._version is None:
            version: int | None = self._connection.execute(_VERSION).get
            self._version = version or 0
        return self._version

    def stage(self, staging: StagePack) -> None:
        """Keep a pack, and drop the oldest of too many that were never in force."""
        digest = staging.policy_digest
        if policy_digest(staging.body) != digest:
            raise StateConflictError(
                Code.POLICY_INVALID, f"the policies staged as {digest[:64]!r} have another digest"
            )
        self._connection.execute(
            "INSERT INTO packs VALUES (?, ?, 0, ?)"
            " ON CONFLICT (digest) DO UPDATE SET staged_at_ms = excluded.staged_at_ms,"
            " body = excluded.body",  # which repairs one that was damaged
            (digest, staging.at_ms, staging.body),
        )
        # Never the one that is staged just now, even if the clock was set back.
        self._connection.execute(
            "DELETE FROM packs WHERE digest IN (SELECT digest FROM packs WHERE was_active = 0"
            " ORDER BY digest = ? DESC, staged_at_ms DESC, digest LIMIT -1 OFFSET ?)",
            (digest, MOST_STAGED),
        )

    def activate(self, activation: ActivatePack) -> None:
        """Put a kept pack into force in place of the one that the change was decided on."""
        digest = activation.policy_digest
        if not self._is_kept(digest):
            raise NotFoundError(Code.POLICY_UNKNOWN, f"no policies {digest[:64]!r} are staged")
        before = self._connection.execute("SELECT policy_digest FROM rules WHERE only = 1").get
        if before != activation.before:
            raise StateConflictError(
                Code.STATE_CONFLICT, f"policies {before or 'none'} are in force by now"
            )
        self._require_version(activation.rules_version)
        self._connection.execute("UPDATE packs SET was_active = 1 WHERE digest = ?", (digest,))
        self._connection.execute(
            "INSERT INTO rules VALUES (1, 1, ?) ON CONFLICT (only)"
            " DO UPDATE SET version = version + 1, policy_digest = excluded.policy_digest",
            (digest,),
        )
        self._version = None

    def set_posture(self, change: SetPosture) -> None:
        """Set a posture in place of the one that the change was decided on."""
        setting = change.setting
        self._require_policies()
        key = (setting.tool, setting.scope.value, setting.scope_id)
        self._require_posture(key, change.before)
        self._require_version(change.rules_version)
        if change.before is None and self._count_postures() >= MOST_POSTURES:
            raise StateConflictError(
                Code.STATE_CONFLICT,
                f"{MOST_POSTURES} postures are set, and there can be no more",
                hint="clear postures that are no longer needed",
            )
        self._connection.execute(
            "INSERT OR REPLACE INTO postures VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            _posture_row(setting),
        )
        self._count_change()

    def clear_posture(self, change: ClearPosture) -> None:
        """Remove a posture that is still the one that the change was decided on."""
        self._require_policies()
        key = (change.tool, change.scope.value, change.scope_id)
        if self._posture(key) is None:
            raise NotFoundError(
                Code.POSTURE_UNKNOWN, f"no posture is set for {change.tool[:64]!r} in this scope"
            )
        self._require_posture(key, change.before)
        self._require_version(change.rules_version)
        self._connection.execute(
            "DELETE FROM postures WHERE tool = ? AND scope = ? AND scope_id = ?", key
        )
        self._count_change()

    def _is_kept(self, digest: PolicyDigest) -> bool:
        found = self._connection.execute("SELECT 1 FROM packs WHERE digest = ?", (digest,))
        return found.fetchone() is not None

    def _require_version(self, expected: int | None) -> None:
        if expected is not None and expected != self.version:
            raise StateConflictError(Code.POLICY_CHANGED)

    def _require_policies(self) -> None:
        if self.version == 0:
            raise StateConflictError(
                Code.STATE_CONFLICT, "no policies are in force yet, so no posture can be"
            )

    def _require_posture(self, key: tuple[str, str, str], expected: PostureSetting | None) -> None:
        """Compare all columns: a posture set anew for the same reason is another one."""
        if self._posture(key) != (_posture_row(expected) if expected is not None else None):
            raise StateConflictError(
                Code.STATE_CONFLICT, f"the posture of {key[0][:64]!r} was changed meanwhile"
            )

    def _posture(self, key: tuple[str, str, str]) -> Any:  # noqa: ANN401 - a row
        return self._connection.execute(
            f"SELECT {POSTURE_COLUMNS} FROM postures"  # noqa: S608 - constants only
            " WHERE tool = ? AND scope = ? AND scope_id = ?",
            key,
        ).fetchone()

    def _count_postures(self) -> int:
        count: int = self._connection.execute("SELECT count(*) FROM postures").get
        return count

    def _count_change(self) -> None:
        self._connection.execute("UPDATE rules SET version = version + 1 WHERE only = 1")
        self._version = None


def _posture_row(setting: PostureSetting) -> tuple[str | int | None, ...]:
    return (
        setting.tool,
        setting.scope.value,
        setting.scope_id,
        setting.state.value,
        setting.reason,
        str(setting.set_by),
        int(setting.by_administrator),
        setting.set_at_ms,
        setting.expires_at_ms,
    )
