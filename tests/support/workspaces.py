# SPDX-License-Identifier: Apache-2.0
"""Workspaces on disk, calls of file tools, and an effect log in memory."""

from collections.abc import Awaitable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from palyra.core.events import EffectPlanned, PlannedChange
from palyra.core.ids import CallId
from palyra.core.result import CallResult
from palyra.core.workspace import Workspace
from palyra.flow.sandbox.files import FILE_BODIES
from palyra.flow.sandbox.tool_call import ToolCall

CALL_ID = CallId("01J00000000000000000000000")


def workspace_at(root: Path, *, name: str = "work") -> Workspace:
    """Register a folder the way the product does: by its path, device and inode."""
    status = root.lstat()
    return Workspace(name=name, root=str(root), device=status.st_dev, inode=status.st_ino)


def no_nested_call(tool: str, raw_arguments: bytes) -> Awaitable[CallResult]:
    raise AssertionError(f"a file tool called {tool} with {len(raw_arguments)} bytes")


@dataclass
class MemoryEffects:
    """Keeps plans; raises ``failure`` instead if there is one."""

    plans: list[EffectPlanned] = field(default_factory=list)
    failure: BaseException | None = None

    async def plan(
        self, *, workspace: str, staging: str, changes: tuple[PlannedChange, ...]
    ) -> None:
        if self.failure is not None:
            raise self.failure
        self.plans.append(
            EffectPlanned(call_id=CALL_ID, workspace=workspace, staging=staging, changes=changes)
        )


def tool_call(root: Path, effects: MemoryEffects | None = None, /, **arguments: object) -> ToolCall:
    return ToolCall(
        arguments=arguments,
        call_id=CALL_ID,
        workspace=workspace_at(root),
        effects=effects or MemoryEffects(),
        nested=no_nested_call,
    )


async def use(tool: str, root: Path, /, **arguments: object) -> Any:  # noqa: ANN401 - JSON
    """Run a file tool in the workspace at ``root`` and return its output."""
    return await FILE_BODIES[f"palyra.fs.{tool}"](tool_call(root, **arguments))


def tree(root: Path) -> dict[str, str]:
    """Return everything below ``root``: links as ``-> target``, folders as ``/``, else content."""
    found: dict[str, str] = {}
    for path in sorted(root.rglob("*")):
        if path.is_symlink():
            found[str(path.relative_to(root))] = f"-> {path.readlink()}"
        elif path.is_dir():
            found[str(path.relative_to(root))] = "/"
        elif path.is_file():
            found[str(path.relative_to(root))] = path.read_bytes().decode("latin-1")
        else:
            found[str(path.relative_to(root))] = "special"
    return found
