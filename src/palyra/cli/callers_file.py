# SPDX-License-Identifier: Apache-2.0
"""Files that a command reads or writes for its caller: bytes in or out, faults as usage errors."""

from __future__ import annotations

import os
import stat
import sys
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Iterable

_MOST_BYTES = 16 * 1024 * 1024


def read_file(path: str) -> bytes:
    """Return the content of a file, or of standard input for ``-``.

    Raises:
        click.UsageError: it cannot be read, is no regular file, or holds more than 16 MiB.
    """
    try:
        content = _standard_input() if path == "-" else _regular_file(path)
    except OSError as error:
        raise click.UsageError(f"file {path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise click.UsageError(f"file {path} cannot be read: {error}") from error
    if len(content) > _MOST_BYTES:
        raise click.UsageError(f"file {path} has more than {_MOST_BYTES} bytes")
    return content


def write_private_file(path: str, chunks: Iterable[bytes]) -> None:
    """Write a file that, if it is new, only its owner can read.

    Raises:
        click.UsageError: it cannot be written.
    """
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        with open(os.open(path, flags, 0o600), "wb") as file:  # noqa: PTH123 - takes a descriptor
            file.writelines(chunks)
    except OSError as error:
        raise click.UsageError(f"file {path} cannot be written: {error.strerror}") from error


def _standard_input() -> bytes:
    if sys.stdin is None or sys.stdin.closed:
        raise click.UsageError("file - cannot be read: standard input is closed")
    content: bytes = sys.stdin.buffer.read(_MOST_BYTES + 1)
    return content


def _regular_file(path: str) -> bytes:
    # Without O_NONBLOCK, opening a pipe waits for somebody to write into it.
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise click.UsageError(f"file {path} is not a regular file")
        with open(fd, "rb", closefd=False) as file:
            return file.read(_MOST_BYTES + 1)
    finally:
        os.close(fd)
