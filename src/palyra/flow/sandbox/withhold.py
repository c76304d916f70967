# SPDX-License-Identifier: Apache-2.0
"""An output and what policy withholds of it in, the output as the caller gets it out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from palyra.core.canonical import JsonValue

WITHHELD: Final = "[withheld by policy]"
_ANY: Final = "*"


def withheld(value: JsonValue, pointers: Sequence[str]) -> JsonValue:
    """Return ``value`` with every place that a JSON pointer names replaced by a text.

    ``*`` stands for every item of an array and every field of an object. A pointer that leads
    nowhere withholds nothing.
    """
    for pointer in pointers:
        steps = [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]]
        value = _withhold(value, steps)
    return value


def _withhold(value: JsonValue, steps: Sequence[str]) -> JsonValue:
    if not steps:
        return WITHHELD
    step, further = steps[0], steps[1:]
    if isinstance(value, dict):
        return {
            name: _withhold(item, further) if step in (_ANY, name) else item
            for name, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [
            _withhold(item, further) if step in (_ANY, str(place)) else item
            for place, item in enumerate(value)
        ]
    return value
