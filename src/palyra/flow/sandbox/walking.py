# SPDX-License-Identifier: Apache-2.0
"""Going through the folders of a workspace: listing them, and searching their files for a text.

Never follows a symbolic link and never shows a staging folder. Everything is bounded; whoever hits
a bound gets what was found so far and is told that it is not all (I13).
"""

from __future__ import annotations

import fnmatch
import os
import stat
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from palyra.core.errors import Code, ToolError
from palyra.core.protected import Danger, protecting
from palyra.flow.sandbox.beneath import Components, Symlinks, faults_of, open_folder, spelled
from palyra.flow.sandbox.reading import read_whole, readable_components

if TYPE_CHECKING:
    from collections.abc import Iterator

    from palyra.core.canonical import JsonValue
    from palyra.flow.sandbox.beneath import Root
    from palyra.flow.sandbox.blocking import StopToken

MAX_VISITED: Final = 200_000
MAX_SEARCHED_BYTES: Final = 64 * 1024 * 1024
MAX_SEARCHED_FILE_BYTES: Final = 8 * 1024 * 1024
MAX_ANSWER_BYTES: Final = 4 * 1024 * 1024
_BINARY_PROBE_BYTES = 8192
_LONGEST_LINE_CHARACTERS = 400
_LEAD_CHARACTERS = 80
_UNSEARCHED_FOLDERS: Final = frozenset({".git"})
_TYPES: Final = {stat.S_IFREG: "file", stat.S_IFDIR: "folder", stat.S_IFLNK: "symlink"}


class Found(NamedTuple):
    """Something below a workspace. Without ``components`` its name is not UTF-8."""

    components: Components | None
    path: str
    type: str
    size_bytes: int | None


class Bounds:
    """Counts what a walk looks at, and remembers whether it left anything out."""

    def __init__(self, *, max_visited: int = MAX_VISITED) -> None:
        self._left = max_visited
        self.is_incomplete = False

    def take(self) -> bool:
        """Take one, and say whether there was one left."""
        if self._left == 0:
            self.is_incomplete = True
            return False
        self._left -= 1
        return True


class Answer:
    """Collects the items of an answer up to a number of items and of bytes."""

    def __init__(self, *, max_items: int) -> None:
        self.items: list[JsonValue] = []
        self.is_full = False
        self._max_items = max_items
        self._left_bytes = MAX_ANSWER_BYTES

    def add(self, item: JsonValue) -> bool:
        """Add one item, and say whether there was room for it."""
        self._left_bytes -= len(msgspec.json.encode(item)) + 1
        self.is_full = len(self.items) == self._max_items or self._left_bytes < 0
        if not self.is_full:
            self.items.append(item)
        return not self.is_full


def walk(
    root: Root,
    start: Components,
    *,
    bounds: Bounds,
    stop: StopToken,
    not_into: frozenset[str] = frozenset(),
    is_recursive: bool = True,
) -> Iterator[Found]:
    """Yield what is below ``start``: folders before what they hold, names in order.

    A folder on the way that vanishes or cannot be read makes the walk incomplete; ``start`` itself
    must open.
    """
    open_ends = [iter(_entries(root, start, bounds=bounds))]
    while open_ends:
        stop.check()
        found = next(open_ends[-1], None)
        if found is None:
            open_ends.pop()
            continue
        yield found
        if not is_recursive or found.type != "folder" or found.components is None:
            continue
        if found.components[-1] not in not_into:
            try:
                open_ends.append(iter(_entries(root, found.components, bounds=bounds)))
            except ToolError:
                bounds.is_incomplete = True


def list_folder(
    root: Root, path: str, *, is_recursive: bool, max_entries: int, stop: StopToken
) -> JsonValue:
    """Return what is below a folder, in the order of :func:`walk`."""
    start = readable_components(path)
    bounds = Bounds()
    entries = Answer(max_items=max_entries)
    for found in walk(root, start, bounds=bounds, stop=stop, is_recursive=is_recursive):
        entry = {"path": found.path, "type": found.type, "size_bytes": found.size_bytes}
        if not entries.add(entry):
            break
    return {"entries": entries.items, "truncated": bounds.is_incomplete or entries.is_full}


class Query(NamedTuple):
    """What to search for: a literal text, in files whose name fits a pattern."""

    text: str
    ignores_case: bool
    name_glob: str | None
    max_matches: int

    def wants(self, name: str) -> bool:
        """Say whether a file of this name is to be searched."""
        return self.name_glob is None or fnmatch.fnmatchcase(name, self.name_glob)


def search_folder(root: Root, path: str, query: Query, *, stop: StopToken) -> JsonValue:
    """Return where the text of ``query`` occurs in the files below a folder."""
    start = readable_components(path)
    bounds = Bounds()
    matches = Answer(max_items=query.max_matches)
    searched = skipped = 0
    left_bytes = MAX_SEARCHED_BYTES
    for found in walk(root, start, bounds=bounds, stop=stop, not_into=_UNSEARCHED_FOLDERS):
        if found.type != "file" or not query.wants(found.path.rsplit("/", 1)[-1]):
            continue
        if left_bytes <= 0:
            bounds.is_incomplete = True
            break
        content, read_bytes = _searchable(root, found)
        left_bytes -= read_bytes
        if content is None:
            skipped += 1
            continue
        searched += 1
        for match in occurrences(content, query):
            if not matches.add({"path": found.path, **match}):
                break
        if matches.is_full:
            break
    return {
        "matches": matches.items,
        "files_searched": searched,
        "files_skipped": skipped,
        "truncated": bounds.is_incomplete or matches.is_full,
    }


def occurrences(content: str, query: Query) -> Iterator[dict[str, int | str]]:
    """Yield line, column (both from 1) and line text of each occurrence, in linear time."""
    searched, text = content, query.text
    if query.ignores_case:
        searched, text = _folded(content), _folded(text)
    line, line_start, counted = 1, 0, 0
    position = searched.find(text)
    while position >= 0:
        if newlines := content.count("\n", counted, position):
            line += newlines
            line_start = content.rfind("\n", counted, position) + 1
        counted = position
        yield {
            "line": line,
            "column": position - line_start + 1,
            "text": _shown_line(content, line_start, position),
        }
        position = searched.find(text, position + len(text))


def _folded(text: str) -> str:
    """Return ``text`` without case, each character in its place, so that columns stay true."""
    return text.replace("\u0130", "i").lower().replace("\u03c2", "\u03c3")


def _shown_line(content: str, line_start: int, position: int) -> str:
    """Return the line, or of a long line the part around the occurrence."""
    if position - line_start > _LONGEST_LINE_CHARACTERS - _LEAD_CHARACTERS:
        line_start = position - _LEAD_CHARACTERS
    limit = line_start + _LONGEST_LINE_CHARACTERS
    end = content.find("\n", position, limit)
    return content[line_start : end if end >= 0 else limit].rstrip("\r")


def _searchable(root: Root, found: Found) -> tuple[str | None, int]:
    """Return the text of a file and how many bytes were read for it.

    There is no text if the file is binary, too large, unreadable or gone.
    """
    if found.components is None or (found.size_bytes or 0) > MAX_SEARCHED_FILE_BYTES:
        return None, 0
    try:
        content = read_whole(
            root,
            found.components,
            symlinks=Symlinks.NONE,
            limit_bytes=MAX_SEARCHED_FILE_BYTES,
        ).content
    except ToolError as error:  # A file that is too large now has grown, perhaps while it was read.
        return None, MAX_SEARCHED_FILE_BYTES if error.code is Code.FS_TOO_LARGE else 0
    if b"\0" in content[:_BINARY_PROBE_BYTES]:
        return None, len(content)
    try:
        return content.decode(), len(content)
    except UnicodeDecodeError:
        return None, len(content)


def _entries(root: Root, folder: Components, *, bounds: Bounds) -> list[Found]:
    """Return what is in a folder, by name, without staging folders."""
    entries: list[Found] = []
    with (
        open_folder(root, folder, symlinks=Symlinks.NONE) as fd,
        faults_of(spelled(folder)),
        os.scandir(fd) as names,
    ):
        for entry in names:
            if not bounds.take():
                break
            found = _found(folder, entry)
            if found is not None:
                entries.append(found)
    return sorted(entries, key=lambda found: found.path)


def _found(folder: Components, entry: os.DirEntry[str]) -> Found | None:
    try:
        status = entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return None
    raw_name = os.fsencode(entry.name)
    name = raw_name.decode("utf-8", "backslashreplace")
    if protecting((name,)) is Danger.BOUNDARY:
        return None
    path = spelled((*folder, name))
    if name.encode() != raw_name:  # No argument can name it, so no tool can open it.
        return Found(components=None, path=path, type="other", size_bytes=None)
    type_ = _TYPES.get(stat.S_IFMT(status.st_mode), "other")
    size_bytes = status.st_size if type_ == "file" else None
    return Found(components=(*folder, name), path=path, type=type_, size_bytes=size_bytes)
