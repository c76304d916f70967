# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import random
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from palyra.core.capability import Capability
from palyra.core.decision import Verdict
from palyra.core.digest import PolicyDigest
from palyra.core.errors import NotPermittedError
from palyra.core.facts import Facts
from palyra.core.posture import Posture, PostureScope, PostureSetting
from palyra.core.session import BudgetLimits
from palyra.daemon.local_identity import local_operator
from palyra.flow.policy.engine import load_rules
from palyra.flow.policy.explain import explain
from palyra.flow.policy.replay import inquiry_about, is_reproduced, past_decisions
from palyra.store.sqlite.ledger import Archive
from palyra.tools.function import tool
from tests.support.policies import pack_of
from tests.support.simulator import AGENT_CREDENTIAL, OPERATOR_CREDENTIAL, GateSimulator

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

CALLS = 300
OWNER = local_operator()
PACKS = (
    pack_of(),
    pack_of(preset="boxed"),
    pack_of(
        '@id("own.large") @reason("large ones are asked about")'
        " forbid (principal, action, resource)"
        " when { context.size_bytes > 5 } unless { context.approved };"
        '@id("own.docs") @reason("docs may be written") permit (principal is Agent,'
        ' action == Action::"approval.waive", resource in Capability::"filesystem_write")'
        ' when { context has files && context.files.writes_under == "docs" };'
        '@id("own.hosts") @reason("only one host") forbid (principal, action, resource)'
        ' when { context has network && !["a"].containsAll(context.network.hosts) };'
        '@id("own.fails") @reason("r") forbid (principal, action, resource)'
        " when { context.duration_ms * 9223372036854775807 > 9 };"
        '@id("own.late") @reason("r") forbid (principal, action, resource)'
        " when { context.budget.run == 3 };"
    ),
)


def drawn(arguments: Mapping[str, Any]) -> Facts:
    return msgspec.convert(arguments["facts"], Facts)


@tool(name="test.look", facts=drawn)
async def look(facts: dict[str, Any]) -> int:
    """Look at something."""
    return len(facts)


@tool(name="test.change", facts=drawn, capabilities=(Capability.FILESYSTEM_WRITE,))
async def change(facts: dict[str, Any]) -> int:
    """Change something."""
    return len(facts)


def some_facts(chance: random.Random) -> dict[str, Any]:
    facts: dict[str, Any] = {"size_bytes": chance.choice([0, 5, 6]), "duration_ms": 0}
    if chance.random() < 0.1:
        facts["duration_ms"] = 2
    if chance.random() < 0.5:
        facts["writes"] = chance.choices(["docs/a", "docs/b/c", "x", "..", "é\u202e"], k=2)
    if chance.random() < 0.3:
        facts["hosts"] = chance.choices(["a", "b"], k=1)
    if chance.random() < 0.1:
        facts["reads"] = [f"f{number}" for number in range(100)]
    return facts


@pytest.mark.parametrize("seed", range(3))
async def test_every_journaled_call_is_explained_by_its_own_verdict(
    tmp_path: Path, seed: int
) -> None:
    chance, home = random.Random(seed), tmp_path / "home"  # noqa: S311 - a test's choices
    limits = BudgetLimits(max_calls_per_run=CALLS // 2 - 10)
    async with GateSimulator(home, tools=(look, change), limits=limits) as simulator:
        operations = simulator.composition.operations
        for pack in PACKS:
            await operations.stage_pack(pack, credential=OWNER)
        for number in range(CALLS):
            if number % 60 == 0:
                pack = chance.choice(PACKS)
                await operations.activate_pack(pack.digest, credential=OWNER, reason="next")
            if number % 40 == 0:
                setting = PostureSetting(
                    tool="test.look",
                    scope=PostureScope.GLOBAL,
                    scope_id="",
                    state=chance.choice(tuple(Posture)),
                    reason="next",
                    set_by=OWNER.principal,
                    by_administrator=True,
                    set_at_ms=0,
                    expires_at_ms=simulator.clock.now_ms() + 20,
                )
                await operations.set_posture(setting, credential=OWNER)
            simulator.clock.advance(1)
            name = chance.choice(["test.look", "test.change", "test.unheard_of", "palyra.echo"])
            arguments = {"text": "x"} if name == "palyra.echo" else {"facts": some_facts(chance)}
            who = chance.choice([AGENT_CREDENTIAL, OPERATOR_CREDENTIAL])
            with suppress(NotPermittedError):  # so far beyond its budget that it is only counted
                await simulator.call(name, arguments, credential=who, wait=False)
        assert simulator.verified().ok
    archive = Archive(home, busy_timeout_ms=1000)
    try:
        codes = _explained(archive)
    finally:
        archive.close()
    assert {"tool.unknown", "tool.sensitive", "tool.allowlisted"} <= codes
    assert len(codes) > 6


def _explained(archive: Archive) -> set[str]:
    """Explain every call, and return the codes that came up."""
    codes: set[str] = set()
    for past in past_decisions(archive):
        codes.add(past.code)
        inquiry = inquiry_about(past)
        if inquiry is None:
            assert past.verdict is Verdict.FORBID  # refused before policy was asked
            continue
        kept = archive.pack(PolicyDigest(past.policy_digest))
        assert kept is not None
        rules = load_rules(kept.body, kept.policy_digest)
        assert is_reproduced(past, rules), past
        explanation = explain(rules, inquiry)
        assert (explanation.verdict, explanation.code) == (past.verdict.wire, past.code)
    return codes
