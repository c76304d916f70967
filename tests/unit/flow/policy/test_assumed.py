# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import orjson
import pytest

from palyra.core.act import Act
from palyra.core.facts import Facts
from palyra.core.ids import CredentialId
from palyra.core.policy_request import EntityUid
from palyra.core.posture import Posture
from palyra.core.principal import Assurance, Credential, Principal
from palyra.core.session import BudgetLeft
from palyra.flow.policy.assumed import ASSUMED_FOR_EXAMPLES, Assumed, capabilities_in, context_for
from palyra.flow.policy.inquiry import Inquiries
from palyra.flow.policy.vocabulary import context_attributes
from tests.support.samples import AGENT, NOW_MS, OPERATOR, PROPOSAL, SNAPSHOT

ADA = EntityUid("Agent", "ada")
GRACE = EntityUid("Operator", "grace")
ECHO = EntityUid("Tool", "palyra.echo")
WRITE = EntityUid("Tool", "palyra.fs.write")
OPTIONAL = {"files", "network", "process"}


def context(
    said: dict[str, Any] | None = None,
    *,
    principal: EntityUid = ADA,
    action: str = "tool.execute",
    resource: EntityUid = WRITE,
    assumed: Assumed = ASSUMED_FOR_EXAMPLES,
) -> dict[str, Any]:
    return context_for(
        said or {}, principal=principal, action=action, resource=resource, assumed=assumed
    )


def powers(assumed: Assumed, *capabilities: str) -> Assumed:
    return replace(assumed, capabilities_of=lambda _: capabilities)


def test_every_attribute_of_the_schema_is_given() -> None:
    said: dict[str, Any] = {name: {} for name in OPTIONAL}
    assert set(context(said)) == {path for path in context_attributes() if "." not in path}
    assert set(context()) == set(context(said)) - OPTIONAL


def test_a_call_gets_the_context_that_the_gate_would_give_it() -> None:
    """The one place where the derivations could part from those of the gate."""
    proposal = msgspec.structs.replace(
        PROPOSAL,
        tool="palyra.process.run",
        capabilities=("filesystem_read", "process_exec"),
        is_sensitive=True,
        facts=Facts(
            workspace="work",
            reads=("src/a/one.py", "src/b/two.py"),
            outside=("/etc/passwd",),
            executable="/usr/bin/rm",
            argv=("rm", "-rf", "a b"),
            hosts=("pypi.org",),
            ports=(443,),
            methods=("GET",),
        ),
    )
    inquiries = Inquiries(SNAPSHOT, assurance=Assurance.LAUNCHED, administrators=frozenset())
    left = BudgetLeft(run=32, session=1024, agent_hour=4096)
    asked = inquiries.about_call(proposal, left=left, posture=Posture.ALWAYS_ALLOW, now_ms=NOW_MS)
    assumed = Assumed(
        capabilities_of=lambda _: ("filesystem_read", "process_exec"),
        allowed_tools=frozenset(SNAPSHOT.allowed_tools),
        allow_sensitive_tools=SNAPSHOT.allow_sensitive_tools,
        channel=proposal.channel,
        assurance=Assurance.LAUNCHED,
        now_ms=NOW_MS,
    )
    said = {
        "files": {
            "workspace": "work",
            "reads": ["src/a/one.py", "src/b/two.py"],
            "outside": ["/etc/passwd"],
        },
        "process": {"executable": "/usr/bin/rm", "argv": ["rm", "-rf", "a b"]},
        "network": {"hosts": ["pypi.org"], "ports": [443], "methods": ["GET"]},
        "run": proposal.run_id,
        "session": proposal.session_id,
        "tool_version": proposal.tool_version,
    }
    derived = context(said, resource=EntityUid("Tool", "palyra.process.run"), assumed=assumed)
    derived["process"]["argv"].sort()  # a set
    assert derived == orjson.loads(asked.context_json)


@pytest.mark.parametrize("principal", [AGENT, OPERATOR], ids=str)
@pytest.mark.parametrize(
    ("action", "resource"),
    [
        ("memory.purge", EntityUid("Memory", "notes")),
        ("memory.search", EntityUid("Memory", "notes")),
        ("vault.get", EntityUid("Secret", "token")),
        ("posture.set", ECHO),
    ],
)
def test_an_act_gets_the_context_that_the_gate_would_give_it(
    principal: Principal, action: str, resource: EntityUid
) -> None:
    act = Act(
        action=action,
        credential=Credential(
            credential_id=CredentialId("c"), principal=principal, assurance=Assurance.SEPARATED
        ),
        resource=resource,
        channel="embedded",
        at_ms=ASSUMED_FOR_EXAMPLES.now_ms,
    )
    inquiries = Inquiries(SNAPSHOT, assurance=Assurance.SEPARATED, administrators=frozenset())
    asked = inquiries.about_act(act)
    derived = context(
        {"budget": {"run": 1, "session": 1, "agent_hour": 1}},
        principal=asked.principal,
        action=action,
        resource=asked.resource,
    )
    assert derived == orjson.loads(asked.context_json)


def test_powers_make_a_call_sensitive_and_risky() -> None:
    derived = context(assumed=powers(ASSUMED_FOR_EXAMPLES, "network", "secrets_read"))
    assert derived["is_sensitive_action"] is True
    assert derived["risk"] == "high"
    assert derived["plan"] == {"egress": ["*"], "secrets": ["*"], "tier": "none", "writes": []}


def test_what_is_said_of_powers_counts_and_not_what_is_known_of_the_tool() -> None:
    known = powers(ASSUMED_FOR_EXAMPLES, "process_exec")
    derived = context({"capabilities": ["filesystem_read"]}, assumed=known)
    assert derived["is_sensitive_action"] is False
    assert derived["risk"] == "low"
    assert capabilities_in({}, resource=WRITE, assumed=known) == ("process_exec",)


def test_only_tools_have_powers() -> None:
    known = powers(ASSUMED_FOR_EXAMPLES, "process_exec")
    assert capabilities_in({}, resource=EntityUid("Skill", "x"), assumed=known) == ()


def test_whoever_is_listed_is_allowed_and_an_empty_list_allows_everybody() -> None:
    listed = replace(
        ASSUMED_FOR_EXAMPLES,
        allowed_tools=frozenset({"palyra.echo"}),
        allowed_principals=frozenset({"agent:ada"}),
        allowed_channels=frozenset({"http"}),
    )
    names = ("is_allowlisted_tool", "is_principal_allowed", "is_channel_allowed")

    def said(derived: dict[str, Any]) -> tuple[bool, ...]:
        return tuple(derived[name] for name in names)

    assert said(context()) == (True, True, True)
    assert said(context(assumed=listed)) == (False, True, False)
    http = {"channel": "http"}
    assert said(context(http, assumed=listed, resource=ECHO)) == (True, True, True)
    by_operator = context(http, assumed=listed, resource=ECHO, principal=GRACE)
    assert said(by_operator) == (True, False, True)


@pytest.mark.parametrize("odd", [3, ["http"], {"a": 1}, None, True])
def test_a_value_of_any_shape_is_passed_on_for_the_schema_to_refuse(odd: object) -> None:
    listed = replace(ASSUMED_FOR_EXAMPLES, allowed_channels=frozenset({"http"}))
    said = dict.fromkeys(("channel", "capabilities", "files", "process", "plan", "posture"), odd)
    derived = context(said, assumed=listed)
    assert derived["channel"] == odd
    assert derived["is_channel_allowed"] is False


def test_no_folder_holds_paths_that_are_left_out() -> None:
    files = {"files": {"writes": ["src/a.py"]}}
    assert context(files)["files"]["writes_under"] == "src"
    partial = context({**files, "is_complete": False})
    assert partial["files"]["writes_under"] == ""
    assert partial["risk"] == "high"
