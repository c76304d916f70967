# SPDX-License-Identifier: Apache-2.0
"""Reading one file below a workspace: whole, or a part that never cuts a character.

What an agent reads goes through no symbolic link: policy judged the path as it is spelled, and a
link would read another file than the one that was judged (I2).
"""

from __future__ import annotations

import base64
import os
from typing import TYPE_CHECKING, NamedTuple

from palyra.core.digest import content_sha256
from palyra.core.errors import Code, ToolError
from palyra.core.protected import Danger, protecting
from palyra.flow.sandbox.beneath import (
    Components,
    Symlinks,
    components_of,
    faults_of,
    open_file,
    shown,
    spelled,
)

if TYPE_CHECKING:
    from palyra.core.canonical import JsonValue
    from palyra.flow.sandbox.beneath import Root

_CHUNK_BYTES = 1024 * 1024
_LONGEST_CHARACTER_BYTES = 4


class WholeFile(NamedTuple):
    """The content of a file and its permission bits."""

    content: bytes
    mode: int


def readable_components(path: str) -> Components:
    """Return the components of a path that may be read: any but a staging folder's."""
    components = components_of(path)
    if protecting(components) is Danger.BOUNDARY:
        raise ToolError(Code.FS_PROTECTED, f"{shown(path)}: {Danger.BOUNDARY}")
    return components


def read_whole(
    root: Root, components: Components, *, symlinks: Symlinks, limit_bytes: int
) -> WholeFile:
    """Return a whole file.

    Raises:
        ToolError: ``fs.too_large`` beyond ``limit_bytes``.
    """
    path = spelled(components)
    with open_file(root, components, symlinks=symlinks) as file, faults_of(path):
        if file.status.st_size <= limit_bytes:
            content = _read(file.fd, offset=0, limit_bytes=limit_bytes + 1)
            if len(content) <= limit_bytes:
                return WholeFile(content, file.status.st_mode & 0o777)
    raise ToolError(Code.FS_TOO_LARGE, f"{shown(path)} has more than {limit_bytes} bytes")


def text_of(content: bytes, path: str) -> str:
    """Return content as text, or refuse it without quoting it."""
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise ToolError(
            Code.FS_NOT_TEXT, f"{shown(path)} is not UTF-8 text", details={"path": path}
        ) from None


def read_part(
    root: Root, path: str, *, offset_bytes: int, limit_bytes: int, encoding: str
) -> JsonValue:
    """Return a part of a file.

    As text, the part begins with the character that holds ``offset_bytes`` and ends with the last
    one that is whole; so parts of any size, put together, lose nothing.
    """
    is_text = encoding == "utf-8"
    with (
        open_file(root, readable_components(path), symlinks=Symlinks.NONE) as file,
        faults_of(path),
    ):
        start = max(offset_bytes - _LONGEST_CHARACTER_BYTES + 1, 0) if is_text else offset_bytes
        wanted = offset_bytes - start + limit_bytes
        content = _read(file.fd, offset=start, limit_bytes=wanted + 1)
        size_bytes = os.fstat(file.fd).st_size
    is_cut = len(content) > wanted
    content = content[:wanted]
    is_whole = offset_bytes == 0 and not is_cut
    if is_text:
        content = _from_character_at(content, offset_bytes - start)
        content = _whole_characters(content) if is_cut else content
    return {
        "path": path,
        "encoding": encoding,
        "content": text_of(content, path) if is_text else base64.b64encode(content).decode("ascii"),
        "size_bytes": size_bytes,
        "sha256": content_sha256(content) if is_whole else None,
        "truncated": is_cut,
    }


def _read(fd: int, *, offset: int, limit_bytes: int) -> bytes:
    parts: list[bytes] = []
    left = limit_bytes
    while left and (part := os.pread(fd, min(left, _CHUNK_BYTES), offset)):
        parts.append(part)
        offset += len(part)
        left -= len(part)
    return b"".join(parts)


def _is_continuation(byte: int) -> bool:
    return byte & 0xC0 == 0x80  # noqa: PLR2004 - the two bits that mark it


def _from_character_at(content: bytes, position: int) -> bytes:
    """Return ``content`` from the beginning of the character that holds ``position``."""
    first = min(position, len(content))
    while 0 < first < len(content) and _is_continuation(content[first]):
        first -= 1
    return content[first:]


def _whole_characters(content: bytes) -> bytes:
    """Return ``content`` without a character that is cut at its end."""
    for length in range(1, min(_LONGEST_CHARACTER_BYTES, len(content) + 1)):
        byte = content[-length]
        if not _is_continuation(byte):
            needed = 1 if byte < 0xC0 else 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4  # noqa: PLR2004 - lead bytes
            return content[:-length] if needed > length else content
    return content
