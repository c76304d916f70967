# SPDX-License-Identifier: Apache-2.0
"""The one table of protected names that binds every writer (I10).

A file of this table makes other programs run code or change their rules: an agent that could
write it would step around the boundary the next time a person types ``git commit``. Names match at
any depth, folded the way careless file systems fold them: case, Unicode form, invisible characters.
What git takes for a repository without being told is known by its contents instead: see
:func:`is_repository`.
"""

from __future__ import annotations

import re
import unicodedata
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable


class Danger(StrEnum):
    """What writing a protected name would bring about."""

    VERSION_CONTROL = "version control runs code from it"
    CONTINUOUS_INTEGRATION = "continuous integration runs code from it"
    AGENT = "coding agents take orders from it"
    EDITOR = "editors run code from it"
    SHELL = "shells run code from it at start-up"
    PACKAGES = "package managers take sources and hooks from it"
    BOUNDARY = "Palyra stages changes in it"


class ProtectedName(NamedTuple):
    """A sequence of folded path components, protected with everything below it."""

    components: tuple[str, ...]
    danger: Danger


# Code points that Unicode lets a comparison ignore although they are no format characters.
_IGNORABLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\ufe00-\ufe0f\ufff0-\ufff8"
    "\U000e0000-\U000e0fff]"
)
STAGING_PREFIX = ".palyra-stage-"

_BY_DANGER: dict[Danger, tuple[str, ...]] = {
    Danger.VERSION_CONTROL: (
        ".git",
        ".gitmodules",
        ".gitattributes",
        ".hg",
        ".svn",
        ".jj",
        ".husky",
        ".pre-commit-config.yaml",
        ".pre-commit-hooks.yaml",
        "lefthook.yml",
        "lefthook.yaml",
        ".lefthook.yml",
        ".lefthook.yaml",
        *(f"git~{number}" for number in range(1, 10)),  # short names of .git on Windows
    ),
    Danger.CONTINUOUS_INTEGRATION: (
        ".github/workflows",
        ".github/actions",
        ".gitlab-ci.yml",
        ".circleci",
        ".travis.yml",
        ".drone.yml",
        ".buildkite",
        ".woodpecker",
        ".forgejo",
        ".gitea",
        ".ci",
        "azure-pipelines.yml",
        "bitbucket-pipelines.yml",
        "jenkinsfile",
    ),
    Danger.AGENT: (
        ".claude",
        "claude.md",
        "claude.local.md",
        "agents.md",
        "gemini.md",
        ".codex",
        ".gemini",
        ".cursor",
        ".cursorrules",
        ".windsurf",
        ".windsurfrules",
        ".continue",
        ".aider.conf.yml",
        ".clinerules",
        ".roo",
        ".kiro",
        ".goosehints",
        ".mcp.json",
        "mcp.json",
        ".github/copilot-instructions.md",
        ".github/instructions",
        ".github/prompts",
        ".github/chatmodes",
        ".opencode",
        "opencode.json",
        ".amazonq",
        ".qwen",
        ".junie",
        ".palyra",
        "palyra.toml",
    ),
    Danger.EDITOR: (
        ".vscode",
        ".idea",
        ".devcontainer",
        ".devcontainer.json",
        ".vim",
        ".nvim.lua",
        ".exrc",
        ".vimrc",
        ".nvimrc",
        ".dir-locals.el",
        ".editorconfig-hooks",
        ".zed",
        ".fleet",
        ".gdbinit",
        ".lldbinit",
    ),
    Danger.SHELL: (
        ".envrc",
        ".bashrc",
        ".bash_profile",
        ".bash_login",
        ".bash_logout",
        ".bash_aliases",
        ".profile",
        ".zshrc",
        ".zshenv",
        ".zprofile",
        ".zlogin",
        ".zlogout",
        ".config/fish",
        ".inputrc",
        ".tmux.conf",
        ".screenrc",
        ".ssh",
        ".gnupg",
        ".netrc",
        ".xinitrc",
        ".xprofile",
        ".config/autostart",
        ".config/systemd",
        ".local/bin",
    ),
    Danger.PACKAGES: (
        ".npmrc",
        ".yarnrc",
        ".yarnrc.yml",
        ".pnpmfile.cjs",
        ".pypirc",
        "pip.conf",
        ".cargo/config",
        ".cargo/config.toml",
        ".bundle",
        ".gitconfig",
        ".config/git",
        ".mise.toml",
        ".mise",
        "mise.toml",
        ".config/mise",
        ".yarn/releases",
        ".yarn/plugins",
        ".tool-versions",
        "sitecustomize.py",
        "usercustomize.py",
    ),
}

PROTECTED_SUFFIXES: dict[str, Danger] = {
    ".sublime-project": Danger.EDITOR,
    ".code-workspace": Danger.EDITOR,
    ".pth": Danger.PACKAGES,
}

REPOSITORY_HEAD = "HEAD"
REPOSITORY_STORES = ("objects", "refs", "commondir")
"""What git looks for beside a ``HEAD``; ``commondir`` names a folder that holds the others."""
_REPOSITORY_NAMES = frozenset(
    (REPOSITORY_HEAD.lower(), *REPOSITORY_STORES, "config", "config.worktree", "hooks")
)

PROTECTED_NAMES: tuple[ProtectedName, ...] = tuple(
    ProtectedName(components=tuple(name.split("/")), danger=danger)
    for danger, names in _BY_DANGER.items()
    for name in names
)

_BY_FIRST: dict[str, tuple[ProtectedName, ...]] = {
    first: tuple(name for name in PROTECTED_NAMES if name.components[0] == first)
    for first in {name.components[0] for name in PROTECTED_NAMES}
}


def fold(component: str) -> str:
    """Return how the most careless file system would read a name.

    Case and compatibility forms are folded; invisible characters (which HFS+ and ext4 with
    case folding ignore), the names of alternate streams (``.git::$INDEX_ALLOCATION`` is ``.git``
    on NTFS) and the trailing dots and spaces (which Windows drops) are removed.
    """
    # Upper case first: it also joins the dotless i to the i.
    text = unicodedata.normalize("NFKC", component).upper().casefold()
    text = "".join(
        character
        for character in _IGNORABLE.sub("", text)
        if unicodedata.category(character) != "Cf"
    )
    return unicodedata.normalize("NFKC", text).partition(":")[0].rstrip(". ")


def protecting(components: tuple[str, ...]) -> Danger | None:
    """Return why the path is protected, or ``None`` if it is not.

    A path is protected if a protected name begins at any of its components.
    """
    folded = tuple(fold(component) for component in components)
    for start, component in enumerate(folded):
        if component.startswith(STAGING_PREFIX):
            return Danger.BOUNDARY
        for name in _BY_FIRST.get(component, ()):
            if folded[start : start + len(name.components)] == name.components:
                return name.danger
        for suffix, danger in PROTECTED_SUFFIXES.items():
            if component.endswith(suffix):
                return danger
    return None


def leading_to_protected(components: tuple[str, ...]) -> Danger | None:
    """Return why the folder may not be a root: it ends with the beginning of a protected name.

    Below a root ``.config``, the protected ``.config/systemd`` would be an ordinary ``systemd``.
    """
    folded = tuple(fold(component) for component in components)
    for name in PROTECTED_NAMES:
        for length in range(1, len(name.components)):
            if folded[-length:] == name.components[:length]:
                return name.danger
    return None


def is_of_repository(component: str) -> bool:
    """Say whether git takes something of this name, in a repository, for a part of it."""
    return fold(component) in _REPOSITORY_NAMES


def is_repository(names: Iterable[str]) -> bool:
    """Say whether git could take a folder that holds ``names`` for a repository.

    Git then runs code from its ``config`` and ``hooks``, without any ``.git``. Git wants both
    ``objects`` and ``refs``; one of them is enough here, so that the other cannot follow later.
    """
    folded = {fold(name) for name in names}
    return REPOSITORY_HEAD.lower() in folded and not folded.isdisjoint(REPOSITORY_STORES)
