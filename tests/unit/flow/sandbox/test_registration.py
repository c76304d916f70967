# SPDX-License-Identifier: Apache-2.0
import os
from pathlib import Path

import pytest

from palyra.core.errors import Code, InputError
from palyra.core.workspace import Workspace
from palyra.flow.sandbox.registration import inspect_folder, require_apart
from tests.support.workspaces import workspace_at


class Scene:
    """A machine: a user's home with a project and the state directory in it."""

    def __init__(self, root: Path) -> None:
        self.root = Path(os.path.realpath(root))
        self.home = self.root / "home" / "user"
        self.state = self.home / ".local" / "state" / "palyra"
        self.project = self.home / "project"
        for folder in (self.state / "keys", self.project / "src"):
            folder.mkdir(parents=True)

    def inspect(self, folder: Path | str, *, name: str | None = None) -> Workspace:
        return inspect_folder(Path(folder), name=name, state=self.state, homes=(self.home,))

    def refused(self, folder: Path | str, *, name: str | None = None) -> str:
        with pytest.raises(InputError) as caught:
            self.inspect(folder, name=name)
        assert caught.value.code is Code.WORKSPACE_REFUSED
        str(caught.value).encode()
        return str(caught.value)


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_a_folder_of_its_own_is_a_workspace(scene: Scene) -> None:
    assert scene.inspect(scene.project) == workspace_at(scene.project, name="project")
    assert scene.inspect(scene.project / "src", name="mine").name == "mine"


def test_a_workspace_is_known_by_its_real_path(scene: Scene) -> None:
    link = scene.root / "link"
    link.symlink_to(scene.project)
    found = scene.inspect(scene.root / "home" / ".." / "link")
    assert found == workspace_at(scene.project, name="project")


@pytest.mark.invariant("I10")
@pytest.mark.parametrize(
    ("folder", "why"),
    [
        pytest.param("/", "is the whole file system", id="everything"),
        pytest.param("home/user", "contain each other", id="above-the-state"),
        pytest.param("home", "contain each other", id="far-above-the-state"),
        pytest.param("home/user/.local/state/palyra", "contain each other", id="the-state-itself"),
        pytest.param("home/user/.local/state/palyra/keys", "contain each other", id="within-it"),
        pytest.param("nothing", "cannot be read", id="nothing"),
    ],
)
def test_a_folder_that_would_give_away_too_much_is_refused(
    scene: Scene, folder: str, why: str
) -> None:
    assert why in scene.refused(scene.root / folder)
    if folder != "nothing":
        link = scene.root / "innocent"
        link.symlink_to(scene.root / folder)
        assert why in scene.refused(link)


@pytest.mark.invariant("I10")
@pytest.mark.parametrize("folder", ["home/other", "home"])
def test_a_home_and_what_holds_one_are_refused(scene: Scene, folder: str) -> None:
    home = scene.root / "home" / "other"
    home.mkdir()
    state = scene.root / "elsewhere"
    with pytest.raises(InputError, match="holds the home directory"):
        inspect_folder(scene.root / folder, name=None, state=state, homes=(home,))


@pytest.mark.invariant("I10")
@pytest.mark.parametrize(
    ("folder", "why"),
    [
        ("project/.git", "version control runs code from it"),
        ("project/.git/hooks", "version control runs code from it"),
        (".ssh", "shells run code from it at start-up"),
        (".config", "would not be known as such"),
        (".config/systemd/user", "shells run code from it at start-up"),
        ("project/.github", "would not be known as such"),
        (".LOCAL", "would not be known as such"),
        ("bare/hooks", "is a part of the repository"),
        ("bare/refs/heads", "is a part of the repository"),
    ],
)
def test_a_folder_below_which_protected_names_would_be_ordinary_is_refused(
    scene: Scene, folder: str, why: str
) -> None:
    (scene.home / "bare" / "refs").mkdir(parents=True)
    (scene.home / "bare" / "HEAD").touch()
    (scene.home / folder).mkdir(parents=True, exist_ok=True)
    assert why in scene.refused(scene.home / folder)


def test_a_worktree_within_its_repository_is_a_workspace(scene: Scene) -> None:
    worktree = scene.home / "bare" / "main"
    worktree.mkdir(parents=True)
    (scene.home / "bare" / "objects").mkdir()
    (scene.home / "bare" / "HEAD").touch()
    assert scene.inspect(worktree) == workspace_at(worktree, name="main")
    (scene.home / "hooks").mkdir()
    assert scene.inspect(scene.home / "hooks").name == "hooks"


def test_a_file_is_no_workspace(scene: Scene) -> None:
    file = scene.project / "file"
    file.touch()
    assert "is not a folder" in scene.refused(file)


def test_a_name_that_no_journal_can_hold_is_refused(scene: Scene) -> None:
    strange = os.fsdecode(bytes(scene.project) + b"/\xff")
    Path(strange).mkdir()
    assert "not UTF-8" in scene.refused(strange)
    assert "not UTF-8" in scene.refused(scene.project, name="\ud800")
    assert "is not a path" in scene.refused("a\x00b")


@pytest.mark.invariant("I10")
def test_registered_workspaces_and_the_state_stay_apart(scene: Scene) -> None:
    require_apart([workspace_at(scene.project)], state=scene.state)
    for folder in (scene.home, scene.state, scene.state / "keys"):
        with pytest.raises(InputError, match="contain each other"):
            require_apart([workspace_at(scene.project), workspace_at(folder)], state=scene.state)
    moved = scene.root / "moved"
    moved.symlink_to(scene.project)
    with pytest.raises(InputError, match="contain each other"):
        require_apart([workspace_at(scene.project)], state=moved / "state")
