# SPDX-License-Identifier: Apache-2.0
"""The policy engine: a proposal or an act in, a decision under the rules of this moment out.

The rules are held as one value that is replaced as a whole, so no decision mixes two packs (I4).
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from typing import TYPE_CHECKING, Final

import msgspec

from palyra.core.decision import Decision, Verdict
from palyra.core.digest import PolicyDigest, SnapshotDigest, policy_digest
from palyra.core.errors import MEANINGS, Code, IntegrityError, PalyraError
from palyra.core.pack import read_pack
from palyra.core.posture import Posture, PostureScope, PostureSetting, strictest
from palyra.core.principal import PrincipalKind
from palyra.core.trace import trace_of
from palyra.flow.policy.inquiry import uid_of, workspace_of
from palyra.flow.policy.rules import Judgement, Rules

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from palyra.core.act import Act
    from palyra.core.digest import CallDigest
    from palyra.core.ports import Clock, RulesStore
    from palyra.core.principal import Principal
    from palyra.core.proposal import Proposal
    from palyra.core.session import BudgetLeft
    from palyra.flow.policy.inquiry import Inquiries, Inquiry

_log: Final = logging.getLogger(__name__)
_NO_RULES: Final = PolicyDigest("")


class _InForce(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a decision rests on besides the call, as of one moment."""

    version: int
    rules: Rules | None
    """``None`` where the pack in force cannot be loaded: then everything is forbidden (I1)."""
    policy_digest: PolicyDigest
    postures: dict[str, tuple[PostureSetting, ...]]
    is_blind: bool = False
    """Whether the store cannot be read: then every tool counts as disabled (I1)."""

    def posture_of(self, proposal: Proposal, *, now_ms: int) -> Posture:
        if self.is_blind:
            return Posture.DISABLED
        settings = self.postures.get(proposal.tool)
        if settings is None:
            return Posture.ALWAYS_ALLOW
        return strictest((each for each in settings if _concerns(each, proposal)), now_ms=now_ms)


class CedarPolicy:
    """Decides by the pack that the store says is in force."""

    def __init__(
        self,
        *,
        store: RulesStore,
        inquiries: Inquiries,
        snapshot_digest: SnapshotDigest,
        clock: Clock,
        fallback: Callable[[], Rules],
    ) -> None:
        """Take up the rules in force.

        ``fallback`` gives the packaged rules, which decide about acts (and about no call) while the
        pack in force cannot be loaded.
        """
        self._store = store
        self._inquiries = inquiries
        self._clock = clock
        self._fallback = fallback
        self._fresh_in: asyncio.AbstractEventLoop | None = None
        self.snapshot_digest = snapshot_digest
        self._in_force = _InForce(version=-1, rules=None, policy_digest=_NO_RULES, postures={})
        self._take_up()

    @property
    def policy_digest(self) -> PolicyDigest:
        """Identify the pack in force."""
        return self._in_force.policy_digest

    @property
    def rules_version(self) -> int:
        """Count the changes of the rules as far as they were taken up."""
        return self._in_force.version

    @property
    def rules(self) -> Rules | None:
        """The pack in force, loaded; ``None`` if it cannot be."""
        return self._in_force.rules

    def refresh(self, *, at_once: bool = False) -> None:
        """Take up the rules that are in force now.

        Within one turn of the event loop they are looked up once, unless ``at_once``: calls that
        come together are recorded together after it, and the store launches none that older rules
        have decided (I4).
        """
        loop = _running_loop()
        if loop is not None and loop is self._fresh_in and not at_once:
            return
        self._take_up()
        if loop is not None:
            self._fresh_in = loop
            loop.call_soon(self._grow_stale)

    def _grow_stale(self) -> None:
        self._fresh_in = None

    def _take_up(self) -> None:
        known = self._in_force
        try:
            if self._store.rules_version() == known.version and not known.is_blind:
                return
            now = self._store.rules_in_force()
            version = now.version if now is not None else 0
            digest = now.policy_digest if now is not None else _NO_RULES
            rules = known.rules if digest == known.policy_digest else self._load(digest)
            self._in_force = _InForce(
                version=version,
                rules=rules,
                policy_digest=digest,
                postures=_by_tool(self._store.postures()),
            )
        except PalyraError as error:
            _log.error("the rules in force cannot be read: %s", trace_of(error))
            self._in_force = msgspec.structs.replace(known, is_blind=True)

    def decide(self, proposal: Proposal, *, left: BudgetLeft) -> Decision:
        """Return the verdict on ``proposal``."""
        in_force = self._in_force
        now_ms = self._clock.now_ms()
        posture = in_force.posture_of(proposal, now_ms=now_ms)
        try:
            inquiry = self._inquiries.about_call(
                proposal, left=left, posture=posture, now_ms=now_ms
            )
        except (TypeError, ValueError):  # orjson's own fault is a TypeError
            refusal = MEANINGS[Code.POLICY_REQUEST_INVALID].sentence
            judgement = Judgement(Verdict.FORBID, Code.POLICY_REQUEST_INVALID, refusal)
            return self._decision(proposal.call_digest, judgement, None, in_force)
        return self._decide(proposal.call_digest, inquiry, in_force)

    def decide_act(self, act: Act) -> Decision:
        """Return the verdict on what somebody wants to manage."""
        self._take_up()
        in_force = self._in_force
        if in_force.rules is None and not in_force.is_blind:
            # Otherwise nobody could ever put a pack into force that can be loaded.
            rules = self._fallback()
            in_force = msgspec.structs.replace(
                in_force, rules=rules, policy_digest=rules.policy_digest
            )
        return self._decide(act.digest, self._inquiries.about_act(act), in_force)

    def roles_of(self, principal: Principal) -> tuple[str, ...]:
        """Return the roles that somebody has, by who they are and by membership."""
        rules = self._in_force.rules
        by_membership = rules.roles_of(uid_of(principal)) if rules is not None else ()
        return (*self._inquiries.roles_of(principal), *by_membership)

    def _decide(self, digest: CallDigest, inquiry: Inquiry, in_force: _InForce) -> Decision:
        if in_force.rules is None:
            judgement = Judgement(
                Verdict.FORBID, Code.POLICY_FAULT, "the policies in force cannot be loaded"
            )
        else:
            judgement = in_force.rules.judge(inquiry)
        return self._decision(digest, judgement, inquiry, in_force)

    def _decision(
        self,
        digest: CallDigest,
        judgement: Judgement,
        inquiry: Inquiry | None,
        in_force: _InForce,
    ) -> Decision:
        is_allowed = judgement.verdict is Verdict.ALLOW
        return Decision(
            call_digest=digest,
            verdict=judgement.verdict,
            code=judgement.code,
            reason=judgement.reason,
            hint="" if is_allowed else MEANINGS[judgement.code].hint,
            policies=judgement.policies,
            policy_digest=in_force.policy_digest,
            snapshot_digest=self.snapshot_digest,
            obligations=judgement.obligations,
            request=inquiry.request if inquiry is not None else None,
            rules_version=in_force.version,
        )

    def _load(self, digest: PolicyDigest) -> Rules | None:
        kept = self._store.pack(digest)
        if kept is None:
            _log.error("the policy pack in force is not kept: %s", digest)
            return None
        try:
            return load_rules(kept.body, digest)
        except IntegrityError as error:
            _log.error("the policy pack in force cannot be loaded: %s", error)
            return None


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def load_rules(body: bytes, digest: PolicyDigest) -> Rules:
    """Return the rules that a kept pack holds, once it is sure that it is that pack.

    Raises:
        IntegrityError: the body is not what the digest says, or not a pack.
    """
    if policy_digest(body) != digest:
        raise IntegrityError(Code.STORE_CORRUPT, f"policy pack {digest} is not what was staged")
    try:
        return Rules(read_pack(body), policy_digest=digest)
    except (msgspec.MsgspecError, ValueError) as error:
        raise IntegrityError(Code.STORE_CORRUPT, f"policy pack {digest} cannot be read") from error


def _by_tool(settings: Iterable[PostureSetting]) -> dict[str, tuple[PostureSetting, ...]]:
    tools: defaultdict[str, list[PostureSetting]] = defaultdict(list)
    for setting in settings:
        tools[setting.tool].append(setting)
    return {tool: tuple(settings) for tool, settings in tools.items()}


def _concerns(setting: PostureSetting, proposal: Proposal) -> bool:
    match setting.scope:
        case PostureScope.GLOBAL:
            return True
        case PostureScope.WORKSPACE:
            return workspace_of(proposal) == setting.scope_id
        case PostureScope.AGENT:
            caller = proposal.principal
            return caller.kind is PrincipalKind.AGENT and caller.name == setting.scope_id
        case PostureScope.SESSION:
            return proposal.session_id == setting.scope_id
