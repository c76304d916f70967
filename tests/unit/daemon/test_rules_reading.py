# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import TYPE_CHECKING

from palyra.core.digest import PolicyDigest
from palyra.daemon.compose import compose
from palyra.daemon.rules_reading import PackagedRules, reading_engine, rules_store
from palyra.daemon.settings import Settings
from palyra.flow.policy.presets import packaged_pack
from tests.support.policies import pack_of
from tests.support.simulator import GateSimulator
from tests.unit.flow.test_operations import OWNER, QUIET

if TYPE_CHECKING:
    from pathlib import Path


def test_a_home_that_was_never_used_has_the_packaged_rules_and_stays_unused(
    tmp_path: Path,
) -> None:
    home = tmp_path / "home"
    with reading_engine(home, Settings()) as engine:
        assert engine.policy_digest == packaged_pack().digest
        assert engine.rules is not None
    assert not home.exists()


def test_the_packaged_rules_are_those_of_the_first_start(tmp_path: Path) -> None:
    packaged = PackagedRules()
    composition = compose(tmp_path / "home", Settings())
    first = composition.ledger.rules_in_force()
    composition.ledger.close()
    assert first == packaged.rules_in_force()
    assert packaged.packs() == (packaged.pack(packaged_pack().digest),)
    assert packaged.pack(PolicyDigest("0" * 64)) is None
    assert packaged.postures() == ()


async def test_a_used_home_is_read_as_it_is(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with GateSimulator(home) as simulator:
        pack = pack_of(QUIET)
        await simulator.composition.operations.stage_pack(pack, credential=OWNER)
        await simulator.composition.operations.activate_pack(
            pack.digest, credential=OWNER, reason=""
        )
        with reading_engine(home, Settings()) as engine:
            assert engine.policy_digest == pack.digest
        with rules_store(home, Settings()) as store:
            assert {each.policy_digest for each in store.packs()} == {
                pack.digest,
                packaged_pack().digest,
            }
