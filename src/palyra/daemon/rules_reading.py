# SPDX-License-Identifier: Apache-2.0
"""The rules in force for whoever only looks: read from the store, or the packaged ones.

Before the first start there is no store; then the rules are those that the first start would put
into force. Nothing is created or recorded.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from palyra.core.ports import RulesInForce, StagedPack
from palyra.daemon.clock import SystemClock
from palyra.daemon.compose import cedar_policy
from palyra.flow.policy.presets import packaged_pack
from palyra.store.sqlite.ledger import DATABASE_NAME, Archive

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from palyra.core.digest import PolicyDigest
    from palyra.core.ports import RulesStore
    from palyra.core.posture import PostureSetting
    from palyra.daemon.settings import Settings
    from palyra.flow.policy.engine import CedarPolicy


class PackagedRules:
    """The store of a home that was never used: the packaged policies, and no posture."""

    def __init__(self) -> None:
        pack = packaged_pack()
        self._kept = StagedPack(
            policy_digest=pack.digest, staged_at_ms=0, was_active=True, body=pack.encoded()
        )

    def rules_version(self) -> int:
        """Count the first start."""
        return 1

    def rules_in_force(self) -> RulesInForce:
        """Return the rules of the first start."""
        return RulesInForce(version=1, policy_digest=self._kept.policy_digest)

    def pack(self, policy_digest: PolicyDigest) -> StagedPack | None:
        """Return the packaged pack."""
        return self._kept if policy_digest == self._kept.policy_digest else None

    def packs(self) -> tuple[StagedPack, ...]:
        """Return the packaged pack."""
        return (self._kept,)

    def postures(self) -> tuple[PostureSetting, ...]:
        """Return nothing: nobody has set any."""
        return ()


@contextmanager
def rules_store(home: Path, settings: Settings) -> Iterator[RulesStore]:
    """Open the rules of a home for reading."""
    if not (home / DATABASE_NAME).exists():
        yield PackagedRules()
        return
    archive = Archive(home, busy_timeout_ms=settings.store.busy_timeout_ms)
    try:
        yield archive if archive.rules_in_force() is not None else PackagedRules()
    finally:
        archive.close()


@contextmanager
def reading_engine(home: Path, settings: Settings) -> Iterator[CedarPolicy]:
    """Open the policy engine of a home for looking only."""
    with rules_store(home, settings) as store:
        yield cedar_policy(store, settings, clock=SystemClock())
