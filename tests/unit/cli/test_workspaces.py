# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from tests.support.command_line import CommandLine


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "project"
    path.mkdir()
    return path


def test_add_list_remove(palyra: CommandLine, folder: Path) -> None:
    assert palyra.json("workspaces", "list").document == {"workspaces": []}
    assert not palyra.home.exists()
    added = palyra.json("workspaces", "add", str(folder)).document
    assert added == {"name": "project", "root": str(folder)}
    assert palyra.json("workspaces", "list").document == {"workspaces": [added]}
    assert palyra.json("workspaces", "remove", "project").document == {"removed": "project"}
    assert palyra.json("workspaces", "list").document == {"workspaces": []}


def test_for_people(palyra: CommandLine, folder: Path) -> None:
    assert palyra("workspaces", "list").out.startswith("No workspace is registered.")
    told = palyra("workspaces", "add", str(folder), "--name", "mine").out
    assert told == f"added workspace mine: {folder}\n"
    assert palyra("workspaces", "list").out == f"NAME  FOLDER\nmine  {folder}\n"
    assert palyra("workspaces", "remove", "mine").out == "removed workspace mine\n"


@pytest.mark.parametrize(
    ("arguments", "status", "code"),
    [
        pytest.param(("add", "/"), 2, "workspace.refused", id="the-whole-file-system"),
        pytest.param(("add", "/nowhere"), 2, "workspace.refused", id="a-missing-folder"),
        pytest.param(("remove", "none"), 8, "workspace.unknown", id="an-unknown-name"),
    ],
)
def test_refusals(palyra: CommandLine, arguments: tuple[str, ...], status: int, code: str) -> None:
    ran = palyra.json("workspaces", *arguments)
    assert (ran.status, ran.document["error"]["code"]) == (status, code)


def test_a_name_is_taken_once(palyra: CommandLine, folder: Path) -> None:
    palyra("workspaces", "add", str(folder))
    ran = palyra.json("workspaces", "add", str(folder))
    assert (ran.status, ran.document["error"]["code"]) == (7, "workspace.exists")
