# SPDX-License-Identifier: Apache-2.0
"""A policy in, the attributes of ``context`` it may read out.

Whoever knows them can leave the rest of the context away, and can tell which facts a decision
rested on. Where it cannot be told, the answer says so: it is never a guess.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Final

from cedarpy import pst

_UNDERSTOOD: Final = frozenset(
    {
        pst.When,
        pst.Unless,
        pst.BoolLit,
        pst.LongLit,
        pst.StringLit,
        pst.EntityLit,
        pst.EntityUid,
        pst.EntityType,
        pst.UnaryOp,
        pst.BinaryOp,
        pst.GetAttr,
        pst.HasAttr,
        pst.Like,
        pst.Char,
        pst.Wildcard,
        pst.Is,
        pst.IfThenElse,
        pst.Set,
        pst.Record,
    }
)
_ELSEWHERE: Final = frozenset({"principal", "action", "resource"})


def attributes_read(template: pst.Template) -> tuple[str, ...] | None:
    """Return the top-level attributes of ``context`` that any clause may read, sorted.

    ``None`` where ``context`` is used as a whole, or a node is of a kind unknown here: a later
    Cedar may have ways to read it that this version has not heard of.
    """
    found: set[str] = set()
    left: list[object] = list(template.clauses)
    while left:
        match left.pop():
            case (
                pst.GetAttr(base=pst.Var(name="context"), attr=name)
                | pst.HasAttr(base=pst.Var(name="context"), attrs=(name, *_))
            ):
                found.add(name)
            case pst.Var(name=name):
                if name not in _ELSEWHERE:
                    return None
            case str() | int() | None:
                pass
            case tuple() as several:
                left.extend(several)
            case Mapping() as several:
                left.extend(several.values())
            case node if is_dataclass(node) and type(node) in _UNDERSTOOD:
                left.extend(getattr(node, field.name) for field in fields(node))
            case _:
                return None
    return tuple(sorted(found))
