# SPDX-License-Identifier: Apache-2.0
"""Rules made of a few policies, and a store that holds them, for tests of deciding."""

from __future__ import annotations

from typing import TYPE_CHECKING

from palyra.core.digest import PolicyDigest
from palyra.core.pack import NOBODY, Members, Pack
from palyra.core.ports import RulesInForce, StagedPack
from palyra.flow.policy.compile import compile_pack
from palyra.flow.policy.presets import packaged_sources
from palyra.flow.policy.rules import Rules
from palyra.flow.policy.sources import Source

if TYPE_CHECKING:
    from palyra.core.errors import PalyraError
    from palyra.core.posture import PostureSetting


def pack_of(text: str = "", *, preset: str = "ask", members: Members = NOBODY) -> Pack:
    """Compile operators' policies on top of a preset."""
    sources = packaged_sources(preset)
    if text:
        sources = (*sources, Source("own.cedar", text))
    pack = compile_pack(sources, preset=preset, members=members)
    assert isinstance(pack, Pack), [str(fault) for fault in pack]
    return pack


def bare_pack(text: str, *, members: Members = NOBODY) -> Pack:
    """Compile policies alone, without any that are packaged."""
    pack = compile_pack((Source("own.cedar", text),), preset="ask", members=members)
    assert isinstance(pack, Pack), [str(fault) for fault in pack]
    return pack


def rules_of(text: str = "", *, preset: str = "ask", members: Members = NOBODY) -> Rules:
    """Load operators' policies on top of a preset."""
    return Rules(pack_of(text, preset=preset, members=members))


class HeldRules:
    """A store of rules that a test changes, and that may fail."""

    def __init__(self, pack: Pack) -> None:
        self.fault: PalyraError | None = None
        self.settings: tuple[PostureSetting, ...] = ()
        self.version = 0
        self.kept: dict[PolicyDigest, bytes] = {}
        self.digest = PolicyDigest("")
        self.activate(pack)

    def activate(self, pack: Pack) -> None:
        self.kept[pack.digest] = pack.encoded()
        self.digest = pack.digest
        self.version += 1

    def set(self, *settings: PostureSetting) -> None:
        self.settings = settings
        self.version += 1

    def rules_version(self) -> int:
        if self.fault is not None:
            raise self.fault
        return self.version

    def rules_in_force(self) -> RulesInForce:
        if self.fault is not None:
            raise self.fault
        return RulesInForce(version=self.version, policy_digest=self.digest)

    def pack(self, policy_digest: PolicyDigest) -> StagedPack | None:
        body = self.kept.get(policy_digest)
        if body is None:
            return None
        return StagedPack(policy_digest=policy_digest, staged_at_ms=0, was_active=True, body=body)

    def packs(self) -> tuple[StagedPack, ...]:
        found = (self.pack(digest) for digest in self.kept)
        return tuple(pack for pack in found if pack is not None)

    def postures(self) -> tuple[PostureSetting, ...]:
        if self.fault is not None:
            raise self.fault
        return self.settings
