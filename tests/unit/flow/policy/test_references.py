# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, get_args

import pytest
from cedarpy import pst

from palyra.flow.policy.references import attributes_read
from tests.support.cedar_universes import parsed

if TYPE_CHECKING:
    from collections.abc import Callable

CONTEXT = pst.Var("context")
A = pst.GetAttr(CONTEXT, "a")
EMPTY = parsed("permit (principal, action, resource);")


@dataclass(frozen=True)
class Novel:
    """A kind of node that a later Cedar may have."""

    inner: object = None


def reads_of(expression: object) -> tuple[str, ...] | None:
    node: Any = expression  # also what is no node at all
    return attributes_read(replace(EMPTY, clauses=(pst.When(node),)))


@pytest.mark.parametrize(
    ("clauses", "reads"),
    [
        pytest.param("", (), id="no condition"),
        pytest.param("when { principal.name == resource.owner }", (), id="not the context"),
        pytest.param("when { context.a }", ("a",), id="an attribute"),
        pytest.param('when { context["a b\\"c"] == 1 }', ('a b"c',), id="of an odd name"),
        pytest.param("when { context.plan.tier == 1 }", ("plan",), id="within an attribute"),
        pytest.param("when { context has a }", ("a",), id="whether it is there"),
        pytest.param("when { context has plan.tier }", ("plan",), id="whether it is within"),
        pytest.param("when { context.plan has tier }", ("plan",), id="whether one has another"),
        pytest.param("when { context.b } unless { context.a }", ("a", "b"), id="of all clauses"),
        pytest.param("when { context.a && context.a }", ("a",), id="each once"),
        pytest.param("when { false && context.a }", ("a",), id="also where it is never reached"),
        pytest.param("when { principal.context.a }", (), id="an attribute called context"),
        pytest.param('when { "context" == "a" }', (), id="a text"),
        pytest.param("when { {a: context.b}.a }", ("b",), id="in a record"),
        pytest.param("when { principal in context.teams }", ("teams",), id="on the right of in"),
        pytest.param("when { context.x is T in context.y }", ("x", "y"), id="is in"),
        pytest.param("when { ip(context.ip).isInRange(ip(context.net)) }", ("ip", "net"), id="ip"),
        pytest.param("when { principal.getTag(context.tag) == 1 }", ("tag",), id="tags"),
    ],
)
def test_the_attributes_a_policy_may_read(clauses: str, reads: tuple[str, ...]) -> None:
    assert attributes_read(parsed(f"permit (principal, action, resource) {clauses};")) == reads


@pytest.mark.parametrize(
    "condition",
    [
        "context == {a: 1}",
        "{} != context",
        "[context].contains({})",
        "{a: context}.a.b",
        "principal.seen.contains(context)",
        "(if true then context else {a: 1}).a",
        "context in principal",
        "context is T",
        'context like "x"',
        "context.isEmpty()",
        "context.hasTag(context.a)",
        "context.a && context",
    ],
)
def test_a_context_used_as_a_whole_may_be_read_anywhere(condition: str) -> None:
    text = f"permit (principal, action, resource) when {{ {condition} }};"
    assert attributes_read(parsed(text)) is None


EXPRESSIONS: dict[type, Callable[[Any], Any]] = {
    pst.Var: lambda inner: inner,
    pst.UnaryOp: lambda inner: pst.UnaryOp("not", inner),
    pst.BinaryOp: lambda inner: pst.BinaryOp("and", pst.BoolLit(value=True), inner),
    pst.GetAttr: lambda inner: pst.GetAttr(pst.Record({"r": inner}), "r"),
    pst.HasAttr: lambda inner: pst.HasAttr(pst.Set((inner,)), ("h",)),
    pst.Like: lambda inner: pst.Like(inner, (pst.Char("x"), pst.Wildcard())),
    pst.Is: lambda inner: pst.Is(pst.Var("principal"), pst.EntityType("T"), inner),
    pst.IfThenElse: lambda inner: pst.IfThenElse(
        pst.BoolLit(value=True), pst.LongLit(1), pst.UnaryOp("neg", inner)
    ),
    pst.Set: lambda inner: pst.Set((pst.StringLit("context"), inner)),
    pst.Record: lambda inner: pst.Record({"r": inner}),
}
LEAVES: dict[type, object] = {
    pst.Slot: None,
    pst.BoolLit: pst.BoolLit(value=True),
    pst.LongLit: pst.LongLit(1),
    pst.StringLit: pst.StringLit("context"),
    pst.EntityLit: pst.EntityLit(pst.EntityUid(pst.EntityType("T", ("N",)), "context")),
}


def test_every_kind_of_expression_is_tested_here() -> None:
    assert set(get_args(pst.Expr)) == EXPRESSIONS.keys() | LEAVES.keys()


@pytest.mark.parametrize("kind", EXPRESSIONS)
def test_reads_are_found_within_every_kind_of_expression(kind: type) -> None:
    assert reads_of(EXPRESSIONS[kind](A)) == ("a",)
    assert reads_of(EXPRESSIONS[kind](pst.Var("principal"))) == ()


@pytest.mark.parametrize("kind", EXPRESSIONS)
def test_a_bare_context_is_found_within_every_kind_of_expression(kind: type) -> None:
    assert reads_of(EXPRESSIONS[kind](CONTEXT)) is None


@pytest.mark.parametrize("kind", [kind for kind, leaf in LEAVES.items() if leaf is not None])
def test_literals_read_nothing(kind: type) -> None:
    assert reads_of(LEAVES[kind]) == ()


@pytest.mark.parametrize(
    "unknown",
    [
        pytest.param(Novel(), id="a node of another kind"),
        pytest.param(Novel(A), id="whatever is in it"),
        pytest.param(pst.UnaryOp("not", Novel()), id="also further down"),  # type: ignore[arg-type]
        pytest.param(pst.Slot("principal"), id="a slot, which no condition can hold"),
        pytest.param(pst.Var("environment"), id="a variable of another name"),  # type: ignore[arg-type]
        pytest.param(pst.Is, id="a class"),
        pytest.param(b"bytes", id="something else"),
    ],
)
def test_what_is_not_understood_may_read_anything(unknown: object) -> None:
    assert reads_of(unknown) is None
