# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import cedarpy
import pytest

from palyra.flow.policy.diagnosis import Finding, schema_findings, syntax_finding, vacuous_tests
from palyra.flow.policy.statements import Statement, split
from palyra.flow.policy.vocabulary import schema

HEAD = "permit (principal, action, resource)\nwhen { "


def statement_of(text: str) -> Statement:
    (statement,) = split(text)
    assert statement.flaw is None
    return statement


def syntax_of(text: str) -> Finding:
    statement = statement_of(text)
    with pytest.raises(ValueError, match=r".") as raised:
        cedarpy.policies_to_pst(statement.text)
    return syntax_finding(statement, str(raised.value))


def validation_of(text: str) -> tuple[Finding, ...]:
    statement = statement_of(text)
    said = cedarpy.validate_policies(statement.text, schema()).errors
    return schema_findings(statement, [each.error for each in said])


@pytest.mark.parametrize(
    ("condition", "token", "column"),
    [
        ("(true && }) };", "}", 17),
        ("true && } };", "}", 16),  # the first of two, from which Cedar recovers
        ("[1, 2) };", ")", 13),
        ("# };", "#", 8),
        ("'a' == 1 };", "'", 8),
        ("true } } ;", "}", 15),
        ("true ;", ";", 13),
        ("context. };", "}", 17),
    ],
)
def test_the_first_token_that_does_not_fit_is_found(
    condition: str, token: str, column: int
) -> None:
    found = syntax_of(f"// a comment\n{HEAD}{condition}")
    assert (found.token, found.line, found.column) == (token, 3, column)
    assert f"`{token}`" in found.message


def test_a_missing_semicolon_shows_where_the_next_policy_stands() -> None:
    found = syntax_of(f"{HEAD}true }}\n\npermit (principal, action, resource);")
    assert (found.line, found.token) == (4, "(")


@pytest.mark.parametrize(
    ("text", "token", "hint"),
    [
        ("permitt (principal, action, resource);", "permitt", "did you mean permit?"),
        ("permit (principl, action, resource);", "principl", "did you mean principal?"),
        ("permit (principal, action, resource) whn {true};", "whn", "did you mean when?"),
        (f"{HEAD}contxt }};", "contxt", "did you mean context?"),
        (f"{HEAD}contxt.approved }};", "contxt", "did you mean context?"),
        (f"{HEAD}context.plan.egress.containz(1) }};", "containz", "did you mean contains?"),
        (f"{HEAD}foo(1) }};", "foo", ""),
        (f"{HEAD}1 = 2 }};", "=", ""),
        (f'{HEAD}"a\\qb" == "" }};', "\\q", ""),
    ],
)
def test_a_word_that_cedar_does_not_know_is_placed_and_explained(
    text: str, token: str, hint: str
) -> None:
    found = syntax_of(text)
    assert (found.token, found.hint) == (token, hint)
    line = text.split("\n")[found.line - 1]
    assert line[found.column - 1 :].startswith(token)


def test_a_sentence_that_names_nothing_has_the_place_of_its_statement() -> None:
    found = syntax_of("\n  permit (principal, action, resource) when { 1 < 2 < 3 };")
    assert (found.line, found.column, found.token) == (2, 3, "")


@pytest.mark.parametrize(
    ("text", "token", "line", "column", "hint"),
    [
        (
            'permit (principal,\naction == Action::"tool.exekute", resource);',
            'Action::"tool.exekute"',
            2,
            11,
            'did you mean Action::"tool.execute"?',
        ),
        (
            "permit (principal is Agnt, action, resource);",
            "Agnt",
            1,
            22,
            "did you mean Agent?",
        ),
        (
            f"{HEAD}context.is_sensitiv }};",
            "is_sensitiv",
            2,
            16,
            "did you mean is_sensitive_action?",
        ),
        (f'{HEAD}context.plan.teir == "c" }};', "plan.teir", 2, 16, "did you mean plan.tier?"),
        (f'{HEAD}context["plan"].teir == "c" }};', "plan.teir", 2, 24, "did you mean plan.tier?"),
        (f'{HEAD}context["aproved"] }};', "aproved", 2, 16, "did you mean approved?"),
        (
            f'{HEAD}context.files.workspace == "" }};',
            "files",
            2,
            16,
            "test for it first: context has files",
        ),
        (f'{HEAD}decimal("x") == decimal("1.0") }};', '"x"', 2, 16, ""),
    ],
)
def test_what_the_schema_does_not_know_is_said_once_placed_and_explained(
    text: str, token: str, line: int, column: int, hint: str
) -> None:
    (found,) = validation_of(text)
    assert (found.token, found.line, found.column, found.hint) == (token, line, column, hint)
    assert "policy0" not in found.message


def test_a_scope_that_fits_no_action_is_said_where_nothing_else_explains_it() -> None:
    (found,) = validation_of('permit (principal == Memory::"x", action, resource);')
    assert "applicable action" in found.message


def test_a_sentence_that_is_not_known_is_passed_on() -> None:
    (found,) = schema_findings(statement_of("permit (principal);"), ["for policy `policy0`, oh"])
    assert found == Finding("oh", 1, 1)


@pytest.mark.invariant("I1")
@pytest.mark.parametrize(
    ("condition", "column", "hint"),
    [
        ("context has filez && true", 20, "did you mean files?"),
        ("[context has plan.teir].contains(true)", 26, "did you mean plan.tier?"),
        ("{a: context.plan has teir}.a", 29, "did you mean plan.tier?"),
    ],
)
def test_asking_for_an_attribute_that_never_exists_is_found(
    condition: str, column: int, hint: str
) -> None:
    statement = statement_of(f"{HEAD}{condition} }};")
    assert validation_of(statement.text) == ()  # Cedar lets it pass
    (template,) = cedarpy.policies_to_pst(statement.text).static_policies.values()
    (found,) = vacuous_tests(statement, template)
    assert (found.line, found.column, found.hint) == (2, column, hint)


def test_asking_for_attributes_that_exist_or_of_other_records_is_fine() -> None:
    text = f"{HEAD}context has files.workspace && context.plan has tier && {{a: 1}} has b }};"
    statement = statement_of(text)
    (template,) = cedarpy.policies_to_pst(statement.text).static_policies.values()
    assert list(vacuous_tests(statement, template)) == []
