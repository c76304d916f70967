# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import msgspec
import pytest

from palyra.core.act import Act
from palyra.core.digest import call_digest
from palyra.core.errors import Code, InputError
from palyra.core.ids import CredentialId
from palyra.core.policy_request import EntityUid
from palyra.core.principal import Assurance, Credential
from tests.support.samples import ACT, AGENT

change = msgspec.structs.replace


def test_an_act_demands_nothing_special_by_itself() -> None:
    act = Act(
        action="policy.stage",
        credential=ACT.credential,
        resource=ACT.resource,
        channel="embedded",
        at_ms=0,
    )
    assert (act.details, act.lifts_ceiling) == ({}, False)


def test_an_act_has_the_digest_of_what_is_done_to_what() -> None:
    assert ACT.digest == call_digest(
        tool="posture.set",
        version="act",
        canonical_arguments=(
            b'{"details":{"scope":"global","state":"disabled"},"resource":"Tool::\\"palyra.echo\\""}'
        ),
    )


@pytest.mark.invariant("I4")
@pytest.mark.parametrize(
    "changes",
    [
        {"action": "posture.clear"},
        {"resource": EntityUid("Tool", "palyra.sleep")},
        {"resource": EntityUid("Workspace", "palyra.echo")},
        {"details": {"scope": "global", "state": "always_allow"}},
        {"details": {}},
    ],
)
def test_another_act_has_another_digest(changes: dict[str, Any]) -> None:
    assert change(ACT, **changes).digest != ACT.digest


@pytest.mark.parametrize(
    "changes",
    [
        {"at_ms": 1},
        {"channel": "http"},
        {
            "credential": Credential(
                credential_id=CredentialId("other"),
                principal=AGENT,
                assurance=Assurance.DEVELOPER,
            )
        },
        {"details": {"state": "disabled", "scope": "global"}},
    ],
    ids=["when", "by-which-surface", "by-whom", "in-which-order"],
)
def test_the_same_act_has_the_same_digest(changes: dict[str, Any]) -> None:
    assert change(ACT, **changes).digest == ACT.digest


def test_no_call_of_a_tool_has_the_digest_of_an_act() -> None:
    arguments = b'{"details":{},"resource":"Tool::\\"a.b\\""}'
    act = change(ACT, action="a.b", resource=EntityUid("Tool", "a.b"), details={})
    as_act = call_digest(tool="a.b", version="act", canonical_arguments=arguments)
    as_call = call_digest(tool="a.b", version="1.0.0", canonical_arguments=arguments)
    assert act.digest == as_act != as_call


def test_details_that_are_not_json_have_no_digest() -> None:
    with pytest.raises(InputError) as caught:
        _ = change(ACT, details={"x": object()}).digest
    assert caught.value.code is Code.INPUT_NOT_CANONICAL
