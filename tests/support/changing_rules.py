# SPDX-License-Identifier: Apache-2.0
"""A process that keeps putting other rules into force, while somebody else decides by them.

``python -m tests.support.changing_rules HOME COUNT`` activates one of two packs in turn, sets and
clears a posture in between, and prints the digests of the two packs first.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Final

from palyra.core.posture import Posture, PostureScope, PostureSetting
from palyra.daemon.embedded import EmbeddedGate
from palyra.daemon.local_identity import local_operator
from tests.support.policies import pack_of

_PERMITTING: Final = """
@id("even.permits") @reason("even") permit (principal, action == Action::"tool.execute", resource);
@id("even.asks") @reason("even")
forbid (principal, action, resource == Tool::"palyra.sleep") unless { context.approved };
"""
_FORBIDDING: Final = """
@id("odd.forbids") @reason("odd")
forbid (principal, action, resource == Tool::"palyra.sleep");
@id("odd.permits") @reason("odd") permit (principal, action == Action::"tool.execute", resource);
"""
PACKS: Final = {"even": pack_of(_PERMITTING), "odd": pack_of(_FORBIDDING)}


async def change(home: Path, count: int) -> None:
    """Change the rules ``count`` times."""
    owner = local_operator()
    setting = PostureSetting(
        tool="palyra.echo",
        scope=PostureScope.AGENT,
        scope_id="nobody",
        state=Posture.DISABLED,
        reason="in passing",
        set_by=owner.principal,
        by_administrator=True,
        set_at_ms=0,
    )
    async with EmbeddedGate.open(home, environ={}) as gate:
        operations = gate.composition.operations
        for pack in PACKS.values():
            await operations.stage_pack(pack, credential=owner)
        for turn in range(count):
            pack = PACKS["odd" if turn % 2 else "even"]
            await operations.activate_pack(pack.digest, credential=owner, reason=f"turn {turn}")
            await operations.set_posture(setting, credential=owner)
            await operations.clear_posture(
                setting.tool, setting.scope, setting.scope_id, credential=owner, reason=""
            )


if __name__ == "__main__":
    asyncio.run(change(Path(sys.argv[1]), int(sys.argv[2])))
