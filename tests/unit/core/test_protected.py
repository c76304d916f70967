# SPDX-License-Identifier: Apache-2.0
import pytest

from palyra.core.protected import (
    PROTECTED_NAMES,
    STAGING_PREFIX,
    Danger,
    ProtectedName,
    fold,
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
    ],
    ids=ascii,
)
def test_fold(name: str, folded: str) -> None:
    assert fold(name) == folded
