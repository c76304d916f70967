# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest

from palyra.flow.intake.expectation import closest, expectation, pointer, shown_name


def objection(schema: dict[str, Any], value: object) -> jsonschema_rs.ValidationError:
    with pytest.raises(jsonschema_rs.ValidationError) as caught:
        jsonschema_rs.Draft202012Validator(schema, validate_formats=True).validate(value)
    return closest(caught.value)


@pytest.mark.parametrize(
    ("schema", "value", "sentence"),
    [
        ({"type": "string"}, 1, "expected string"),
        ({"type": ["string", "null"]}, 1, "expected null or string"),
        ({"enum": ["b", 1]}, "c", 'expected "b" or 1'),
        ({"const": {"a": 1}}, "c", 'expected {"a":1}'),
        ({"minimum": 3}, 1, "expected at least 3"),
        ({"maximum": 3}, 4, "expected at most 3"),
        ({"exclusiveMinimum": 3}, 3, "expected more than 3"),
        ({"exclusiveMaximum": 3}, 3, "expected less than 3"),
        ({"multipleOf": 2}, 3, "expected a multiple of 2"),
        ({"minLength": 2}, "a", "expected at least 2 characters"),
        ({"maxLength": 2}, "abc", "expected at most 2 characters"),
        ({"pattern": "^[{]a$"}, "b", "expected text that matches ^[{]a$"),
        ({"format": "date"}, "b", "expected text in the format date"),
        ({"minItems": 1}, [], "expected at least 1 items"),
        ({"maxItems": 1}, [1, 2], "expected at most 1 items"),
        ({"uniqueItems": True}, [1, 1], "expected no item twice"),
        ({"contains": {"type": "null"}}, [1], "expected other items"),
        ({"minProperties": 1}, {}, "expected at least 1 fields"),
        ({"maxProperties": 0}, {"a": 1}, "expected at most 0 fields"),
        ({"required": ["a"]}, {}, "the field 'a' is missing"),
        ({"dependentRequired": {"a": ["b"]}}, {"a": 1}, "the field 'b' is missing"),
        ({"propertyNames": {"maxLength": 1}}, {"ab": 1}, "expected other field names"),
        ({"not": {"type": "null"}}, None, "expected something else"),
        ({"items": False}, [1], "nothing is expected here"),
        ({"anyOf": [{"type": "null"}, {"type": "string"}]}, 1, "expected null or string"),
        ({"anyOf": [{"type": "null"}, {"minimum": 9}]}, 1, "expected at least 9"),
        (
            {"oneOf": [{"type": "integer"}, {"minimum": 0}]},
            1,
            "expected exactly one of the alternatives, and several fit",
        ),
    ],
)
def test_sentence_says_what_the_schema_expects(
    schema: dict[str, Any], value: object, sentence: str
) -> None:
    assert expectation(objection(schema, value)) == sentence


def test_closest_objection_is_the_deepest() -> None:
    schema = {"anyOf": [{"type": "null"}, {"type": "array", "items": {"type": "string"}}]}
    assert objection(schema, ["a", 2]).instance_path == [1]


def test_closest_objection_is_found_through_nested_alternatives() -> None:
    inner = {"oneOf": [{"type": "null"}, {"properties": {"b": {"maximum": 1}}}]}
    schema = {"anyOf": [{"type": "string"}, {"properties": {"a": inner}}]}
    assert objection(schema, {"a": {"b": 2}}).instance_path == ["a", "b"]


def test_long_list_of_alternatives_is_cut() -> None:
    options = [f"{number:0100}" for number in range(9)]
    assert len(expectation(objection({"enum": options}, 1))) < 300


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("plain", "plain"),
        ("new\nline", r"new\nline"),
        ("\u202eevil", r"\u202eevil"),
        ("\ud800", r"\ud800"),
        ("x" * 1000, "x" * 64),
        ("\U0001f600" * 64, (r"\U0001f600" * 64)[:64]),
    ],
    ids=["plain", "newline", "bidi", "surrogate", "long", "long-once-escaped"],
)
def test_name_is_shown_as_short_printable_ascii(name: str, shown: str) -> None:
    assert shown_name(name) == shown


def test_pointer_escapes_its_own_signs() -> None:
    assert pointer(["a/b", 0, "c~d", ""]) == "/a~1b/0/c~0d/"
