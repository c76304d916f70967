# SPDX-License-Identifier: Apache-2.0
"""The scribe of the rules: each change of policies and postures in, one durable transition out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from palyra.core.events import ActionRefused, PolicyActivated, PolicyStaged, PostureChanged
from palyra.core.transitions import ActivatePack, ClearPosture, Note, SetPosture, StagePack
from palyra.flow.seal.attest import decision_record

if TYPE_CHECKING:
    from palyra.core.act import Act
    from palyra.core.decision import Decision
    from palyra.core.digest import PolicyDigest
    from palyra.core.pack import Pack
    from palyra.core.ports import Recorder
    from palyra.core.posture import PostureSetting


class RuleScribe:
    """Writes what happens to the rules (I8)."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    async def pack_staged(self, pack: Pack, act: Act) -> None:
        """Record a pack that was checked."""
        await self._recorder.record(
            staging(pack, principal=str(act.credential.principal), at_ms=act.at_ms)
        )

    async def pack_activated(
        self,
        digest: PolicyDigest,
        act: Act,
        decision: Decision,
        *,
        before: PolicyDigest | None,
        reason: str,
    ) -> None:
        """Record that a pack came into force."""
        activated = PolicyActivated(
            policy_digest=digest,
            before_digest=before or "",
            principal=str(act.credential.principal),
            credential_id=act.credential.credential_id,
            reason=reason,
            request=decision.request,
            decision=decision_record(decision),
        )
        await self._recorder.record(
            ActivatePack(
                policy_digest=digest,
                before=before,
                rules_version=decision.rules_version,
                events=(activated,),
            )
        )

    async def posture_set(
        self,
        setting: PostureSetting,
        act: Act,
        decision: Decision,
        *,
        before: PostureSetting | None,
    ) -> None:
        """Record a posture."""
        changed = _posture_changed(
            setting, act, decision, before=before, after=setting.state.value, reason=setting.reason
        )
        await self._recorder.record(
            SetPosture(
                setting=setting,
                before=before,
                rules_version=decision.rules_version,
                events=(changed,),
            )
        )

    async def posture_cleared(
        self, before: PostureSetting, act: Act, decision: Decision, *, reason: str
    ) -> None:
        """Record that a posture was removed."""
        changed = _posture_changed(before, act, decision, before=before, after="", reason=reason)
        await self._recorder.record(
            ClearPosture(
                tool=before.tool,
                scope=before.scope,
                scope_id=before.scope_id,
                before=before,
                rules_version=decision.rules_version,
                events=(changed,),
            )
        )

    async def act_refused(self, act: Act, decision: Decision) -> None:
        """Record that policy did not permit an act."""
        refused = ActionRefused(
            action=act.action,
            principal=str(act.credential.principal),
            credential_id=act.credential.credential_id,
            request=decision.request,
            decision=decision_record(decision),
        )
        await self._recorder.record(Note(events=(refused,)))


def staging(pack: Pack, *, principal: str, at_ms: int) -> StagePack:
    """Return the transition that keeps a pack."""
    staged = PolicyStaged(
        policy_digest=pack.digest,
        principal=principal,
        preset=pack.preset,
        policies=len(pack.policies),
        sources=tuple(sorted({policy.source for policy in pack.policies})),
    )
    return StagePack(policy_digest=pack.digest, body=pack.encoded(), at_ms=at_ms, events=(staged,))


def _posture_changed(
    setting: PostureSetting,
    act: Act,
    decision: Decision,
    *,
    before: PostureSetting | None,
    after: str,
    reason: str,
) -> PostureChanged:
    return PostureChanged(
        tool=setting.tool,
        scope=setting.scope.value,
        scope_id=setting.scope_id,
        before=before.state.value if before is not None else "",
        after=after,
        principal=str(act.credential.principal),
        credential_id=act.credential.credential_id,
        by_administrator=setting.by_administrator,
        reason=reason,
        set_at_ms=act.at_ms,
        expires_at_ms=setting.expires_at_ms if after else None,
        request=decision.request,
        decision=decision_record(decision),
    )
