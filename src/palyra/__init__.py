# SPDX-License-Identifier: Apache-2.0
"""Palyra: a security boundary for the tool calls of AI agents.

Nothing an agent asks for runs until policy allows it and a human has agreed to what policy says
needs one; what was decided and what ran is signed and can be verified by anyone, offline.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from palyra.core.capability import Capability
    from palyra.core.errors import PalyraError
    from palyra.core.result import CallResult
    from palyra.daemon.embedded import EmbeddedGate as Gate
    from palyra.tools.function import tool
    from palyra.tools.secrets import Secret
    from palyra.tools.signature import ToolContext

__all__ = ["CallResult", "Capability", "Gate", "PalyraError", "Secret", "ToolContext", "tool"]
__version__ = "0.1.0"

_HOMES = {
    "CallResult": ("palyra.core.result", "CallResult"),
    "Capability": ("palyra.core.capability", "Capability"),
    "Gate": ("palyra.daemon.embedded", "EmbeddedGate"),
    "PalyraError": ("palyra.core.errors", "PalyraError"),
    "Secret": ("palyra.tools.secrets", "Secret"),
    "ToolContext": ("palyra.tools.signature", "ToolContext"),
    "tool": ("palyra.tools.function", "tool"),
}


def __getattr__(name: str) -> object:
    """Import a public name when it is first used, so that ``import palyra`` stays cheap."""
    try:
        module, attribute = _HOMES[name]
    except KeyError:
        raise AttributeError(f"module 'palyra' has no attribute {name!r}") from None
    return getattr(import_module(module), attribute)
