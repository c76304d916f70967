# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import pwd
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from palyra.core.errors import Code, ConfigError, InputError, PalyraError
from palyra.core.events import ConfigApplied
from palyra.core.manifest import ToolManifest
from palyra.core.proposal import CallRequest
from palyra.daemon.compose import BODIES, Composition, compose, user_homes
from palyra.daemon.local_identity import local_agent
from palyra.daemon.settings import Settings, ToolCallConfig, snapshot
from palyra.store.sqlite.ledger import DATABASE_NAME, HEAD_NAME
from palyra.tools.built_in import BUILT_IN_TOOLS
from palyra.tools.function import tool
from palyra.trust.signing_key import KEY_NAME
from tests.support.journals import verify_home
from tests.support.scripted import CountedIds, FakeClock
from tests.support.store import add_workspace, kinds
from tests.support.workspaces import workspace_at

if TYPE_CHECKING:
    from collections.abc import Callable

SETTINGS = Settings()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def opened(home: Path, settings: Settings = SETTINGS, **options: Any) -> Composition:  # noqa: ANN401
    composition = compose(home, settings, **options)
    composition.ledger.close()
    return composition


def refusal(home: Path) -> Code:
    with pytest.raises(PalyraError) as refused:
        compose(home, SETTINGS)
    return refused.value.code


def test_a_new_home_gets_a_key_a_log_and_its_configuration(home: Path) -> None:
    composition = compose(home, SETTINGS)
    assert kinds(composition.ledger) == [
        "log.opened",
        "policy.staged",
        "policy.activated",
        "config.applied",
    ]
    assert composition.recovered == 0
    names = {manifest.name for manifest in composition.catalogue}
    assert names == {manifest.name for manifest in BUILT_IN_TOOLS}
    composition.ledger.close()
    assert verify_home(home).ok


@pytest.mark.invariant("I10")
def test_everything_in_the_home_is_the_owners_alone(home: Path) -> None:
    opened(home)
    modes = {
        path.relative_to(home).as_posix(): stat.S_IMODE(path.stat().st_mode)
        for path in (home, *home.rglob("*"))
    }
    others = {name: oct(mode) for name, mode in modes.items() if mode & 0o077}
    assert modes["."] == 0o700
    assert set(others) <= {"keys/journal.pub"}


@pytest.mark.invariant("I8")
def test_a_configuration_is_recorded_when_it_changes(home: Path) -> None:
    stricter = Settings(tool_call=ToolCallConfig(max_calls_per_run=1))
    for settings in (SETTINGS, SETTINGS, stricter, stricter, SETTINGS):
        opened(home, settings)
    composition = compose(home, SETTINGS)
    entries = composition.ledger.reads.entries()
    applied = [
        msgspec.json.decode(entry.body, type=ConfigApplied)
        for entry in entries
        if entry.kind == "config.applied"
    ]
    composition.ledger.close()
    in_force = [each.snapshot for each in applied]
    assert in_force == [snapshot(SETTINGS), snapshot(stricter), snapshot(SETTINGS)]


@pytest.mark.invariant("I8")
@pytest.mark.parametrize(
    ("change", "code"),
    [
        pytest.param(
            lambda home: (home / "keys" / KEY_NAME).unlink(), Code.KEY_MISSING, id="key-missing"
        ),
        pytest.param(
            lambda home: (home / "keys" / KEY_NAME).chmod(0o644), Code.KEY_EXPOSED, id="key-exposed"
        ),
        pytest.param(
            lambda home: (home / "keys" / KEY_NAME).write_text("x"),
            Code.KEY_UNREADABLE,
            id="key-unreadable",
        ),
        pytest.param(
            lambda home: (home / HEAD_NAME).unlink(), Code.JOURNAL_HEAD_MISSING, id="head-missing"
        ),
        pytest.param(lambda home: home.chmod(0o755), Code.HOME_UNSAFE, id="home-open-to-others"),
        pytest.param(
            lambda home: (home / DATABASE_NAME).write_bytes(b"noise" * 1000),
            Code.STORE_CORRUPT,
            id="database-corrupt",
        ),
    ],
)
def test_a_home_that_is_not_as_it_was_left_is_refused(
    home: Path, change: Callable[[Path], object], code: Code
) -> None:
    opened(home)
    for leftover in (f"{DATABASE_NAME}-wal", f"{DATABASE_NAME}-shm"):
        if code is Code.STORE_CORRUPT:
            (home / leftover).unlink(missing_ok=True)
    change(home)
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    assert refusal(home) is code
    assert len(list(Path("/proc/self/fd").iterdir())) == descriptors


@pytest.mark.invariant("I8")
def test_a_key_of_another_home_is_refused(home: Path, tmp_path: Path) -> None:
    opened(home)
    opened(tmp_path / "other")
    other = (tmp_path / "other" / "keys" / KEY_NAME).read_bytes()
    (home / "keys" / KEY_NAME).write_bytes(other)
    assert refusal(home) is Code.KEY_REPLACED


@pytest.mark.invariant("I10")
@pytest.mark.parametrize("inside", ["home/keys", "home", "."])
def test_a_workspace_and_the_state_never_contain_each_other(
    home: Path, tmp_path: Path, inside: str
) -> None:
    composition = compose(home, SETTINGS)
    composition.ledger.record_now(add_workspace(workspace_at(tmp_path / inside)))
    composition.ledger.close()
    with pytest.raises(InputError) as refused:
        compose(home, SETTINGS)
    assert refused.value.code is Code.WORKSPACE_REFUSED
    assert list((home / "instances").iterdir()) == []


def test_a_link_is_no_home(home: Path, tmp_path: Path) -> None:
    opened(home)
    (tmp_path / "link").symlink_to(home)
    with pytest.raises(ConfigError) as refused:
        compose(tmp_path / "link", SETTINGS)
    assert refused.value.code is Code.HOME_UNSAFE


def test_every_built_in_tool_has_a_body() -> None:
    assert set(BODIES) == {manifest.name for manifest in BUILT_IN_TOOLS}


@tool(name="test.twice", max_output_bytes=64)
def twice(text: str) -> str:
    """Say it twice."""
    return text * 2


async def test_functions_become_tools_behind_the_gate(home: Path) -> None:
    clock = FakeClock()
    settings = Settings(tool_call=ToolCallConfig(allowed_tools=("test.twice",)))
    composition = compose(home, settings, tools=[twice], clock=clock, ids=CountedIds(clock))
    credential = local_agent("ada")
    run = await composition.gate.open_session(credential)
    outcomes = []
    for text in ("ab", "x" * 40):
        request = CallRequest(
            tool="test.twice",
            raw_arguments=msgspec.json.encode({"text": text}),
            run_id=run.run_id,
        )
        outcomes.append((await composition.gate.submit(request, credential=credential)).outcome)
    await composition.close()
    first, second = outcomes
    assert first is not None
    assert bytes(first.output) == b'"abab"'
    assert second is not None
    assert second.error is not None
    assert second.error.code == Code.TOOL_OUTPUT_INVALID


async def test_closing_waits_for_calls_and_ends_the_instance(home: Path) -> None:
    composition = compose(home, SETTINGS)
    assert len(list((home / "instances").iterdir())) == 1
    await composition.close()
    assert list((home / "instances").iterdir()) == []


def test_the_homes_of_users_are_never_workspaces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/somewhere")
    assert Path("/somewhere") in user_homes()
    assert Path(pwd.getpwuid(os.geteuid()).pw_dir) in user_homes()


def test_a_user_without_an_entry_has_only_the_home_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unknown(uid: int) -> object:
        raise KeyError(uid)

    monkeypatch.setenv("HOME", "/somewhere")
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    assert user_homes() == (Path("/somewhere"),)


def test_manifests_are_all_checked_at_start(home: Path) -> None:
    composition = opened(home)
    assert all(isinstance(manifest, ToolManifest) for manifest in composition.catalogue)
