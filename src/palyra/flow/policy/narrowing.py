# SPDX-License-Identifier: Apache-2.0
"""An action and the attributes that policies read in, the schema of just that out.

Cedar spends most of an evaluation on reading the context and holding it against the schema. What no
policy concerned can look at need not be shown to it; what is shown is still held against a schema.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

import cedarpy

from palyra.flow.policy.vocabulary import actions, schema_text

if TYPE_CHECKING:
    from collections.abc import Iterable

_COMMENT: Final = re.compile(r"//[^\n]*")
_ATTRIBUTE: Final = re.compile(r'"(\w+)"(\??)\s*:\s*(Set<\w+>|\w+)')
_NAME: Final = re.compile(r'"([^"]+)"')
_APPLIES: Final = re.compile(r"appliesTo\s*\{(.*)context:\s*Call\s*\}", re.DOTALL)
_MOST_SCHEMAS: Final = 256


class _Parts(NamedTuple):
    declarations: str
    """Entities and records, as they stand."""
    attributes: dict[str, str]
    """Each attribute of the context, declared."""
    applies: dict[str, str]
    """Each action's principals and resources, declared."""


@lru_cache(maxsize=_MOST_SCHEMAS)
def narrowed_schema(action: str, attributes: tuple[str, ...]) -> cedarpy.Schema:
    """Return the schema of one action whose context has only these attributes (I13: 256 are kept).

    Raises ``KeyError`` for an action that nobody can ask for. A name that is no attribute is left
    out, as the whole schema would not have let a policy use it.
    """
    parts = _parts(schema_text())
    families = actions()[action]
    context = ", ".join(parts.attributes[name] for name in attributes if name in parts.attributes)
    declared = "".join(f'action "{family}"{_within(actions()[family])};\n' for family in families)
    return cedarpy.Schema.from_str(
        f"{parts.declarations}\n{declared}"
        f'action "{action}"{_within(families)} appliesTo {{{parts.applies[action]}'
        f"context: {{{context}}}}};\n"
    )


@cache
def _parts(text: str) -> _Parts:
    declarations: list[str] = []
    attributes: dict[str, str] = {}
    applies: dict[str, str] = {}
    for statement in _COMMENT.sub("", text).split(";"):
        kind, _, rest = statement.strip().partition(" ")
        if kind == "type" and rest.startswith("Call "):
            attributes = {each[1]: each[0] for each in _ATTRIBUTE.finditer(rest)}
        elif kind in ("entity", "type"):
            declarations.append(f"{statement.strip()};")
        elif kind == "action" and (applying := _APPLIES.search(rest)):
            names = re.split(r"\bin\b|\bappliesTo\b", rest, maxsplit=1)[0]
            applies.update(dict.fromkeys(_NAME.findall(names), applying[1]))
    return _Parts("\n".join(declarations), attributes, applies)


def _within(families: Iterable[str]) -> str:
    listed = ", ".join(f'"{family}"' for family in families)
    return f" in [{listed}]" if listed else ""
