# SPDX-License-Identifier: Apache-2.0
"""A schema's objection in, one sentence of what was expected out. Never contains a value."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jsonschema_rs import ValidationError

_LONGEST_NAME = 64
_LONGEST_LIST = 256
_WITH_ALTERNATIVES = frozenset({"anyOf", "oneOf"})

_SENTENCES = {
    "additionalItems": "expected at most {limit} items",
    "contains": "expected other items",
    "contentEncoding": "expected text in {content_encoding}",
    "contentMediaType": "expected text of type {content_media_type}",
    "exclusiveMaximum": "expected less than {limit}",
    "exclusiveMinimum": "expected more than {limit}",
    "falseSchema": "nothing is expected here",
    "format": "expected text in the format {format}",
    "maxItems": "expected at most {limit} items",
    "maxLength": "expected at most {limit} characters",
    "maxProperties": "expected at most {limit} fields",
    "maximum": "expected at most {limit}",
    "minItems": "expected at least {limit} items",
    "minLength": "expected at least {limit} characters",
    "minProperties": "expected at least {limit} fields",
    "minimum": "expected at least {limit}",
    "multipleOf": "expected a multiple of {multiple_of}",
    "pattern": "expected text that matches {pattern}",
    "propertyNames": "expected other field names",
    "required": "the field {property!r} is missing",
    "unevaluatedItems": "expected fewer items",
    "uniqueItems": "expected no item twice",
}


def closest(error: ValidationError) -> ValidationError:
    """Return the objection inside ``error`` that says most: the deepest of its alternatives'.

    Where alternatives only expected other types at the same place, that is ``error`` itself.
    """
    objections = _objections(error)
    if not objections:
        return error
    best = max(objections, key=lambda each: (len(each.instance_path), each.kind.name != "type"))
    if best.kind.name == "type" and best.instance_path == error.instance_path:
        return error
    return closest(best)


def expectation(error: ValidationError) -> str:
    """Say what the schema expected where ``error`` arose, in the schema's own words."""
    keyword, evidence = error.kind.name, error.kind.as_dict()
    if keyword == "type":
        return f"expected {_alternatives(evidence['types'])}"
    if keyword == "enum":
        return f"expected {_alternatives(map(_as_json, evidence['options']))}"
    if keyword == "const":
        return f"expected {_alternatives([_as_json(evidence['expected_value'])])}"
    if keyword in _WITH_ALTERNATIVES:
        return _of_alternatives(error)
    return _SENTENCES.get(keyword, "expected something else").format(**evidence)


def _objections(error: ValidationError) -> list[ValidationError]:
    if error.kind.name not in _WITH_ALTERNATIVES:
        return []
    return list(chain.from_iterable(error.kind.as_dict()["context"]))


def _of_alternatives(error: ValidationError) -> str:
    types = {name for each in _objections(error) for name in each.kind.as_dict().get("types", ())}
    if not types:
        return "expected exactly one of the alternatives, and several fit"
    return f"expected {_alternatives(types)}"


def _alternatives(names: Iterable[str]) -> str:
    return " or ".join(sorted(names))[:_LONGEST_LIST]


def _as_json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def shown_name(name: str) -> str:
    """Return a field name as it may be shown: printable ASCII of at most 64 characters."""
    return ascii(name[:_LONGEST_NAME])[1:-1][:_LONGEST_NAME]


def pointer(steps: Iterable[str | int]) -> str:
    """Return the JSON pointer of a place in a value, its names as they may be shown."""
    return "".join(
        f"/{shown_name(str(step)).replace('~', '~0').replace('/', '~1')}" for step in steps
    )
