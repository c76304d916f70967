# SPDX-License-Identifier: Apache-2.0
"""A tool's manifest: the one place from which schema, policy facts, prompts and docs are made."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from palyra.core.capability import SENSITIVE_CAPABILITIES, Capability
from palyra.core.errors import Code, InputError
from palyra.core.execution import Executor
from palyra.core.facts import NO_FACTS, Facts

Arguments = Mapping[str, Any]
FactExtraction = Callable[[Arguments], Facts]

TOOL_NAME_PATTERN = r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+"
LONGEST_TOOL_NAME = 128
_NAME = re.compile(TOOL_NAME_PATTERN, re.ASCII)
_VERSION = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+", re.ASCII)
_POINTER = re.compile(r"(/([^~/]|~[01])*)*")


def is_tool_name(text: str) -> bool:
    """Say whether ``text`` could name a tool: lower-case dotted ASCII of at most 128 characters."""
    return len(text) <= LONGEST_TOOL_NAME and _NAME.fullmatch(text) is not None


def no_facts(_: Arguments) -> Facts:
    """Extract nothing: the tool touches nothing that policy could want to know."""
    return NO_FACTS


class ToolManifest(msgspec.Struct, frozen=True, kw_only=True):
    """What a tool is, takes, gives and may do."""

    name: str
    version: str
    description: str
    input_schema: Mapping[str, Any]
    output_schema: Mapping[str, Any]
    executor: Executor
    capabilities: frozenset[Capability] = frozenset()
    declared_sensitive: bool = False
    max_input_bytes: int = 64 * 1024
    max_output_bytes: int = 1024 * 1024
    max_depth: int = 16
    secret_fields: tuple[str, ...] = ()
    """JSON pointers to arguments whose values never leave the call: not journaled, not shown.

    ``*`` stands for every item of an array and every field of an object.
    """
    extract_facts: FactExtraction = no_facts

    def __post_init__(self) -> None:
        if not is_tool_name(self.name):
            raise InputError(Code.TOOL_MANIFEST, f"{self.name[:64]!r} is not a dotted tool name")
        if not _VERSION.fullmatch(self.version):
            raise InputError(Code.TOOL_MANIFEST, f"tool {self.name}: version is not N.N.N")
        if not all(_POINTER.fullmatch(field) for field in self.secret_fields):
            # A pointer that is not one would hide nothing.
            raise InputError(
                Code.TOOL_MANIFEST, f"tool {self.name}: a secret field is not a JSON pointer"
            )

    @property
    def is_sensitive(self) -> bool:
        """Whether a human must agree before an agent's call runs, unless policy knows better."""
        return self.declared_sensitive or bool(self.capabilities & SENSITIVE_CAPABILITIES)
