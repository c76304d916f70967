# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

import pytest

from palyra.core.decision import Verdict
from palyra.core.digest import PolicyDigest
from palyra.daemon.embedded import EmbeddedGate
from palyra.flow.policy.engine import load_rules
from palyra.flow.policy.presets import packaged_pack
from palyra.flow.policy.replay import is_reproduced, past_decisions
from palyra.flow.seal.verify import verify_journal
from palyra.store.sqlite.ledger import Archive
from tests.support.changing_rules import PACKS
from tests.support.random_calls import ENVIRON

if TYPE_CHECKING:
    from pathlib import Path

    from palyra.core.result import CallResult

CHANGES = 30
IDS = {
    PACKS["even"].digest: {"even.permits", "even.asks"},
    PACKS["odd"].digest: {"odd.forbids", "odd.permits"},
    packaged_pack().digest: set[str](),
}


@pytest.mark.invariant("I4")
@pytest.mark.invariant("I8")
async def test_no_decision_mixes_two_packs_and_the_journal_shows_which_one_it_was(
    tmp_path: Path,
) -> None:
    home = tmp_path / "home"
    results: list[CallResult] = []
    async with EmbeddedGate.open(home, environ=ENVIRON) as gate:
        changing = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.support.changing_rules", str(home), str(CHANGES))
        )
        try:
            async with asyncio.timeout(60):
                while changing.returncode is None:
                    for tool, arguments in (
                        ("palyra.echo", {"text": "x"}),
                        ("palyra.sleep", {"duration_ms": 0}),
                    ):
                        results.append(await gate.call(tool, arguments, agent="ada"))
        finally:
            if changing.returncode is None:
                changing.kill()
        assert await changing.wait() == 0
    seen = {result.decision.policy_digest for result in results}
    assert {PACKS["even"].digest, PACKS["odd"].digest} <= seen
    for result in results:
        decision = result.decision
        own = {each for each in decision.policies if not each.startswith("palyra.")}
        assert own <= IDS[PolicyDigest(decision.policy_digest)]
    archive = Archive(home, busy_timeout_ms=5000)
    try:
        assert verify_journal(archive).ok
        assert _all_reproduced(archive) == len(results)
    finally:
        archive.close()


def _all_reproduced(archive: Archive) -> int:
    """Put every journaled question to the pack it was decided by, and count them."""
    rules = {}
    for kept in archive.packs():
        pack = archive.pack(kept.policy_digest)
        assert pack is not None
        rules[pack.policy_digest] = load_rules(pack.body, pack.policy_digest)
    count = 0
    for past in past_decisions(archive):
        assert past.request is not None
        if past.code != "policy.changed":  # said at the commit, not by policy
            assert is_reproduced(past, rules[PolicyDigest(past.policy_digest)]), past
        else:
            assert past.verdict is Verdict.FORBID
        count += 1
    return count
