# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import TYPE_CHECKING

import apsw
import msgspec
import pytest

from palyra.core.digest import PolicyDigest
from palyra.core.errors import (
    Code,
    InputError,
    IntegrityError,
    NotFoundError,
    NotPermittedError,
    PalyraError,
)
from palyra.core.ids import CredentialId
from palyra.core.pack import Members
from palyra.core.posture import Posture, PostureScope, PostureSetting
from palyra.core.principal import Assurance, Credential, Principal, PrincipalKind
from palyra.core.workspace import Workspace
from palyra.daemon.local_identity import local_operator
from palyra.store.sqlite.ledger import DATABASE_NAME
from tests.support.policies import pack_of
from tests.support.samples import NOW_MS
from tests.support.simulator import AGENT_CREDENTIAL, GateSimulator

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from palyra.flow.operations import Operations

OWNER = local_operator()
STRANGER = Credential(
    credential_id=CredentialId("key-of-mallory"),
    principal=Principal(kind=PrincipalKind.OPERATOR, name="mallory"),
    assurance=Assurance.DEVELOPER,
)
QUIET = (
    '@id("own.quiet") @reason("no echo today")'
    ' forbid (principal, action, resource == Tool::"palyra.echo");'
)
MANAGERS = Members(roles={"administrator": ("operator:mallory",), "keeper": ("agent:ada",)})
DISABLED = PostureSetting(
    tool="palyra.echo",
    scope=PostureScope.GLOBAL,
    scope_id="",
    state=Posture.DISABLED,
    reason="not now",
    set_by=AGENT_CREDENTIAL.principal,
    by_administrator=False,
    set_at_ms=0,
)
HOME = Workspace(name="home", root="/srv/home", device=1, inode=2)


def operations(simulator: GateSimulator) -> Operations:
    return simulator.composition.operations


async def test_a_staged_pack_comes_into_force_when_it_is_activated(tmp_path: Path) -> None:
    async with GateSimulator(tmp_path / "home") as simulator:
        pack, act = pack_of(QUIET), operations(simulator)
        await act.stage_pack(pack, credential=OWNER)
        assert (await simulator.call()).state == "succeeded"
        decision = await act.activate_pack(pack.digest, credential=OWNER, reason="quiet hours")
        assert decision.policies == ("palyra.administrators-manage",)
        refused = await simulator.call()
        assert (refused.state, refused.decision.policies) == ("denied", ("own.quiet",))
        assert refused.decision.policy_digest == pack.digest
        activated = simulator.bodies("policy.activated")[-1]
        assert activated["reason"] == "quiet hours"
        assert activated["principal"] == str(OWNER.principal)
        assert activated["decision"]["policies"] == ["palyra.administrators-manage"]
        assert activated["request"]["action"] == "policy.activate"


async def test_another_process_takes_up_the_new_pack(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with GateSimulator(home) as serving, GateSimulator(home, series=1) as managing:
        assert (await serving.call()).state == "succeeded"
        pack = pack_of(QUIET)
        await operations(managing).stage_pack(pack, credential=OWNER)
        await operations(managing).activate_pack(pack.digest, credential=OWNER, reason="")
        assert (await serving.call()).decision.policies == ("own.quiet",)


async def test_what_is_not_staged_cannot_be_activated(tmp_path: Path) -> None:
    async with GateSimulator(tmp_path / "home") as simulator:
        with pytest.raises(NotFoundError) as refused:
            await operations(simulator).activate_pack(
                PolicyDigest("0" * 64), credential=OWNER, reason=""
            )
        assert refused.value.code is Code.POLICY_UNKNOWN


_ACTS: dict[str, Callable[[Operations, Credential], Awaitable[object]]] = {
    "stage": lambda act, who: act.stage_pack(pack_of(QUIET), credential=who),
    "activate": lambda act, who: act.activate_pack(pack_of().digest, credential=who, reason=""),
    "set posture": lambda act, who: act.set_posture(DISABLED, credential=who),
    "add workspace": lambda act, who: act.add_workspace(HOME, credential=who),
    "remove workspace": lambda act, who: act.remove_workspace("home", credential=who),
}


@pytest.mark.invariant("I6")
@pytest.mark.parametrize("who", [AGENT_CREDENTIAL, STRANGER], ids=["agent", "stranger"])
@pytest.mark.parametrize("name", _ACTS)
async def test_nobody_else_manages_and_the_attempt_is_on_record(
    tmp_path: Path, name: str, who: Credential
) -> None:
    async with GateSimulator(tmp_path / "home") as simulator:
        before = simulator.kinds()
        with pytest.raises(NotPermittedError) as refused:
            await _ACTS[name](operations(simulator), who)
        assert refused.value.code is Code.ACTION_DENIED
        assert simulator.kinds() == [*before, "action.refused"]
        entry = simulator.bodies("action.refused")[-1]
        assert entry["principal"] == str(who.principal)
        assert entry["decision"]["verdict"] == "deny"
        assert simulator.verified().ok


@pytest.mark.invariant("I6")
async def test_an_agent_in_the_role_of_administrators_still_does_not_manage(
    tmp_path: Path,
) -> None:
    async with GateSimulator(tmp_path / "home") as simulator:
        pack = pack_of(members=Members(roles={"administrator": ("agent:ada",)}))
        await operations(simulator).stage_pack(pack, credential=OWNER)
        await operations(simulator).activate_pack(pack.digest, credential=OWNER, reason="")
        with pytest.raises(NotPermittedError):
            await operations(simulator).set_posture(DISABLED, credential=AGENT_CREDENTIAL)


async def test_a_posture_is_set_by_whoever_the_credential_says(tmp_path: Path) -> None:
    async with GateSimulator(tmp_path / "home") as simulator:
        await operations(simulator).set_posture(DISABLED, credential=OWNER)
        (kept,) = simulator.composition.ledger.postures()
        assert kept == msgspec.structs.replace(
            DISABLED, set_by=OWNER.principal, set_at_ms=NOW_MS, by_administrator=True
        )
        refused = await simulator.call()
        assert (refused.state, refused.decision.code) == ("denied", "tool.disabled")
        await operations(simulator).clear_posture(
            "palyra.echo", PostureScope.GLOBAL, "", credential=OWNER, reason="enough"
        )
        assert (await simulator.call()).state == "succeeded"
        first, last = simulator.bodies("posture.changed")
        assert (first["before"], first["after"], first["reason"]) == ("", "disabled", "not now")
        assert (last["before"], last["after"], last["reason"]) == ("disabled", "", "enough")
        assert simulator.verified().ok


async def test_a_posture_that_is_not_set_cannot_be_cleared(tmp_path: Path) -> None:
    async with GateSimulator(tmp_path / "home") as simulator:
        with pytest.raises(NotFoundError) as refused:
            await operations(simulator).clear_posture(
                "palyra.echo", PostureScope.GLOBAL, "", credential=OWNER, reason=""
            )
        assert refused.value.code is Code.POSTURE_UNKNOWN


async def test_only_an_administrator_lifts_what_an_administrator_disabled(tmp_path: Path) -> None:
    text = (
        '@id("own.posture") @reason("operators set postures")'
        ' permit (principal is Operator, action in [Action::"posture.set",'
        ' Action::"posture.clear"], resource);'
    )
    async with GateSimulator(tmp_path / "home") as simulator:
        act, pack = operations(simulator), pack_of(text)
        await act.stage_pack(pack, credential=OWNER)
        await act.activate_pack(pack.digest, credential=OWNER, reason="")
        await act.set_posture(DISABLED, credential=OWNER)
        lifting = msgspec.structs.replace(DISABLED, state=Posture.ALWAYS_ALLOW)
        expiring = msgspec.structs.replace(DISABLED, expires_at_ms=NOW_MS + 1)
        for attempt in (
            act.set_posture(lifting, credential=STRANGER),
            act.set_posture(expiring, credential=STRANGER),
            act.clear_posture(
                "palyra.echo", PostureScope.GLOBAL, "", credential=STRANGER, reason=""
            ),
        ):
            with pytest.raises(NotPermittedError, match="only an administrator"):
                await attempt
        asking = msgspec.structs.replace(DISABLED, tool="palyra.sleep")
        await act.set_posture(asking, credential=STRANGER)
        await act.set_posture(
            msgspec.structs.replace(asking, state=Posture.ALWAYS_ALLOW), credential=STRANGER
        )
        await act.set_posture(lifting, credential=OWNER)


async def test_workspaces_are_managed_by_the_same_rules(tmp_path: Path) -> None:
    async with GateSimulator(tmp_path / "home") as simulator:
        act = operations(simulator)
        await act.add_workspace(HOME, credential=OWNER)
        assert simulator.composition.ledger.workspaces() == (HOME,)
        await act.remove_workspace("home", credential=OWNER)
        assert simulator.composition.ledger.workspaces() == ()


async def test_of_two_who_activate_at_once_one_is_told_that_it_came_too_late(
    tmp_path: Path,
) -> None:
    home = tmp_path / "home"
    async with GateSimulator(home) as one, GateSimulator(home, series=1) as other:
        first, second = pack_of(QUIET), pack_of(members=MANAGERS)
        await operations(one).stage_pack(first, credential=OWNER)
        await operations(one).stage_pack(second, credential=OWNER)
        scribe = operations(other)._rule_scribe
        activated = scribe.pack_activated

        async def overtaken(*args: object, **kwargs: object) -> None:
            await operations(one).activate_pack(first.digest, credential=OWNER, reason="")
            await activated(*args, **kwargs)  # type: ignore[arg-type]

        scribe.pack_activated = overtaken  # type: ignore[method-assign]
        with pytest.raises(PalyraError) as late:
            await operations(other).activate_pack(second.digest, credential=OWNER, reason="")
        assert late.value.code is Code.STATE_CONFLICT
        rules = one.composition.ledger.rules_in_force()
        assert rules is not None
        assert rules.policy_digest == first.digest


@pytest.mark.invariant("I6")
async def test_a_pack_without_the_packaged_policies_is_not_staged(tmp_path: Path) -> None:
    whole = pack_of(QUIET)
    without = [each for each in whole.policies if each.policy_id != "palyra.ceiling"]
    harmless = [
        msgspec.structs.replace(each, text=f"{each.text} ")
        if each.policy_id == "palyra.ceiling"
        else each
        for each in whole.policies
    ]
    async with GateSimulator(tmp_path / "home") as simulator:
        for pack in (
            msgspec.structs.replace(whole, policies=tuple(without)),
            msgspec.structs.replace(whole, policies=tuple(harmless)),
            msgspec.structs.replace(whole, preset="lax"),
        ):
            with pytest.raises(InputError) as refused:
                await operations(simulator).stage_pack(pack, credential=OWNER)
            assert refused.value.code is Code.POLICY_INVALID
        assert simulator.composition.ledger.pack(whole.digest) is None


async def test_what_is_kept_under_a_digest_is_looked_at_before_it_comes_into_force(
    tmp_path: Path,
) -> None:
    home = tmp_path / "home"
    async with GateSimulator(home) as simulator:
        act, pack = operations(simulator), pack_of(QUIET)
        await act.stage_pack(pack, credential=OWNER)
        other = apsw.Connection(str(home / DATABASE_NAME))
        other.execute("UPDATE packs SET body = x'7b7d' WHERE was_active = 0")
        other.close()
        with pytest.raises(IntegrityError):
            await act.activate_pack(pack.digest, credential=OWNER, reason="")
        await act.stage_pack(pack, credential=OWNER)  # which repairs it
        await act.activate_pack(pack.digest, credential=OWNER, reason="")


@pytest.mark.invariant("I8")
async def test_an_attempt_at_what_is_not_there_is_on_record_too(tmp_path: Path) -> None:
    nowhere = PolicyDigest("0" * 64)
    async with GateSimulator(tmp_path / "home") as simulator:
        act = operations(simulator)
        for attempt in (
            act.activate_pack(nowhere, credential=AGENT_CREDENTIAL, reason=""),
            act.clear_posture(
                "palyra.echo", PostureScope.GLOBAL, "", credential=AGENT_CREDENTIAL, reason=""
            ),
        ):
            with pytest.raises(NotPermittedError):
                await attempt
        assert len(simulator.bodies("action.refused")) == 2


@pytest.mark.invariant("I6")
async def test_an_act_that_policy_asks_about_is_refused_to_whoever_wants_it(
    tmp_path: Path,
) -> None:
    text = (
        '@id("own.second") @reason("somebody else must agree") forbid (principal,'
        ' action == Action::"posture.set", resource) unless { context.approved };'
    )
    async with GateSimulator(tmp_path / "home") as simulator:
        act, pack = operations(simulator), pack_of(text)
        await act.stage_pack(pack, credential=OWNER)
        await act.activate_pack(pack.digest, credential=OWNER, reason="")
        with pytest.raises(NotPermittedError, match="somebody else must agree"):
            await act.set_posture(DISABLED, credential=OWNER)
        assert simulator.bodies("action.refused")[-1]["decision"]["verdict"] == "needs_approval"
        assert simulator.composition.ledger.postures() == ()
