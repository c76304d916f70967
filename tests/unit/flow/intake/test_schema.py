# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given

from palyra.core.errors import Code, InputError
from palyra.core.execution import Executor
from palyra.core.manifest import ToolManifest
from palyra.flow.intake.schema import DIALECT, ArgumentSchema, Fault, SchemaRole
from tests.support.json_values import json_values

COPY: dict[str, Any] = {
    "$schema": DIALECT,
    "type": "object",
    "properties": {
        "source": {"type": "string", "maxLength": 16},
        "count": {"type": "integer", "minimum": 1},
        "target": {"$ref": "#/$defs/Target"},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    },
    "required": ["source"],
    "additionalProperties": False,
    "$defs": {
        "Target": {
            "type": "object",
            "properties": {"folder": {"type": "string"}},
            "additionalProperties": False,
        }
    },
}


def compiled(schema: dict[str, Any]) -> ArgumentSchema:
    return ArgumentSchema(schema, tool="test.copy", role=SchemaRole.INPUT)


def manifest(input_schema: dict[str, Any]) -> ToolManifest:
    return ToolManifest(
        name="test.copy",
        version="1.0.0",
        description="Copy.",
        input_schema=input_schema,
        output_schema={"type": "integer"},
        executor=Executor.BUILTIN,
    )


@pytest.mark.parametrize(
    "value",
    [
        {"source": "a"},
        {"source": "é😀", "count": 1, "note": None, "target": {"folder": "b"}},
        {"source": "a", "count": 2.0},
    ],
)
def test_what_fits_has_no_fault(value: object) -> None:
    assert compiled(COPY).check(value) is None


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        pytest.param({}, Fault(path="", problem="required: the field 'source' is missing")),
        pytest.param([], Fault(path="", problem="type: expected object"), id="not-an-object"),
        pytest.param(
            {"source": "hunter2 is the password"},
            Fault(path="/source", problem="maxLength: expected at most 16 characters"),
            id="no-value-is-shown",
        ),
        pytest.param(
            {"suorce": "a"},
            Fault(
                path="/suorce",
                problem="additionalProperties: there is no field 'suorce' here",
                hint="did you mean 'source'?",
            ),
            id="the-nearest-field-is-a-hint",
        ),
        pytest.param(
            {"source": "a", "target": {"flder": "b"}},
            Fault(
                path="/target/flder",
                problem="additionalProperties: there is no field 'flder' here",
                hint="did you mean 'folder'?",
            ),
            id="behind-a-reference-too",
        ),
        pytest.param(
            {"source": "a", "zzz": 1, "yyy": 2},
            Fault(path="/zzz", problem="additionalProperties: there is no field 'zzz' here"),
            id="no-hint-where-nothing-is-near",
        ),
        pytest.param(
            {"source": "a", "note": 1},
            Fault(path="/note", problem="anyOf: expected null or string"),
            id="alternatives",
        ),
        pytest.param(
            {"source": "a", "x" * 10**6: 1},
            Fault(
                path=f"/{'x' * 64}",
                problem=f"additionalProperties: there is no field '{'x' * 64}' here",
            ),
            id="a-long-name-is-cut",
        ),
        pytest.param(
            {"source": "a", "\x1b[2J\u202e": 1},
            Fault(
                path=r"/\x1b[2J\u202e",
                problem=r"additionalProperties: there is no field '\x1b[2J\u202e' here",
            ),
            id="a-hostile-name-is-escaped",
        ),
    ],
)
def test_fault_names_place_and_expectation(value: object, fault: Fault) -> None:
    assert compiled(COPY).check(value) == fault


UNFIT = "the value does not fit its schema"


@pytest.mark.invariant("I11")
@pytest.mark.parametrize(
    ("pointers", "value", "fault"),
    [
        pytest.param(
            ("/target",),
            {"source": "a", "target": {"S3CRET": 1}},
            Fault(path="/target", problem=UNFIT),
            id="an-unknown-name-within",
        ),
        pytest.param(
            ("/target",),
            {"source": "a", "target": {"folder": 1}},
            Fault(path="/target", problem=UNFIT),
            id="a-wrong-value-within",
        ),
        pytest.param(("/count",), {"source": "a", "count": 0}, Fault(path="/count", problem=UNFIT)),
        pytest.param(
            ("/*/folder",),
            {"source": "a", "target": {"folder": 1}},
            Fault(path="/target/folder", problem=UNFIT),
            id="behind-a-wildcard",
        ),
        pytest.param(("",), {"S3CRET": 1}, Fault(path="", problem=UNFIT), id="all-is-secret"),
        pytest.param(
            ("/target",),
            {"source": "a", "count": 0},
            Fault(path="/count", problem="minimum: expected at least 1"),
            id="what-is-beside-is-told",
        ),
    ],
)
def test_fault_tells_nothing_from_within_a_secret(
    pointers: tuple[str, ...], value: object, fault: Fault
) -> None:
    schema = ArgumentSchema(COPY, tool="test.copy", role=SchemaRole.INPUT, secret_fields=pointers)
    assert schema.check(value) == fault


NOT_JSON = Fault(path="", problem="the value is not JSON, or nests too deeply")


def nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        pytest.param({"source": "\ud800"}, NOT_JSON, id="lone-surrogate"),
        pytest.param({"\ud800": 1}, NOT_JSON, id="lone-surrogate-in-a-key"),
        pytest.param({1: 2}, NOT_JSON, id="a-key-that-is-a-number"),
        pytest.param({"source": b"a"}, NOT_JSON, id="bytes"),
        pytest.param({"source": object()}, NOT_JSON, id="an-object"),
        pytest.param({"source": 10**40}, NOT_JSON, id="a-huge-integer"),
        pytest.param({"source": nested(100_000)}, NOT_JSON, id="far-too-deep"),
        pytest.param(
            {"source": "x" * 10_000_000},
            Fault(path="/source", problem="maxLength: expected at most 16 characters"),
            id="a-huge-text",
        ),
        pytest.param(
            {"source": float("nan")},
            Fault(path="/source", problem="type: expected string"),
            id="not-a-number",
        ),
    ],
)
def test_hostile_values_are_faults_not_crashes(value: object, fault: Fault) -> None:
    assert compiled(COPY).check(value) == fault


def test_recursive_schema_does_not_exhaust_the_stack() -> None:
    schema = compiled({"type": "array", "items": {"$ref": "#"}})
    assert schema.check(nested(200)) is None
    assert schema.check(nested(100_000)) == NOT_JSON


def test_subclass_of_text_that_the_validator_rejects_is_a_fault() -> None:
    class Text(str):
        __slots__ = ()

    assert compiled(COPY).check({"source": Text("a")}) == NOT_JSON


@given(json_values())
def test_check_never_raises(value: object) -> None:
    assert isinstance(compiled(COPY).check(value), Fault)


def test_refusal_of_many_alternatives_stays_cheap() -> None:
    items = {"anyOf": [{"type": "null"}, {"type": "array", "items": {"type": "string"}}]}
    schema = compiled({"type": "object", "properties": {"items": items}})
    started = time.perf_counter()
    fault = schema.check({"items": [1] * 100_000})
    assert time.perf_counter() - started < 0.5
    assert fault == Fault(path="", problem="the value does not fit, and is too large to say why")


def test_pattern_is_matched_in_linear_time() -> None:
    schema = compiled({"type": "string", "pattern": "^(a+)+$"})
    started = time.perf_counter()
    assert schema.check("a" * 50_000 + "!") is not None
    assert time.perf_counter() - started < 1


def test_formats_are_checked() -> None:
    fault = compiled({"type": "string", "format": "date-time"}).check("yesterday")
    assert fault == Fault(path="", problem="format: expected text in the format date-time")


def test_hint_is_left_out_inside_an_embedded_schema() -> None:
    embedded = {
        "$id": "https://schema.example/inner",
        "type": "object",
        "properties": {"folder": {}},
        "additionalProperties": False,
    }
    schema = compiled({"properties": {"a": {"$ref": "#/$defs/b"}}, "$defs": {"b": embedded}})
    fault = schema.check({"a": {"flder": 1}})
    assert fault is not None
    assert fault.path == "/a/flder"


@pytest.mark.parametrize(
    ("schema", "value", "fault"),
    [
        (
            {"type": "object", "additionalProperties": False},
            {"a": 1},
            Fault(path="", problem="additionalProperties: nothing is expected here"),
        ),
        (
            {"type": "object", "patternProperties": {"^x": {}}, "additionalProperties": False},
            {"a": 1},
            Fault(path="/a", problem="additionalProperties: there is no field 'a' here"),
        ),
        (
            {"type": "array", "prefixItems": [{}], "items": False},
            [1, 2],
            Fault(path="/1", problem="items: nothing is expected here"),
        ),
        (
            {"type": "array", "prefixItems": [{}], "unevaluatedItems": False},
            [1, 2],
            Fault(path="", problem="unevaluatedItems: expected fewer items"),
        ),
    ],
)
def test_where_nothing_is_declared_nothing_is_expected(
    schema: dict[str, Any], value: object, fault: Fault
) -> None:
    assert compiled(schema).check(value) == fault


@pytest.mark.parametrize(
    "schema",
    [
        pytest.param({"type": "strin"}, id="unknown-type"),
        pytest.param({"minimum": "one"}, id="keyword-of-the-wrong-type"),
        pytest.param({"$ref": "http://schema.example/a"}, id="http-reference"),
        pytest.param({"$ref": "https://schema.example/a"}, id="https-reference"),
        pytest.param({"$ref": "file:///etc/passwd"}, id="file-reference"),
        pytest.param({"$dynamicRef": "http://schema.example/a#x"}, id="dynamic-reference"),
        pytest.param(
            {"$id": "http://schema.example/a", "properties": {"b": {"$ref": "c"}}},
            id="relative-reference",
        ),
        pytest.param({"$ref": "#/$defs/missing"}, id="dangling-reference"),
        pytest.param({"$schema": "http://json-schema.org/draft-07/schema#"}, id="older-draft"),
        pytest.param({"$schema": "http://schema.example/own"}, id="own-dialect"),
        pytest.param(
            {"allOf": [{"$schema": "http://schema.example/own"}]}, id="own-dialect-further-down"
        ),
        pytest.param({"format": "zork"}, id="unknown-format"),
        pytest.param({"pattern": "("}, id="broken-pattern"),
        pytest.param({"pattern": "(?=a)b"}, id="look-ahead-is-not-linear"),
        pytest.param({"pattern": r"(a)\1"}, id="back-reference-is-not-linear"),
        pytest.param({"pattern": "(a{1000}){1000}"}, id="pattern-too-large"),
        pytest.param({"default": {1, 2}}, id="not-json"),
    ],
)
def test_bad_schema_is_refused_by_the_name_of_its_tool(schema: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"^tool test\.copy: input schema is not valid") as caught:
        compiled(schema)
    assert caught.value.code is Code.TOOL_MANIFEST
    assert "\n" not in caught.value.message


def test_schema_is_compiled_from_a_copy() -> None:
    source: dict[str, Any] = {"type": "object", "properties": {"alpha": {}}}
    source["additionalProperties"] = False
    schema = compiled(source)
    source["properties"]["beta"] = {}
    assert schema.check({"beta": 1}) is not None


def test_of_input_compiles_what_a_tool_takes() -> None:
    assert ArgumentSchema.of_input(manifest(COPY)).check({"source": "a"}) is None


def test_of_output_compiles_what_a_tool_gives() -> None:
    schema = ArgumentSchema.of_output(manifest(COPY))
    assert schema.check(1) is None
    assert schema.check("a") == Fault(path="", problem="type: expected integer")


def test_arguments_are_always_an_object() -> None:
    with pytest.raises(InputError, match=r"tool test\.copy: input schema is not of type object"):
        ArgumentSchema.of_input(manifest({"type": "array"}))
