# SPDX-License-Identifier: Apache-2.0
"""Slices of policies answer as the files of a Cedar corpus say: see tests.support.cedar_corpus."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.cedar_corpus import (
    CannotBeSlicedError,
    CorpusTest,
    Outcome,
    SlicedPolicies,
    find_tests,
    read_test,
)

OURS = Path(__file__).resolve().parents[1] / "vectors" / "cedar"
OTHER = os.environ.get("PALYRA_CEDAR_CORPUS")
ROOTS = [OURS, *([Path(OTHER).resolve(strict=True)] if OTHER else [])]
TESTS = [
    pytest.param(root, path, id=f"{root.name}/{path.relative_to(root)}")
    for root in ROOTS
    for path in find_tests(root)
]


@pytest.mark.parametrize(("root", "path"), TESTS)
def test_slices_answer_as_the_corpus_says(root: Path, path: Path) -> None:
    test = read_test(root, path)
    try:
        policies = SlicedPolicies(test)
    except CannotBeSlicedError as error:
        assert root != OURS
        pytest.skip(str(error))
    askable = [request for request in test.requests if request.is_askable]
    assert [(each.description, policies.ask(each)) for each in askable] == [
        (each.description, each.expected) for each in askable
    ]


@pytest.mark.parametrize(("root", "path"), TESTS)
def test_policies_fit_the_schema_where_the_corpus_says_so(root: Path, path: Path) -> None:
    test = read_test(root, path)
    assert test.is_valid() == test.should_validate


def test_our_corpus_is_found_in_both_spellings() -> None:
    found = [str(path.relative_to(OURS)) for path in find_tests(OURS)]
    assert found == ["conditions.json", "heads.json", "older/conditions.json", "older/heads.json"]


def test_our_corpus_has_every_outcome() -> None:
    expected = [each.expected for path in find_tests(OURS) for each in _read(path).requests]
    assert {(each.allowed, bool(each.reason), bool(each.errors)) for each in expected} == {
        (True, True, False),
        (True, True, True),
        (False, True, False),
        (False, False, False),
        (False, False, True),
    }


def test_a_wrong_expectation_is_noticed() -> None:
    test = _read(OURS / "heads.json")
    first = test.requests[0]
    wrong = Outcome(allowed=True, reason=frozenset({"policy1"}), errors=frozenset())
    assert SlicedPolicies(test).ask(first) == first.expected != wrong


@pytest.mark.parametrize(
    "policies",
    [
        pytest.param("permit (principal == ?principal, action, resource);", id="templates"),
        pytest.param(
            f"permit (principal, action, resource) when {{ {'!context.a && ' * 150} true }};",
            id="too deep",
        ),
    ],
)
def test_what_we_would_refuse_is_told_apart(policies: str) -> None:
    with pytest.raises(CannotBeSlicedError):
        SlicedPolicies(_read(OURS / "heads.json")._replace(policies=policies))


def test_a_request_without_a_principal_is_not_asked() -> None:
    test = _read(OURS / "heads.json")
    unspecified = test.requests[0]._replace(principal=None)
    assert not unspecified.is_askable
    with pytest.raises(ValueError, match="unspecified"):
        SlicedPolicies(test).ask(unspecified)


def _read(path: Path) -> CorpusTest:
    return read_test(OURS, path)
