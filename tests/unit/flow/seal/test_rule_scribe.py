# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from palyra.core.attestation import Anchor
from palyra.core.decision import Verdict
from palyra.core.digest import PolicyDigest
from palyra.core.errors import Code, StateConflictError
from palyra.core.events import (
    EVENT_TYPES,
    ActionRefused,
    PolicyActivated,
    PolicyStaged,
    PostureChanged,
)
from palyra.core.obligations import Obligations
from palyra.core.pack import read_pack
from palyra.core.ports import Recorded, RulesInForce
from palyra.core.posture import Posture, PostureScope
from palyra.core.transitions import (
    ActivatePack,
    ClearPosture,
    Note,
    SetPosture,
    StagePack,
    Transition,
)
from palyra.flow.seal.attest import decision_record
from palyra.flow.seal.rule_scribe import RuleScribe, staging
from palyra.flow.seal.rules_agreement import RulesAgreement
from tests.support.samples import ACT, ALLOW, CREDENTIAL_ID, NOW_MS, PACK, REQUEST
from tests.support.store import POSTURE, open_archive, open_ledger

if TYPE_CHECKING:
    from pathlib import Path

    from palyra.core.decision import Decision

change = msgspec.structs.replace
BOXED = change(PACK, preset="boxed")
LATER_MS = NOW_MS + 5
OTHER = PolicyDigest("b" * 64)
LATER = change(ACT, at_ms=LATER_MS)
RULES = 3
PERMITTED = change(
    ALLOW,
    call_digest=ACT.digest,
    request=REQUEST,
    obligations=Obligations(timeout_ms=5),
    rules_version=RULES,
)
REFUSED = change(PERMITTED, verdict=Verdict.FORBID, code=Code.POLICY_FORBIDDEN)
CHANGED = PostureChanged(
    tool="palyra.echo",
    scope="workspace",
    scope_id="site",
    before="",
    after="disabled",
    principal="operator:grace",
    credential_id=CREDENTIAL_ID,
    by_administrator=True,
    reason="an incident",
    set_at_ms=NOW_MS,
    expires_at_ms=NOW_MS + 1000,
    request=REQUEST,
    decision=decision_record(PERMITTED),
)


class Notebook:
    """A recorder that keeps what it is given."""

    anchor = Anchor(index=7, link="a" * 64)

    def __init__(self, fault: Exception | None = None) -> None:
        self.transitions: list[Transition] = []
        self._fault = fault

    async def record(self, transition: Transition) -> Recorded:
        if self._fault is not None:
            raise self._fault
        self.transitions.append(transition)
        return Recorded(admission=None, prove=None)

    @property
    def only(self) -> Transition:
        (transition,) = self.transitions
        return transition


@pytest.mark.invariant("I8")
async def test_a_staged_pack_is_kept_as_it_was_hashed() -> None:
    notebook = Notebook()
    await RuleScribe(notebook).pack_staged(PACK, ACT)
    staged = PolicyStaged(
        policy_digest=PACK.digest,
        principal="operator:grace",
        preset="standard",
        policies=1,
        sources=("own.cedar",),
    )
    assert notebook.only == StagePack(
        policy_digest=PACK.digest, body=PACK.encoded(), at_ms=NOW_MS, events=(staged,)
    )


def test_every_source_of_a_pack_is_named_once_and_in_order() -> None:
    rule = PACK.policies[0]
    sources = ("z.cedar", "palyra/base.cedar", "z.cedar")
    pack = change(PACK, policies=tuple(change(rule, source=source) for source in sources))
    (staged,) = staging(pack, principal="service:setup", at_ms=1).events
    assert (staged.policies, staged.sources) == (3, ("palyra/base.cedar", "z.cedar"))
    assert staged.principal == "service:setup"


@pytest.mark.invariant("I6")
@pytest.mark.invariant("I8")
@pytest.mark.parametrize("before", [None, OTHER], ids=["the-first", "in-place-of-another"])
async def test_an_activation_says_who_why_and_what_it_replaced(
    before: PolicyDigest | None,
) -> None:
    notebook = Notebook()
    await RuleScribe(notebook).pack_activated(
        PACK.digest, ACT, PERMITTED, before=before, reason="reviewed"
    )
    activated = PolicyActivated(
        policy_digest=PACK.digest,
        before_digest=before or "",
        principal="operator:grace",
        credential_id=CREDENTIAL_ID,
        reason="reviewed",
        request=REQUEST,
        decision=decision_record(PERMITTED),
    )
    assert notebook.only == ActivatePack(
        policy_digest=PACK.digest, before=before, rules_version=RULES, events=(activated,)
    )


@pytest.mark.invariant("I8")
async def test_a_posture_is_recorded_with_who_set_it_and_why() -> None:
    notebook = Notebook()
    await RuleScribe(notebook).posture_set(POSTURE, ACT, PERMITTED, before=None)
    assert notebook.only == SetPosture(
        setting=POSTURE, before=None, rules_version=RULES, events=(CHANGED,)
    )


@pytest.mark.invariant("I8")
async def test_a_posture_in_place_of_another_says_what_was_before() -> None:
    notebook = Notebook()
    before = change(POSTURE, state=Posture.ASK_EACH_TIME)
    for_good = change(POSTURE, expires_at_ms=None, by_administrator=False)
    await RuleScribe(notebook).posture_set(for_good, ACT, PERMITTED, before=before)
    expected = change(CHANGED, before="ask_each_time", expires_at_ms=None, by_administrator=False)
    assert notebook.only == SetPosture(
        setting=for_good, before=before, rules_version=RULES, events=(expected,)
    )


@pytest.mark.invariant("I8")
async def test_a_posture_that_is_removed_leaves_nothing_after_it() -> None:
    notebook = Notebook()
    await RuleScribe(notebook).posture_cleared(POSTURE, LATER, PERMITTED, reason="it is over")
    expected = change(
        CHANGED,
        before="disabled",
        after="",
        reason="it is over",
        set_at_ms=LATER_MS,
        expires_at_ms=None,
    )
    assert notebook.only == ClearPosture(
        tool="palyra.echo",
        scope=PostureScope.WORKSPACE,
        scope_id="site",
        before=POSTURE,
        rules_version=RULES,
        events=(expected,),
    )


@pytest.mark.invariant("I6")
async def test_a_refused_act_changes_nothing_and_is_on_record() -> None:
    notebook = Notebook()
    await RuleScribe(notebook).act_refused(ACT, REFUSED)
    refused = ActionRefused(
        action="posture.set",
        principal="operator:grace",
        credential_id=CREDENTIAL_ID,
        request=REQUEST,
        decision=decision_record(REFUSED),
    )
    assert notebook.only == Note(events=(refused,))
    assert refused.decision.obligations == Obligations(timeout_ms=5)


async def test_a_lost_race_is_not_hidden() -> None:
    scribe = RuleScribe(Notebook(StateConflictError(Code.STATE_CONFLICT)))
    with pytest.raises(StateConflictError):
        await scribe.pack_activated(PACK.digest, ACT, PERMITTED, before=OTHER, reason="")


def under(version: int) -> Decision:
    return change(PERMITTED, rules_version=version)


@pytest.mark.invariant("I8")
async def test_what_is_written_is_what_is_in_force(tmp_path: Path) -> None:
    ledger = open_ledger(tmp_path / "home")
    scribe = RuleScribe(ledger)
    try:
        for pack in (PACK, BOXED):
            await scribe.pack_staged(pack, ACT)
        await scribe.pack_activated(PACK.digest, ACT, under(0), before=None, reason="first")
        await scribe.pack_activated(
            BOXED.digest, LATER, under(1), before=PACK.digest, reason="second"
        )
        await scribe.posture_set(POSTURE, ACT, under(2), before=None)
        everywhere = change(POSTURE, scope=PostureScope.GLOBAL, scope_id="", set_at_ms=LATER_MS)
        await scribe.posture_set(everywhere, LATER, under(3), before=None)
        await scribe.posture_cleared(POSTURE, LATER, under(4), reason="it is over")
        with pytest.raises(StateConflictError):
            await scribe.pack_activated(
                PACK.digest, LATER, under(5), before=PACK.digest, reason="too late"
            )
        for overtaken in (
            scribe.pack_activated(
                PACK.digest, LATER, under(4), before=BOXED.digest, reason="by older rules"
            ),
            scribe.posture_cleared(everywhere, LATER, under(4), reason="by older rules"),
            scribe.posture_set(everywhere, LATER, under(4), before=everywhere),
        ):
            with pytest.raises(StateConflictError) as refused:
                await overtaken
            assert refused.value.code is Code.POLICY_CHANGED
        await scribe.act_refused(ACT, REFUSED)
        assert ledger.rules_in_force() == RulesInForce(version=5, policy_digest=BOXED.digest)
        assert ledger.postures() == (everywhere,)
        kept = ledger.pack(PACK.digest)
        assert kept is not None
        assert read_pack(kept.body) == PACK
    finally:
        ledger.close()
    archive = open_archive(tmp_path / "home")
    try:
        agreement = RulesAgreement()
        for entry in archive.entries():
            event = msgspec.json.decode(entry.body, type=EVENT_TYPES[entry.kind])
            assert agreement.follow(entry.index, event) is None
        assert list(agreement.disagreements(archive)) == []
    finally:
        archive.close()
