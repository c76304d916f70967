# SPDX-License-Identifier: Apache-2.0
"""Who is calling: a principal, and the credential that proved it (I14)."""

from __future__ import annotations

import re
from enum import StrEnum

import msgspec

from palyra.core.errors import Code, InputError
from palyra.core.ids import CredentialId

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}", re.ASCII)


class PrincipalKind(StrEnum):
    """An agent proposes, an operator decides, a service acts for other programs."""

    AGENT = "agent"
    OPERATOR = "operator"
    SERVICE = "service"


class Assurance(StrEnum):
    """How far the boundary can be trusted, given how the agent itself runs."""

    SEPARATED = "separated"
    LAUNCHED = "launched"
    DEVELOPER = "developer"


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    """A named caller; its text form is ``kind:name``."""

    kind: PrincipalKind
    name: str

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise InputError(
                Code.PRINCIPAL_INVALID,
                f"{self.kind} name is not 1 to 64 letters, digits or . _ @ -",
            )

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


class Credential(msgspec.Struct, frozen=True, kw_only=True):
    """What proved an identity. Sessions are bound to its id, never to a claimed name (I14)."""

    credential_id: CredentialId
    principal: Principal
    assurance: Assurance
