# SPDX-License-Identifier: Apache-2.0
"""What a tool may do to the world, and which of these powers are sensitive."""

from __future__ import annotations

from enum import StrEnum


class Capability(StrEnum):
    """A power that a tool's manifest declares; its value is the name policies use."""

    PROCESS_EXEC = "process_exec"
    NETWORK = "network"
    SECRETS_READ = "secrets_read"
    FILESYSTEM_WRITE = "filesystem_write"
    FILESYSTEM_READ = "filesystem_read"


SENSITIVE_CAPABILITIES = frozenset(
    {
        Capability.PROCESS_EXEC,
        Capability.NETWORK,
        Capability.SECRETS_READ,
        Capability.FILESYSTEM_WRITE,
    }
)
