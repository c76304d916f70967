# SPDX-License-Identifier: Apache-2.0
"""A workspace: the one folder below which file tools may act, pinned by its identity on disk."""

from __future__ import annotations

import re

import msgspec

from palyra.core.errors import Code, InputError

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}", re.ASCII)


class Workspace(msgspec.Struct, frozen=True, kw_only=True):
    """A registered folder. Device and inode say which folder was meant, whatever is there later."""

    name: str
    root: str
    device: int
    inode: int

    @property
    def folder(self) -> str:
        """Which folder was meant, as the journal keeps it."""
        return f"{self.device}:{self.inode}"

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise InputError(
                Code.WORKSPACE_REFUSED,
                "a workspace name is 1 to 64 letters, digits or . _ -",
                hint="choose a name with --name",
            )
