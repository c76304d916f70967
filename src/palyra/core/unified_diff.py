# SPDX-License-Identifier: Apache-2.0
"""Unified diffs: patch text in, exact changes of texts out, or a refusal.

Stricter than ``git apply`` on purpose: hunks fit where they say or not at all, and every line of a
patch belongs to it, so what a person reads in a patch is what it does. Names are given as they
stand; whoever opens files decides where a name may lead. Costs are linear in patch and text.
"""

from __future__ import annotations

import re
from typing import Final, NoReturn

import msgspec

from palyra.core.errors import Code, ToolError

MAX_FILES: Final = 1000
_NOWHERE = "/dev/null"
_HUNK = re.compile(
    r"@@ -([0-9]{1,9})(?:,([0-9]{1,9}))? \+([0-9]{1,9})(?:,([0-9]{1,9}))? @@(?: .*)?", re.DOTALL
)
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_ESCAPE = re.compile(rb'\\([0-3][0-7]{2}|[abtnvfr"\\])')
_ESCAPED: Final = dict(zip(b'abtnvfr"\\', b'\a\b\t\n\v\f\r"\\', strict=True))
_MODES: Final = {"100644": 0o644, "100755": 0o755}
_SHOWN_CHARACTERS = 120


class Hunk(msgspec.Struct, frozen=True, kw_only=True):
    """Lines that stand from ``start`` (counted from 0) on, and the lines that replace them.

    A line includes its line feed; only the last line of a text may lack it.
    """

    start: int
    before: tuple[str, ...]
    after: tuple[str, ...]


class FilePatch(msgspec.Struct, frozen=True, kw_only=True):
    """The change of one file: added without ``path_before``, deleted without ``path_after``."""

    path_before: str | None
    path_after: str | None
    hunks: tuple[Hunk, ...]
    mode: int | None = None
    """The permission bits asked for, 0o644 or 0o755; ``None`` leaves them as they are."""

    @property
    def paths(self) -> tuple[str, ...]:
        """Every path this changes: two for a rename, otherwise one."""
        names = (self.path_before, self.path_after)
        return tuple(dict.fromkeys(name for name in names if name is not None))


def parse(patch: str) -> tuple[FilePatch, ...]:
    """Return the file changes of a unified diff, in its order.

    Raises:
        ToolError: ``patch.malformed`` with the line, or ``patch.unsupported`` (binary content,
            links, submodules, copies, odd modes, the same path twice, too many files).
    """
    reader = _Reader(patch)
    files: list[FilePatch] = []
    seen: set[str] = set()
    while reader.skip_blank_lines():
        file = _FileParser(reader).parse()
        for path in file.paths:
            if path in seen:
                reader.unsupported(f"{_shown(path)} is changed twice")
            seen.add(path)
        files.append(file)
        if len(files) > MAX_FILES:
            reader.unsupported(f"more than {MAX_FILES} files are changed")
    if not files:
        reader.malformed("no file header")
    return tuple(files)


def apply(file: FilePatch, text: str) -> str:
    """Return ``text`` changed by the hunks of ``file``, each exactly where it says.

    In a text whose lines all end in CRLF, the line feeds of a patch without any CRLF stand for
    CRLF, so the text keeps its line ends.

    Raises:
        ToolError: ``patch.mismatch``, naming file and hunk but nothing of the content.
    """
    lines = _lines(text)
    to_crlf = _is_crlf(lines) and not any(
        line.endswith("\r\n") for hunk in file.hunks for line in (*hunk.before, *hunk.after)
    )
    changed: list[str] = []
    position = 0
    for number, hunk in enumerate(file.hunks, start=1):
        before, after = list(hunk.before), list(hunk.after)
        if to_crlf:
            before, after = _with_crlf(before), _with_crlf(after)
        end = hunk.start + len(before)
        if hunk.start > len(lines) or lines[hunk.start : end] != before:
            _mismatch(file, f"hunk {number} does not fit")
        changed += lines[position : hunk.start]
        changed += after
        position = end
    changed += lines[position:]
    if any(not line.endswith("\n") for line in changed[:-1]):
        _mismatch(file, "a line without its line end would not be the last")
    if file.path_after is None and changed:
        _mismatch(file, "the deleted file has more content than the patch removes")
    return "".join(changed)


def _lines(text: str) -> list[str]:
    """Split at line feeds only: other line separators are content."""
    *ended, rest = text.split("\n")
    lines = [f"{line}\n" for line in ended]
    return [*lines, rest] if rest else lines


def _is_crlf(lines: list[str]) -> bool:
    ended = [line for line in lines if line.endswith("\n")]
    return bool(ended) and all(line.endswith("\r\n") for line in ended)


def _with_crlf(lines: list[str]) -> list[str]:
    return [f"{line[:-1]}\r\n" if line.endswith("\n") else line for line in lines]


def _mismatch(file: FilePatch, why: str) -> NoReturn:
    path = file.path_before or file.path_after or ""
    raise ToolError(
        Code.PATCH_MISMATCH, f"{_shown(path)}: {why}", details={"path": path[:_SHOWN_CHARACTERS]}
    )


def _shown(path: str) -> str:
    return ascii(path[:_SHOWN_CHARACTERS])


class _Reader:
    """The lines of a patch and the place in them; refuses by line number."""

    def __init__(self, patch: str) -> None:
        self._lines = patch.removesuffix("\n").split("\n") if patch else []
        self._next = 0

    @property
    def line(self) -> str | None:
        """The line at this place, ``None`` at the end."""
        return self._lines[self._next] if self._next < len(self._lines) else None

    def advance(self) -> None:
        self._next += 1

    def skip_blank_lines(self) -> bool:
        """Go to the next line with text, and say whether there is one."""
        while self.line == "":
            self.advance()
        return self.line is not None

    def after(self, prefix: str) -> str | None:
        """Return what follows ``prefix`` in a header line, without leaving the line."""
        if self.line is None or not self.line.startswith(prefix):
            return None
        if self.line.endswith("\r"):
            self.malformed("a header line ends in a carriage return")
        return self.line[len(prefix) :]

    def malformed(self, why: str) -> NoReturn:
        self._refuse(Code.PATCH_MALFORMED, why)

    def unsupported(self, why: str) -> NoReturn:
        self._refuse(Code.PATCH_UNSUPPORTED, why)

    def _refuse(self, code: Code, why: str) -> NoReturn:
        number = min(self._next + 1, max(len(self._lines), 1))
        raise ToolError(code, f"line {number}: {why}", details={"line": number})


class _FileParser:
    """Reads one file's headers and hunks, and refuses headers that contradict each other."""

    def __init__(self, reader: _Reader) -> None:
        self._reader = reader
        self._git_path: str | None = None
        self._has_git_header = False
        self._is_added = False
        self._is_deleted = False
        self._renamed_from: str | None = None
        self._renamed_to: str | None = None
        self._mode: int | None = None

    def parse(self) -> FilePatch:
        reader = self._reader
        names = reader.after("diff --git ")
        if names is not None:
            self._has_git_header = True
            self._git_path = self._path_of_git_header(names)
            reader.advance()
            while self._read_extended_header():
                reader.advance()
        if reader.after("--- ") is not None:
            before, after = self._file_names()
            hunks = self._hunks()
            if not hunks:
                reader.malformed("a file header without a hunk")
        else:
            before, after = self._names_without_hunks()
            hunks = ()
        self._check(before, after, hunks)
        return FilePatch(path_before=before, path_after=after, hunks=hunks, mode=self._mode)

    def _read_extended_header(self) -> bool:  # noqa: C901 - a branch per header that git writes
        reader = self._reader
        if (mode := reader.after("new file mode ")) is not None:
            self._is_added, self._mode = True, self._known_mode(mode)
        elif (mode := reader.after("new mode ")) is not None:
            self._mode = self._known_mode(mode)
        elif (mode := reader.after("deleted file mode ")) is not None:
            self._is_deleted = True
            self._known_mode(mode)
        elif (mode := reader.after("old mode ")) is not None:
            self._known_mode(mode)
        elif (path := reader.after("rename from ")) is not None:
            self._renamed_from = self._whole_name(path)
        elif (path := reader.after("rename to ")) is not None:
            self._renamed_to = self._whole_name(path)
        elif (digests := reader.after("index ")) is not None:
            if " " in digests:
                self._known_mode(digests.split(" ", 1)[1])
        elif any(reader.after(text) is not None for text in ("copy from ", "copy to ")):
            reader.unsupported("copies are not supported")
        elif (
            reader.after("GIT binary patch") is not None
            or reader.after("Binary files ") is not None
        ):
            reader.unsupported("binary patches are not supported")
        else:
            similarity = ("similarity index ", "dissimilarity index ")
            return any(reader.after(text) is not None for text in similarity)
        return True

    def _known_mode(self, mode: str) -> int:
        if mode not in _MODES:
            self._reader.unsupported("only the file modes 100644 and 100755 are supported")
        return _MODES[mode]

    def _file_names(self) -> tuple[str | None, str | None]:
        """Read the ``---`` and ``+++`` lines; strip ``a/`` and ``b/`` from both or from neither."""
        reader = self._reader
        before = self._name(reader.after("--- ") or "")
        reader.advance()
        raw_after = reader.after("+++ ")
        if raw_after is None:
            reader.malformed("expected a '+++' line")
        after = self._name(raw_after)
        reader.advance()
        if (before is None or before.startswith("a/")) and (
            after is None or after.startswith("b/")
        ):
            return before and before[2:], after and after[2:]
        return before, after

    def _name(self, raw: str) -> str | None:
        """Return the path before a tab and a time stamp; ``None`` stands for no file."""
        if raw.startswith('"'):
            path, rest = self._unquoted(raw)
            if rest and not rest.startswith("\t"):
                self._reader.malformed("text after a quoted path")
            return path
        path = raw.split("\t", 1)[0]
        if not path:
            self._reader.malformed("an empty path")
        return None if path == _NOWHERE else path

    def _whole_name(self, raw: str) -> str:
        path, rest = self._unquoted(raw) if raw.startswith('"') else (raw, "")
        if not path or rest:
            self._reader.malformed("not one path")
        return path

    def _unquoted(self, raw: str) -> tuple[str, str]:
        """Return the path of a C-quoted name at the start of ``raw``, and what follows it."""
        quoted = _QUOTED.match(raw)
        if quoted is None:
            self._reader.malformed("a quoted path has no end")
        encoded = quoted[1].encode()
        if b"\\" in _ESCAPE.sub(b"", encoded):
            self._reader.malformed("a quoted path has an unknown escape")
        try:
            return _ESCAPE.sub(_unescaped, encoded).decode(), raw[quoted.end() :]
        except UnicodeDecodeError:
            self._reader.malformed("a quoted path is not UTF-8")

    def _path_of_git_header(self, names: str) -> str | None:
        """Return the path if both names agree on it; other headers must name it otherwise."""
        if names.startswith('"'):
            before, rest = self._unquoted(names)
            after = self._whole_name(rest.removeprefix(" ")) if rest else ""
        else:
            middle = len(names) // 2
            before, after = names[:middle], names[middle + 1 :]
            if names[middle : middle + 1] != " ":
                return None
        if before.startswith("a/") and after.startswith("b/"):
            before, after = before[2:], after[2:]
        return before if before and before == after else None

    def _names_without_hunks(self) -> tuple[str | None, str | None]:
        if self._renamed_from is not None and self._renamed_to is not None:
            return self._renamed_from, self._renamed_to
        path = self._git_path
        has_effect = self._is_added or self._is_deleted or self._mode is not None
        if path is None or not has_effect:
            self._reader.malformed("expected a file header")
        return (None if self._is_added else path), (None if self._is_deleted else path)

    def _check(self, before: str | None, after: str | None, hunks: tuple[Hunk, ...]) -> None:
        reader = self._reader
        renamed = (self._renamed_from, self._renamed_to)
        if renamed != (None, None):
            if (before, after) != renamed or before == after:
                reader.malformed("the file header contradicts the rename")
        elif before is not None and after is not None and before != after:
            reader.malformed("the names before and after differ, but nothing says rename")
        elif self._git_path is not None and self._git_path not in {before, after}:
            reader.malformed("the file header contradicts the git header")
        elif self._has_git_header and self._git_path is None:
            reader.malformed("the git header's names differ, but nothing says rename")
        if before is None and after is None:
            reader.malformed("the file is nowhere before and after")
        if (self._is_added and before is not None) or (self._is_deleted and after is not None):
            reader.malformed("the file header contradicts the mode header")
        if before is None and (len(hunks) > 1 or any(hunk.before for hunk in hunks)):
            reader.malformed("an added file has content before")
        if after is None and any(hunk.after for hunk in hunks):
            reader.malformed("a deleted file has content after")

    def _hunks(self) -> tuple[Hunk, ...]:
        hunks: list[Hunk] = []
        end = 0
        while self._reader.after("@@ ") is not None:
            hunk = self._hunk()
            if hunk.start < end:
                self._reader.malformed("a hunk begins before the end of the one above it")
            end = hunk.start + len(hunk.before)
            hunks.append(hunk)
        return tuple(hunks)

    def _hunk(self) -> Hunk:
        reader = self._reader
        header = _HUNK.fullmatch(reader.line or "")
        if header is None:
            reader.malformed("not a hunk header")
        first, count_before, _, count_after = header.groups()
        left_before = 1 if count_before is None else int(count_before)
        left_after = 1 if count_after is None else int(count_after)
        start = int(first) - 1 if left_before else int(first)
        if start < 0:
            reader.malformed("a hunk begins at line 0")
        reader.advance()
        before: list[str] = []
        after: list[str] = []
        while left_before or left_after:
            line = reader.line
            if line is None:
                reader.malformed("the patch ends within a hunk")
            mark = line[:1] or " "  # git, too, reads an empty line as an empty context line
            content = f"{line[1:]}\n"
            if mark not in " -+":
                reader.malformed("a line of a hunk begins with none of ' ', '-', '+'")
            if (mark != "+" and not left_before) or (mark != "-" and not left_after):
                reader.malformed("a hunk has more lines than its header says")
            if mark != "+":
                left_before -= 1
                before.append(content)
            if mark != "-":
                left_after -= 1
                after.append(content)
            reader.advance()
            self._take_missing_line_end(mark, before, after)
        if any(not line.endswith("\n") for line in (*before[:-1], *after[:-1])):
            reader.malformed("a line without its line end is not the last")
        return Hunk(start=start, before=tuple(before), after=tuple(after))

    def _take_missing_line_end(self, mark: str, before: list[str], after: list[str]) -> None:
        """Take the line end from the line just read, if a backslash line says it has none."""
        line = self._reader.line
        if line is None or not line.startswith("\\ "):
            return
        if mark != "+":
            before[-1] = before[-1][:-1]
        if mark != "-":
            after[-1] = after[-1][:-1]
        self._reader.advance()


def _unescaped(escape: re.Match[bytes]) -> bytes:
    code = escape[1]
    return bytes([int(code, 8) if len(code) > 1 else _ESCAPED[code[0]]])
