# SPDX-License-Identifier: Apache-2.0
"""Crash-safe changes of one or many files below a workspace: all of them, or none.

1. :func:`stage` checks names and pre-images and writes the new contents into a staging folder.
2. The caller records the plan in the journal, durably (I7).
3. :func:`apply` swaps each change into place, and swaps all of them back if one cannot be.

:func:`discard` ends a stage whose plan was never recorded; :func:`recover` ends one that a crash
cut off, by looking at contents only. Files that others changed are never overwritten.
"""

from __future__ import annotations

import contextlib
import os
from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Final

import msgspec

from palyra.core.errors import Code, PalyraError, ToolError
from palyra.core.events import EffectPlanned, PlannedChange
from palyra.core.protected import protecting
from palyra.flow.sandbox.beneath import (
    Components,
    Root,
    Symlinks,
    components_of,
    faults_of,
    open_folder,
    open_root,
    shown,
    spelled,
)
from palyra.flow.sandbox.file_change import FileChange, effective, write_slot
from palyra.flow.sandbox.moves import KernelMoves, Moves, OnStep, no_step
from palyra.flow.sandbox.staging import (
    NOTHING,
    Seen,
    Staging,
    create_staging,
    open_staging,
    staging_name,
)
from palyra.flow.sandbox.swap import NOT_OURS, Stand, Swap, look_at, open_parent, stand_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from palyra.core.ids import CallId
    from palyra.core.workspace import Workspace
    from palyra.flow.sandbox.blocking import StopToken

BY_KERNEL: Final = KernelMoves()
_TAKEN: Final = frozenset({Stand.DONE, Stand.SETTLED})
_NOT_TAKEN: Final = frozenset({Stand.READY, Stand.BLOCKED})
_REVERSIBLE: Final = frozenset({Stand.DONE, Stand.DISPLACED})


class StagedChanges(msgspec.Struct, frozen=True, kw_only=True):
    """What is about to change, ready to be recorded. Without changes there is nothing to do."""

    staging: str
    changes: tuple[PlannedChange, ...]


class RecoveryResult(StrEnum):
    """How a change that a crash cut off ended."""

    FINISHED = "finished"
    UNDONE = "undone"
    CONFLICT = "conflict"


class Recovery(msgspec.Struct, frozen=True, kw_only=True):
    """What recovery did: the paths it is about, and the staging folder it kept if it had to."""

    result: RecoveryResult
    paths: tuple[str, ...]
    kept: str = ""


def stage(
    workspace: Workspace,
    changes: Sequence[FileChange],
    *,
    call_id: CallId,
    stop: StopToken,
    on_step: OnStep = no_step,
) -> StagedChanges:
    """Check every change and write the new contents aside; no file of the workspace changes yet.

    Raises:
        ToolError: a protected or outside name, a pre-image that is not as expected, or a fault
            of the file system. Nothing is left behind.
    """
    name = staging_name(call_id)
    with open_root(workspace) as root:
        wanted = effective(root, changes, stop=stop)
        if not wanted:
            return StagedChanges(staging=name, changes=())
        with faults_of(name), create_staging(root, name, on_step=on_step) as staging:
            try:
                planned = []
                for index, (change, seen) in enumerate(wanted):
                    stop.check()
                    planned.append(write_slot(staging, index, change, seen))
                staging.commit(_missing_folders(root, planned))
            except Exception:
                staging.remove()
                raise
    return StagedChanges(staging=name, changes=tuple(planned))


def apply(
    workspace: Workspace,
    staged: StagedChanges,
    *,
    stop: StopToken,
    moves: Moves = BY_KERNEL,
    on_step: OnStep = no_step,
) -> None:
    """Bring recorded changes about, all or none; on any failure everything is taken back.

    Raises:
        ToolError: why nothing changed. With ``kept`` in its details it says instead that not
            everything could be taken back, and which staging folder holds what was there before.
    """
    with _opened(workspace, staged.staging, on_step=on_step) as (root, staging):
        if staging is None:
            raise ToolError(Code.FS_CHANGED, f"{shown(staged.staging)} was taken away")
        swaps = _swaps(staging, moves, staged.changes)
        try:
            for swap in swaps:
                stop.check()
                swap.take()
            _sync_folders(root, staged.changes)
            staging.sync()
        except Exception as failure:
            _take_back_or_report(staging, swaps, failure)
            raise
        staging.remove()


def discard(workspace: Workspace, call_id: CallId, *, on_step: OnStep = no_step) -> None:
    """Remove the staging folder of a call that changed nothing, if there is one."""
    with _opened(workspace, staging_name(call_id), on_step=on_step) as (_, staging):
        if staging is not None:
            staging.remove()


def recover(
    workspace: Workspace,
    planned: EffectPlanned,
    *,
    moves: Moves = BY_KERNEL,
    on_step: OnStep = no_step,
) -> Recovery:
    """Finish a planned change that a crash cut off, or undo it, or leave it and say so.

    May itself be cut off and run again. A conflict overwrites nothing and keeps the staging folder.

    Raises:
        ToolError: the workspace cannot be read or written, or is another folder now; the plan
            stays as it is.
    """
    paths = tuple(change.path for change in planned.changes)
    with _opened(workspace, planned.staging, on_step=on_step) as (root, staging):
        if staging is None:
            return _judged([(change, _stand_alone(root, change)) for change in planned.changes])
        swaps = _swaps(staging, moves, planned.changes)
        if not staging.is_live():
            is_undone = staging.is_being_undone()
            recovery = _judged([(s.change, s.stand()) for s in swaps], is_undone=is_undone)
            if recovery.result is RecoveryResult.CONFLICT:
                return msgspec.structs.replace(recovery, kept=staging.name)
            staging.remove()
            return recovery
        if not staging.is_being_undone() and _finish(staging, swaps):
            return Recovery(result=RecoveryResult.FINISHED, paths=paths)
        foreign = _take_back(staging, swaps)
        if foreign:
            return Recovery(result=RecoveryResult.CONFLICT, paths=foreign, kept=staging.name)
        return Recovery(result=RecoveryResult.UNDONE, paths=paths)


def _finish(staging: Staging, swaps: list[Swap]) -> bool:
    """Take what is left to take, if all of it can be, and say whether everything is taken."""
    stands = [swap.stand() for swap in swaps]
    if not all(stand in _TAKEN or stand is Stand.READY for stand in stands):
        return False
    try:
        for swap, stand in zip(swaps, stands, strict=True):
            if stand is Stand.READY:
                swap.take()
    except ToolError:
        return False
    _sync_folders(staging.root, [swap.change for swap in swaps])
    staging.sync()
    staging.remove()
    return True


def _take_back(staging: Staging, swaps: list[Swap]) -> tuple[str, ...]:
    """Take back what was taken, unless somebody else changed a path since; return such paths."""
    stands = [swap.stand() for swap in swaps]
    foreign = tuple(
        swap.change.path
        for swap, stand in zip(swaps, stands, strict=True)
        if stand not in _REVERSIBLE and stand not in _NOT_TAKEN
    )
    if foreign:
        return foreign
    staging.mark_undo()
    for swap, stand in reversed(list(zip(swaps, stands, strict=True))):
        if stand in _REVERSIBLE:
            try:
                swap.take_back()
            except ToolError as error:
                if error.code not in {Code.FS_CHANGED, Code.FS_EXISTS}:
                    raise
                return (swap.change.path,)
    _remove_new_folders(staging)
    _sync_folders(staging.root, [swap.change for swap in swaps])
    staging.sync()
    staging.remove()
    return ()


def _take_back_or_report(staging: Staging, swaps: list[Swap], failure: Exception) -> None:
    """Take everything back; if that is impossible, say so instead of what failed first."""
    try:
        foreign = _take_back(staging, swaps)
    except (OSError, PalyraError) as error:
        raise _not_taken_back(staging, ()) from error
    if foreign:
        raise _not_taken_back(staging, foreign) from failure


def _not_taken_back(staging: Staging, paths: tuple[str, ...]) -> ToolError:
    return ToolError(
        Code.FS_CHANGED,
        f"the change failed and cannot be taken back; {staging.name} keeps what was there before",
        hint="compare the files with those in the staging folder, then remove it",
        details={"kept": staging.name, "paths": list(paths)},
    )


def _judged(stands: list[tuple[PlannedChange, Stand]], *, is_undone: bool = False) -> Recovery:
    """Tell how it ended from where the changes stand, when nothing is left to be done with them.

    Once all was taken back, what others put at a path does not matter any more.
    """
    if all(stand in _TAKEN for _, stand in stands):
        result = RecoveryResult.FINISHED
    elif all(stand in _NOT_TAKEN or (is_undone and stand is Stand.FOREIGN) for _, stand in stands):
        result = RecoveryResult.UNDONE
    else:
        foreign = tuple(change.path for change, stand in stands if stand is Stand.FOREIGN)
        left_out = tuple(change.path for change, stand in stands if stand not in _TAKEN)
        return Recovery(result=RecoveryResult.CONFLICT, paths=foreign or left_out)
    return Recovery(result=result, paths=tuple(change.path for change, _ in stands))


def _stand_alone(root: Root, change: PlannedChange) -> Stand:
    """Return where a change stands whose slot is gone."""
    try:
        target = look_at(root, components_of(change.path))
    except ToolError as error:
        if error.code not in NOT_OURS:
            raise
        target = Seen(None)
    return stand_of(change, slot=NOTHING, target=target)


def _swaps(staging: Staging, moves: Moves, changes: Sequence[PlannedChange]) -> list[Swap]:
    return [
        Swap(staging=staging, moves=moves, number=index, change=change)
        for index, change in enumerate(changes)
    ]


@contextmanager
def _opened(
    workspace: Workspace, name: str, *, on_step: OnStep
) -> Iterator[tuple[Root, Staging | None]]:
    with (
        open_root(workspace) as root,
        faults_of(name),
        open_staging(root, name, on_step=on_step) as staging,
    ):
        yield root, staging


def _folders_of(changes: Sequence[PlannedChange]) -> list[Components]:
    """Return every folder on the way to a changed path, outermost first, without the root."""
    paths = [components_of(change.path) for change in changes]
    return sorted({path[:depth] for path in paths for depth in range(1, len(path))})


def _missing_folders(root: Root, changes: Sequence[PlannedChange]) -> tuple[str, ...]:
    """Return the folders that will have to be made, outermost first."""
    created = [change for change in changes if not change.before_sha256]
    return tuple(
        spelled(folder) for folder in _folders_of(created) if not look_at(root, folder).status
    )


def _remove_new_folders(staging: Staging) -> None:
    """Remove the folders that were made for the change, where they are empty."""
    for path in sorted(staging.new_folders(), reverse=True):
        with contextlib.suppress(OSError, ToolError):
            components = components_of(path)
            if protecting(components) is None:  # I10
                with open_parent(staging.root, components) as folder:
                    os.rmdir(folder.raw_name, dir_fd=folder.folder_fd)
                staging.on_step("removed a folder")


def _sync_folders(root: Root, changes: Sequence[PlannedChange]) -> None:
    """Make the names of changed files durable. Where no folder is any more, nothing can be."""
    for folder in [(), *_folders_of(changes)]:
        try:
            with open_folder(root, folder, symlinks=Symlinks.NONE) as fd:
                os.fsync(fd)
        except ToolError as error:
            if error.code not in {Code.FS_NOT_FOUND, *NOT_OURS}:
                raise
