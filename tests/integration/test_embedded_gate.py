# SPDX-License-Identifier: Apache-2.0
"""The gate as a library, on a real store: what ``from palyra import Gate, tool`` promises."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from palyra import Gate, PalyraError, ToolContext, tool
from palyra.core.errors import Code, InputError, NotFoundError, StateConflictError
from palyra.flow.seal.verify import Report, verify_journal
from palyra.store.sqlite.ledger import Archive
from tests.support.simulator import failure_of, output_of, refusal_of

if TYPE_CHECKING:
    from collections.abc import Mapping

PROCESSES = 3
CALLS_EACH = 50

CALLER = """
import asyncio, json, sys
from palyra import Gate, PalyraError

async def call(gate, number):
    try:
        result = await gate.call("palyra.echo", {"text": f"call {number}"}, agent="shared")
    except PalyraError as error:
        return error.code.value
    return result.state

async def main():
    async with Gate.open() as gate:
        sys.stdin.readline()  # until all are ready
        return await asyncio.gather(*(call(gate, number) for number in range(int(sys.argv[1]))))

sys.stdout.write(json.dumps(asyncio.run(main())))
"""


@tool(name="shop.add")
def add(prices: list[int]) -> int:
    """Add prices, in a thread."""
    return sum(prices)


@tool(name="shop.greet")
async def greet(context: ToolContext, name: str = "you") -> str:
    """Greet by way of another tool."""
    echoed = await context.call("palyra.echo", {"text": f"hello {name}"})
    text: str = echoed["echo"]
    return text


@tool(name="shop.total")
async def total(context: ToolContext) -> int:
    """Add by way of another tool."""
    sum_: int = await context.call("shop.add", {"prices": [1, 2, 3]})
    return sum_


@tool(name="shop.refund", sensitive=True)
def refund() -> str:
    """Give money back."""
    return "paid"


@tool(name="shop.dawdle")
def dawdle() -> None:
    """Take longer than it may."""
    time.sleep(0.2)


TOOLS = (add, greet, total, refund, dawdle)


class Scene:
    """A user's machine: a home, a state directory and a project."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = Path(os.path.realpath(root))
        self.user = self.root / "user"
        self.home = self.user / "state" / "palyra"
        self.project = self.user / "project"
        self.project.mkdir(parents=True)
        monkeypatch.setenv("HOME", str(self.user))

    def environ(self, **more: str) -> dict[str, str]:
        tools = ["palyra.echo", "palyra.fs.read", *(each.manifest.name for each in TOOLS)]
        return {
            "PALYRA_HOME": str(self.home),
            "PALYRA_TOOL_CALL__ALLOWED_TOOLS": ",".join(tools),
            "HOME": str(self.user),
            **more,
        }

    def open(self, **more: str) -> Gate:
        return Gate.open(environ=self.environ(**more), tools=TOOLS)

    def verified(self) -> Report:
        archive = Archive(self.home, busy_timeout_ms=1000)
        try:
            return verify_journal(archive)
        finally:
            archive.close()


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(tmp_path, monkeypatch)


# --- Calls ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "arguments", "output"),
    [
        ("shop.add", {"prices": [1, 2]}, 3),
        ("shop.greet", {"name": "Ada"}, "hello Ada"),
        ("shop.greet", {}, "hello you"),
        ("shop.total", {}, 6),
        ("palyra.echo", {"text": "hi"}, {"echo": "hi"}),
        ("palyra.echo", b'{"text":"raw"}', {"echo": "raw"}),
    ],
    ids=["sync", "async-nested", "default", "sync-nested", "built-in", "json-text"],
)
async def test_a_tool_is_called(
    scene: Scene, name: str, arguments: Mapping[str, Any] | bytes, output: object
) -> None:
    async with scene.open() as gate:
        assert output_of(await gate.call(name, arguments, agent="demo")) == output
    assert scene.verified().ok


async def test_the_decorated_function_is_still_a_function() -> None:
    assert add(prices=[4, 5]) == 9


async def test_an_agent_is_refused_what_only_an_operator_may_start(scene: Scene) -> None:
    async with scene.open() as gate:
        denied = await gate.call("shop.refund", {}, agent="demo")
        assert refusal_of(denied) == ("denied", "tool.sensitive")
        allowed = await gate.call("shop.refund", {}, agent=None)
        assert output_of(allowed) == "paid"
        assert allowed.decision.code == "operator.initiated"


async def test_a_call_can_be_told_again_to_whoever_made_it(scene: Scene) -> None:
    async with scene.open() as gate:
        first = await gate.call("palyra.echo", {"text": "x"}, agent="demo", request_id="r")
        again = await gate.call("palyra.echo", {"text": "x"}, agent="demo", request_id="r")
        resumed = await gate.resume(str(first.call_id), agent="demo")
        assert first.call_id == again.call_id == resumed.call_id
        for other in (None, "eve"):
            with pytest.raises(NotFoundError) as caught:
                await gate.resume(str(first.call_id), agent=other)
            assert caught.value.code is Code.CALL_UNKNOWN


@pytest.mark.parametrize(
    "value", [object(), float("nan"), 2**60, "\ud800"], ids=["object", "nan", "huge", "surrogate"]
)
async def test_what_json_cannot_say_is_refused(scene: Scene, value: object) -> None:
    async with scene.open() as gate:
        with pytest.raises(InputError):
            await gate.call("palyra.echo", {"text": value}, agent="demo")
        with pytest.raises(InputError):
            await gate.call("palyra.echo", {"text": "x"}, agent="not a name")


async def test_sessions_and_runs_can_be_named(scene: Scene) -> None:
    async with scene.open() as gate:
        first = await gate.call("shop.total", {}, agent="demo")
        same = await gate.call("shop.total", {}, agent="demo", run_id=first.run_id)
        new = await gate.call("shop.total", {}, agent="demo", session_id=first.session_id)
        assert (same.run_id, same.session_id) == (first.run_id, first.session_id)
        assert new.run_id != first.run_id
        assert new.session_id == first.session_id
        with pytest.raises(NotFoundError):
            await gate.call("shop.total", {}, agent="eve", session_id=first.session_id)


async def test_a_dry_run_runs_nothing(scene: Scene) -> None:
    async with scene.open() as gate:
        result = await gate.call("shop.refund", {}, agent="demo", dry_run=True)
        assert (result.state, result.decision.verdict) == ("dry_run", "needs_approval")


async def test_calls_at_once_share_one_run_and_its_budget(scene: Scene) -> None:
    async with scene.open(PALYRA_TOOL_CALL__MAX_CALLS_PER_RUN="5") as gate:
        # The store takes the first agent's session at once; by the second's, others wait for it.
        agents = ["one"] * 12 + ["two"] * 12
        calls = [gate.call("palyra.echo", {"text": "x"}, agent=agent) for agent in agents]
        results = await asyncio.gather(*calls)
        assert len({result.run_id for result in results}) == 2
        for run_id in {result.run_id for result in results}:
            states = [result.state for result in results if result.run_id == run_id]
            assert states.count("succeeded") == 5


async def test_a_blocking_function_that_outstays_its_time_ends_as_timed_out(scene: Scene) -> None:
    async with scene.open() as gate:
        result = await gate.call("shop.dawdle", {}, agent="demo", timeout_ms=20)
        assert failure_of(result) == ("timed_out", "tool.timed_out")
    assert scene.verified().ok


async def test_closing_twice_is_closing_once(scene: Scene) -> None:
    gate = scene.open()
    await gate.call("palyra.echo", {"text": "x"}, agent=None)
    await gate.close()
    await gate.close()
    with pytest.raises(PalyraError):
        await gate.call("palyra.echo", {"text": "x"}, agent=None)
    with pytest.raises(PalyraError):
        await gate.call("palyra.echo", {"text": "x"}, agent="late")


# --- Workspaces ----------------------------------------------------------------------------------


async def test_a_workspace_is_added_listed_used_and_removed(scene: Scene) -> None:
    (scene.project / "a.txt").write_text("alpha")
    async with scene.open() as gate:
        assert gate.workspaces() == ()
        added = await gate.add_workspace(scene.project)
        assert (added.name, added.root) == ("project", str(scene.project))
        assert gate.workspaces() == (added,)
        result = await gate.call("palyra.fs.read", {"path": "a.txt"}, agent="demo")
        assert output_of(result)["content"] == "alpha"
        with pytest.raises(StateConflictError):
            await gate.add_workspace(scene.project, name="again")
        await gate.remove_workspace("project")
        assert gate.workspaces() == ()
        with pytest.raises(NotFoundError):
            await gate.remove_workspace("project")
        assert (scene.project / "a.txt").read_text() == "alpha"
    assert scene.verified().ok


@pytest.mark.invariant("I10")
@pytest.mark.parametrize("linked", [False, True], ids=["itself", "by-a-link"])
@pytest.mark.parametrize(
    "folder",
    ["/", "user", "", "user/state", "user/state/palyra", "user/state/palyra/keys"],
    ids=["root", "home", "above-home", "above-the-state", "the-state", "inside-the-state"],
)
async def test_some_folders_are_never_workspaces(
    scene: Scene,
    folder: str,
    linked: bool,  # noqa: FBT001 - which of the two
) -> None:
    path = scene.root / folder
    async with scene.open() as gate:
        if linked:
            link = scene.root / "innocent"
            link.symlink_to(path)
            path = link
        with pytest.raises(InputError) as caught:
            await gate.add_workspace(path)
        assert caught.value.code is Code.WORKSPACE_REFUSED
        assert gate.workspaces() == ()


@pytest.mark.invariant("I10")
async def test_an_agent_names_only_registered_workspaces(scene: Scene) -> None:
    other = scene.user / "other"
    other.mkdir()
    (other / "a.txt").write_text("not yours")
    async with scene.open() as gate:
        arguments = {"path": "a.txt", "workspace": "other"}
        before = await gate.call("palyra.fs.read", arguments, agent="demo")
        assert refusal_of(before) == ("denied", "workspace.unknown")
        await gate.add_workspace(scene.project)
        for name in ("other", str(other), "../other", "project/../../other", "."):
            result = await gate.call(
                "palyra.fs.read", arguments | {"workspace": name}, agent="demo"
            )
            assert refusal_of(result)[1] in {"workspace.unknown", "input.invalid"}
        result = await gate.call("palyra.fs.read", {"path": "../other/a.txt"}, agent="demo")
        assert result.outcome is None or failure_of(result)[1] == "fs.outside_workspace"


@pytest.mark.invariant("I10")
async def test_a_gate_does_not_start_while_a_workspace_holds_its_state(scene: Scene) -> None:
    async with scene.open() as gate:
        await gate.add_workspace(scene.project)
    moved = scene.project / "palyra"
    scene.home.rename(moved)
    with pytest.raises(InputError) as caught:
        Gate.open(moved, environ=scene.environ())
    assert caught.value.code is Code.WORKSPACE_REFUSED


# --- Several processes ---------------------------------------------------------------------------


@pytest.mark.invariant("I5")
@pytest.mark.invariant("I14")
@pytest.mark.parametrize("budget", [4096, 120], ids=["enough-for-all", "enough-for-some"])
async def test_several_processes_share_one_store(scene: Scene, budget: int) -> None:
    environ = scene.environ(
        PALYRA_TOOL_CALL__MAX_CALLS_PER_RUN="1000",
        PALYRA_TOOL_CALL__MAX_CALLS_PER_AGENT_HOUR=str(budget),
        PALYRA_STORE__BUSY_TIMEOUT_MS="20000",
        COVERAGE_PROCESS_START="",
    )
    processes = [
        await asyncio.create_subprocess_exec(
            sys.executable,
            *("-c", CALLER, str(CALLS_EACH)),
            env=environ,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        for _ in range(PROCESSES)
    ]
    told = await asyncio.gather(*(process.communicate(b"go\n") for process in processes))
    assert [process.returncode for process in processes] == [0] * PROCESSES
    states = Counter(state for out, _ in told for state in json.loads(out))
    everything = PROCESSES * CALLS_EACH
    assert states["succeeded"] == min(budget, everything)
    assert states.total() == everything
    archive = Archive(scene.home, busy_timeout_ms=1000)
    kinds = Counter(entry.kind for entry in archive.entries())
    archive.close()
    assert kinds["call.launched"] == states["succeeded"]
    assert kinds["call.decided"] == states["succeeded"] + states["denied"]
    assert scene.verified().problems == ()
