# SPDX-License-Identifier: Apache-2.0
"""What policy is asked: who wants to do what to which thing, and what is known about it (I2).

It is journaled with each decision as it stands, so that anybody can put the same question to the
same policies again, or to others.
"""

from __future__ import annotations

import msgspec


class EntityUid(msgspec.Struct, frozen=True, order=True):
    """A Cedar entity's type and id. The id is data: it is never spliced into policy text."""

    type: str
    id: str

    def __str__(self) -> str:
        return f'{self.type}::"{self.id}"'


class PolicyRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One question to the policy engine."""

    principal: EntityUid
    roles: tuple[str, ...]
    """Roles by who the principal is; those by membership come from the policies' own pack."""
    action: str
    resource: EntityUid
    groups: tuple[EntityUid, ...]
    """What the resource is in: groups and capabilities by what it is."""
    context: msgspec.Raw
    """Canonical JSON of the call as it stands, before any supposed approval; without attributes
    that are as usual: see :data:`palyra.flow.policy.inquiry.USUAL`."""
