# SPDX-License-Identifier: Apache-2.0
"""The library's small surface; whole scenes are in ``tests/integration/test_embedded_gate.py``."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import palyra
from palyra.core.errors import Code, ConfigError, NotFoundError, PalyraError
from palyra.core.posture import Posture, PostureScope
from palyra.daemon.embedded import EmbeddedGate
from palyra.daemon.local_identity import local_operator
from palyra.flow.policy.presets import packaged_pack

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

ECHO = {"text": "hi"}


@pytest.fixture
async def gate(tmp_path: Path) -> AsyncIterator[EmbeddedGate]:
    async with EmbeddedGate.open(tmp_path / "home", environ={}) as gate:
        yield gate


def test_it_is_the_gate_of_the_package() -> None:
    assert palyra.Gate is EmbeddedGate


def test_the_home_comes_from_the_environment(tmp_path: Path) -> None:
    gate = EmbeddedGate.open(environ={"PALYRA_HOME": str(tmp_path / "home")})
    assert gate.composition.home == tmp_path / "home"
    asyncio.run(gate.close())


@pytest.mark.invariant("I1")
def test_nothing_opens_on_a_configuration_that_is_wrong(tmp_path: Path) -> None:
    environ = {"PALYRA_TOOL_CALL__MAX_DEPTH": "deep"}
    with pytest.raises(ConfigError):
        EmbeddedGate.open(tmp_path / "home", environ=environ)
    assert not (tmp_path / "home").exists()


async def test_an_agent_and_the_operator_have_runs_of_their_own(gate: EmbeddedGate) -> None:
    results = [
        await gate.call("palyra.echo", ECHO, agent=agent) for agent in ("ada", "ada", "eve", None)
    ]
    runs = [result.run_id for result in results]
    assert runs[0] == runs[1]
    assert len(set(runs)) == 3


async def test_calls_at_once_share_a_run(gate: EmbeddedGate) -> None:
    results = await asyncio.gather(*(gate.call("palyra.echo", ECHO, agent="ada") for _ in range(5)))
    assert len({result.run_id for result in results}) == 1


async def test_a_session_may_be_named(gate: EmbeddedGate) -> None:
    first = await gate.call("palyra.echo", ECHO, agent="ada")
    second = await gate.call("palyra.echo", ECHO, agent="ada", session_id=first.session_id)
    third = await gate.call("palyra.echo", ECHO, agent="ada", run_id=second.run_id)
    assert second.session_id == first.session_id
    assert second.run_id != first.run_id
    assert third.run_id == second.run_id


@pytest.mark.invariant("I14")
async def test_anothers_session_or_run_is_not_found(gate: EmbeddedGate) -> None:
    mine = await gate.call("palyra.echo", ECHO, agent="ada")
    with pytest.raises(NotFoundError) as session:
        await gate.call("palyra.echo", ECHO, agent="eve", session_id=mine.session_id)
    with pytest.raises(NotFoundError) as run:
        await gate.call("palyra.echo", ECHO, agent="eve", run_id=mine.run_id)
    assert (session.value.code, run.value.code) == (Code.SESSION_UNKNOWN, Code.RUN_UNKNOWN)


async def test_bytes_are_decoded_strictly(gate: EmbeddedGate) -> None:
    twice = await gate.call("palyra.echo", b'{"text":"a","text":"b"}', agent="ada")
    assert (twice.state, twice.decision.code) == ("denied", "input.duplicate_key")


async def test_a_dry_run_decides_only(gate: EmbeddedGate) -> None:
    size = gate.composition.ledger.reads.size()
    result = await gate.call("palyra.echo", ECHO, agent="ada", dry_run=True)
    assert (result.state, result.call_id) == ("dry_run", None)
    assert gate.composition.ledger.reads.size() == size


async def test_an_ended_call_is_told_again(gate: EmbeddedGate) -> None:
    result = await gate.call("palyra.echo", ECHO, agent="ada")
    assert result.call_id is not None
    again = await gate.resume(result.call_id, agent="ada")
    assert (again.state, again.outcome) == (result.state, result.outcome)


async def test_workspaces_are_the_operators(gate: EmbeddedGate, tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    workspace = await gate.add_workspace(tmp_path / "site")
    assert gate.workspaces() == (workspace,)
    await gate.remove_workspace("site")
    assert gate.workspaces() == ()


async def test_a_fault_in_the_block_still_closes_the_gate(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        async with EmbeddedGate.open(tmp_path / "home", environ={}):
            raise ZeroDivisionError
    assert list((tmp_path / "home" / "instances").iterdir()) == []


ONE_BINDING = """
import asyncio, sys
from palyra.daemon.embedded import EmbeddedGate
async def main():
    async with EmbeddedGate.open(sys.argv[1], environ={}) as gate:
        result = await gate.call("palyra.echo", {"text": "hi"}, agent="ada")
        assert result.state == "succeeded", result
asyncio.run(main())
print(sorted(name for name in sys.modules if "sqlite" in name or name == "apsw"))
"""


def test_one_sqlite_binding_is_loaded_in_a_process(tmp_path: Path) -> None:
    """Two SQLite libraries on one file do not see each other's locks and lose data silently."""
    command = [sys.executable, "-c", ONE_BINDING, str(tmp_path / "home")]
    environ = {name: value for name, value in os.environ.items() if "COVERAGE" not in name}
    ran = subprocess.run(command, capture_output=True, text=True, check=True, env=environ)
    loaded = [
        name
        for name in ran.stdout.strip("[]\n").replace("'", "").split(", ")
        if not name.startswith("palyra.")
    ]
    assert loaded == ["apsw"]


def test_only_our_errors_leave_a_home_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(PalyraError):
        EmbeddedGate.open(tmp_path / "file" / "home", environ={})


async def test_policies_are_staged_then_activated(gate: EmbeddedGate) -> None:
    pack = packaged_pack("boxed")
    with pytest.raises(NotFoundError):
        await gate.activate_policies(pack.digest, reason="too early")
    await gate.stage_policies(pack)
    in_force = gate.composition.ledger.rules_in_force()
    assert in_force is not None
    assert in_force.policy_digest == packaged_pack().digest
    await gate.activate_policies(pack.digest, reason="why not")
    result = await gate.call("palyra.echo", ECHO, agent="ada")
    assert result.decision.policy_digest == pack.digest


@pytest.mark.invariant("I14")
async def test_a_posture_is_the_operators_whatever_is_claimed(gate: EmbeddedGate) -> None:
    await gate.set_posture("palyra.echo", Posture.DISABLED, reason="quiet")
    (setting,) = gate.postures()
    assert setting.set_by == local_operator().principal
    assert (setting.by_administrator, setting.set_at_ms > 0) == (True, True)
    denied = await gate.call("palyra.echo", ECHO, agent="ada")
    assert denied.decision.code == Code.TOOL_DISABLED
    await gate.clear_posture("palyra.echo")
    assert gate.postures() == ()


@pytest.mark.parametrize(
    ("tool", "scope", "scope_id", "code"),
    [
        ("palyra.ecco", PostureScope.GLOBAL, "", Code.TOOL_UNKNOWN),
        ("zzz", PostureScope.GLOBAL, "", Code.TOOL_UNKNOWN),
        ("palyra.echo", PostureScope.WORKSPACE, "none", Code.WORKSPACE_UNKNOWN),
        ("palyra.echo", PostureScope.SESSION, "none", Code.SESSION_UNKNOWN),
        ("palyra.echo", PostureScope.AGENT, "a b", Code.PRINCIPAL_INVALID),
    ],
)
async def test_a_posture_for_something_misspelt_is_refused(
    gate: EmbeddedGate, tool: str, scope: PostureScope, scope_id: str, code: Code
) -> None:
    with pytest.raises(PalyraError) as caught:
        await gate.set_posture(tool, Posture.DISABLED, scope=scope, scope_id=scope_id, reason="x")
    assert caught.value.code is code
    assert gate.postures() == ()


async def test_a_posture_for_everybody_names_nobody(gate: EmbeddedGate) -> None:
    with pytest.raises(ValueError, match="names nobody"):
        await gate.set_posture("palyra.echo", Posture.DISABLED, scope_id="ada", reason="x")
