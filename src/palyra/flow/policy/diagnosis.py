# SPDX-License-Identifier: Apache-2.0
"""What Cedar says about one statement in; what, where and what was probably meant out.

Cedar's sentences name the piece at fault, but not its place. Where a sentence is not known here,
it is passed on as it is, with the place of its statement.
"""

from __future__ import annotations

import re
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import cedarpy
from cedarpy import pst

from palyra.core.nearest import nearest
from palyra.flow.policy.known_values import unknown_values
from palyra.flow.policy.sources import printable
from palyra.flow.policy.statements import lexemes, place_at, place_of
from palyra.flow.policy.vocabulary import (
    actions,
    context_attributes,
    entity_types,
    nearest_attribute,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from palyra.flow.policy.statements import Statement

_MISFIT: Final = ("unexpected token", "invalid token", "unexpected end of input")
_ENDS_EARLY: Final = "unexpected token `;`"
_FOLLOWS: Final = "unable to find an applicable action given the policy scope constraints"
"""Said of every policy whose scope names something unknown, besides that."""

_PREFIX: Final = re.compile(r"for policy `policy[0-9]+`, ")
_IN_CONTEXT: Final = re.compile(r' in context for Action::"(?:[^"\\]|\\.)*"')
_QUOTED: Final = re.compile(r"[`']([^`']+)[`']")

_UNKNOWN_ACTION: Final = re.compile(r'unrecognized action `Action::"(.*)"`', re.DOTALL)
_UNKNOWN_TYPE: Final = re.compile(r"unrecognized entity type `(.+)`")
_UNKNOWN_ATTRIBUTE: Final = re.compile(r"attribute `(.+)` in context not found")
_OPTIONAL: Final = re.compile(
    r"unable to guarantee safety of access to optional attribute `(.+)` in context"
)
_WORDS: Final[tuple[tuple[re.Pattern[str], tuple[str, ...]], ...]] = (
    (re.compile(r"invalid policy effect: (\w+)"), ("permit", "forbid")),
    (re.compile(r"invalid policy condition: (\w+)"), ("when", "unless")),
    (
        re.compile(r"found an invalid variable in the policy scope: (\w+)"),
        ("principal", "action", "resource"),
    ),
    (
        re.compile(r"invalid variable: (\w+)|`(\w+)` has no fields or methods"),
        ("principal", "action", "resource", "context"),
    ),
    (
        re.compile(r"`(\w+)` is not a valid (?:method|function)"),
        (
            "contains",
            "containsAll",
            "containsAny",
            "datetime",
            "decimal",
            "duration",
            "durationSince",
            "getTag",
            "greaterThan",
            "greaterThanOrEqual",
            "hasTag",
            "ip",
            "isEmpty",
            "isInRange",
            "isIpv4",
            "isIpv6",
            "isLoopback",
            "isMulticast",
            "lessThan",
            "lessThanOrEqual",
            "offset",
            "toDate",
            "toDays",
            "toHours",
            "toMilliseconds",
            "toMinutes",
            "toSeconds",
            "toTime",
        ),
    ),
)


class Finding(NamedTuple):
    """One thing that is wrong with a statement."""

    message: str
    line: int
    column: int
    token: str = ""
    hint: str = ""


def syntax_finding(statement: Statement, message: str) -> Finding:
    """Say where a statement that does not parse goes wrong."""
    if message.startswith(_MISFIT):
        return _first_misfit(statement, message)
    for pattern, words in _WORDS:
        if match := pattern.search(message):
            word = match[match.lastindex or 0]
            return _located(statement, message, word, hint=_meant(word, words))
    quoted = _QUOTED.search(message)
    return _located(statement, message, quoted[1] if quoted else "")


def schema_findings(statement: Statement, messages: Iterable[str]) -> tuple[Finding, ...]:
    """Return what the validator's sentences about one statement come to, each once.

    The validator repeats itself for every action that a policy could be about.
    """
    plain = dict.fromkeys(
        _IN_CONTEXT.sub(" in context", _PREFIX.sub("", each)) for each in messages
    )
    telling = [message for message in plain if message != _FOLLOWS]
    return tuple(_schema_finding(statement, message) for message in telling or plain)


def vacuous_tests(statement: Statement, template: pst.Template) -> Iterator[Finding]:
    """Return each ``has`` that asks for an attribute of ``context`` which never exists.

    Cedar takes it to be false, and lets a policy that forbids never apply.
    """
    for path in sorted(set(_tested_paths(template.clauses))):
        if path not in context_attributes():
            yield _located(
                statement,
                f"attribute `{path}` in context not found",
                path.rpartition(".")[2],
                hint=_did_you_mean(nearest_attribute(path)),
            )


def impossible_values(statement: Statement, template: pst.Template) -> Iterator[Finding]:
    """Return each word that is compared with something it can never be."""
    for value, compared_with, known in sorted(
        set(unknown_values(template)), key=lambda each: each[:2]
    ):
        message = f"`{value}` is nothing that {compared_with} can be"
        yield _located(statement, message, f'"{value}"', hint=_meant(value, known))


def _first_misfit(statement: Statement, message: str) -> Finding:
    """Find the first token that cannot follow those before it, by bisection.

    Ended with a semicolon, every shorter beginning has no other fault than that semicolon.
    """
    tokens = list(lexemes(statement.text))
    low, high = 0, len(tokens)  # the first ``low`` tokens are a beginning, the first ``high`` not
    while high - low > 1:
        middle = (low + high) // 2
        last = tokens[middle - 1]
        if _is_beginning(statement.text[: last.offset + len(last.text)]):
            low = middle
        else:
            high = middle
    misfit = tokens[high - 1]
    line, column = place_at(misfit.offset, statement)
    named = message if "`" in message else f"{message} `{misfit.text}`"
    return Finding(printable(named), line, column, printable(misfit.text))


def _is_beginning(text: str) -> bool:
    try:
        cedarpy.PolicySet.from_str(f"{text}\n;")
    except ValueError as error:
        said = str(error)
        return said == _ENDS_EARLY or not said.startswith(_MISFIT)
    return True


def _schema_finding(statement: Statement, message: str) -> Finding:
    token, hint = "", ""
    if match := _UNKNOWN_ACTION.fullmatch(message):
        token = f'Action::"{match[1]}"'
        close = nearest(match[1], actions())
        hint = _did_you_mean(f'Action::"{close}"' if close else None)
    elif match := _UNKNOWN_TYPE.fullmatch(message):
        token, hint = match[1], _meant(match[1], entity_types())
    elif match := _UNKNOWN_ATTRIBUTE.fullmatch(message):
        token, hint = match[1], _did_you_mean(nearest_attribute(match[1]))
    elif match := _OPTIONAL.fullmatch(message):
        token = match[1]
        hint = f"test for it first: context has {match[1]}"
    elif match := _QUOTED.search(message):
        token = match[1]
    return _located(statement, message, token, hint=hint)


def _located(statement: Statement, message: str, token: str, *, hint: str = "") -> Finding:
    """Place a finding at its token, as it is or as an index, else where the statement begins."""
    leaf = token.rpartition(".")[2]
    place: tuple[int, int] | None = None
    for form in (token, leaf, f'"{leaf}"') if token else ():
        place = place or place_of(form, statement)
    if place is None and token:
        place = next(
            (
                place_at(lexeme.offset + lexeme.text.index(token), statement)
                for lexeme in lexemes(statement.text)
                if token in lexeme.text
            ),
            None,
        )
    line, column = place or (statement.line, statement.column)
    return Finding(printable(message), line, column, printable(token), printable(hint))


def _meant(unknown: str, known: Iterable[str]) -> str:
    return _did_you_mean(nearest(unknown, known))


def _did_you_mean(close: str | None) -> str:
    return f"did you mean {close}?" if close else ""


def _tested_paths(root: object) -> Iterator[str]:
    """Return the paths into ``context`` that ``has`` asks for anywhere below ``root``."""
    pending: list[Any] = [root]
    while pending:
        node = pending.pop()
        if isinstance(node, pst.HasAttr):
            base = _path(node.base)
            if base is not None:
                yield ".".join((*base, *node.attrs))
        if isinstance(node, tuple):
            pending.extend(node)
        elif isinstance(node, dict):
            pending.extend(node.values())
        elif is_dataclass(node):
            pending.extend(getattr(node, each.name) for each in fields(node))


def _path(base: pst.Expr) -> tuple[str, ...] | None:
    """Return the attributes that lead from ``context`` to ``base``, if that is all it is."""
    attributes: list[str] = []
    while isinstance(base, pst.GetAttr):
        attributes.append(base.attr)
        base = base.base
    is_context = isinstance(base, pst.Var) and base.name == "context"
    return tuple(reversed(attributes)) if is_context else None
