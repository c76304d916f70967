# SPDX-License-Identifier: Apache-2.0
import dataclasses
from pathlib import Path

import pytest

from tests.support.workspaces import tool_call


def test_a_call_never_changes(tmp_path: Path) -> None:
    call = tool_call(tmp_path, path="x")
    with pytest.raises(dataclasses.FrozenInstanceError):
        call.workspace = None  # type: ignore[misc]
