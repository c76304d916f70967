# SPDX-License-Identifier: Apache-2.0
"""Replies in, bytes on standard output out: one document with ``--json``, else text for people.

Everything but the reply (errors, warnings, progress) goes to standard error.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, NamedTuple, TextIO

from palyra.cli.neutralise import block, line

if TYPE_CHECKING:
    from collections.abc import Iterable

_TONES = {"good": "green", "held": "yellow", "bad": "red"}


class Table(NamedTuple):
    """Rows for people; drawn with lines on a terminal, aligned anywhere else."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


class Reply(NamedTuple):
    """What a command has to say: the same facts for programs and for people."""

    document: object
    """Anything that has a JSON form."""
    text: tuple[str | Table, ...]
    status: int = 0
    """An exit code of ``palyra.surfaces.status``."""
    tone: str = ""
    """``good``, ``held`` or ``bad``: the colour of the first word, where there are colours."""
    is_error: bool = False
    """An error is told on standard error, except for its document."""


class Stream(NamedTuple):
    """Data too large to hold: chunks of JSON text, printed as they come."""

    chunks: Iterable[bytes]
    status: int = 0


class Output:
    """Where replies go."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        self.no_color = False

    def tell(self, reply: Reply | Stream) -> int:
        """Print ``reply`` and return the exit code.

        A reader that goes away is not a fault: what was done was done, and its code stays.
        """
        try:
            self._tell(reply)
        except BrokenPipeError:
            _forget_standard_output()
        return int(reply.status)

    def progress(self, text: str) -> None:
        """Replace the line of progress on standard error; only a terminal gets any."""
        if sys.stderr is not None and sys.stderr.isatty():
            _write(sys.stderr, f"\r\x1b[K{line(text)}")

    def note(self, text: str) -> None:
        """Say something beside the reply."""
        if sys.stderr is not None:
            _write(sys.stderr, f"{block(text)}\n")

    def _tell(self, reply: Reply | Stream) -> None:
        if isinstance(reply, Stream):
            is_terminal = sys.stdout is not None and sys.stdout.isatty()
            for chunk in reply.chunks:
                text = chunk.decode()
                _write(sys.stdout, block(text) if is_terminal else text, encoding="utf-8")
        elif self.as_json:
            _write(sys.stdout, f"{json_text(reply.document)}\n", encoding="utf-8")
        else:
            stream = sys.stderr if reply.is_error else sys.stdout
            for position, part in enumerate(reply.text):
                self._print(stream, part, tone=reply.tone if position == 0 else "")

    def _print(self, stream: TextIO | None, part: str | Table, *, tone: str) -> None:
        is_terminal = stream is not None and stream.isatty()
        if isinstance(part, str):
            text = f"{block(part)}\n"
            _write(stream, self._toned(text, tone) if is_terminal else text)
        elif is_terminal:
            self._draw(part)
        else:
            _write(stream, "".join(f"{row}\n" for row in aligned(part)))

    def _toned(self, text: str, tone: str) -> str:
        if not tone or self._is_colourless:
            return text
        from click import style

        word = text.split(maxsplit=1)[0]
        return style(word, fg=_TONES[tone], bold=True) + text.removeprefix(word)

    def _draw(self, table: Table) -> None:
        from rich.box import SIMPLE_HEAD
        from rich.console import Console
        from rich.table import Table as Drawing
        from rich.text import Text

        drawing = Drawing(box=SIMPLE_HEAD, pad_edge=False)
        for column in table.columns:
            drawing.add_column(column, overflow="fold")
        for row in table.rows:
            drawing.add_row(*(Text(line(cell)) for cell in row))
        Console(no_color=self._is_colourless, highlight=False).print(drawing)

    @property
    def _is_colourless(self) -> bool:
        return self.no_color or bool(os.environ.get("NO_COLOR"))


def json_text(document: object) -> str:
    """Return ``document`` as one line of JSON that a terminal cannot be fooled by (I12)."""
    import msgspec

    return line(msgspec.json.encode(document).decode())


def pretty_json(raw: bytes) -> str:
    """Return JSON text with line breaks, its characters as they are."""
    import msgspec

    return msgspec.json.format(raw, indent=2).decode()


def aligned(table: Table) -> list[str]:
    """Return the rows of ``table`` as lines with columns of equal width."""
    rows = [table.columns, *(tuple(line(cell) for cell in row) for row in table.rows)]
    widths = [max(len(row[place]) for row in rows) for place in range(len(table.columns))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def _write(stream: TextIO | None, text: str, *, encoding: str = "") -> None:
    """Write and flush, in an encoding that never fails; a closed stream swallows all."""
    if stream is None:
        return
    encoded = text.encode(encoding or stream.encoding, "backslashreplace")
    stream.flush()
    stream.buffer.write(encoded)
    stream.buffer.flush()


def _forget_standard_output() -> None:
    """Give the interpreter something to flush at exit other than the broken pipe."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
