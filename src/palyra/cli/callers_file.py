# SPDX-License-Identifier: Apache-2.0
"""Files that a command reads or writes for its caller: bytes in or out, faults as usage errors."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Iterable

_MOST_BYTES = 16 * 1024 * 1024


def read_file(path: str) -> bytes:
    """Return the content of a file, or of standard input for ``-``.

    Raises:
        click.UsageError: it cannot be read, or holds more than 16 MiB.
    """
    try:
        if path == "-":
            content = sys.stdin.buffer.read(_MOST_BYTES + 1)
        else:
            with Path(path).open("rb") as file:
                content = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise click.UsageError(f"file {path} cannot be read: {error.strerror}") from error
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
