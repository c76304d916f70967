# SPDX-License-Identifier: Apache-2.0
"""JSON Schema (2020-12): a value in, nothing or the place and nature of its first fault out.

Schemas are compiled once, resolve nothing outside themselves, and match regular expressions in
linear time. A fault names fields and what the schema expects; it never contains a value, nor
anything from within a secret one.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, NoReturn

import jsonschema_rs
import msgspec
import orjson

from palyra.core.errors import Code, InputError
from palyra.core.nearest import nearest
from palyra.flow.intake.expectation import closest, expectation, pointer, shown_name
from palyra.flow.intake.redaction import secret_depth, trails_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from palyra.core.manifest import ToolManifest

DIALECT = "https://json-schema.org/draft/2020-12/schema"

# A regular expression may take this much memory, compiled; larger ones are refused (I13).
_REGEX = jsonschema_rs.RegexOptions(size_limit=1 << 20, dfa_size_limit=1 << 20)
_UNKNOWN_FIELD = frozenset({"additionalProperties", "unevaluatedProperties"})
# Where a schema has alternatives, the validator lists every objection of each of them. A value of
# more parts than this is refused without saying where: wording a refusal must stay cheap (I13).
_MOST_PARTS_EXPLAINED = 1024


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """Where a value departs from its schema, and what was expected there."""

    path: str
    """A JSON pointer; names in it are cut to 64 characters and escaped to ASCII."""
    problem: str
    hint: str = ""


class SchemaRole(StrEnum):
    """Which of a manifest's schemas this is."""

    INPUT = "input schema"
    OUTPUT = "output schema"


class ArgumentSchema:
    """One schema of one tool, compiled. Immutable, and safe to share between threads."""

    __slots__ = ("_has_alternatives", "_schema", "_secrets", "_validator")

    def __init__(
        self,
        schema: Mapping[str, Any],
        *,
        tool: str,
        role: SchemaRole,
        secret_fields: Sequence[str] = (),
    ) -> None:
        """Compile ``schema``; faults tell nothing of what lies in ``secret_fields``.

        Raises:
            InputError: not a 2020-12 schema, refers outside itself, uses an unknown format or
                a regular expression that has no linear matcher.
        """
        self._secrets = trails_of(secret_fields)
        try:
            text = orjson.dumps(dict(schema))
            self._schema = orjson.loads(text)
            self._has_alternatives = b'"anyOf"' in text or b'"oneOf"' in text
            _require_dialect(self._schema)
            self._validator = jsonschema_rs.Draft202012Validator(
                self._schema,
                validate_formats=True,
                ignore_unknown_formats=False,
                retriever=_refuse_retrieval,
                mask="a value",
                pattern_options=_REGEX,
            )
        except (TypeError, ValueError) as error:  # the parents of what both libraries raise
            raise InputError(
                Code.TOOL_MANIFEST, f"tool {tool}: {role} is not valid: {_objection(error)}"
            ) from error

    @classmethod
    def of_input(cls, manifest: ToolManifest) -> ArgumentSchema:
        """Compile what ``manifest`` takes; arguments are always an object."""
        if manifest.input_schema.get("type") != "object":
            raise InputError(
                Code.TOOL_MANIFEST,
                f"tool {manifest.name}: {SchemaRole.INPUT} is not of type object",
            )
        return cls(
            manifest.input_schema,
            tool=manifest.name,
            role=SchemaRole.INPUT,
            secret_fields=manifest.secret_fields,
        )

    @classmethod
    def of_output(cls, manifest: ToolManifest) -> ArgumentSchema:
        """Compile what ``manifest`` gives."""
        return cls(manifest.output_schema, tool=manifest.name, role=SchemaRole.OUTPUT)

    def check(self, value: object) -> Fault | None:
        """Return the first fault of ``value``, or ``None`` if it fits. Never raises."""
        try:
            # The validator recurses on the C stack without a bound; this refuses beyond some 250
            # levels, and what JSON cannot say, for a fraction of a microsecond.
            text = orjson.dumps(value)
            if self._validator.is_valid(value):
                return None
            if self._has_alternatives and text.count(b",") > _MOST_PARTS_EXPLAINED:
                return Fault(path="", problem="the value does not fit, and is too large to say why")
            self._validator.validate(value)
        except jsonschema_rs.ValidationError as error:
            return self._fault(closest(error))
        except (TypeError, ValueError, RecursionError):
            pass
        return Fault(path="", problem="the value is not JSON, or nests too deeply")

    def _fault(self, error: jsonschema_rs.ValidationError) -> Fault:
        keyword = error.kind.name
        if keyword == "falseSchema" and error.schema_path:
            keyword = str(error.schema_path[-1])  # the keyword that holds the ``false``
        is_unknown_field = "unexpected" in error.kind.as_dict() and keyword in _UNKNOWN_FIELD
        name = min(error.kind.as_dict()["unexpected"]) if is_unknown_field else ""
        steps = [*error.instance_path, name] if is_unknown_field else error.instance_path
        depth = secret_depth(steps, trails=self._secrets)
        if depth is not None:  # I11
            return Fault(path=pointer(steps[:depth]), problem="the value does not fit its schema")
        if not is_unknown_field:
            return Fault(
                path=pointer(error.instance_path), problem=f"{keyword}: {expectation(error)}"
            )
        meant = nearest(name, self._fields_beside(error.schema_path))
        return Fault(
            path=pointer(steps),
            problem=f"{keyword}: there is no field '{shown_name(name)}' here",
            hint=f"did you mean '{meant}'?" if meant else "",
        )

    def _fields_beside(self, schema_path: list[str | int]) -> list[str]:
        """Return the fields declared by the object that the keyword at ``schema_path`` is in."""
        place: Any = self._schema
        try:
            for step in schema_path[:-1]:
                place = place[step]
            return list(place["properties"])
        except (KeyError, IndexError, TypeError):
            return []  # A schema within the schema counts its paths from its own root: no hint.


def _refuse_retrieval(_: str) -> NoReturn:
    raise ValueError("a schema refers to nothing outside itself")


def _require_dialect(schema: object) -> None:
    """Refuse any other ``$schema``, anywhere: it would change the meaning of what is below it."""
    if isinstance(schema, dict):
        named = schema.get("$schema")
        if isinstance(named, str) and named != DIALECT:
            raise ValueError(f"$schema is not {DIALECT}")
        for part in schema.values():
            _require_dialect(part)
    elif isinstance(schema, list):
        for part in schema:
            _require_dialect(part)


def _objection(error: Exception) -> str:
    """Return what a library says is wrong with a schema: the schema's author reads it."""
    sentence = str(error).partition("\n")[0]
    if isinstance(error, jsonschema_rs.ValidationError) and error.instance_path:
        return f"{sentence} (at {pointer(error.instance_path)})"
    return sentence
