# SPDX-License-Identifier: Apache-2.0
"""``palyra workspaces``: the folders below which file tools may act."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from palyra.cli.frame import Frame, Group
from palyra.cli.neutralise import line
from palyra.cli.opening import opened_archive, through_gate
from palyra.cli.output import Reply, Table

if TYPE_CHECKING:
    from palyra.core.workspace import Workspace
    from palyra.daemon.embedded import EmbeddedGate


@click.group("workspaces", cls=Group)
def command() -> None:
    """Manage the folders that file tools may act in. Agents can name no other."""


@command.command("add")
@click.argument("folder", metavar="DIR")
@click.option("--name", metavar="NAME", help="How calls name it, instead of the folder's own name.")
@click.pass_obj
def add(frame: Frame, *, folder: str, name: str | None) -> Reply:
    """Register the folder DIR as a workspace."""

    async def act(gate: EmbeddedGate) -> Workspace:
        return await gate.add_workspace(folder, name=name)

    workspace = through_gate(frame, act)
    return Reply(
        document=_document(workspace),
        text=(f"added workspace {workspace.name}: {line(workspace.root)}",),
    )


@command.command("list")
@click.pass_obj
def list_workspaces(frame: Frame) -> Reply:
    """List the registered workspaces."""
    workspaces = _registered(frame)
    none = "No workspace is registered. 'palyra workspaces add DIR' registers one."
    rows = tuple((workspace.name, workspace.root) for workspace in workspaces)
    return Reply(
        document={"workspaces": [_document(workspace) for workspace in workspaces]},
        text=(Table(columns=("NAME", "FOLDER"), rows=rows) if rows else none,),
    )


@command.command("remove")
@click.argument("name")
@click.pass_obj
def remove(frame: Frame, *, name: str) -> Reply:
    """Forget the workspace NAME. Its files stay."""

    async def act(gate: EmbeddedGate) -> None:
        await gate.remove_workspace(name)

    through_gate(frame, act)
    return Reply(document={"removed": name}, text=(f"removed workspace {line(name)}",))


def _registered(frame: Frame) -> tuple[Workspace, ...]:
    """Return the workspaces; a state directory that was never used has none."""
    from palyra.store.sqlite.ledger import DATABASE_NAME

    if not (frame.home / DATABASE_NAME).exists():
        return ()
    with opened_archive(frame) as archive:
        return archive.workspaces()


def _document(workspace: Workspace) -> dict[str, str]:
    return {"name": workspace.name, "root": workspace.root}
