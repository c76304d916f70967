# SPDX-License-Identifier: Apache-2.0
import pytest

from palyra.core.protected import (
    PROTECTED_NAMES,
    STAGING_PREFIX,
    Danger,
    ProtectedName,
    fold,
    is_of_repository,
    is_repository,
    leading_to_protected,
    protecting,
)


@pytest.mark.parametrize("name", PROTECTED_NAMES, ids=lambda name: "/".join(name.components))
def test_every_name_is_protected_at_the_top_and_below_anything(name: ProtectedName) -> None:
    components, danger = name
    assert protecting(components) is danger
    assert protecting(("vendor", "thing", *components, "below")) is danger
    assert tuple(map(fold, components)) == components


@pytest.mark.invariant("I10")
@pytest.mark.parametrize(
    ("path", "danger"),
    [
        (".git/hooks/pre-commit", Danger.VERSION_CONTROL),
        (".GIT/hooks/pre-commit", Danger.VERSION_CONTROL),
        (".git./config", Danger.VERSION_CONTROL),
        (".git /config", Danger.VERSION_CONTROL),
        (".git. . ./config", Danger.VERSION_CONTROL),
        (".g\u200cit/config", Danger.VERSION_CONTROL),
        ("\u2060.git", Danger.VERSION_CONTROL),
        (".g\u0131t/config", Danger.VERSION_CONTROL),
        ("\uff0e\uff47\uff49\uff54", Danger.VERSION_CONTROL),
        (".git\u00ad", Danger.VERSION_CONTROL),
        (".gi\ufe0ft", Danger.VERSION_CONTROL),
        (".gi\u034ft", Danger.VERSION_CONTROL),
        (".gi\u3164t", Danger.VERSION_CONTROL),
        (".gi\U000e0100t", Danger.VERSION_CONTROL),
        ("sub/.github/workflows/ci.yml", Danger.CONTINUOUS_INTEGRATION),
        (".GitHub/WorkFlows/ci.yml", Danger.CONTINUOUS_INTEGRATION),
        ("JENKINSFILE", Danger.CONTINUOUS_INTEGRATION),
        ("CLAUDE.md", Danger.AGENT),
        ("docs/Agents.MD", Danger.AGENT),
        (".cursor/mcp.json", Danger.AGENT),
        (".\u017fsh/authorized_keys", Danger.SHELL),
        (".vscode/tasks.json", Danger.EDITOR),
        (".ENVRC", Danger.SHELL),
        (".config/fish/config.fish", Danger.SHELL),
        (".npmrc", Danger.PACKAGES),
        ("lib/sitecustomize.py", Danger.PACKAGES),
        (f"{STAGING_PREFIX}01ABC/file", Danger.BOUNDARY),
        (f"a/{STAGING_PREFIX.upper()}", Danger.BOUNDARY),
        ("palyra.toml", Danger.AGENT),
        ("app.sublime-project", Danger.EDITOR),
        ("sub/App.Code-Workspace", Danger.EDITOR),
        ("lib/site-packages/x.pth", Danger.PACKAGES),
        ("x.PTH. ", Danger.PACKAGES),
        ("GIT~1/config", Danger.VERSION_CONTROL),
        ("git~9", Danger.VERSION_CONTROL),
        (".git::$INDEX_ALLOCATION/config", Danger.VERSION_CONTROL),
        (".git .:x/config", Danger.VERSION_CONTROL),
        (".envrc:$DATA", Danger.SHELL),
        (".envrc\uff1a$DATA", Danger.SHELL),
        ("x.pth::$DATA", Danger.PACKAGES),
        ("CLAUDE.local.md", Danger.AGENT),
        (".github/prompts/x.prompt.md", Danger.AGENT),
        ("mise.toml", Danger.PACKAGES),
        (".yarn/releases/yarn.cjs", Danger.PACKAGES),
        (".gdbinit", Danger.EDITOR),
    ],
)
def test_protected_paths(path: str, danger: Danger) -> None:
    assert protecting(tuple(path.split("/"))) is danger


@pytest.mark.parametrize(
    "path",
    [
        "src/main.py",
        ".gitignore",
        "git/config",
        ".github/ISSUE_TEMPLATE.md",
        "workflows/ci.yml",
        ".config/other",
        "my.git",
        "claude.md.txt",
        "conftest.py",
        "git~",
        "git~10",
        "x.pth.py",
        "12:30.txt",
        ".yarn/cache/x.zip",
        "HEAD",
        "config",
        "a",
        ".",
        "",
    ],
)
def test_ordinary_paths(path: str) -> None:
    assert protecting(tuple(path.split("/"))) is None


def test_nothing_is_not_protected() -> None:
    assert protecting(()) is None


@pytest.mark.parametrize(
    ("name", "folded"),
    [
        ("README", "readme"),
        ("Stra\u00dfe", "strasse"),
        ("\ufb01le", "file"),
        ("a. .", "a"),
        ("e\u0301", "\u00e9"),
        ("\u200b", ""),
        ("\ufeff", ""),
        ("a. :stream", "a"),
    ],
    ids=ascii,
)
def test_fold(name: str, folded: str) -> None:
    assert fold(name) == folded


@pytest.mark.invariant("I10")
@pytest.mark.parametrize(
    ("path", "danger"),
    [
        ("home/user/.config", Danger.SHELL),
        ("p/.GitHub", Danger.CONTINUOUS_INTEGRATION),
        (".local", Danger.SHELL),
        (".cargo", Danger.PACKAGES),
        (".yarn", Danger.PACKAGES),
        (".config/other", None),
        ("project", None),
        ("", None),
    ],
)
def test_beginnings_of_protected_names(path: str, danger: Danger | None) -> None:
    assert leading_to_protected(tuple(path.split("/"))) is danger
    assert leading_to_protected(()) is None


@pytest.mark.parametrize(
    ("names", "is_one"),
    [
        ("HEAD objects", True),
        ("HEAD refs", True),
        ("HEAD commondir", True),
        ("head. OBJECTS", True),
        ("HEAD config hooks", False),
        ("objects refs config", False),
        ("", False),
    ],
)
def test_what_git_could_take_for_a_repository(names: str, is_one: bool) -> None:  # noqa: FBT001 - parametrised
    assert is_repository(names.split()) is is_one


def test_parts_of_a_repository() -> None:
    assert all(map(is_of_repository, ("HEAD", "Config", "config.worktree", "hooks", "refs")))
    assert not any(map(is_of_repository, ("config.toml", "worktree", "README")))
