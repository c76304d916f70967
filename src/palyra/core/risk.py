# SPDX-License-Identifier: Apache-2.0
"""How much harm a call could do, judged by its powers and its facts, never by its name."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

from palyra.core.capability import Capability

if TYPE_CHECKING:
    from collections.abc import Collection

    from palyra.core.facts import Facts


class Risk(StrEnum):
    """Four steps, from a look to the run of the house."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    CRITICAL = "critical"


_ORDER: Final = tuple(Risk)
_BY_CAPABILITY: Final = {
    Capability.FILESYSTEM_READ: Risk.LOW,
    Capability.FILESYSTEM_WRITE: Risk.MEDIUM,
    Capability.NETWORK: Risk.HIGH,
    Capability.SECRETS_READ: Risk.HIGH,
    Capability.PROCESS_EXEC: Risk.CRITICAL,
}


def risk_of(capabilities: Collection[str], facts: Facts) -> Risk:
    """Return the highest risk that any capability or fact gives."""
    found = [_BY_CAPABILITY[Capability(each)] for each in capabilities]
    if facts.protected or facts.outside or facts.left_out:
        found.append(Risk.HIGH)
    return max(found, key=_ORDER.index, default=Risk.LOW)
