# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import msgspec
import pytest

from palyra.core.capability import Capability
from palyra.core.errors import Code, InputError
from palyra.core.execution import Executor
from palyra.core.facts import NO_FACTS
from palyra.core.manifest import ToolManifest, is_tool_name

MANIFEST = ToolManifest(
    name="test.tool",
    version="1.0.0",
    description="Do nothing.",
    input_schema={"type": "object"},
    output_schema={},
    executor=Executor.BUILTIN,
)


@pytest.mark.parametrize("name", ["a.b", "palyra.fs.apply_patch", "a1.b2_c", f"a.{'b' * 126}"])
def test_tool_names(name: str) -> None:
    assert is_tool_name(name)


@pytest.mark.parametrize(
    "name",
    [
        *("", "a", "a.", ".a", "a..b", "A.b", "a.B", "a.1", "1.a", "a-b.c", "a.b ", "a.b\n", "a.*"),
        "p\u0430lyra.echo",
        "palyra.\uff45cho",
        f"a.{'b' * 127}",
    ],
    ids=ascii,
)
def test_other_names_are_no_tool_names(name: str) -> None:
    assert not is_tool_name(name)
    with pytest.raises(InputError, match="is not a dotted tool name") as caught:
        msgspec.structs.replace(MANIFEST, name=name)
    assert caught.value.code is Code.TOOL_MANIFEST
    assert len(caught.value.message) < 128


@pytest.mark.parametrize("version", ["", "1", "1.0", "1.0.0.0", "v1.0.0", "1.0.0-rc1", "1.0.0\n"])
def test_other_versions_are_refused(version: str) -> None:
    with pytest.raises(InputError, match=r"tool test\.tool: version is not N\.N\.N"):
        msgspec.structs.replace(MANIFEST, version=version)


@pytest.mark.parametrize("pointer", ["", "/a", "/a/*/b", "/a~1b/c~0d", "//"])
def test_secret_fields_are_pointers(pointer: str) -> None:
    assert msgspec.structs.replace(MANIFEST, secret_fields=(pointer,)).secret_fields == (pointer,)


@pytest.mark.invariant("I11")
@pytest.mark.parametrize("pointer", ["a", "a/b", "#/a", "$.a", "/a~2", "/a~"])
def test_secret_field_that_would_hide_nothing_is_refused(pointer: str) -> None:
    with pytest.raises(InputError, match="a secret field is not a JSON pointer"):
        msgspec.structs.replace(MANIFEST, secret_fields=("/fine", pointer))


@pytest.mark.parametrize(
    ("capabilities", "declared", "sensitive"),
    [
        (set(), False, False),
        (set(), True, True),
        ({Capability.FILESYSTEM_READ}, False, False),
        ({Capability.FILESYSTEM_READ}, True, True),
        ({Capability.FILESYSTEM_READ, Capability.FILESYSTEM_WRITE}, False, True),
        ({Capability.NETWORK}, False, True),
    ],
)
def test_sensitivity(capabilities: set[Capability], *, declared: bool, sensitive: bool) -> None:
    manifest = msgspec.structs.replace(
        MANIFEST, capabilities=frozenset(capabilities), declared_sensitive=declared
    )
    assert manifest.is_sensitive is sensitive


def test_facts_are_none_unless_extracted() -> None:
    assert MANIFEST.extract_facts({"anything": 1}) is NO_FACTS
