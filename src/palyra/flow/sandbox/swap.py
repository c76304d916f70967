# SPDX-License-Identifier: Apache-2.0
"""One planned change: where it stands, taking it, and taking it back.

Taking a change and taking it back are the same act: slot and path exchange what they hold. What
comes out of a path is looked at before it is let go; if it is not what was expected, it goes back.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from enum import Enum, auto
from typing import TYPE_CHECKING, Final, NamedTuple

from palyra.core.errors import Code, ToolError
from palyra.core.protected import protecting
from palyra.flow.sandbox.beneath import (
    FOLDER,
    Components,
    Root,
    Symlinks,
    components_of,
    faults_of,
    open_folder,
    shown,
    spelled,
)
from palyra.flow.sandbox.moves import Moves, Place, take_out
from palyra.flow.sandbox.staging import NOTHING, Seen, Staging, look

if TYPE_CHECKING:
    from collections.abc import Iterator

    from palyra.core.events import PlannedChange


NOT_OURS: Final = frozenset({Code.FS_SYMLINK, Code.FS_NOT_A_FOLDER})
"""What the way to a path is refused with when somebody put something else in it."""


class Stand(Enum):
    """Where a planned change stands, told from the contents of its slot and its path."""

    READY = auto()
    """Not taken, and it can be."""
    DONE = auto()
    """Taken, and it can be taken back."""
    SETTLED = auto()
    """Taken, and nothing is kept to take it back with."""
    DISPLACED = auto()
    """Taken, but what came out is not what was expected; it can be taken back."""
    BLOCKED = auto()
    """Not taken, and it cannot be."""
    FOREIGN = auto()
    """Taken, and then somebody else changed the file."""


def writable_components(path: str) -> Components:
    """Return the components of a path that may be written, or refuse it.

    Raises:
        ToolError: ``fs.outside_workspace`` or ``fs.protected_name``.
    """
    components = components_of(path)
    if not components:
        raise ToolError(Code.FS_NOT_A_FILE, "'.' is the workspace itself")
    danger = protecting(components)
    if danger is not None:  # I10
        raise ToolError(
            Code.FS_PROTECTED,
            f"{shown(path)} is a protected name: {danger}",
            details={"path": path},
        )
    return components


def is_before(change: PlannedChange, seen: Seen) -> bool:
    """Say whether ``seen`` is what the change expects to find."""
    return seen.sha256 == change.before_sha256 and not is_after(change, seen)


def is_after(change: PlannedChange, seen: Seen) -> bool:
    """Say whether ``seen`` is what the change brings; only its mode tells, if content stays."""
    if seen.sha256 != change.after_sha256:
        return False
    return change.before_sha256 != change.after_sha256 or seen.mode == change.mode


def stand_of(change: PlannedChange, *, slot: Seen, target: Seen) -> Stand:
    """Return where a change stands. Pure: two looks in, one answer out."""
    is_gone_as_planned = not change.after_sha256 and is_after(change, target)
    if is_after(change, slot) and not is_gone_as_planned:
        return Stand.READY if is_before(change, target) else Stand.BLOCKED
    if is_after(change, target):
        if is_before(change, slot):
            return Stand.DONE
        if slot.sha256 == "":
            return Stand.SETTLED
        return Stand.DISPLACED if change.before_sha256 else Stand.FOREIGN
    return Stand.BLOCKED if is_before(change, target) else Stand.FOREIGN


@contextmanager
def open_parent(root: Root, components: Components) -> Iterator[Place]:
    """Open the folder of a path, through no link, as a place for its last component."""
    with open_folder(root, components[:-1], symlinks=Symlinks.NONE, flags=FOLDER) as fd:
        yield Place(fd, components[-1])


def look_at(root: Root, components: Components) -> Seen:
    """Return what stands at a path; nothing, if a folder on the way is missing."""
    try:
        with open_parent(root, components) as place, faults_of(spelled(components)):
            return look(place)
    except ToolError as error:
        if error.code is Code.FS_NOT_FOUND:
            return NOTHING
        raise


class Swap(NamedTuple):
    """A planned change with all it takes to carry it out."""

    staging: Staging
    moves: Moves
    number: int
    change: PlannedChange

    def stand(self) -> Stand:
        """Tidy after a crash, and say where the change stands."""
        components = writable_components(self.change.path)
        slot = self.staging.slot(self.number)
        try:
            with open_parent(self.staging.root, components) as target:
                self.staging.settle(self.number, target)
                return stand_of(self.change, slot=look(slot), target=look(target))
        except ToolError as error:
            self.staging.settle(self.number, None)
            if error.code is Code.FS_NOT_FOUND:
                return stand_of(self.change, slot=look(slot), target=NOTHING)
            if error.code in NOT_OURS:
                return stand_of(self.change, slot=look(slot), target=Seen(None))
            raise

    def take(self) -> None:
        """Put the change in place.

        Raises:
            ToolError: ``fs.changed`` or ``fs.exists`` if the path does not hold what the change
                expects. It may then be displaced, which :meth:`take_back` repairs.
        """
        components = writable_components(self.change.path)
        self._make_parents(components)
        with open_parent(self.staging.root, components) as target, faults_of(self.change.path):
            self.staging.settle(self.number, target)
            if not is_before(self.change, look(target)):
                raise self._changed()
            self._exchange(
                target, to=self.change.after_sha256, instead_of=self.change.before_sha256
            )
            if not is_before(self.change, look(self.staging.slot(self.number))):
                raise self._changed()

    def take_back(self) -> None:
        """Put back what the path held before.

        Raises:
            ToolError: ``fs.changed`` if somebody changed the path since; it is left as it is.
        """
        change = self.change
        components = writable_components(change.path)
        self._make_parents(components)
        with open_parent(self.staging.root, components) as target, faults_of(change.path):
            self.staging.settle(self.number, target)
            self._exchange(target, to=change.before_sha256, instead_of=change.after_sha256)
            if not is_after(change, look(self.staging.slot(self.number))):
                self._exchange(target, to=change.after_sha256, instead_of=change.before_sha256)
                raise self._changed()

    def _exchange(self, target: Place, *, to: str, instead_of: str) -> None:
        """Let path and slot exchange what they hold; either may hold nothing."""
        slot, on_step = self.staging.slot(self.number), self.staging.on_step
        if not instead_of:
            self.moves.put(slot, target, on_step=on_step)
        elif to:
            aside = self.staging.aside(self.number)
            self.moves.exchange(slot, target, aside=aside, on_step=on_step)
        else:
            take_out(target, slot, on_step=on_step)

    def _make_parents(self, components: Components) -> None:
        """Create the folders on the way to the path that are missing."""
        root = self.staging.root
        for depth in range(1, len(components)):
            with (
                open_parent(root, components[:depth]) as parent,
                faults_of(spelled(components[:depth])),
            ):
                try:
                    os.mkdir(parent.raw_name, dir_fd=parent.folder_fd)
                except FileExistsError:
                    continue
                self.staging.on_step("made a folder")

    def _changed(self) -> ToolError:
        path = self.change.path
        return ToolError(
            Code.FS_CHANGED, f"{shown(path)} changed meanwhile", details={"path": path}
        )
