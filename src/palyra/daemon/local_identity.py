# SPDX-License-Identifier: Apache-2.0
"""Who calls from this process: the owner of the state directory, or an agent they act as.

In assurance mode ``developer`` the owner of the state directory is the local operator. The uid is
the credential; a name given by the caller only chooses which agent they act as (I14).
"""

from __future__ import annotations

import os
import pwd

from palyra.core.errors import InputError
from palyra.core.ids import CredentialId
from palyra.core.principal import Assurance, Credential, Principal, PrincipalKind

ASSURANCE = Assurance.DEVELOPER


def local_operator() -> Credential:
    """Return the credential of whoever runs this process."""
    uid = os.geteuid()
    return Credential(
        credential_id=CredentialId(f"uid:{uid}"),
        principal=_operator(uid),
        assurance=ASSURANCE,
    )


def local_agent(name: str) -> Credential:
    """Return the credential of an agent that whoever runs this process acts as."""
    principal = Principal(kind=PrincipalKind.AGENT, name=name)
    return Credential(
        credential_id=CredentialId(f"uid:{os.geteuid()}/{principal}"),
        principal=principal,
        assurance=ASSURANCE,
    )


def _operator(uid: int) -> Principal:
    try:
        return Principal(kind=PrincipalKind.OPERATOR, name=pwd.getpwuid(uid).pw_name)
    except (KeyError, InputError):  # a uid without a name, or with one we would not show
        return Principal(kind=PrincipalKind.OPERATOR, name=f"uid-{uid}")
