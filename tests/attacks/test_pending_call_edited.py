# SPDX-License-Identifier: Apache-2.0
"""Somebody edits what the store keeps of a pending call, and then the approval comes in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import apsw
import orjson
import pytest

from palyra.core.decision import Verdict
from palyra.core.errors import Code, StateConflictError
from palyra.core.proposal import CallRequest
from palyra.daemon.compose import Composition, compose
from palyra.daemon.settings import Settings
from palyra.flow.sandbox.registration import inspect_folder
from palyra.store.sqlite.ledger import DATABASE_NAME
from tests.support.samples import OPERATOR
from tests.support.scripted import FakeClock, ScriptedPolicy, ScriptedReviewer
from tests.support.simulator import AGENT_CREDENTIAL

if TYPE_CHECKING:
    from pathlib import Path

    from palyra.core.ids import CallId


class Scene:
    """An agent's write waits for an answer; two folders are there."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.right, self.wrong = folder / "right", folder / "wrong"
        for each in (self.right, self.wrong):
            each.mkdir()
        self.reviewer = ScriptedReviewer()

    async def open(self) -> Composition:
        composition = compose(
            self.home,
            Settings(),
            policy=ScriptedPolicy(Verdict.ASK),
            reviewer=self.reviewer,
            clock=FakeClock(),
        )
        workspace = inspect_folder(self.right, name="ws", state=self.home, homes=())
        await composition.gate.scribe.workspace_added(workspace, principal=OPERATOR)
        return composition

    async def propose(self, composition: Composition) -> CallId:
        run = await composition.gate.open_session(AGENT_CREDENTIAL)
        raw = b'{"content":"hello","path":"note.txt"}'
        request = CallRequest(tool="palyra.fs.write", raw_arguments=raw, run_id=run.run_id)
        result = await composition.gate.submit(request, credential=AGENT_CREDENTIAL, wait=False)
        assert result.state == "pending"
        assert result.call_id is not None
        return result.call_id

    def edit(self, **changes: object) -> None:
        """Change what the store keeps of the call, past Palyra."""
        connection = apsw.Connection(str(self.home / DATABASE_NAME))
        kept = orjson.loads(connection.execute("SELECT proposal FROM calls").get)
        kept.update(changes)
        connection.execute("UPDATE calls SET proposal = ?", (orjson.dumps(kept),))
        connection.close()


@pytest.mark.invariant("I4")
async def test_another_workspace_is_not_written_to(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    composition = await scene.open()
    call_id = await scene.propose(composition)
    found = scene.wrong.stat()
    scene.edit(
        workspace={
            "name": "ws",
            "root": str(scene.wrong),
            "device": found.st_dev,
            "inode": found.st_ino,
        }
    )
    scene.reviewer.approve()
    result = await composition.gate.resume(call_id, credential=AGENT_CREDENTIAL)
    await composition.close()
    assert result.state == "succeeded"
    assert (scene.right / "note.txt").read_text() == "hello"
    assert list(scene.wrong.iterdir()) == []


@pytest.mark.invariant("I4")
@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"arguments": {"content": "evil", "path": "note.txt"}}, id="arguments"),
        pytest.param({"tool": "palyra.fs.apply_patch"}, id="tool"),
        pytest.param({"timeout_ms": 1}, id="plan"),
        pytest.param({"arguments": {"path": "note.txt"}}, id="no-call-at-all"),
    ],
)
async def test_what_is_not_as_it_was_decided_does_not_run(
    tmp_path: Path, changes: dict[str, object]
) -> None:
    scene = Scene(tmp_path)
    composition = await scene.open()
    call_id = await scene.propose(composition)
    scene.edit(**changes)
    scene.reviewer.approve()
    with pytest.raises(StateConflictError) as caught:
        await composition.gate.resume(call_id, credential=AGENT_CREDENTIAL)
    await composition.close()
    assert caught.value.code is Code.PERMIT_MISMATCH
    assert list(scene.right.iterdir()) == []
