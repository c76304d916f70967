# SPDX-License-Identifier: Apache-2.0
"""The policies that ship with Palyra: a preset's name in, its sources or its pack out."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from palyra.core.errors import Code, IntegrityError
from palyra.core.pack import NOBODY, Pack
from palyra.flow.policy.compile import compile_pack
from palyra.flow.policy.sources import PACKAGED, Source

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_PRESET: Final = "ask"
PRESETS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "ask": "A human is asked about every sensitive call.",
        "boxed": "What runs confined, without network, secrets or lasting writes, is not asked.",
    }
)
"""Every preset, and what it does."""

_FILES: Final = MappingProxyType({"ask": ("base.cedar",), "boxed": ("base.cedar", "boxed.cedar")})
_FOLDER: Final = Path(__file__).parent / "defaults"


@cache
def packaged_sources(preset: str) -> tuple[Source, ...]:
    """Return the sources of a preset. Raises ``KeyError`` where there is none of that name."""
    return tuple(
        Source(PACKAGED + name, (_FOLDER / name).read_text("utf-8")) for name in _FILES[preset]
    )


def packaged_tables(preset: str) -> tuple[tuple[str, bytes], ...]:
    """Return the tables of examples that stand beside a preset's sources, with their names."""
    names = [Path(name).with_suffix(".toml") for name in _FILES[preset]]
    return tuple((f"{PACKAGED}{name}", (_FOLDER / name).read_bytes()) for name in names)


@cache
def packaged_pack(preset: str = DEFAULT_PRESET) -> Pack:
    """Return a preset's policies alone, compiled once.

    Raises:
        IntegrityError: the files are not those that were shipped.
    """
    pack = compile_pack(packaged_sources(preset), preset=preset, members=NOBODY)
    if not isinstance(pack, Pack):
        raise IntegrityError(Code.POLICY_INVALID, f"a packaged policy is damaged: {pack[0]}")
    return pack
