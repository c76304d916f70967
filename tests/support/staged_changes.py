# SPDX-License-Identifier: Apache-2.0
"""Change sets with their trees before and after, and a way to carry them out up to some step.

Run as a program, it carries a change set out and kills itself at a step:
``python -m tests.support.staged_changes ROOT NAME STEP PLAN_FILE``.
"""

import os
import shutil
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from palyra.core.digest import content_sha256
from palyra.core.events import EffectPlanned
from palyra.flow.sandbox.blocking import StopToken
from palyra.flow.sandbox.file_change import FileChange
from palyra.flow.sandbox.moves import KernelMoves, Moves, OnStep, Place
from palyra.flow.sandbox.staged import apply, stage
from tests.support.workspaces import CALL_ID, tree, workspace_at

BEFORE: Mapping[str, str] = {
    "kept": "kept",
    "modified": "old",
    "deleted": "bye",
    "folder": "/",
    "folder/modified": "old too",
    "empty": "/",
}


@dataclass(frozen=True)
class ChangeSet:
    """What shall change, and what the tree then is."""

    changes: tuple[FileChange, ...]
    after: Mapping[str, str]


def _modify(path: str, content: str) -> FileChange:
    return FileChange(
        path=path,
        before_sha256=content_sha256(BEFORE[path].encode()),
        content=content.encode(),
    )


def _create(path: str, content: str = "new") -> FileChange:
    return FileChange(path=path, before_sha256="", content=content.encode())


def _delete(path: str) -> FileChange:
    return FileChange(path=path, before_sha256=content_sha256(BEFORE[path].encode()), content=None)


def _without(*paths: str) -> dict[str, str]:
    return {path: content for path, content in BEFORE.items() if path not in paths}


CHANGE_SETS: Mapping[str, ChangeSet] = {
    "create": ChangeSet((_create("new"),), {**BEFORE, "new": "new"}),
    "create-in-new-folders": ChangeSet(
        (_create("a/b/c"), _create("a/d"), _create("empty/x")),
        {
            **BEFORE,
            "a": "/",
            "a/b": "/",
            "a/b/c": "new",
            "a/d": "new",
            "empty/x": "new",
        },
    ),
    "create-an-empty-file": ChangeSet((_create("new", ""),), {**BEFORE, "new": ""}),
    "modify": ChangeSet((_modify("modified", "newer"),), {**BEFORE, "modified": "newer"}),
    "delete": ChangeSet((_delete("deleted"),), _without("deleted")),
    "delete-two": ChangeSet(
        (_delete("deleted"), _delete("modified")), _without("deleted", "modified")
    ),
    "mixed": ChangeSet(
        (
            _modify("modified", "newer"),
            _delete("deleted"),
            _create("a/new"),
            _modify("folder/modified", "newer too"),
        ),
        {
            **_without("deleted"),
            "modified": "newer",
            "a": "/",
            "a/new": "new",
            "folder/modified": "newer too",
        },
    ),
}


def build(root: Path) -> Path:
    """Build the tree of ``BEFORE``, new, at ``root``."""
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir()
    for path, content in BEFORE.items():
        if content == "/":
            (root / path).mkdir()
        else:
            (root / path).write_text(content)
    return root


def carry_out(
    root: Path,
    changes: tuple[FileChange, ...],
    record: Callable[[EffectPlanned], None],
    *,
    moves: Moves,
    on_step: OnStep,
) -> None:
    """Stage, record and apply, as the tools do."""
    workspace, stop = workspace_at(root), StopToken()
    staged = stage(workspace, changes, call_id=CALL_ID, stop=stop, on_step=on_step)
    record(
        EffectPlanned(
            call_id=CALL_ID, workspace="work", staging=staged.staging, changes=staged.changes
        )
    )
    on_step("recorded")
    apply(workspace, staged, stop=stop, moves=moves, on_step=on_step)


def files(root: Path) -> dict[str, str]:
    """Return the tree without staging folders."""
    return {path: what for path, what in tree(root).items() if ".palyra-stage-" not in path}


def staging_folders(root: Path) -> list[Path]:
    return list(root.glob(".palyra-stage-*"))


class Crash(BaseException):
    """The process ends here, as far as the code can tell."""


class CrashAt:
    """Crashes at one step, and counts the steps if there are fewer."""

    def __init__(self, step: int) -> None:
        self.step = step
        self.taken = 0

    def __call__(self, _: str) -> None:
        self.taken += 1
        if self.taken > self.step:
            raise Crash


def run_until_crash(
    root: Path, changes: tuple[FileChange, ...], *, moves: Moves, on_step: OnStep
) -> tuple[bool, list[EffectPlanned]]:
    """Return whether it crashed, and the plan if it was recorded before."""
    plans: list[EffectPlanned] = []
    try:
        carry_out(root, changes, plans.append, moves=moves, on_step=on_step)
    except Crash:
        return True, plans
    return False, plans


class Racing:
    """Lets somebody else act right before a file changes places, then goes on."""

    def __init__(self, act: Callable[[], object]) -> None:
        self._act = act
        self._moves = KernelMoves()

    def exchange(self, slot: Place, target: Place, *, aside: Place, on_step: OnStep) -> None:
        self._act()
        self._moves.exchange(slot, target, aside=aside, on_step=on_step)

    def put(self, source: Place, target: Place, *, on_step: OnStep) -> None:
        self._act()
        self._moves.put(source, target, on_step=on_step)


def once(act: Callable[[], object]) -> Callable[[], object]:
    left = [act]
    return lambda: left.pop()() if left else None


def main() -> None:
    root, name, step, plan_file = sys.argv[1:]
    steps = iter(range(int(step)))

    def kill_at_the_step(_: str) -> None:
        if next(steps, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)

    def record(planned: EffectPlanned) -> None:
        Path(plan_file).write_bytes(msgspec.json.encode(planned))

    carry_out(
        Path(root),
        CHANGE_SETS[name].changes,
        record,
        moves=KernelMoves(),
        on_step=kill_at_the_step,
    )


if __name__ == "__main__":
    main()
