# SPDX-License-Identifier: Apache-2.0
"""Untrusted text in, text that a terminal shows as what it is out (I12).

What is invisible, moves the cursor, changes colours or turns the direction of writing becomes its
JSON escape. Escaping in this way changes no value within JSON, so documents pass through here too.
Look-alike letters are not told apart. Letters of scripts that are written from right to left stay
as they are, though a terminal may show the parts of their line in another order: names in these
scripts must remain readable.
"""

from __future__ import annotations

# Letters and marks that Unicode counts as printable, and that show as nothing or as a blank.
_INVISIBLE = frozenset(
    (
        0x034F,  # combining grapheme joiner
        0x115F,  # Hangul fillers
        0x1160,
        0x3164,
        0xFFA0,
        0x17B4,  # Khmer inherent vowels
        0x17B5,
        0x2800,  # Braille blank
        *range(0x180B, 0x1810),  # Mongolian selectors
        *range(0xFE00, 0xFE10),  # variation selectors, and their supplement
        *range(0xE0100, 0xE01F0),
        0x13441,  # Egyptian blanks
        0x13442,
        0x16FE4,  # Khitan filler
        0x1D159,  # musical null notehead
    )
)
_LAST_OF_BMP = 0xFFFF


def line(text: str) -> str:
    """Return ``text`` on one line, with nothing hidden."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(character if _is_plain(character) else _escape(character) for character in text)


def block(text: str) -> str:
    """Return ``text`` with its line breaks, and with nothing else hidden."""
    return "\n".join(line(each) for each in text.split("\n"))


def well_formed(text: str) -> str:
    """Return ``text`` without the halves of surrogates that stand for undecodable bytes."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _is_plain(character: str) -> bool:
    # Not printable: controls, format and bidi characters, separators, surrogates, unassigned.
    return character.isprintable() and ord(character) not in _INVISIBLE


def _escape(character: str) -> str:
    number = ord(character)
    if number <= _LAST_OF_BMP:
        return f"\\u{number:04x}"
    high, low = divmod(number - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"
