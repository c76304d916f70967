# SPDX-License-Identifier: Apache-2.0
"""A policy pack's digest in, when and by whom it last came into force out. Decides nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from palyra.core.events import PolicyActivated, read_event

if TYPE_CHECKING:
    from palyra.core.digest import PolicyDigest
    from palyra.core.ports import JournalReader


class Activation(msgspec.Struct, frozen=True, kw_only=True):
    """One pack came into force."""

    entry: int
    at_ms: int
    principal: str
    reason: str
    before_digest: str
    """The pack it replaced; empty at the first start."""


def last_activation(digest: PolicyDigest, *, journal: JournalReader) -> Activation | None:
    """Return the latest activation of a pack; ``None`` where it never was in force.

    Raises:
        IntegrityError: an entry is not what its kind says.
    """
    entries = [entry for entry in journal.of_subject(digest) if entry.kind == PolicyActivated.kind]
    if not entries:
        return None
    event = read_event(entries[-1], PolicyActivated)
    return Activation(
        entry=entries[-1].index,
        at_ms=entries[-1].recorded_at_ms,
        principal=event.principal,
        reason=event.reason,
        before_digest=event.before_digest,
    )
