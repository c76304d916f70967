# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import msgspec
import pytest

from palyra.core.snapshot import ToolCallPolicySnapshot
from tests.support.samples import SNAPSHOT
from tests.support.vectors import vectors


def test_digest_is_that_of_the_vector() -> None:
    vector = vectors("digests")["snapshot"]
    snapshot = msgspec.convert(vector["snapshot"], ToolCallPolicySnapshot)
    assert snapshot == SNAPSHOT
    assert snapshot.digest == vector["digest"]


@pytest.mark.parametrize(
    "change",
    [
        {"allowed_tools": ()},
        {"max_calls_per_run": 33},
        {"max_calls_per_session": 1025},
        {"max_calls_per_agent_hour": 4097},
        {"max_depth": 5},
        {"execution_timeout_ms": 30_001},
        {"format": "palyra.snapshot.v2"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_every_setting_is_in_the_digest(change: dict[str, Any]) -> None:
    assert msgspec.structs.replace(SNAPSHOT, **change).digest != SNAPSHOT.digest


def test_no_setting_is_left_out_above() -> None:
    assert len(ToolCallPolicySnapshot.__struct_fields__) == 7
