# SPDX-License-Identifier: Apache-2.0
"""Ways to get a yes out of the policy engine that nobody meant to give."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import apsw
import cedarpy
import msgspec
import pytest

from palyra.core.capability import Capability
from palyra.core.errors import Code, NotPermittedError
from palyra.core.events import PolicyActivated
from palyra.core.facts import Facts
from palyra.core.ids import CallId
from palyra.core.posture import Posture, PostureScope, PostureSetting
from palyra.core.transitions import ActivatePack
from palyra.daemon.local_identity import local_operator
from palyra.flow.policy.members import read_members
from palyra.flow.policy.replay import is_reproduced, last_decision
from palyra.flow.policy.rules import Rules
from palyra.flow.seal.rule_scribe import staging
from palyra.store.sqlite.ledger import DATABASE_NAME
from palyra.tools.function import tool
from tests.support.policies import pack_of
from tests.support.samples import APPROVAL
from tests.support.simulator import AGENT_CREDENTIAL, GateSimulator, refusal_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from palyra.core.decision import Decision
    from palyra.core.pack import Pack
    from palyra.core.permit import Permit
    from palyra.core.proposal import Proposal
    from palyra.core.result import CallResult

OWNER = local_operator()
ADA = AGENT_CREDENTIAL.principal.name


def facts_of(arguments: Mapping[str, Any]) -> Facts:
    return Facts(
        writes=tuple(arguments["paths"]),
        argv=tuple(arguments["paths"]),
        executable=str(arguments["paths"][0]) if arguments["paths"] else "",
        size_bytes=arguments["size"],
    )


@tool(name="test.touch", facts=facts_of)
async def touch(paths: list[str], size: int) -> int:
    """Touch some files, or rather pretend to."""
    return len(paths) + size


@tool(name="test.alias")
async def alias(name: str) -> str:
    """Have a name like another tool."""
    return name


@tool(name="test.dangerous", capabilities=(Capability.PROCESS_EXEC,))
async def dangerous() -> str:
    """Do something that needs a human."""
    return "done"


async def activate(simulator: GateSimulator, pack: Pack) -> None:
    operations = simulator.composition.operations
    await operations.stage_pack(pack, credential=OWNER)
    await operations.activate_pack(pack.digest, credential=OWNER, reason="for the test")


def own(policy: str, policy_id: str = "own") -> str:
    return f'@id("{policy_id}") @reason("because") {policy}'


FAILING = own(
    "forbid (principal, action, resource) when { context.size_bytes * 9223372036854775807 > 0 };"
)


@pytest.mark.invariant("I1")
async def test_a_forbid_is_not_dodged_by_making_it_fail(tmp_path: Path) -> None:
    naked = cedarpy.is_authorized(
        {
            "principal": {"type": "A", "id": "a"},
            "action": {"type": "Action", "id": "x"},
            "resource": {"type": "R", "id": "r"},
            "context": {"n": 2},
        },
        "permit (principal, action, resource);"
        "forbid (principal, action, resource) when { context.n * 9223372036854775807 > 0 };",
        [],
    )
    assert naked.allowed  # what the engine alone would have said
    async with GateSimulator(tmp_path / "home", tools=(touch,)) as simulator:
        await activate(simulator, pack_of(FAILING))
        refused = await simulator.call("test.touch", {"paths": [], "size": 2})
        assert refusal_of(refused) == ("denied", "policy.fault")
        assert (await simulator.call("test.touch", {"paths": [], "size": 0})).state == "succeeded"


@pytest.mark.invariant("I1")
@pytest.mark.parametrize(
    "path",
    [
        'x"; permit(principal,action,resource);//',
        'Agent::"root"',
        "a\nb",
        "\x00\x1f",
        "\u202egnp.exe",
        "𐐷" * 500,
        "*",
        "a" * 4000,
        '{"__entity":{"type":"Role","id":"administrator"}}',
        '{"__extn":{"fn":"ip","arg":"127.0.0.1"}}',
    ],
)
async def test_texts_that_look_like_cedar_stay_texts(tmp_path: Path, path: str) -> None:
    rule = own('forbid (principal, action, resource) when { context.files.writes.contains("w") };')
    rule = rule.replace("when { ", "when { context has files && ")
    async with GateSimulator(tmp_path / "home", tools=(touch,)) as simulator:
        await activate(simulator, pack_of(rule))
        both = await simulator.call("test.touch", {"paths": [path, "w"], "size": 1})
        assert (both.state, both.decision.policies) == ("denied", ("own",))
        alone = await simulator.call("test.touch", {"paths": [path], "size": 1})
        assert alone.state == "succeeded"
        journaled = simulator.bodies("call.decided")[-1]["request"]["context"]
        assert journaled["files"]["writes"] == [path]
        assert simulator.verified().ok


@pytest.mark.invariant("I1")
@pytest.mark.parametrize("size", [2**53 - 1, -(2**53) + 1])
async def test_numbers_at_the_edge_are_compared_as_they_are(tmp_path: Path, size: int) -> None:
    rule = own("forbid (principal, action, resource) when { context.size_bytes > 10 };")
    async with GateSimulator(tmp_path / "home", tools=(touch,)) as simulator:
        await activate(simulator, pack_of(rule))
        result = await simulator.call("test.touch", {"paths": [], "size": size})
        assert result.state == ("denied" if size > 10 else "succeeded")


@pytest.mark.invariant("I2")
async def test_more_paths_than_policy_sees_are_refused(tmp_path: Path) -> None:
    rule = own(
        "forbid (principal, action, resource) when { context has files &&"
        ' context.files.writes.contains("zz") };'
    )
    hidden = [f"f{number}" for number in range(200)] + ["zz"]
    async with GateSimulator(tmp_path / "home", tools=(touch,)) as simulator:
        await activate(simulator, pack_of(rule))
        seen = await simulator.call("test.touch", {"paths": ["zz"], "size": 0})
        assert seen.decision.verdict == "deny"
        unseen = await simulator.call("test.touch", {"paths": hidden, "size": 0}, wait=False)
        assert refusal_of(unseen) == ("denied", "facts.incomplete")


@pytest.mark.invariant("I1")
async def test_an_alias_gets_nothing_of_what_the_other_name_may(tmp_path: Path) -> None:
    rule = own(
        'permit (principal, action == Action::"approval.waive", resource == Tool::"test.dangerou");'
    ) + own('forbid (principal, action, resource == Tool::"test.alias");', "not.alias")
    async with GateSimulator(tmp_path / "home", tools=(alias, dangerous)) as simulator:
        await activate(simulator, pack_of(rule))
        asked = await simulator.call("test.dangerous", wait=False)
        assert asked.state == "pending"
        refused = await simulator.call("test.alias", {"name": "palyra.echo"})
        assert refused.decision.policies == ("not.alias",)


@pytest.mark.invariant("I6")
async def test_an_agent_named_like_the_owner_is_still_an_agent(tmp_path: Path) -> None:
    async with GateSimulator(tmp_path / "home") as simulator:
        twin = AGENT_CREDENTIAL.__class__(
            credential_id=AGENT_CREDENTIAL.credential_id,
            principal=AGENT_CREDENTIAL.principal.__class__(
                kind=AGENT_CREDENTIAL.principal.kind, name=OWNER.principal.name
            ),
            assurance=AGENT_CREDENTIAL.assurance,
        )
        with pytest.raises(NotPermittedError) as refused:
            await simulator.composition.operations.stage_pack(pack_of(), credential=twin)
        assert refused.value.code is Code.ACTION_DENIED


def _disabled(scope: PostureScope, scope_id: str, state: Posture) -> PostureSetting:
    return PostureSetting(
        tool="palyra.echo",
        scope=scope,
        scope_id=scope_id,
        state=state,
        reason="for the test",
        set_by=OWNER.principal,
        by_administrator=True,
        set_at_ms=0,
    )


@pytest.mark.invariant("I1")
async def test_a_narrow_posture_never_lifts_a_wide_one(tmp_path: Path) -> None:
    async with GateSimulator(tmp_path / "home") as simulator:
        operations = simulator.composition.operations
        wide = _disabled(PostureScope.GLOBAL, "", Posture.DISABLED)
        narrow = _disabled(PostureScope.AGENT, ADA, Posture.ALWAYS_ALLOW)
        await operations.set_posture(wide, credential=OWNER)
        await operations.set_posture(narrow, credential=OWNER)
        assert refusal_of(await simulator.call()) == ("denied", "tool.disabled")


@pytest.mark.invariant("I1")
async def test_postures_that_cannot_be_read_disable(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with GateSimulator(home) as simulator:
        setting = _disabled(PostureScope.AGENT, "somebody", Posture.DISABLED)
        await simulator.composition.operations.set_posture(setting, credential=OWNER)
        other = apsw.Connection(str(home / DATABASE_NAME))
        other.execute("UPDATE postures SET state = 'lenient'; UPDATE rules SET version = 99")
        other.close()
        refused = await simulator.call()
        assert refusal_of(refused) == ("denied", "tool.disabled")


@pytest.mark.invariant("I1")
async def test_a_pack_that_was_edited_in_the_store_permits_nothing(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with GateSimulator(home) as simulator:
        assert (await simulator.call()).state == "succeeded"
    other = apsw.Connection(str(home / DATABASE_NAME))
    other.execute(
        "UPDATE packs SET body = CAST(replace(CAST(body AS TEXT),"
        " 'when { context.is_sensitive_action }', 'when { context.lifts_ceiling }      ') AS BLOB)"
    )
    other.close()
    async with GateSimulator(home, series=1) as simulator:
        refused = await simulator.call()
        assert refusal_of(refused) == ("denied", "policy.fault")
        assert not simulator.verified().ok


@pytest.mark.invariant("I13")
@pytest.mark.parametrize(
    "members",
    [
        b'[groups]\na = ["group:b"]\nb = ["group:c"]\nc = ["group:a"]',
        b'[groups]\na = ["group:a"]',
        b"[groups]\n" + b"\n".join(b'g%d = ["agent:x"]' % number for number in range(100_001)),
    ],
    ids=["loop", "itself", "huge"],
)
def test_loops_and_huge_groups_are_refused_when_they_are_read(members: bytes) -> None:
    faults = read_members(members, "members.toml")
    assert isinstance(faults, tuple)
    assert faults


@pytest.mark.invariant("I1")
def test_an_action_that_nobody_declared_is_not_there_to_be_permitted() -> None:
    with pytest.raises(AssertionError, match=r"tool\.read\.write"):
        pack_of(own('permit (principal, action == Action::"tool.read.write", resource);'))


@pytest.mark.invariant("I4")
async def test_a_launch_decided_by_older_rules_does_not_happen(tmp_path: Path) -> None:
    home = tmp_path / "home"
    quiet = pack_of(own('forbid (principal, action, resource == Tool::"palyra.echo");'))
    async with GateSimulator(home) as one, GateSimulator(home, series=1) as other:
        decider = one.gate.decider
        confirm = decider.confirm

        def overtaken(proposal: Proposal, decision: Decision) -> Decision:
            still = confirm(proposal, decision)
            ledger = other.composition.ledger
            in_force = ledger.rules_in_force()
            assert in_force is not None
            ledger.record_now(staging(quiet, principal=str(OWNER.principal), at_ms=0))
            event = PolicyActivated(
                policy_digest=quiet.digest,
                before_digest=in_force.policy_digest,
                principal=str(OWNER.principal),
                credential_id=OWNER.credential_id,
                reason="in between",
                request=None,
                decision=None,
            )
            ledger.record_now(
                ActivatePack(
                    policy_digest=quiet.digest, before=in_force.policy_digest, events=(event,)
                )
            )
            decider.confirm = confirm  # type: ignore[method-assign]
            return still

        decider.confirm = overtaken  # type: ignore[method-assign]
        refused = await one.call()
        assert refusal_of(refused) == ("denied", "policy.changed")
        assert "call.launched" not in one.kinds(about=str(refused.call_id))
        assert refusal_of(await one.call()) == ("denied", "policy.forbidden")
        assert one.verified().ok


@pytest.mark.invariant("I4")
async def test_an_answer_does_not_cover_a_question_that_came_later(tmp_path: Path) -> None:
    later = own(
        'forbid (principal, action, resource == Tool::"test.dangerous")'
        " unless { context.approved };",
        "own.cfo",
    )
    async with GateSimulator(tmp_path / "home", tools=(dangerous,)) as simulator:
        pending = await simulator.call("test.dangerous", wait=False)
        await activate(simulator, pack_of(later))
        result = await _answered(simulator, str(pending.call_id))
        assert result.state == "denied"
        assert result.approval is not None
        assert result.approval.code == "policy.stricter"
        assert "own.cfo" in str(result.approval.reason)
        assert simulator.verified().ok


@pytest.mark.invariant("I8")
async def test_what_was_decided_once_the_answer_came_is_journaled_as_it_was_asked(
    tmp_path: Path,
) -> None:
    rule = own('permit (principal, action == Action::"approval.waive", resource);')
    async with GateSimulator(tmp_path / "home", tools=(dangerous,)) as simulator:
        pending = await simulator.call("test.dangerous", wait=False)
        await activate(simulator, pack_of(rule))
        result = await _answered(simulator, str(pending.call_id))
        assert (result.state, result.decision.code) == ("succeeded", "policy.waived")
        (again,) = simulator.bodies("call.redecided")
        assert again["decision"]["policy_digest"] == pack_of(rule).digest
        assert again["decision"]["policies"] == ["own", "palyra.allowlisted-tools"]
        entries = simulator.composition.ledger.of_subject(str(pending.call_id))
        counted = last_decision(entries)
        assert counted is not None
        assert counted.code == "policy.waived"
        assert is_reproduced(counted, Rules(pack_of(rule)))
        assert simulator.verified().ok


async def _answered(simulator: GateSimulator, call_id: str) -> CallResult:
    """Have the one question answered with yes, and go on with its call."""
    (question,) = simulator.reviewer.questions.values()
    proposal = question.proposal
    question.answer.set_result(
        msgspec.structs.replace(
            APPROVAL,
            approval_id=question.approval_id,
            call_digest=proposal.call_digest,
            plan_digest=proposal.plan_digest,
        )
    )
    return await simulator.gate.resume(CallId(call_id), credential=AGENT_CREDENTIAL)


@pytest.mark.invariant("I4")
async def test_rules_that_change_as_a_pending_call_goes_on_are_looked_up_again(
    tmp_path: Path,
) -> None:
    quiet = pack_of(own('forbid (principal, action, resource == Tool::"test.dangerous");'))
    home = tmp_path / "home"
    tools = (dangerous,)
    async with (
        GateSimulator(home, tools=tools) as one,
        GateSimulator(home, tools=tools, series=1) as other,
    ):
        pending = await one.call("test.dangerous", wait=False)
        await other.composition.operations.stage_pack(quiet, credential=OWNER)
        launched, changes = one.gate.scribe.pending_launched, list[str]()

        async def overtaken(proposal: Proposal, decision: Decision, permit: Permit) -> None:
            if not changes:
                changes.append(quiet.digest)
                await other.composition.operations.activate_pack(
                    quiet.digest, credential=OWNER, reason="in between"
                )
            await launched(proposal, decision, permit)

        one.gate.scribe.pending_launched = overtaken  # type: ignore[method-assign]
        result = await _answered(one, str(pending.call_id))
        assert result.state == "denied"
        assert result.decision.policies == ("own",)
        assert "call.launched" not in one.kinds(about=str(pending.call_id))
        assert one.verified().ok
