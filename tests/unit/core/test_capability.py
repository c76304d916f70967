# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from palyra.core.capability import SENSITIVE_CAPABILITIES, Capability


@pytest.mark.parametrize(
    ("capability", "sensitive"),
    [
        (Capability.PROCESS_EXEC, True),
        (Capability.NETWORK, True),
        (Capability.SECRETS_READ, True),
        (Capability.FILESYSTEM_WRITE, True),
        (Capability.FILESYSTEM_READ, False),
    ],
)
def test_sensitive_capabilities(capability: Capability, *, sensitive: bool) -> None:
    assert (capability in SENSITIVE_CAPABILITIES) is sensitive


def test_names_that_policies_rely_on() -> None:
    assert {capability.value for capability in Capability} == {
        "process_exec",
        "network",
        "secrets_read",
        "filesystem_write",
        "filesystem_read",
    }
