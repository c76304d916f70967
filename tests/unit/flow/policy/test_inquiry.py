# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cedarpy
import msgspec
import orjson
import pytest

from palyra.core.act import Act
from palyra.core.canonical import canonicalize
from palyra.core.facts import Facts
from palyra.core.ids import CallId, CredentialId
from palyra.core.plan import SandboxPlan, Tier
from palyra.core.policy_request import EntityUid
from palyra.core.posture import Posture
from palyra.core.principal import Assurance, Credential, Principal, PrincipalKind
from palyra.core.session import BudgetLeft
from palyra.core.workspace import Workspace
from palyra.flow.policy.cedar import build_entities, evaluate
from palyra.flow.policy.inquiry import (
    USUAL,
    Inquiries,
    Inquiry,
    common_folder,
    groups_of,
    inquiry_of,
    uid_of,
)
from palyra.flow.policy.vocabulary import schema
from tests.support.samples import AGENT, NOW_MS, OPERATOR, PROPOSAL, SNAPSHOT

if TYPE_CHECKING:
    from palyra.core.proposal import Proposal

pytestmark = pytest.mark.invariant("I2")

LEFT = BudgetLeft(run=31, session=1000, agent_hour=-4)
WORKSPACE = Workspace(name="home", root="/srv/home", device=1, inode=2)


def inquiries(**changes: object) -> Inquiries:
    return Inquiries(
        msgspec.structs.replace(SNAPSHOT, **changes),
        assurance="developer",
        administrators=frozenset({OPERATOR}),
    )


def ask(proposal: Proposal = PROPOSAL, **changes: object) -> Inquiry:
    return inquiries(**changes).about_call(
        proposal, left=LEFT, posture=Posture.ALWAYS_ALLOW, now_ms=NOW_MS
    )


def context(inquiry: Inquiry) -> dict[str, Any]:
    found: dict[str, Any] = orjson.loads(inquiry.context_json)
    return found


def with_facts(**facts: object) -> Proposal:
    return msgspec.structs.replace(PROPOSAL, facts=msgspec.structs.replace(Facts(), **facts))


RICH = msgspec.structs.replace(
    PROPOSAL,
    tool="palyra.fs.write",
    capabilities=("filesystem_write", "network"),
    workspace=WORKSPACE,
    plan=SandboxPlan(tier=Tier.C, egress=("b", "a"), writes=("home",), secrets=("*",)),
    facts=Facts(
        workspace="home",
        reads=("docs/a.md",),
        writes=("docs/b.md", "docs/sub/c.md", "docs/b.md"),
        protected=(".git/config",),
        outside=("/etc/passwd",),
        executable="/usr/bin/git",
        argv=("git", "log", "-p", "a b"),
        hosts=("example.org",),
        ports=(443, 80),
        methods=("GET",),
        size_bytes=7,
        duration_ms=9,
    ),
)


def test_a_bare_call_shows_who_what_and_the_frame_it_runs_in() -> None:
    inquiry = ask()
    assert inquiry.principal == EntityUid("Agent", AGENT.name)
    assert inquiry.action == "tool.execute"
    assert inquiry.resource == EntityUid("Tool", "palyra.echo")
    assert inquiry.roles == ()
    seen = context(inquiry)
    assert seen["budget"] == {"run": 31, "session": 1000, "agent_hour": -4}
    assert seen["time"] == {"unix_ms": NOW_MS, "hour": 22, "minute": 13, "weekday": 2}
    assert seen["session"] == PROPOSAL.session_id
    assert seen["run"] == PROPOSAL.run_id
    assert (seen["approved"], seen["initiated"]) == (False, False)
    assert not {"files", "process", "network"} & seen.keys()


def test_facts_become_typed_records() -> None:
    seen = context(ask(RICH))
    assert seen["files"] == {
        "workspace": "home",
        "reads": ["docs/a.md"],
        "reads_under": "",
        "writes": ["docs/b.md", "docs/sub/c.md"],
        "writes_under": "",
        "protected": [".git/config"],
        "outside": ["/etc/passwd"],
    }
    assert seen["process"] == {
        "executable": "/usr/bin/git",
        "program": "git",
        "argv": ["-p", "a b", "git", "log"],
        "command": "git log -p 'a b'",
    }
    assert seen["network"] == {"hosts": ["example.org"], "ports": [80, 443], "methods": ["GET"]}
    assert seen["plan"] == {"tier": "c", "egress": ["a", "b"], "writes": ["home"], "secrets": ["*"]}
    assert (seen["size_bytes"], seen["duration_ms"], seen["risk"]) == (7, 9, "high")


@pytest.mark.parametrize("proposal", [PROPOSAL, RICH], ids=["bare", "rich"])
def test_the_context_is_canonical_and_fits_the_schema(proposal: Proposal) -> None:
    inquiry = ask(proposal)
    assert canonicalize(orjson.loads(inquiry.context_json)) == inquiry.context_json.encode()
    above = {inquiry.principal: (), inquiry.resource: inquiry.groups}
    answer = evaluate(
        cedarpy.PolicySet.from_str('@id("x") permit(principal, action, resource);'),
        build_entities(above, schema()),
        schema(),
        principal=inquiry.principal,
        action=EntityUid("Action", inquiry.action),
        resource=inquiry.resource,
        context_json=inquiry.context_json,
    )
    assert (answer.is_decided, answer.allowed, answer.errors) == (True, True, ())


@pytest.mark.parametrize("proposal", [PROPOSAL, RICH], ids=["bare", "rich"])
def test_what_is_journaled_is_taken_up_again_exactly(proposal: Proposal) -> None:
    inquiry = ask(proposal)
    again = inquiry_of(inquiry.request)
    assert again == inquiry
    assert again.request == inquiry.request


def test_what_goes_without_saying_is_not_journaled_and_never_changes_its_meaning() -> None:
    told = orjson.loads(bytes(ask().request.context))
    assert sorted(told) == [
        "assurance",
        "budget",
        "channel",
        "run",
        "session",
        "time",
        "tool_version",
    ]
    digest = hashlib.sha256(canonicalize(dict(USUAL))).hexdigest()
    assert digest == "1afb3f4e56058ab1278248f1da7ce52f7380dfea6a8469d377ffa1558d3247be"
    page = (Path(__file__).parents[4] / "docs/reference/journal-format.md").read_text("utf-8")
    assert all(f"`{name}`" in page for name in USUAL)


@pytest.mark.parametrize("body", [b"[]", b"{}", b'{"budget":7}', b'{"budget":{"run":1}}', b"x"])
def test_a_context_that_is_none_is_a_value_error(body: bytes) -> None:
    request = msgspec.structs.replace(ask().request, context=msgspec.Raw(body))
    with pytest.raises(ValueError, match=r"."):
        inquiry_of(request)


def test_the_lists_of_the_configuration_decide_the_flags() -> None:
    assert context(ask())["is_allowlisted_tool"] is True
    assert context(ask(allowed_tools=("other.tool",)))["is_allowlisted_tool"] is False
    assert context(ask(allowed_principals=("agent:other",)))["is_principal_allowed"] is False
    assert context(ask(allowed_principals=(str(AGENT),)))["is_principal_allowed"] is True
    assert context(ask(allowed_channels=("grpc",)))["is_channel_allowed"] is False
    assert context(ask(allow_sensitive_tools=True))["allow_sensitive_tools"] is True


def test_an_operators_own_call_is_initiated_and_the_owner_is_an_administrator() -> None:
    inquiry = ask(msgspec.structs.replace(PROPOSAL, principal=OPERATOR))
    assert inquiry.principal == EntityUid("Operator", OPERATOR.name)
    assert inquiry.roles == ("administrator",)
    assert inquiry.is_true("initiated")
    other = Principal(kind=PrincipalKind.OPERATOR, name="somebody")
    assert ask(msgspec.structs.replace(PROPOSAL, principal=other)).roles == ()


def test_an_agent_of_the_owners_name_is_no_administrator() -> None:
    agent = Principal(kind=PrincipalKind.AGENT, name=OPERATOR.name)
    assert ask(msgspec.structs.replace(PROPOSAL, principal=agent)).roles == ()


def test_supposing_changes_the_named_attributes_alone() -> None:
    inquiry = ask()
    supposed = inquiry.supposing(approved=True)
    assert supposed.is_true("approved")
    assert context(supposed) == context(inquiry) | {"approved": True}
    assert list(supposed.attributes) == sorted(supposed.attributes)


@pytest.mark.parametrize("number", [2**53, -(2**53), 2**63, 2**70])
@pytest.mark.parametrize("field", ["size_bytes", "duration_ms"])
def test_a_number_beyond_what_policies_compare_is_a_value_error(field: str, number: int) -> None:
    with pytest.raises(ValueError, match="beyond"):
        ask(with_facts(**{field: number}))


def test_where_paths_are_left_out_no_folder_is_known_to_hold_them_all() -> None:
    seen = context(ask(with_facts(writes=("docs/a",), reads=("docs/b",), left_out=1)))
    assert seen["is_complete"] is False
    assert (seen["files"]["writes_under"], seen["files"]["reads_under"]) == ("", "")


@pytest.mark.parametrize(
    ("paths", "folder"),
    [
        ((), ""),
        (("a",), ""),
        (("a/b",), "a"),
        (("a/b", "a/c"), "a"),
        (("a/b/c", "a/d"), "a"),
        (("a/b", "ab/c"), ""),
        (("a/b/../../etc/x",), ""),
        (("a/./b",), ""),
        (("a//b/c",), ""),
        (("/a/b",), ""),
        (("...a/b",), "...a"),
        (("a/.../b",), ""),
        (("a/..",), ""),
        (("a/.",), ""),
        (("a/b/",), "a/b"),
        (("a/",), "a"),
        (("./",), ""),
        (("a/", "a/b/c"), "a"),
        (("a//",), ""),
    ],
)
def test_the_common_folder_holds_every_path(paths: tuple[str, ...], folder: str) -> None:
    assert common_folder(paths) == folder


def test_a_folder_holds_every_path_only_if_none_is_outside() -> None:
    inside = with_facts(writes=("docs/a",), reads=("src/b/",))
    seen = context(ask(inside))["files"]
    assert (seen["writes_under"], seen["reads_under"]) == ("docs", "src/b")
    outside = with_facts(writes=("docs/a",), reads=("src/b/",), outside=("/etc/passwd",))
    seen = context(ask(outside))["files"]
    assert (seen["writes_under"], seen["reads_under"]) == ("", "")


def test_a_tool_is_in_the_groups_of_its_names_beginning_and_of_its_powers() -> None:
    assert groups_of("a.b.c", ("network",)) == (
        EntityUid("ToolGroup", "a"),
        EntityUid("ToolGroup", "a.b"),
        EntityUid("Capability", "network"),
    )


@pytest.mark.parametrize(
    "text",
    [
        'x"; permit(principal,action,resource);//',
        "a\nb",
        "\u202e",
        "\x00",
        "𐐷",
        "*",
        "${x}",
        "é" * 999,
    ],
)
def test_hostile_texts_are_data(text: str) -> None:
    inquiry = ask(with_facts(writes=(text,), argv=(text,), executable=text, hosts=(text,)))
    seen = context(inquiry)
    assert seen["files"]["writes"] == [text]
    assert seen["process"]["argv"] == [text]
    assert inquiry_of(inquiry.request) == inquiry


def test_an_act_is_a_question_too() -> None:
    credential = Credential(
        credential_id=CredentialId("uid:1"), principal=OPERATOR, assurance=Assurance.DEVELOPER
    )
    act = Act(
        action="policy.activate",
        credential=credential,
        resource=EntityUid("PolicyPack", "d" * 64),
        channel="embedded",
        at_ms=NOW_MS,
        lifts_ceiling=True,
    )
    inquiry = inquiries().about_act(act)
    assert (inquiry.action, inquiry.resource) == (act.action, act.resource)
    assert (inquiry.roles, inquiry.is_true("lifts_ceiling")) == (("administrator",), True)
    assert inquiry_of(inquiry.request) == inquiry
    assert not inquiry.left.is_exhausted


def test_every_kind_of_principal_has_an_entity() -> None:
    for kind in PrincipalKind:
        assert uid_of(Principal(kind=kind, name="x")).type == kind.value.capitalize()


def test_what_an_operators_tool_calls_is_not_what_the_operator_started() -> None:
    nested = msgspec.structs.replace(
        PROPOSAL, principal=OPERATOR, parent_call_id=CallId("x"), depth=2
    )
    inquiry = ask(nested)
    assert not inquiry.is_true("initiated")
    assert context(inquiry)["depth"] == 2
