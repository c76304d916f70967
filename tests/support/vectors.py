# SPDX-License-Identifier: Apache-2.0
"""Reads tests/vectors/*.json, the language-neutral examples of our formats."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_VECTORS = Path(__file__).resolve().parents[1] / "vectors"


def vectors(name: str) -> dict[str, Any]:
    """Return the vectors called ``name``."""
    document: dict[str, Any] = json.loads((_VECTORS / f"{name}.json").read_text("ascii"))
    return document
