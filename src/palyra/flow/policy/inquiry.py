# SPDX-License-Identifier: Apache-2.0
"""A call in, the question that policy is asked about it out: typed facts, never raw arguments (I2).

Each attribute of the Cedar context is kept as canonical JSON text of its own, so that a question is
put together by joining, and two questions can be compared by what a policy would look at.
"""

from __future__ import annotations

import posixpath
import shlex
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import msgspec
import orjson

from palyra.core.canonical import canonicalize
from palyra.core.facts import NO_FACTS
from palyra.core.plan import SandboxPlan
from palyra.core.policy_request import EntityUid, PolicyRequest
from palyra.core.posture import Posture
from palyra.core.principal import PrincipalKind
from palyra.core.risk import risk_of
from palyra.core.session import BudgetLeft
from palyra.flow.policy.vocabulary import actions

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from palyra.core.act import Act
    from palyra.core.facts import Facts
    from palyra.core.principal import Principal
    from palyra.core.proposal import Proposal
    from palyra.core.snapshot import ToolCallPolicySnapshot

EXECUTE: Final = "tool.execute"
WAIVE: Final = "approval.waive"
_MOST_FRAMES: Final = 1024
_MOST_LONG: Final = (1 << 53) - 1
"""Cedar's Long goes further, but canonical JSON does not."""
_TYPES: Final = {
    PrincipalKind.AGENT: "Agent",
    PrincipalKind.OPERATOR: "Operator",
    PrincipalKind.SERVICE: "Service",
}
_BOOLS: Final = {True: "true", False: "false"}
_NO_PLAN: Final = SandboxPlan()
_UNLIMITED: Final = BudgetLeft(run=1, session=1, agent_hour=1)
_budgets: Final = msgspec.json.Decoder(BudgetLeft)


USUAL: Final[Mapping[str, str]] = MappingProxyType(
    {
        "allow_sensitive_tools": "false",
        "approved": "false",
        "capabilities": "[]",
        "depth": "0",
        "duration_ms": "0",
        "initiated": "false",
        "is_allowlisted_skill": "false",
        "is_allowlisted_tool": "true",
        "is_channel_allowed": "true",
        "is_complete": "true",
        "is_principal_allowed": "true",
        "is_sensitive_action": "false",
        "lifts_ceiling": "false",
        "plan": '{"egress":[],"secrets":[],"tier":"none","writes":[]}',
        "posture": '"always_allow"',
        "risk": '"low"',
        "size_bytes": "0",
    }
)
"""What is left out of a journaled question, and means this there. It never changes: journals are
read for ever. An attribute that comes later is added here with what it means for older questions.
"""


@dataclass(frozen=True, kw_only=True)
class Inquiry:
    """One question, ready to be put; ``attributes`` are in the order of their names."""

    principal: EntityUid
    roles: tuple[str, ...]
    action: str
    resource: EntityUid
    groups: tuple[EntityUid, ...]
    attributes: Mapping[str, str]
    left: BudgetLeft

    @cached_property
    def context_json(self) -> str:
        """The context as canonical JSON."""
        fields = [f'"{name}":{text}' for name, text in self.attributes.items()]
        return "{" + ",".join(fields) + "}"

    def shown(self, names: Iterable[str]) -> str:
        """Return the context of some attributes alone, those that there are."""
        seen = self.attributes
        fields = [f'"{name}":{seen[name]}' for name in names if name in seen]
        return "{" + ",".join(fields) + "}"

    def supposing(self, **attributes: bool) -> Inquiry:
        """Return the question with some attributes otherwise."""
        changed = {name: _BOOLS[value] for name, value in attributes.items()}
        return replace(self, attributes={**self.attributes, **changed})

    def is_true(self, name: str) -> bool:
        """Say whether an attribute is ``true``."""
        return self.attributes.get(name) == "true"

    @property
    def request(self) -> PolicyRequest:
        """The question as it is journaled."""
        return PolicyRequest(
            principal=self.principal,
            roles=self.roles,
            action=self.action,
            resource=self.resource,
            groups=self.groups,
            context=msgspec.Raw(self._telling_json.encode()),
        )

    @property
    def _telling_json(self) -> str:
        """The context without what goes without saying, as canonical JSON."""
        fields = [
            f'"{name}":{text}' for name, text in self.attributes.items() if USUAL.get(name) != text
        ]
        return "{" + ",".join(fields) + "}"


def inquiry_of(request: PolicyRequest) -> Inquiry:
    """Take up a journaled question again, exactly as it was put.

    Raises:
        ValueError: its context is not the JSON object that it should be.
    """
    context = orjson.loads(bytes(request.context))
    if not isinstance(context, dict):
        raise ValueError("the context is not an object")  # noqa: TRY004 - of data, not of a type
    told = {name: canonicalize(value).decode() for name, value in context.items()}
    both = {**USUAL, **told}
    attributes = {name: both[name] for name in sorted(both)}
    try:
        left = _budgets.decode(attributes.get("budget", ""))
    except msgspec.MsgspecError as error:
        raise ValueError("the context has no budget") from error
    return Inquiry(
        principal=request.principal,
        roles=request.roles,
        action=request.action,
        resource=request.resource,
        groups=request.groups,
        attributes=attributes,
        left=left,
    )


class Inquiries:
    """Asks for one configuration."""

    def __init__(
        self,
        snapshot: ToolCallPolicySnapshot,
        *,
        assurance: str,
        administrators: frozenset[Principal],
    ) -> None:
        self._tools = frozenset(snapshot.allowed_tools)
        self._principals = frozenset(snapshot.allowed_principals)
        self._channels = frozenset(snapshot.allowed_channels)
        self._allow_sensitive = _BOOLS[snapshot.allow_sensitive_tools]
        self._assurance = _text(assurance)
        self._administrators = administrators
        self._frame = lru_cache(maxsize=_MOST_FRAMES)(self._new_frame)  # I13

    def about_call(
        self, proposal: Proposal, *, left: BudgetLeft, posture: Posture, now_ms: int
    ) -> Inquiry:
        """Return the question about one proposed call.

        Raises:
            ValueError: a number is beyond what policies can compare.
        """
        facts = proposal.facts
        attributes = dict(
            self._frame(
                proposal.principal,
                proposal.tool,
                proposal.tool_version,
                proposal.capabilities,
                proposal.is_sensitive,
                proposal.plan,
                proposal.channel,
                proposal.depth,
                posture,
            )
        )
        attributes["budget"] = _budget(left)
        attributes["run"] = f'"{proposal.run_id}"'
        attributes["session"] = f'"{proposal.session_id}"'
        attributes["time"] = _time(now_ms)
        if facts is not NO_FACTS or proposal.workspace is not None:
            attributes = _with_facts(attributes, proposal)
        return Inquiry(
            principal=uid_of(proposal.principal),
            roles=self.roles_of(proposal.principal),
            action=EXECUTE,
            resource=EntityUid("Tool", proposal.tool),
            groups=groups_of(proposal.tool, proposal.capabilities),
            attributes=attributes,
            left=left,
        )

    def _new_frame(  # noqa: PLR0913, PLR0917 - what calls have in common, as a key
        self,
        principal: Principal,
        tool: str,
        tool_version: str,
        capabilities: tuple[str, ...],
        is_sensitive: bool,  # noqa: FBT001 - of a key
        plan: SandboxPlan,
        channel: str,
        depth: int,
        posture: Posture,
    ) -> dict[str, str]:
        """Return the attributes of every such call; those that differ each time are empty."""
        is_operator = principal.kind is PrincipalKind.OPERATOR
        return {
            "allow_sensitive_tools": self._allow_sensitive,
            "approved": "false",
            "assurance": self._assurance,
            "budget": "",
            "capabilities": _texts(capabilities),
            "channel": _text(channel),
            "depth": str(depth),
            "duration_ms": "0",
            "initiated": _BOOLS[is_operator and depth == 0],
            "is_allowlisted_skill": "false",
            "is_allowlisted_tool": _BOOLS[tool in self._tools],
            "is_channel_allowed": self._is_allowed(channel, self._channels),
            "is_complete": "true",
            "is_principal_allowed": self._is_allowed(str(principal), self._principals),
            "is_sensitive_action": _BOOLS[is_sensitive],
            "lifts_ceiling": "false",
            "plan": _plan(plan),
            "posture": f'"{posture}"',
            "risk": f'"{risk_of(capabilities, NO_FACTS)}"',
            "run": "",
            "session": "",
            "size_bytes": "0",
            "time": "",
            "tool_version": f'"{tool_version}"',
        }

    def about_act(self, act: Act) -> Inquiry:
        """Return the question about a management action."""
        principal = act.credential.principal
        attributes = {
            "allow_sensitive_tools": self._allow_sensitive,
            "approved": "false",
            "assurance": self._assurance,
            "budget": _budget(_UNLIMITED),
            "capabilities": "[]",
            "channel": _text(act.channel),
            "depth": "0",
            "duration_ms": "0",
            "initiated": _BOOLS[principal.kind is PrincipalKind.OPERATOR],
            "is_allowlisted_skill": "false",
            "is_allowlisted_tool": "false",
            "is_channel_allowed": self._is_allowed(act.channel, self._channels),
            "is_complete": "true",
            "is_principal_allowed": self._is_allowed(str(principal), self._principals),
            "is_sensitive_action": _BOOLS["sensitive" in actions().get(act.action, ())],
            "lifts_ceiling": _BOOLS[act.lifts_ceiling],
            "plan": _plan(_NO_PLAN),
            "posture": f'"{Posture.ALWAYS_ALLOW}"',
            "risk": f'"{risk_of((), NO_FACTS)}"',
            "run": '""',
            "session": '""',
            "size_bytes": "0",
            "time": _time(act.at_ms),
            "tool_version": '""',
        }
        return Inquiry(
            principal=uid_of(principal),
            roles=self.roles_of(principal),
            action=act.action,
            resource=act.resource,
            groups=(),
            attributes=attributes,
            left=_UNLIMITED,
        )

    def roles_of(self, principal: Principal) -> tuple[str, ...]:
        """Return the roles that somebody has by who they are."""
        return ("administrator",) if principal in self._administrators else ()

    @staticmethod
    def _is_allowed(name: str, allowed: frozenset[str]) -> str:
        return _BOOLS[not allowed or name in allowed]


@lru_cache(maxsize=1024)
def groups_of(tool: str, capabilities: tuple[str, ...]) -> tuple[EntityUid, ...]:
    """Return what a tool is in by its name and powers: ``a.b.c`` is in ``a`` and ``a.b``."""
    words = tool.split(".")
    prefixes = [".".join(words[:count]) for count in range(1, len(words))]
    return (
        *(EntityUid("ToolGroup", prefix) for prefix in prefixes),
        *(EntityUid("Capability", capability) for capability in capabilities),
    )


def common_folder(paths: Iterable[str]) -> str:
    """Return the deepest folder that holds all ``paths``; ``""`` where only the workspace does."""
    folders = set()
    for path in paths:
        if _is_odd(path):
            return ""
        folders.add(posixpath.dirname(path))
    return posixpath.commonpath(folders) if folders else ""


def _is_odd(path: str) -> bool:
    """Say whether a path does not lead where its text suggests; the executor refuses such paths."""
    return not all(word.strip(".") for word in path.removesuffix("/").split("/"))


def _with_facts(attributes: dict[str, str], proposal: Proposal) -> dict[str, str]:
    """Return the attributes with what the call is about, in the order of their names."""
    facts, workspace = proposal.facts, workspace_of(proposal)
    found = {
        "duration_ms": _long(facts.duration_ms),
        "is_complete": _BOOLS[facts.left_out == 0],
        "risk": f'"{risk_of(proposal.capabilities, facts)}"',
        "size_bytes": _long(facts.size_bytes),
    }
    if workspace is not None or facts.reads or facts.writes or facts.outside or facts.protected:
        found["files"] = _files(facts, workspace or "")
    if facts.executable or facts.argv:
        found["process"] = _process(facts)
    if facts.hosts or facts.ports or facts.methods:
        found["network"] = (
            f'{{"hosts":{_texts(facts.hosts)},"methods":{_texts(facts.methods)},'
            f'"ports":{_longs(facts.ports)}}}'
        )
    both = attributes | found
    return {name: both[name] for name in sorted(both)}


def _files(facts: Facts, workspace: str) -> str:
    is_whole = facts.left_out == 0 and not facts.outside
    return (
        f'{{"outside":{_texts(facts.outside)},"protected":{_texts(facts.protected)},'
        f'"reads":{_texts(facts.reads)},'
        f'"reads_under":{_text(common_folder(facts.reads) if is_whole else "")},'
        f'"workspace":{_text(workspace)},"writes":{_texts(facts.writes)},'
        f'"writes_under":{_text(common_folder(facts.writes) if is_whole else "")}}}'
    )


def _process(facts: Facts) -> str:
    return (
        f'{{"argv":{_texts(facts.argv)},"command":{_text(shlex.join(facts.argv))},'
        f'"executable":{_text(facts.executable)},'
        f'"program":{_text(posixpath.basename(facts.executable))}}}'
    )


def _budget(left: BudgetLeft) -> str:
    return f'{{"agent_hour":{left.agent_hour},"run":{left.run},"session":{left.session}}}'


def _time(now_ms: int) -> str:
    minutes = now_ms // 60_000
    return (
        f'{{"hour":{minutes // 60 % 24},"minute":{minutes % 60},"unix_ms":{now_ms},'
        f'"weekday":{(minutes // 1440 + 3) % 7 + 1}}}'
    )


@lru_cache(maxsize=1024)
def _plan(plan: SandboxPlan) -> str:
    return (
        f'{{"egress":{_texts(plan.egress)},"secrets":{_texts(plan.secrets)},'
        f'"tier":"{plan.tier}","writes":{_texts(plan.writes)}}}'
    )


def workspace_of(proposal: Proposal) -> str | None:
    """Return the workspace that a call is about: the one it runs in, else the one it names."""
    if proposal.workspace is not None:
        return proposal.workspace.name
    return proposal.facts.workspace


def uid_of(principal: Principal) -> EntityUid:
    """Return the entity that stands for a principal."""
    return EntityUid(_TYPES[principal.kind], principal.name)


def _text(text: str) -> str:
    return orjson.dumps(text).decode()


def _texts(texts: Iterable[str]) -> str:
    return orjson.dumps(sorted(set(texts))).decode()


def _long(number: int) -> str:
    if not -_MOST_LONG <= number <= _MOST_LONG:
        raise ValueError("a number is beyond 2^53 - 1")
    return str(number)


def _longs(numbers: Iterable[int]) -> str:
    return f"[{','.join(_long(number) for number in sorted(set(numbers)))}]"
