# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from palyra.core.errors import IntegrityError
from palyra.core.pack import Pack
from palyra.flow.policy import presets
from palyra.flow.policy.cases import read_cases
from palyra.flow.policy.presets import PRESETS, packaged_pack, packaged_sources, packaged_tables
from palyra.flow.policy.sources import Source
from palyra.flow.policy.vocabulary import schema_sha256


def test_each_preset_has_one_sentence_and_its_sources() -> None:
    assert all(sentence.count(".") == 1 for sentence in PRESETS.values())
    assert [source.name for source in packaged_sources("ask")] == ["palyra/base.cedar"]
    assert [source.name for source in packaged_sources("boxed")] == [
        "palyra/base.cedar",
        "palyra/boxed.cedar",
    ]
    with pytest.raises(KeyError):
        packaged_sources("lax")


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_compiles(preset: str) -> None:
    pack = packaged_pack(preset)
    assert isinstance(pack, Pack)
    assert pack.preset == preset
    assert pack.schema_sha256 == schema_sha256()
    assert all(policy.policy_id.startswith("palyra.") for policy in pack.policies)
    assert all(policy.reads is not None for policy in pack.policies)


@pytest.mark.parametrize("preset", PRESETS)
def test_beside_every_source_stands_its_table_of_examples(preset: str) -> None:
    tables = packaged_tables(preset)
    sources = [source.name for source in packaged_sources(preset)]
    assert [name.replace(".toml", ".cedar") for name, _ in tables] == sources
    assert all(not read_cases(table, name).faults for name, table in tables)


def test_asking_is_what_holds_without_a_word() -> None:
    assert packaged_pack() == packaged_pack("ask")


@pytest.mark.invariant("I1")
def test_a_damaged_file_gives_no_pack(monkeypatch: pytest.MonkeyPatch) -> None:
    damaged = (Source("palyra/base.cedar", "permit (principal"),)
    monkeypatch.setattr(presets, "packaged_sources", lambda _: damaged)
    with pytest.raises(IntegrityError, match=r"palyra/base\.cedar:1:1"):
        packaged_pack.__wrapped__("ask")
