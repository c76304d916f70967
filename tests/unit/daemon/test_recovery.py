# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from palyra.core.digest import content_sha256
from palyra.core.errors import StateConflictError
from palyra.core.events import EffectPlanned, EffectRecovered, read_event
from palyra.core.lifecycle import CallState
from palyra.core.principal import Assurance
from palyra.core.transitions import Note, PlanEffect
from palyra.daemon.recovery import recover_interrupted
from palyra.flow.sandbox.blocking import StopToken
from palyra.flow.sandbox.file_change import FileChange
from palyra.flow.sandbox.staged import StagedChanges, apply, stage
from palyra.flow.sandbox.staged import recover as recover_files
from palyra.flow.seal.attest import Attestor
from palyra.flow.seal.interrupt import planned_effect
from tests.support.scripted import CountedIds, FakeClock
from tests.support.staged_changes import staging_folders
from tests.support.store import (
    KEY,
    add_workspace,
    admit,
    call_id,
    end,
    open_ledger,
    opening,
    remove_workspace,
    state_of,
)
from tests.support.workspaces import tree, workspace_at

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from palyra.store.sqlite.ledger import Ledger

CHANGES = (
    FileChange(path="old", before_sha256=content_sha256(b"one"), content=b"two"),
    FileChange(path="new", before_sha256="", content=b"new"),
)
BEFORE = {"old": "one"}
AFTER = {"old": "two", "new": "new"}


class Crashed:
    """A process that changed files in a workspace until it ended, and what it left."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.root = folder / "site"
        self.root.mkdir()
        (self.root / "old").write_text("one")
        self.ledger: Ledger = open_ledger(self.home)
        self.ledger.record_now(opening())
        self.workspace = workspace_at(self.root, name="site")
        self.ledger.record_now(add_workspace(self.workspace))
        self.ledger.record_now(admit(1))

    def stage(self) -> StagedChanges:
        return stage(self.workspace, CHANGES, call_id=call_id(1), stop=StopToken())

    def plan(self, staged: StagedChanges) -> None:
        planned = EffectPlanned(
            call_id=call_id(1), workspace="site", staging=staged.staging, changes=staged.changes
        )
        self.ledger.record_now(PlanEffect(call_id=call_id(1), events=(planned,)))

    def recover(self) -> int:
        """End the process, and let the next one recover."""
        self.ledger.close()
        self.ledger = open_ledger(self.home, series=1)
        return recover(self.ledger)

    def effects(self) -> list[EffectRecovered]:
        return [
            read_event(entry, EffectRecovered)
            for entry in self.ledger.of_subject(call_id(1))
            if entry.kind == EffectRecovered.kind
        ]


def recover(ledger: Ledger) -> int:
    clock = FakeClock()
    attestor = Attestor(signer=KEY, ids=CountedIds(clock, series=9), assurance=Assurance.DEVELOPER)
    return recover_interrupted(ledger, attestor=attestor, clock=clock)


@pytest.fixture
def crashed(tmp_path: Path) -> Iterator[Crashed]:
    crashed = Crashed(tmp_path)
    yield crashed
    crashed.ledger.close()


def test_nothing_is_recovered_where_nothing_was_cut_off(crashed: Crashed) -> None:
    crashed.ledger.record_now(end(1, CallState.LAUNCHED, CallState.SUCCEEDED))
    before = crashed.ledger.reads.size()
    assert crashed.recover() == 0
    assert crashed.ledger.reads.size() == before


@pytest.mark.invariant("I7")
def test_a_launch_without_an_outcome_becomes_interrupted(crashed: Crashed) -> None:
    assert crashed.recover() == 1
    assert state_of(crashed.ledger, 1) is CallState.INTERRUPTED
    kinds = [entry.kind for entry in crashed.ledger.of_subject(call_id(1))]
    assert kinds == ["call.decided", "call.launched", "call.interrupted"]
    assert recover(crashed.ledger) == 0


@pytest.mark.invariant("I7")
def test_what_was_staged_without_a_plan_is_removed(crashed: Crashed) -> None:
    crashed.stage()
    assert staging_folders(crashed.root)
    crashed.recover()
    assert tree(crashed.root) == BEFORE
    assert crashed.effects() == []
    assert state_of(crashed.ledger, 1) is CallState.INTERRUPTED


@pytest.mark.invariant("I7")
def test_a_recorded_plan_is_finished(crashed: Crashed) -> None:
    staged = crashed.stage()
    crashed.plan(staged)
    crashed.recover()
    assert tree(crashed.root) == AFTER
    assert [effect.result for effect in crashed.effects()] == ["finished"]
    kinds = [entry.kind for entry in crashed.ledger.of_subject(call_id(1))][2:]
    assert kinds == ["effect.planned", "effect.recovered", "call.interrupted"]


def test_a_finished_plan_is_only_recorded(crashed: Crashed) -> None:
    staged = crashed.stage()
    crashed.plan(staged)
    apply(crashed.workspace, staged, stop=StopToken())
    crashed.recover()
    assert tree(crashed.root) == AFTER
    assert [effect.result for effect in crashed.effects()] == ["finished"]


def test_files_that_others_changed_since_are_left_alone(crashed: Crashed) -> None:
    staged = crashed.stage()
    crashed.plan(staged)
    (crashed.root / "old").write_text("another's")
    crashed.recover()
    assert (crashed.root / "old").read_text() == "another's"
    (effect,) = crashed.effects()
    assert effect.result in {"undone", "conflict"}
    assert state_of(crashed.ledger, 1) is CallState.INTERRUPTED


@pytest.mark.parametrize("is_recorded", [True, False], ids=["recorded", "not-recorded"])
def test_a_recovery_that_was_cut_off_is_continued(crashed: Crashed, *, is_recorded: bool) -> None:
    """The files are recovered, perhaps that is recorded, then the process ends again."""
    staged = crashed.stage()
    crashed.plan(staged)
    planned = planned_effect(crashed.ledger.of_subject(call_id(1)))
    assert planned is not None
    recover_files(crashed.workspace, planned)
    if is_recorded:
        finished = EffectRecovered(call_id=call_id(1), result="finished", paths=("old", "new"))
        crashed.ledger.record_now(Note(events=(finished,)))
    assert crashed.recover() == 1
    assert tree(crashed.root) == AFTER
    assert [effect.result for effect in crashed.effects()] == ["finished"]
    assert state_of(crashed.ledger, 1) is CallState.INTERRUPTED


def test_a_removed_workspace_is_told(crashed: Crashed) -> None:
    crashed.plan(crashed.stage())
    crashed.ledger.record_now(remove_workspace("site"))
    crashed.recover()
    assert [effect.result for effect in crashed.effects()] == ["workspace removed"]
    assert tree(crashed.root)["old"] == "one"


@pytest.mark.parametrize("with_plan", [True, False], ids=["planned", "staged-only"])
def test_a_workspace_that_is_gone_does_not_stop_the_rest(
    crashed: Crashed, *, with_plan: bool
) -> None:
    staged = crashed.stage()
    if with_plan:
        crashed.plan(staged)
    crashed.ledger.record_now(admit(2))
    shutil.rmtree(crashed.root)
    assert crashed.recover() == 2
    assert [effect.result for effect in crashed.effects()] == (["failed"] if with_plan else [])
    states = [state_of(crashed.ledger, number) for number in (1, 2)]
    assert states == [CallState.INTERRUPTED] * 2


@pytest.mark.invariant("I5")
def test_another_process_may_have_recovered_first(crashed: Crashed) -> None:
    crashed.ledger.close()
    crashed.ledger = open_ledger(crashed.home, series=1)
    (orphan,) = crashed.ledger.orphans()
    assert recover(crashed.ledger) == 1
    crashed.ledger.orphans = lambda: (orphan,)  # type: ignore[method-assign]
    assert recover(crashed.ledger) == 1
    kinds = [entry.kind for entry in crashed.ledger.of_subject(call_id(1))]
    assert kinds.count("call.interrupted") == 1
    with pytest.raises(StateConflictError):
        crashed.ledger.record_now(end(1, CallState.LAUNCHED, CallState.INTERRUPTED))
