# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from palyra.core.digest import PolicyDigest
from palyra.daemon.embedded import EmbeddedGate
from palyra.daemon.local_identity import local_operator
from palyra.flow.policy.presets import packaged_pack
from palyra.flow.seal.activations import last_activation
from palyra.store.sqlite.ledger import Archive


@pytest.fixture
async def archive(tmp_path: Path) -> Archive:
    async with EmbeddedGate.open(tmp_path / "home", environ={}) as gate:
        for preset, reason in (("boxed", "try it"), ("ask", "back"), ("boxed", "again")):
            pack = packaged_pack(preset)
            await gate.stage_policies(pack)
            await gate.activate_policies(pack.digest, reason=reason)
    return Archive(tmp_path / "home", busy_timeout_ms=1000)


async def test_the_latest_one_is_told(archive: Archive) -> None:
    ask, boxed = packaged_pack("ask").digest, packaged_pack("boxed").digest
    again = last_activation(boxed, journal=archive)
    back = last_activation(ask, journal=archive)
    assert again is not None
    assert back is not None
    assert (again.reason, again.before_digest) == ("again", ask)
    assert (back.reason, back.before_digest) == ("back", boxed)
    assert again.principal == str(local_operator().principal)
    assert again.entry == archive.size() > back.entry
    assert again.at_ms >= back.at_ms > 0
    archive.close()


async def test_what_never_was_in_force(archive: Archive) -> None:
    assert last_activation(PolicyDigest("0" * 64), journal=archive) is None
    archive.close()
