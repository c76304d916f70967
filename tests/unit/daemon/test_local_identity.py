# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import pwd
from typing import TYPE_CHECKING

import pytest

from palyra.core.errors import Code, InputError
from palyra.core.ids import CredentialId
from palyra.core.principal import Assurance, Credential, Principal, PrincipalKind
from palyra.daemon.local_identity import local_agent, local_operator

if TYPE_CHECKING:
    from collections.abc import Callable

UID = os.geteuid()


def named(name: str) -> Callable[[int], object]:
    entry = (name, "x", UID, 1, "", "/", "/bin/sh")
    return lambda _: pwd.struct_passwd(entry)


def unknown(uid: int) -> object:
    raise KeyError(uid)


@pytest.mark.invariant("I14")
@pytest.mark.parametrize(
    ("lookup", "name"),
    [
        pytest.param(named("grace"), "grace", id="a-name"),
        pytest.param(named("grace hopper"), f"uid-{UID}", id="a-name-we-would-not-show"),
        pytest.param(unknown, f"uid-{UID}", id="no-name"),
    ],
)
def test_the_operator_is_whoever_runs_this_process(
    monkeypatch: pytest.MonkeyPatch, lookup: Callable[[int], object], name: str
) -> None:
    monkeypatch.setattr(pwd, "getpwuid", lookup)
    assert local_operator() == Credential(
        credential_id=CredentialId(f"uid:{UID}"),
        principal=Principal(kind=PrincipalKind.OPERATOR, name=name),
        assurance=Assurance.DEVELOPER,
    )


@pytest.mark.invariant("I14")
def test_an_agent_is_bound_to_whoever_acts_as_it() -> None:
    assert local_agent("ada") == Credential(
        credential_id=CredentialId(f"uid:{UID}/agent:ada"),
        principal=Principal(kind=PrincipalKind.AGENT, name="ada"),
        assurance=Assurance.DEVELOPER,
    )
    assert local_agent("ada").credential_id != local_agent("eve").credential_id


@pytest.mark.parametrize("name", ["", "a b", "a/b", "operator:grace", "\n", "a" * 65])
def test_a_name_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(InputError) as refused:
        local_agent(name)
    assert refused.value.code is Code.PRINCIPAL_INVALID
