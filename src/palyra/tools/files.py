# SPDX-License-Identifier: Apache-2.0
"""The five file tools: what each takes and gives, and which paths a call is about."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from palyra.core import unified_diff
from palyra.core.capability import Capability
from palyra.core.errors import ToolError
from palyra.core.execution import Executor
from palyra.core.facts import Facts
from palyra.core.manifest import ToolManifest
from palyra.core.protected import protecting

if TYPE_CHECKING:
    from palyra.core.manifest import Arguments

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_KIB: Final = 1024
_MIB: Final = 1024 * _KIB
_LONGEST_PATH = 4096
_LONGEST_BASE64 = 1_398_104  # of one MiB

_Schema = dict[str, Any]


def _object(properties: _Schema, *, required: tuple[str, ...]) -> _Schema:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def _document(properties: _Schema, *, required: tuple[str, ...]) -> _Schema:
    return {"$schema": _DIALECT, **_object(properties, required=required)}


def _integer(minimum: int, maximum: int, *, default: int, description: str) -> _Schema:
    return {
        "type": "integer",
        "minimum": minimum,
        "maximum": maximum,
        "default": default,
        "description": description,
    }


def _switch(description: str) -> _Schema:
    return {"type": "boolean", "default": False, "description": description}


_WORKSPACE: Final[_Schema] = {
    "type": "string",
    "minLength": 1,
    "maxLength": 64,
    "description": "The workspace's name. May be left out if there is only one.",
}
_FILE: Final[_Schema] = {
    "type": "string",
    "minLength": 1,
    "maxLength": _LONGEST_PATH,
    "description": "A path below the workspace, with '/' and without '.' or '..' components.",
}
_FOLDER: Final[_Schema] = {
    **_FILE,
    "default": ".",
    "description": "A folder below the workspace; '.' is the workspace itself.",
}
_ENCODING: Final[_Schema] = {
    "enum": ["utf-8", "base64"],
    "default": "utf-8",
    "description": "How the content is given: as text, or as the base64 of bytes.",
}
_SHOWN_PATH: Final[_Schema] = {"type": "string", "minLength": 1, "maxLength": 4 * _LONGEST_PATH}
_SIZE: Final[_Schema] = {"type": "integer", "minimum": 0}
_SHA256: Final[_Schema] = {"type": "string", "pattern": "^[0-9a-f]{64}$", "maxLength": 64}
_SHA256_OR_NULL: Final[_Schema] = {**_SHA256, "type": ["string", "null"]}


def _protected(paths: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(path for path in paths if protecting(tuple(path.split("/"))) is not None)


def _read_facts(arguments: Arguments) -> Facts:
    return Facts(workspace=arguments.get("workspace"), reads=(arguments["path"],))


def _folder_facts(arguments: Arguments) -> Facts:
    """Name the folder with a slash at its end, which says: and everything below it."""
    path: str = arguments.get("path", ".")
    return Facts(workspace=arguments.get("workspace"), reads=(f"{path}/",))


def _write_facts(arguments: Arguments) -> Facts:
    writes = (arguments["path"],)
    content: str = arguments["content"]
    if arguments.get("encoding", "utf-8") == "base64":
        size_bytes = len(content) // 4 * 3 - content[-2:].count("=")
    else:
        size_bytes = len(content.encode())
    return Facts(
        workspace=arguments.get("workspace"),
        writes=writes,
        protected=_protected(writes),
        size_bytes=size_bytes,
    )


def _patch_facts(arguments: Arguments) -> Facts:
    """Name every path of the patch. One that does not parse touches nothing: it is refused."""
    patch: str = arguments["patch"]
    workspace, size_bytes = arguments.get("workspace"), len(patch.encode())
    try:
        files = unified_diff.parse(patch)
    except ToolError:
        return Facts(workspace=workspace, size_bytes=size_bytes)
    writes = tuple(path for file in files for path in file.paths)
    return Facts(
        workspace=workspace,
        reads=tuple(file.path_before for file in files if file.path_before is not None),
        writes=writes,
        protected=_protected(writes),
        size_bytes=size_bytes,
    )


READ: Final = ToolManifest(
    name="palyra.fs.read",
    version="1.0.0",
    description="Read a file of a workspace, or a part of it. Follows no links.",
    executor=Executor.WORKSPACE,
    capabilities=frozenset({Capability.FILESYSTEM_READ}),
    max_input_bytes=32 * _KIB,
    max_output_bytes=7 * _MIB,
    input_schema=_document(
        {
            "workspace": _WORKSPACE,
            "path": _FILE,
            "offset_bytes": _integer(
                0, 2**53 - 1, default=0, description="Where to begin, in bytes."
            ),
            "limit_bytes": _integer(
                4, _MIB, default=256 * _KIB, description="How much to read at the most, in bytes."
            ),
            "encoding": _ENCODING,
        },
        required=("path",),
    ),
    output_schema=_document(
        {
            "path": _FILE,
            "encoding": _ENCODING,
            "content": {"type": "string", "maxLength": _LONGEST_BASE64},
            "size_bytes": _SIZE,
            "sha256": {**_SHA256_OR_NULL, "description": "Of the whole file, if all was read."},
            "truncated": {"type": "boolean", "description": "Whether the file goes on."},
        },
        required=("path", "encoding", "content", "size_bytes", "sha256", "truncated"),
    ),
    extract_facts=_read_facts,
)

LIST: Final = ToolManifest(
    name="palyra.fs.list",
    version="1.0.0",
    description="List a folder of a workspace, or everything below it. Follows no links.",
    executor=Executor.WORKSPACE,
    capabilities=frozenset({Capability.FILESYSTEM_READ}),
    max_input_bytes=32 * _KIB,
    max_output_bytes=5 * _MIB,
    input_schema=_document(
        {
            "workspace": _WORKSPACE,
            "path": _FOLDER,
            "recursive": _switch("Whether to go into the folders below, too."),
            "max_entries": _integer(
                1, 10_000, default=1000, description="How many entries to return at the most."
            ),
        },
        required=(),
    ),
    output_schema=_document(
        {
            "entries": {
                "type": "array",
                "maxItems": 10_000,
                "items": _object(
                    {
                        "path": _SHOWN_PATH,
                        "type": {"enum": ["file", "folder", "symlink", "other"]},
                        "size_bytes": {"type": ["integer", "null"], "minimum": 0},
                    },
                    required=("path", "type", "size_bytes"),
                ),
            },
            "truncated": {"type": "boolean", "description": "Whether there is more."},
        },
        required=("entries", "truncated"),
    ),
    extract_facts=_folder_facts,
)

SEARCH: Final = ToolManifest(
    name="palyra.fs.search",
    version="1.0.0",
    description="Find a literal text in the text files of a workspace. Follows no links.",
    executor=Executor.WORKSPACE,
    capabilities=frozenset({Capability.FILESYSTEM_READ}),
    max_input_bytes=48 * _KIB,
    max_output_bytes=5 * _MIB,
    input_schema=_document(
        {
            "workspace": _WORKSPACE,
            "text": {
                "type": "string",
                "minLength": 1,
                "maxLength": 1024,
                "description": "What to find, exactly as it stands.",
            },
            "path": _FOLDER,
            "name_glob": {
                "type": "string",
                "minLength": 1,
                "maxLength": 256,
                "description": "Search only files whose name fits, such as '*.py'.",
            },
            "ignore_case": _switch("Whether upper and lower case are the same."),
            "max_matches": _integer(
                1, 1000, default=100, description="How many matches to return at the most."
            ),
        },
        required=("text",),
    ),
    output_schema=_document(
        {
            "matches": {
                "type": "array",
                "maxItems": 1000,
                "items": _object(
                    {
                        "path": _SHOWN_PATH,
                        "line": {"type": "integer", "minimum": 1},
                        "column": {"type": "integer", "minimum": 1},
                        "text": {"type": "string", "maxLength": 400},
                    },
                    required=("path", "line", "column", "text"),
                ),
            },
            "files_searched": _SIZE,
            "files_skipped": _SIZE,
            "truncated": {"type": "boolean", "description": "Whether there may be more."},
        },
        required=("matches", "files_searched", "files_skipped", "truncated"),
    ),
    extract_facts=_folder_facts,
)

WRITE: Final = ToolManifest(
    name="palyra.fs.write",
    version="1.0.0",
    description="Create a file in a workspace, or replace one if that is asked for.",
    executor=Executor.WORKSPACE,
    capabilities=frozenset({Capability.FILESYSTEM_WRITE}),
    max_input_bytes=3 * _MIB // 2,
    max_output_bytes=64 * _KIB,
    input_schema=_document(
        {
            "workspace": _WORKSPACE,
            "path": _FILE,
            "content": {
                "type": "string",
                "maxLength": _LONGEST_BASE64,
                "description": "All the file shall hold, at most 1 MiB.",
            },
            "encoding": _ENCODING,
            "if_exists": {
                "enum": ["fail", "overwrite"],
                "default": "fail",
                "description": "What to do if the file exists.",
            },
            "expected_sha256": {
                **_SHA256,
                "description": "Replace only the file with this content.",
            },
        },
        required=("path", "content"),
    ),
    output_schema=_document(
        {
            "path": _FILE,
            "created": {"type": "boolean"},
            "sha256": _SHA256,
            "size_bytes": _SIZE,
            "before_sha256": _SHA256_OR_NULL,
        },
        required=("path", "created", "sha256", "size_bytes", "before_sha256"),
    ),
    extract_facts=_write_facts,
)

APPLY_PATCH: Final = ToolManifest(
    name="palyra.fs.apply_patch",
    version="1.0.0",
    description="Apply a unified diff to files of a workspace: all of it, or nothing.",
    executor=Executor.WORKSPACE,
    capabilities=frozenset({Capability.FILESYSTEM_READ, Capability.FILESYSTEM_WRITE}),
    max_input_bytes=_MIB,
    max_output_bytes=4 * _MIB,
    input_schema=_document(
        {
            "workspace": _WORKSPACE,
            "patch": {
                "type": "string",
                "minLength": 1,
                "maxLength": _MIB,
                "description": "A unified diff, with or without git's headers. It fits exactly.",
            },
        },
        required=("patch",),
    ),
    output_schema=_document(
        {
            "files": {
                "type": "array",
                "maxItems": 2 * unified_diff.MAX_FILES,
                "items": _object(
                    {
                        "path": _FILE,
                        "change": {"enum": ["added", "modified", "deleted"]},
                        "before_sha256": _SHA256_OR_NULL,
                        "after_sha256": _SHA256_OR_NULL,
                    },
                    required=("path", "change", "before_sha256", "after_sha256"),
                ),
            }
        },
        required=("files",),
    ),
    extract_facts=_patch_facts,
)

FILE_TOOLS: Final = (READ, LIST, SEARCH, WRITE, APPLY_PATCH)
