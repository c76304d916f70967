# SPDX-License-Identifier: Apache-2.0
"""The packaged schema in, the names that policies can speak of out.

Cedar's own reading of the schema decides what is valid. The names are read from its text only
because the engine does not hand them out; a test holds the two against each other.
"""

from __future__ import annotations

import hashlib
import re
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

import cedarpy

from palyra.core.nearest import nearest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

SCHEMA_PATH: Final = Path(__file__).parent / "defaults" / "palyra.cedarschema"
_CONTEXT: Final = "Call"
"""The type that every action's context has."""

_END: Final = ";"
_COLON: Final = ":"
_COMMENT: Final = re.compile(r"//[^\n]*")
_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[A-Za-z_][A-Za-z0-9_]*|[^\s]')
_ACTION: Final = re.compile(r'Action::"([^"]*)"')


class _Names(NamedTuple):
    entity_types: frozenset[str]
    actions: Mapping[str, tuple[str, ...]]
    declared_actions: frozenset[str]
    context_attributes: frozenset[str]


@cache
def schema_text() -> str:
    """Return the packaged schema as it is written."""
    return SCHEMA_PATH.read_text("utf-8")


@cache
def schema_sha256() -> str:
    """Return the schema's SHA-256, in hexadecimal."""
    return hashlib.sha256(schema_text().encode()).hexdigest()


@cache
def schema() -> cedarpy.Schema:
    """Return the schema, parsed once."""
    return cedarpy.Schema.from_str(schema_text())


def actions() -> Mapping[str, tuple[str, ...]]:
    """Return every action and family of actions, with all the families it is in, sorted."""
    return _names().actions


def declared_actions() -> frozenset[str]:
    """Return the actions that a request can name: those that are not families."""
    return _names().declared_actions


def entity_types() -> frozenset[str]:
    """Return the names of all types of entities."""
    return _names().entity_types


def context_attributes() -> frozenset[str]:
    """Return the paths of all attributes of ``context``: ``plan`` as well as ``plan.tier``."""
    return _names().context_attributes


def nearest_action(unknown: str) -> str | None:
    """Return the action that ``unknown``, such as ``tool.exekute``, was probably meant to be."""
    return nearest(unknown, actions())


def nearest_entity_type(unknown: str) -> str | None:
    """Return the type that ``unknown`` was probably meant to be."""
    return nearest(unknown, entity_types())


def nearest_attribute(unknown: str) -> str | None:
    """Return the path into ``context`` that ``unknown``, also a path, was probably meant to be."""
    return nearest(unknown, context_attributes())


def nearest_name(unknown: str) -> str | None:
    """Return the name of any kind that ``unknown`` was probably meant to be, written alike."""
    if action := _ACTION.fullmatch(unknown):
        close = nearest_action(action[1])
        return f'Action::"{close}"' if close else None
    return nearest(unknown, {*actions(), *entity_types(), *context_attributes()})


@cache
def _names() -> _Names:
    return _read(schema_text())


def _read(text: str) -> _Names:
    """Read the few forms of declaration that the packaged schema uses."""
    entity_types: set[str] = set()
    parents: dict[str, tuple[str, ...]] = {}
    declared: set[str] = set()
    records: dict[str, dict[str, str]] = {}
    for statement in _statements(_TOKEN.findall(_COMMENT.sub("", text))):
        kind, *rest = statement
        applies = rest.index("appliesTo") if "appliesTo" in rest else len(rest)
        middle = rest.index("in") if "in" in rest[:applies] else applies
        if kind == "type":
            records[rest[0]] = _fields(rest[3:-1])
            continue
        names = _listed(rest[:middle])
        if kind == "entity":
            entity_types.update(names)
        elif kind == "action":
            families = tuple(_listed(rest[middle + 1 : applies]))
            parents.update(dict.fromkeys(names, families))
            declared.update(names if applies < len(rest) else ())
        else:
            raise ValueError(f"the schema has an unknown declaration: {kind}")
    return _Names(
        entity_types=frozenset(entity_types),
        actions=MappingProxyType({name: _ancestors(name, parents) for name in parents}),
        declared_actions=frozenset(declared),
        context_attributes=frozenset(_paths(_CONTEXT, "", records)),
    )


def _statements(tokens: Iterable[str]) -> Iterable[list[str]]:
    statement: list[str] = []
    for token in tokens:
        if token == _END:
            yield statement
            statement = []
        else:
            statement.append(token)
    if statement:
        raise ValueError("the schema ends within a declaration")


def _listed(tokens: Iterable[str]) -> list[str]:
    return [token.strip('"') for token in tokens if token not in {",", "[", "]"}]


def _fields(tokens: list[str]) -> dict[str, str]:
    """Return each attribute with the first name of its type: ``Set`` for a set of anything."""
    return {
        (tokens[index - 2] if tokens[index - 1] == "?" else tokens[index - 1]).strip('"'): tokens[
            index + 1
        ]
        for index, token in enumerate(tokens)
        if token == _COLON
    }


def _ancestors(name: str, parents: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    above: set[str] = set()
    pending = list(parents[name])
    while pending:
        family = pending.pop()
        if family not in above:
            above.add(family)
            pending.extend(parents[family])
    return tuple(sorted(above))


def _paths(record: str, prefix: str, records: Mapping[str, dict[str, str]]) -> Iterable[str]:
    for attribute, type_name in records[record].items():
        yield prefix + attribute
        if type_name in records:
            yield from _paths(type_name, f"{prefix}{attribute}.", records)
