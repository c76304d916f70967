# SPDX-License-Identifier: Apache-2.0
import logging
import os
import sqlite3
from pathlib import Path

import pytest

from palyra.cli.frame import Frame
from palyra.cli.opening import (
    known_home,
    loaded_settings,
    opened_archive,
    opened_rules,
    through_gate,
)
from palyra.cli.output import Output
from palyra.core.errors import Code, ConfigError, StoreError
from palyra.core.ports import RulesInForce
from palyra.daemon.embedded import EmbeddedGate
from palyra.daemon.rules_reading import PackagedRules
from palyra.flow.policy.presets import packaged_pack
from palyra.store.sqlite.ledger import DATABASE_NAME, Archive
from tests.support.command_line import CommandLine


@pytest.fixture
def frame() -> Frame:
    return Frame(output=Output(as_json=False), environ=os.environ)


async def size(gate: EmbeddedGate) -> int:
    return gate.composition.ledger.reads.size()


def test_the_gate_is_opened_and_closed_again(frame: Frame, palyra: CommandLine) -> None:
    assert through_gate(frame, size) > 0
    with opened_archive(frame) as archive:
        assert archive.size() == through_gate(frame, size)
    assert palyra.home.is_dir()


def test_reading_creates_nothing(frame: Frame, palyra: CommandLine) -> None:
    with pytest.raises(StoreError) as caught, opened_archive(frame):
        pass
    assert caught.value.code is Code.STORE_UNREACHABLE
    assert not palyra.home.exists()


def test_the_rules_before_and_after_the_first_start(frame: Frame, palyra: CommandLine) -> None:
    with opened_rules(frame) as before:
        digest = packaged_pack().digest
        assert before.rules_in_force() == RulesInForce(version=1, policy_digest=digest)
    assert not palyra.home.exists()
    through_gate(frame, size)
    with opened_rules(frame) as store:
        assert isinstance(store, Archive)
        assert store.rules_in_force() == RulesInForce(version=1, policy_digest=digest)
        assert isinstance(before, PackagedRules)


def test_a_store_in_which_nothing_is_in_force_yet(frame: Frame, palyra: CommandLine) -> None:
    through_gate(frame, size)
    database = sqlite3.connect(palyra.home / DATABASE_NAME)
    database.execute("DELETE FROM rules")
    database.commit()
    database.close()
    with opened_rules(frame) as store:
        assert isinstance(store, PackagedRules)


def test_the_named_configuration_counts(frame: Frame) -> None:
    frame.config_option = "/nowhere/palyra.toml"
    with pytest.raises(ConfigError):
        loaded_settings(frame)
    with pytest.raises(ConfigError):
        through_gate(frame, size)


@pytest.mark.parametrize("is_verbose", [True, False])
def test_the_log_is_for_those_who_ask(
    frame: Frame, monkeypatch: pytest.MonkeyPatch, *, is_verbose: bool
) -> None:
    asked: list[object] = []
    monkeypatch.setattr(logging, "basicConfig", lambda **options: asked.append(options))
    frame.is_verbose = is_verbose
    through_gate(frame, size)
    assert bool(asked) is is_verbose


@pytest.mark.parametrize(
    "home",
    [
        pytest.param("/" + "x" * 300, id="a-long-name"),
        pytest.param("/x" * 3000, id="a-long-path"),
        pytest.param("/x\0y", id="no-path"),
    ],
)
def test_a_home_that_cannot_be_is_refused(frame: Frame, home: str) -> None:
    frame.home_option = home
    for act in (known_home, loaded_settings, lambda frame: through_gate(frame, size)):
        with pytest.raises(ConfigError) as caught:
            act(frame)
        assert caught.value.code is Code.HOME_UNSAFE
        assert len(caught.value.message) < 300


def test_a_relative_home_needs_a_current_directory(
    frame: Frame, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    frame.home_option = "state"
    with pytest.raises(ConfigError) as caught:
        loaded_settings(frame)
    assert caught.value.code is Code.HOME_UNSAFE


def test_a_home_that_is_no_text_holds_no_store(frame: Frame, tmp_path: Path) -> None:
    frame.home_option = f"{tmp_path}/\udcff"
    with pytest.raises(ConfigError, match="is not UTF-8"):
        through_gate(frame, size)
    with pytest.raises(ConfigError, match="is not UTF-8"), opened_archive(frame):
        pass
