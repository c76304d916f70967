# SPDX-License-Identifier: Apache-2.0
"""What somebody wants to manage: decided by the same policies as any call, never a tool itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from palyra.core.canonical import canonicalize
from palyra.core.digest import call_digest
from palyra.core.policy_request import EntityUid
from palyra.core.principal import Credential

if TYPE_CHECKING:
    from palyra.core.digest import CallDigest


class Act(msgspec.Struct, frozen=True, kw_only=True):
    """One management action on one thing, by the holder of a credential (I6)."""

    action: str
    """Such as ``policy.activate``: see the schema of the policies for all of them."""
    credential: Credential
    resource: EntityUid
    channel: str
    at_ms: int
    details: dict[str, Any] = {}
    lifts_ceiling: bool = False
    """Whether it would lift what an administrator has disabled."""

    @property
    def digest(self) -> CallDigest:
        """Identify exactly this act."""
        what: dict[str, Any] = {"resource": str(self.resource), "details": self.details}
        return call_digest(tool=self.action, version="act", canonical_arguments=canonicalize(what))
