# SPDX-License-Identifier: Apache-2.0
"""A policy pack: every policy in force with where it stands, and who belongs to which role.

A pack is compiled once, when it is staged; its digest covers the compiled form. Whoever loads one
checks the digest and need not parse anything again.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

import msgspec

from palyra.core.canonical import canonical_record
from palyra.core.digest import policy_digest

if TYPE_CHECKING:
    from palyra.core.digest import PolicyDigest

MOST_POLICIES: Final = 10_000
LARGEST_PACK_BYTES: Final = 16 << 20
MOST_MEMBERS: Final = 100_000


class Effect(StrEnum):
    """What a policy does to the requests it applies to."""

    PERMIT = "permit"
    FORBID = "forbid"


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """One Cedar policy, with everything that deciding needs to know of it."""

    policy_id: str
    effect: Effect
    source: str
    """The file it stands in; ``palyra/NAME.cedar`` for the packaged ones."""
    line: int
    text: str
    principal: tuple[str, ...]
    action: tuple[str, ...]
    resource: tuple[str, ...]
    """Scope heads as keys: see :mod:`palyra.flow.policy.heads`."""
    reads: tuple[str, ...] | None
    """The attributes of ``context`` it may look at; ``None`` where that cannot be told."""
    annotations: dict[str, str]

    @property
    def reason(self) -> str:
        """What people are told about it."""
        return self.annotations.get("reason", "")


class Members(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who is in which role or group, and which tool in which group. Texts are ``kind:name``."""

    roles: dict[str, tuple[str, ...]] = {}
    groups: dict[str, tuple[str, ...]] = {}
    tool_groups: dict[str, tuple[str, ...]] = {}


NOBODY: Final = Members()


class Pack(msgspec.Struct, frozen=True, kw_only=True):
    """All that the policy engine goes by, besides the configuration."""

    format: str = "palyra.pack.v1"
    preset: str
    schema_sha256: str
    policies: tuple[Policy, ...]
    members: Members = NOBODY

    def encoded(self) -> bytes:
        """Return the canonical form, which is what is stored and hashed."""
        return canonical_record(self)

    @property
    def digest(self) -> PolicyDigest:
        """Identify this pack."""
        return policy_digest(self.encoded())


def read_pack(body: bytes) -> Pack:
    """Read back what :meth:`Pack.encoded` returned. Raises ``msgspec.MsgspecError``."""
    return _packs.decode(body)


_packs: Final = msgspec.json.Decoder(Pack)
