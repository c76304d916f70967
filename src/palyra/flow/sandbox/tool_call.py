# SPDX-License-Identifier: Apache-2.0
"""What a tool's body is given: the arguments of one permitted call, and what it may reach."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from palyra.core.ids import CallId
    from palyra.core.ports import EffectLog, NestedCall
    from palyra.core.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One launched call. The arguments are valid under the tool's input schema."""

    arguments: Mapping[str, Any]
    call_id: CallId
    workspace: Workspace | None
    effects: EffectLog
    nested: NestedCall
