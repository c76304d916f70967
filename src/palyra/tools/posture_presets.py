# SPDX-License-Identifier: Apache-2.0
"""Named sets of postures for the built-in tools, to begin with instead of tool by tool."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import msgspec

from palyra.core.posture import Posture

if TYPE_CHECKING:
    from collections.abc import Mapping

_LOOKING: Final = dict.fromkeys(
    ("palyra.fs.read", "palyra.fs.list", "palyra.fs.search"), Posture.ALWAYS_ALLOW
)
_CHANGING: Final = ("palyra.fs.write", "palyra.fs.apply_patch")


class PosturePreset(msgspec.Struct, frozen=True, kw_only=True):
    """What a preset is for, and what it sets."""

    description: str
    postures: dict[str, Posture]


POSTURE_PRESETS: Final[Mapping[str, PosturePreset]] = MappingProxyType(
    {
        "conservative_coding": PosturePreset(
            description="Reads are free, and every change of a file is asked about.",
            postures={**_LOOKING, **dict.fromkeys(_CHANGING, Posture.ASK_EACH_TIME)},
        ),
        "browser_assist": PosturePreset(
            description="The agent helps in a browser: it leaves files alone.",
            postures={
                **dict.fromkeys(_LOOKING, Posture.ASK_EACH_TIME),
                **dict.fromkeys(_CHANGING, Posture.DISABLED),
            },
        ),
        "read_mostly_research": PosturePreset(
            description="Reads are free, and nothing is changed.",
            postures={**_LOOKING, **dict.fromkeys(_CHANGING, Posture.DISABLED)},
        ),
        "automation_review": PosturePreset(
            description="Every file tool is asked about, also those that only read.",
            postures=dict.fromkeys((*_LOOKING, *_CHANGING), Posture.ASK_EACH_TIME),
        ),
    }
)
