# SPDX-License-Identifier: Apache-2.0
"""The two tools that touch nothing: an echo and a sleep, to try the boundary with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from palyra.core.execution import Executor
from palyra.core.facts import Facts
from palyra.core.manifest import ToolManifest

if TYPE_CHECKING:
    from palyra.core.manifest import Arguments

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
LONGEST_ECHO_CHARACTERS = 4096
LONGEST_SLEEP_MS = 5000

ECHO = ToolManifest(
    name="palyra.echo",
    version="1.0.0",
    description="Return the text it was given.",
    executor=Executor.BUILTIN,
    max_input_bytes=16 * 1024,
    input_schema={
        "$schema": _DIALECT,
        "type": "object",
        "properties": {
            "text": {
                "type": "string",
                "maxLength": LONGEST_ECHO_CHARACTERS,
                "description": "What to return.",
            }
        },
        "required": ["text"],
        "additionalProperties": False,
    },
    output_schema={
        "$schema": _DIALECT,
        "type": "object",
        "properties": {"echo": {"type": "string", "maxLength": LONGEST_ECHO_CHARACTERS}},
        "required": ["echo"],
        "additionalProperties": False,
    },
)


def _sleep_facts(arguments: Arguments) -> Facts:
    # 5.0 is an integer to JSON Schema; facts hold the integer.
    return Facts(duration_ms=int(arguments["duration_ms"]))


SLEEP = ToolManifest(
    name="palyra.sleep",
    version="1.0.0",
    description="Wait for some milliseconds and do nothing else.",
    executor=Executor.BUILTIN,
    max_input_bytes=1024,
    input_schema={
        "$schema": _DIALECT,
        "type": "object",
        "properties": {
            "duration_ms": {
                "type": "integer",
                "minimum": 0,
                "maximum": LONGEST_SLEEP_MS,
                "description": "How long to wait, in milliseconds.",
            }
        },
        "required": ["duration_ms"],
        "additionalProperties": False,
    },
    output_schema={
        "$schema": _DIALECT,
        "type": "object",
        "properties": {"slept_ms": {"type": "integer", "minimum": 0}},
        "required": ["slept_ms"],
        "additionalProperties": False,
    },
    extract_facts=_sleep_facts,
)

BASIC_TOOLS = (ECHO, SLEEP)
