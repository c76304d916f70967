# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import msgspec
import pytest

from palyra.core.errors import Code
from palyra.core.plan import SandboxPlan, Tier
from palyra.core.proposal import CallRequest, Malformed, Proposal
from palyra.core.workspace import Workspace
from tests.support.samples import PROPOSAL, RUN_ID


def test_proposal_survives_being_kept() -> None:
    kept = msgspec.structs.replace(
        PROPOSAL,
        workspace=Workspace(name="site", root="/srv/site", device=1, inode=2),
        plan=SandboxPlan(tier=Tier.B, egress=("a.example",), writes=("site",), secrets=("token",)),
    )
    encoded = msgspec.json.encode(kept)
    again = msgspec.json.decode(encoded, type=Proposal)
    assert msgspec.json.encode(again) == encoded
    assert (again.channel, again.plan) == ("embedded", kept.plan)


def test_a_proposal_kept_before_channels_and_plans_is_still_read() -> None:
    older = msgspec.json.decode(msgspec.json.encode(PROPOSAL))
    del older["channel"], older["plan"]
    kept = msgspec.json.decode(msgspec.json.encode(older), type=Proposal)
    assert (kept.channel, kept.plan) == ("", SandboxPlan())


def test_kept_arguments_are_the_same_bytes() -> None:
    kept = msgspec.json.decode(msgspec.json.encode(PROPOSAL), type=Proposal)
    assert bytes(kept.arguments) == bytes(PROPOSAL.arguments)


@pytest.mark.invariant("I4")
def test_proposal_cannot_be_changed_after_it_was_decided() -> None:
    with pytest.raises(AttributeError):
        PROPOSAL.arguments = msgspec.Raw(b"{}")  # type: ignore[misc]


def test_request_asks_for_nothing_special_by_itself() -> None:
    request = CallRequest(tool="palyra.echo", raw_arguments=b"{}", run_id=RUN_ID)
    assert (request.request_id, request.timeout_ms) == (None, None)


def test_malformed_call_has_a_code_that_is_known() -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"code": "made.up"}, Malformed)
    assert Malformed.__annotations__["code"] == Code.__name__
