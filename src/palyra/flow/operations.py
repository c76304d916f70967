# SPDX-License-Identifier: Apache-2.0
"""What operators do to the rules: decided by the rules themselves, then recorded (I6, I8).

Nothing here is reachable as a tool, or with an agent's credential: policy says so, and a packaged
policy that nobody can lift says it first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from palyra.core.act import Act
from palyra.core.decision import Verdict
from palyra.core.errors import Code, InputError, NotFoundError, NotPermittedError
from palyra.core.policy_request import EntityUid
from palyra.core.posture import Posture
from palyra.flow.policy.engine import load_rules
from palyra.flow.policy.presets import PRESETS, packaged_pack

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from palyra.core.decision import Decision
    from palyra.core.digest import PolicyDigest
    from palyra.core.pack import Pack, Policy
    from palyra.core.ports import Clock, RulesStore
    from palyra.core.posture import PostureScope, PostureSetting
    from palyra.core.principal import Credential
    from palyra.core.workspace import Workspace
    from palyra.flow.policy.decide import Decider
    from palyra.flow.seal.rule_scribe import RuleScribe
    from palyra.flow.seal.scribe import Scribe


class Operations:
    """Management, one method for each act."""

    def __init__(
        self,
        *,
        decider: Decider,
        scribe: Scribe,
        rule_scribe: RuleScribe,
        store: RulesStore,
        clock: Clock,
        channel: str,
    ) -> None:
        self._decider = decider
        self._scribe = scribe
        self._rule_scribe = rule_scribe
        self._store = store
        self._clock = clock
        self._channel = channel

    async def stage_pack(self, pack: Pack, *, credential: Credential) -> Decision:
        """Keep a compiled pack, so that it can be activated; it is not in force yet.

        Raises:
            InputError: it lacks a packaged policy of its preset, or has another in its place.
        """
        act = self._act("policy.stage", EntityUid("PolicyPack", pack.digest), credential)
        decision = await self._permitted(act)
        _require_packaged(pack)
        await self._rule_scribe.pack_staged(pack, act)
        return decision

    async def activate_pack(
        self, digest: PolicyDigest, *, credential: Credential, reason: str
    ) -> Decision:
        """Put a staged pack into force, atomically.

        Raises:
            NotFoundError: no such pack is staged.
            IntegrityError: what is kept under this digest is another pack, or none.
            StateConflictError: the rules changed meanwhile.
        """
        before = self._store.rules_in_force()
        act = self._act(
            "policy.activate", EntityUid("PolicyPack", digest), credential, reason=reason
        )
        decision = await self._permitted(act)
        kept = self._store.pack(digest)
        if kept is None:
            raise NotFoundError(Code.POLICY_UNKNOWN)
        load_rules(kept.body, digest)
        await self._rule_scribe.pack_activated(
            digest,
            act,
            decision,
            before=before.policy_digest if before is not None else None,
            reason=reason,
        )
        return decision

    async def set_posture(self, setting: PostureSetting, *, credential: Credential) -> Decision:
        """Set a posture; who sets it and since when is taken from the credential and the clock."""
        before = self._posture(setting.tool, setting.scope, setting.scope_id)
        act = self._posture_act(
            "posture.set",
            before,
            credential,
            tool=setting.tool,
            scope=setting.scope.value,
            scope_id=setting.scope_id,
            state=setting.state.value,
            expires_at_ms=setting.expires_at_ms,
        )
        decision = await self._permitted(act)
        settled = msgspec.structs.replace(
            setting,
            set_by=credential.principal,
            set_at_ms=act.at_ms,
            by_administrator="administrator" in self._decider.roles_of(credential.principal),
        )
        await self._rule_scribe.posture_set(settled, act, decision, before=before)
        return decision

    async def clear_posture(
        self, tool: str, scope: PostureScope, scope_id: str, *, credential: Credential, reason: str
    ) -> Decision:
        """Remove a posture.

        Raises:
            NotFoundError: none is set.
        """
        before = self._posture(tool, scope, scope_id)
        act = self._posture_act(
            "posture.clear", before, credential, tool=tool, scope=scope.value, scope_id=scope_id
        )
        decision = await self._permitted(act)
        if before is None:
            raise NotFoundError(Code.POSTURE_UNKNOWN)
        await self._rule_scribe.posture_cleared(before, act, decision, reason=reason)
        return decision

    async def add_workspace(self, workspace: Workspace, *, credential: Credential) -> None:
        """Register a workspace."""
        resource = EntityUid("Workspace", workspace.name)
        await self._permitted(self._act("workspace.add", resource, credential, root=workspace.root))
        await self._scribe.workspace_added(workspace, principal=credential.principal)

    async def remove_workspace(self, name: str, *, credential: Credential) -> None:
        """Forget a workspace."""
        await self._permitted(
            self._act("workspace.remove", EntityUid("Workspace", name), credential)
        )
        await self._scribe.workspace_removed(name, principal=credential.principal)

    def _posture(self, tool: str, scope: PostureScope, scope_id: str) -> PostureSetting | None:
        wanted = (tool, scope, scope_id)
        for setting in self._store.postures():
            if (setting.tool, setting.scope, setting.scope_id) == wanted:
                return setting
        return None

    def _posture_act(
        self,
        action: str,
        before: PostureSetting | None,
        credential: Credential,
        *,
        tool: str,
        **details: Any,  # noqa: ANN401 - JSON
    ) -> Act:
        act = self._act(action, EntityUid("Tool", tool), credential, **details)
        is_ceiling = (
            before is not None and before.by_administrator and before.state is Posture.DISABLED
        )
        # Any change may lift it: replaced by one that expires, or that anybody may clear.
        return msgspec.structs.replace(act, lifts_ceiling=is_ceiling)

    def _act(
        self,
        action: str,
        resource: EntityUid,
        credential: Credential,
        **details: Any,  # noqa: ANN401
    ) -> Act:
        return Act(
            action=action,
            credential=credential,
            resource=resource,
            channel=self._channel,
            at_ms=self._clock.now_ms(),
            details=details,
        )

    async def _permitted(self, act: Act) -> Decision:
        """Return the decision if it permits ``act``; record a refusal and raise otherwise.

        A question counts as a refusal: who asks cannot answer it (I6).
        """
        decision = self._decider.decide_act(act)
        if decision.verdict is Verdict.ALLOW:
            return decision
        await self._rule_scribe.act_refused(act, decision)
        raise NotPermittedError(
            Code.ACTION_DENIED,
            f"{act.action} is not permitted to {act.credential.principal}: {decision.reason}",
            details={"action": act.action, "code": decision.code.value},
        )


def _require_packaged(pack: Pack) -> None:
    """Refuse a pack without the packaged policies: they hold what no operator's policy may lift."""
    packaged = packaged_pack(pack.preset).policies if pack.preset in PRESETS else ()
    lacking = set(_texts(packaged)) - set(_texts(pack.policies))
    if lacking or not packaged:
        raise InputError(
            Code.POLICY_INVALID, "the pack does not hold the packaged policies of its preset"
        )


def _texts(policies: Iterable[Policy]) -> Iterator[tuple[str, str]]:
    return ((policy.policy_id, policy.text) for policy in policies)
