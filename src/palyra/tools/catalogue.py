# SPDX-License-Identifier: Apache-2.0
"""The tools there are: manifests in, lookups by exact name out. Never changes once built."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from palyra.core.errors import Code, InputError
from palyra.core.nearest import nearest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from palyra.core.manifest import ToolManifest


class Catalogue:
    """An immutable set of manifests, one per name, in the order of their names."""

    __slots__ = ("_by_name",)

    def __init__(self, manifests: Iterable[ToolManifest]) -> None:
        """Collect ``manifests``.

        Raises:
            InputError: two of them have the same name.
        """
        by_name: dict[str, ToolManifest] = {}
        for manifest in sorted(manifests, key=lambda each: each.name):
            if manifest.name in by_name:
                raise InputError(Code.TOOL_MANIFEST, f"two tools have the name {manifest.name}")
            by_name[manifest.name] = manifest
        self._by_name = MappingProxyType(by_name)

    def find(self, name: str) -> ToolManifest | None:
        """Return the manifest of exactly this name: no prefix, no pattern, no folding of case."""
        return self._by_name.get(name)

    def nearest(self, name: str) -> str | None:
        """Return the known name closest to an unknown one, to be shown and never to be run."""
        return nearest(name, self._by_name)

    def __iter__(self) -> Iterator[ToolManifest]:
        return iter(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)
