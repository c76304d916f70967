# SPDX-License-Identifier: Apache-2.0
"""Marks on type hints in, JSON pointers of secret arguments out (I11)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import inspect

if TYPE_CHECKING:
    from collections.abc import Iterator

_MARK = "palyra.secret"


def Secret() -> msgspec.Meta:  # noqa: N802 - reads as a type in Annotated[str, Secret()]
    """Mark a parameter or a field whose value is never journaled nor shown."""
    return msgspec.Meta(extra={_MARK: True}, extra_json_schema={"writeOnly": True})


def secret_pointers(hint: object, *, at: str) -> tuple[str, ...]:
    """Return the pointers, below ``at``, of everything in ``hint`` that is marked secret.

    Raises:
        ValueError: a secret in a type that contains itself: no pointer reaches all its depths.
    """
    walk = _Walk()
    found = tuple(dict.fromkeys(walk.visit(inspect.type_info(hint), at)))
    if found and walk.found_cycle:
        raise ValueError("its type contains itself")
    return found


class _Walk:
    """One walk through a type; remembers the types it is inside of, so that it ends."""

    def __init__(self) -> None:
        self.found_cycle = False
        self._inside: set[int] = set()

    def visit(self, kind: inspect.Type, at: str) -> Iterator[str]:
        if id(kind) in self._inside:
            self.found_cycle = True
            return
        self._inside.add(id(kind))
        if isinstance(kind, inspect.Metadata) and (kind.extra or {}).get(_MARK):
            yield at
        else:
            for below, step in _parts(kind):
                yield from self.visit(below, at + step)
        self._inside.remove(id(kind))


def _parts(kind: inspect.Type) -> Iterator[tuple[inspect.Type, str]]:
    """Yield the types within ``kind``, each with the pointer step that leads to its values."""
    match kind:
        case inspect.Metadata():
            yield kind.type, ""
        case inspect.UnionType():
            yield from ((each, "") for each in kind.types)
        case inspect.CollectionType():
            yield kind.item_type, "/*"
        case inspect.TupleType():
            yield from ((each, f"/{index}") for index, each in enumerate(kind.item_types))
        case inspect.DictType():
            yield kind.key_type, ""  # a secret key hides the whole object
            yield kind.value_type, "/*"
        case inspect.StructType(array_like=True):
            first = 0 if kind.tag is None else 1  # the tag is the first item
            yield from ((each.type, f"/{index}") for index, each in enumerate(kind.fields, first))
        case inspect.NamedTupleType():
            yield from ((each.type, f"/{index}") for index, each in enumerate(kind.fields))
        case inspect.StructType() | inspect.DataclassType() | inspect.TypedDictType():
            yield from ((each.type, f"/{_step(each.encode_name)}") for each in kind.fields)
        case _:
            pass


def _step(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
