# SPDX-License-Identifier: Apache-2.0
"""A policy in, the words in it that can never be met out: a misspelt one would never apply.

Cedar's schema knows that ``context.posture`` is a text, but not which texts there are. A policy
that forbids ``"disbled"`` would pass every check and forbid nothing.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from cedarpy import pst

from palyra.core.capability import Capability
from palyra.core.plan import Tier
from palyra.core.posture import Posture
from palyra.core.principal import Assurance
from palyra.core.risk import Risk

if TYPE_CHECKING:
    from collections.abc import Iterator

_CAPABILITIES: Final = frozenset(Capability)
_TEXTS: Final[dict[tuple[str, ...], frozenset[str]]] = {
    ("assurance",): frozenset(Assurance),
    ("capabilities",): _CAPABILITIES,
    ("plan", "tier"): frozenset(Tier),
    ("posture",): frozenset(Posture),
    ("risk",): frozenset(Risk),
}
"""Attributes of ``context`` whose every possible text is known."""
_COMPARING: Final = frozenset({"eq", "not_eq", "contains", "contains_any", "contains_all"})


class UnknownValue(NamedTuple):
    """A word that nothing can ever be, where it is compared, and the words that there are."""

    value: str
    compared_with: str
    known: frozenset[str]


def unknown_values(template: pst.Template) -> Iterator[UnknownValue]:
    """Yield each text or capability in a policy that does not exist."""
    for node in _nodes(template):
        if isinstance(node, pst.EntityUid) and str(node.type) == "Capability":
            if node.id not in _CAPABILITIES:
                yield UnknownValue(node.id, "Capability", _CAPABILITIES)
        elif isinstance(node, pst.BinaryOp) and node.op in _COMPARING:
            yield from _compared(node.left, node.right)
            yield from _compared(node.right, node.left)


def _compared(attribute: pst.Expr, values: pst.Expr) -> Iterator[UnknownValue]:
    path = _path(attribute)
    known = _TEXTS.get(path)
    if known is None:
        return
    elements = values.elements if isinstance(values, pst.Set) else (values,)
    for element in elements:
        if isinstance(element, pst.StringLit) and element.value not in known:
            yield UnknownValue(element.value, f"context.{'.'.join(path)}", known)


def _path(expression: pst.Expr) -> tuple[str, ...]:
    """Return the attributes that lead from ``context`` to an expression, if nothing else does."""
    steps: list[str] = []
    while isinstance(expression, pst.GetAttr):
        steps.append(expression.attr)
        expression = expression.base
    is_context = isinstance(expression, pst.Var) and expression.name == "context"
    return tuple(reversed(steps)) if is_context else ()


def _nodes(root: object) -> Iterator[object]:
    pending: list[Any] = [root]
    while pending:
        node = pending.pop()
        yield node
        if isinstance(node, tuple):
            pending.extend(node)
        elif is_dataclass(node):
            pending.extend(getattr(node, field.name) for field in fields(node))
