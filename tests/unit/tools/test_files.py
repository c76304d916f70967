# SPDX-License-Identifier: Apache-2.0
import base64
from typing import Any

import jsonschema_rs
import pytest

from palyra.core.capability import Capability
from palyra.core.facts import Facts
from palyra.core.manifest import ToolManifest
from palyra.tools.files import APPLY_PATCH, FILE_TOOLS, LIST, READ, SEARCH, WRITE

EVERY_TOOL = pytest.mark.parametrize("tool", FILE_TOOLS, ids=lambda tool: tool.name)


def schemas_within(schema: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - JSON
    if isinstance(schema, list):
        return [found for item in schema for found in schemas_within(item)]
    if not isinstance(schema, dict):
        return []
    nested = [found for value in schema.values() for found in schemas_within(value)]
    return [schema, *nested]


@EVERY_TOOL
def test_schemas_are_valid(tool: ToolManifest) -> None:
    jsonschema_rs.meta.validate(dict(tool.input_schema))
    jsonschema_rs.meta.validate(dict(tool.output_schema))


@EVERY_TOOL
@pytest.mark.invariant("I13")
def test_every_string_list_and_object_of_a_schema_is_bounded(tool: ToolManifest) -> None:
    for schema in schemas_within([dict(tool.input_schema), dict(tool.output_schema)]):
        kind = schema.get("type")
        if kind in ("string", ["string", "null"]):
            assert "maxLength" in schema
        elif kind == "array":
            assert "maxItems" in schema
        elif kind == "object":
            assert schema["additionalProperties"] is False


def test_only_writers_are_sensitive() -> None:
    assert [tool.name for tool in FILE_TOOLS if tool.is_sensitive] == [
        "palyra.fs.write",
        "palyra.fs.apply_patch",
    ]
    assert Capability.FILESYSTEM_READ in READ.capabilities


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        (READ, {}),
        (READ, {"path": ""}),
        (READ, {"path": "x" * 4097}),
        (READ, {"path": "x", "limit_bytes": 3}),
        (READ, {"path": "x", "limit_bytes": 1048577}),
        (READ, {"path": "x", "offset_bytes": -1}),
        (READ, {"path": "x", "encoding": "latin-1"}),
        (READ, {"path": "x", "more": 1}),
        (LIST, {"max_entries": 10001}),
        (SEARCH, {"text": ""}),
        (SEARCH, {"text": "x" * 1025}),
        (SEARCH, {"text": "x", "max_matches": 1001}),
        (WRITE, {"path": "x"}),
        (WRITE, {"path": "x", "content": "", "if_exists": "append"}),
        (WRITE, {"path": "x", "content": "", "expected_sha256": "0"}),
        (APPLY_PATCH, {"patch": ""}),
    ],
)
def test_arguments_out_of_bounds_are_refused(tool: ToolManifest, arguments: dict[str, Any]) -> None:
    assert not jsonschema_rs.is_valid(dict(tool.input_schema), arguments)


def test_a_mebibyte_of_bytes_can_be_written() -> None:
    content = base64.b64encode(bytes(1 << 20)).decode()
    arguments = {"path": "x", "content": content, "encoding": "base64"}
    jsonschema_rs.validate(dict(WRITE.input_schema), arguments)
    assert len(content) < WRITE.max_input_bytes
    assert WRITE.extract_facts(arguments).size_bytes == 1 << 20


@pytest.mark.parametrize(
    ("tool", "arguments", "facts"),
    [
        (READ, {"path": ".git/config"}, Facts(reads=(".git/config",))),
        (READ, {"workspace": "w", "path": "x"}, Facts(workspace="w", reads=("x",))),
        (LIST, {}, Facts(reads=("./",))),
        (LIST, {"workspace": "w", "path": "a/b"}, Facts(workspace="w", reads=("a/b/",))),
        (SEARCH, {"text": "x"}, Facts(reads=("./",))),
        (SEARCH, {"text": "x", "path": "a"}, Facts(reads=("a/",))),
        (WRITE, {"path": "x", "content": "\u00e9"}, Facts(writes=("x",), size_bytes=2)),
        (
            WRITE,
            {"path": "a/.Git/hooks/x", "content": "eA==", "encoding": "base64"},
            Facts(writes=("a/.Git/hooks/x",), protected=("a/.Git/hooks/x",), size_bytes=1),
        ),
        (WRITE, {"path": "x", "content": "", "encoding": "base64"}, Facts(writes=("x",))),
        (
            APPLY_PATCH,
            {"workspace": "w", "patch": "garbage"},
            Facts(workspace="w", size_bytes=7),
        ),
        (
            APPLY_PATCH,
            {
                "patch": "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"
                "--- /dev/null\n+++ b/z\n@@ -0,0 +1 @@\n+b\n"
                "diff --git a/y b/.envrc\nrename from y\nrename to .envrc\n"
            },
            Facts(
                reads=("x", "y"),
                writes=("x", "z", "y", ".envrc"),
                protected=(".envrc",),
                size_bytes=128,
            ),
        ),
    ],
)
@pytest.mark.invariant("I2")
def test_facts(tool: ToolManifest, arguments: dict[str, Any], facts: Facts) -> None:
    assert tool.extract_facts(arguments) == facts
