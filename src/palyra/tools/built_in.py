# SPDX-License-Identifier: Apache-2.0
"""The tools that come with Palyra: what they are, without what it takes to run them."""

from __future__ import annotations

from typing import Final

from palyra.tools.basic import BASIC_TOOLS
from palyra.tools.catalogue import Catalogue
from palyra.tools.files import FILE_TOOLS

BUILT_IN_TOOLS: Final = (*BASIC_TOOLS, *FILE_TOOLS)


def built_in_catalogue() -> Catalogue:
    """Return the catalogue of the built-in tools."""
    return Catalogue(BUILT_IN_TOOLS)
