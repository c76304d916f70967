# SPDX-License-Identifier: Apache-2.0
"""What policies are compiled from, and what can be wrong with it: values with a place."""

from __future__ import annotations

from typing import Final

import msgspec

from palyra.core.errors import Code

PACKAGED: Final = "palyra/"
"""Names of sources that ship with Palyra begin with this; nobody else's do."""

_LONGEST_MESSAGE: Final = 400


class Source(msgspec.Struct, frozen=True):
    """One file of policies: the name people know it by, and its text."""

    name: str
    text: str

    @property
    def is_packaged(self) -> bool:
        """Whether it ships with Palyra."""
        return self.name.startswith(PACKAGED)


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is wrong, where, and what may have been meant."""

    source: str
    line: int = 0
    """Counted from 1; 0 where the fault has no place of its own."""
    column: int = 0
    message: str
    token: str = ""
    """The piece of text at fault, where it is known."""
    hint: str = ""
    policy_id: str = ""
    code: Code = Code.POLICY_INVALID

    def __str__(self) -> str:
        place = f"{self.source}:{self.line}:{self.column}" if self.line else self.source
        return f"{place}: {self.message}" + (f"; {self.hint}" if self.hint else "")


def printable(text: str) -> str:
    """Return ``text`` so that showing it is safe: bounded, nothing invisible (I13)."""
    shown = text if len(text) <= _LONGEST_MESSAGE else text[:_LONGEST_MESSAGE] + "..."
    return "".join(
        character if character.isprintable() else f"\\u{{{ord(character):x}}}"
        for character in shown
    )
