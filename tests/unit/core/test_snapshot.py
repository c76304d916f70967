# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import msgspec
import pytest

from palyra.core.canonical import canonical_record
from palyra.core.snapshot import ToolCallPolicySnapshot
from tests.support.samples import SNAPSHOT
from tests.support.vectors import vectors


def test_digest_is_that_of_the_vector() -> None:
    vector = vectors("digests")["snapshot"]
    snapshot = msgspec.convert(vector["snapshot"], ToolCallPolicySnapshot)
    assert snapshot == SNAPSHOT
    assert snapshot.digest == vector["digest"]


def test_digest_of_one_that_restricts_is_that_of_the_vector() -> None:
    vector = vectors("digests")["restricted_snapshot"]
    snapshot = msgspec.convert(vector["snapshot"], ToolCallPolicySnapshot)
    assert snapshot == msgspec.structs.replace(
        SNAPSHOT,
        allowed_principals=("agent:ada",),
        allowed_channels=("embedded", "http"),
        allow_sensitive_tools=True,
    )
    assert snapshot.digest == vector["digest"]


def test_one_of_another_format_is_not_read() -> None:
    encoded = canonical_record(SNAPSHOT)
    assert b'"format":"palyra.snapshot.v1"' in encoded
    other = encoded.replace(b"palyra.snapshot.v1", b"palyra.snapshot.v2")
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(other, type=ToolCallPolicySnapshot)


@pytest.mark.parametrize(
    "change",
    [
        {"allowed_tools": ()},
        {"allowed_principals": ("agent:ada",)},
        {"allowed_channels": ("embedded",)},
        {"allow_sensitive_tools": True},
        {"max_calls_per_run": 33},
        {"max_calls_per_session": 1025},
        {"max_calls_per_agent_hour": 4097},
        {"max_depth": 5},
        {"execution_timeout_ms": 30_001},
    ],
    ids=lambda change: next(iter(change)),
)
def test_every_setting_is_in_the_digest(change: dict[str, Any]) -> None:
    assert msgspec.structs.replace(SNAPSHOT, **change).digest != SNAPSHOT.digest


def test_no_setting_is_left_out_above() -> None:
    assert len(ToolCallPolicySnapshot.__struct_fields__) == 9
