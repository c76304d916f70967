# SPDX-License-Identifier: Apache-2.0
"""The text of a TOML file in, what would make its reader take long over it out."""

from __future__ import annotations

import re
from typing import Final

MOST_VALUES: Final = 200_000
"""With the parts of keys: commas, equals signs and dots outside texts."""
MOST_KEY_PARTS: Final = 6
"""Of a key such as ``case.context.files``. TOML's reader takes time by their square."""
MOST_OPEN_BRACKETS: Final = 16
"""With these limits and 2 MiB, TOML's reader takes no longer than about two seconds (I13)."""

_TEXT_OR_COMMENT: Final = re.compile(
    r"#[^\n]*+"
    r'|"""(?:[^"\\]++|\\.|"(?!""))*+"""(?:""?)?+'
    r"|'''(?:[^']++|'(?!''))*+'''(?:''?)?+"
    r'|"(?!"")(?:[^"\\\n]++|\\.)*+"'
    r"|'(?!'')[^'\n]*+'"
    r"|[\"'].*+",  # is not closed: TOML's reader goes no further either
    re.DOTALL,
)
_LONG_KEY: Final = re.compile(rf"(?:\.[^.,=\[\]{{}}\n]*+){{{MOST_KEY_PARTS}}}")
_NOT_BRACKETS: Final = re.compile(r"[^\[\]{}]++")
_ONE_KIND: Final = str.maketrans("{}", "[]")


def toml_strain(text: str) -> str:
    """Say why TOML's reader could take long over ``text``, or nothing. Takes linear time (I13).

    What it leaves out, texts and comments, ends where TOML's reader says so, up to the first place
    where that reader gives up.
    """
    bare = _TEXT_OR_COMMENT.sub("_", text)
    if sum(map(bare.count, ",=.")) > MOST_VALUES:
        return f"there are over {MOST_VALUES} values and parts of keys"
    if _LONG_KEY.search(bare):
        return f"a key has more than {MOST_KEY_PARTS} parts; put names with dots into quotes"
    brackets = _NOT_BRACKETS.sub("", bare).translate(_ONE_KIND)
    for _ in range(MOST_OPEN_BRACKETS):
        brackets = brackets.replace("[]", "")  # one level, the innermost
    if "[]" in brackets or brackets.count("[") > MOST_OPEN_BRACKETS:
        return f"the file is nested too deeply: over {MOST_OPEN_BRACKETS} brackets in each other"
    return ""
