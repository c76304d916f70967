# SPDX-License-Identifier: Apache-2.0
"""What the configuration is taken to say in, the context that the gate would give a request out.

For requests that nobody made: examples, tests of policies, and questions at the command line. What
they say themselves of the context is taken into account wherever something follows from it.
"""

from __future__ import annotations

import posixpath
import shlex
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from palyra.core.capability import SENSITIVE_CAPABILITIES, Capability
from palyra.core.facts import Facts
from palyra.core.plan import ANYWHERE, Tier
from palyra.core.posture import Posture
from palyra.core.principal import Assurance
from palyra.core.risk import risk_of
from palyra.core.session import BudgetLimits
from palyra.flow.policy.inquiry import common_folder
from palyra.flow.policy.vocabulary import actions

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from palyra.core.policy_request import EntityUid

_KIND_OF: Final = {
    "Agent": "agent",
    "Operator": "operator",
    "Device": "device",
    "Service": "service",
}

_USUAL_BUDGET: Final = BudgetLimits()
_CALLS: Final = ("tool.execute", "tool.preview", "approval.waive")
"""What the allowlist of tools is about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumed:
    """What the configuration would say of a request."""

    capabilities_of: Callable[[str], tuple[str, ...] | None]
    """The powers of a tool by its name; ``None`` where there is no such tool."""
    allowed_tools: frozenset[str] | None
    """``None``: every tool."""
    allow_sensitive_tools: bool
    allowed_principals: frozenset[str] = frozenset()
    """As ``kind:name``; empty means everybody."""
    allowed_channels: frozenset[str] = frozenset()
    channel: str = "embedded"
    assurance: str = Assurance.SEPARATED
    budget: BudgetLimits = _USUAL_BUDGET
    now_ms: int


ASSUMED_FOR_EXAMPLES: Final = Assumed(
    capabilities_of=lambda _: None,
    allowed_tools=None,
    allow_sensitive_tools=False,
    now_ms=1_767_607_200_000,  # Monday 2026-01-05, 10:00 UTC
)
"""Neutral, so that an example means the same everywhere: it shows all that matters to it."""


def capabilities_in(
    said: Mapping[str, Any], *, resource: EntityUid, assumed: Assumed
) -> tuple[str, ...]:
    """Return the powers that are said, or else those that the tool is known to have."""
    if "capabilities" in said:
        return texts_in(said["capabilities"])
    if resource.type != "Tool":
        return ()
    return assumed.capabilities_of(resource.id) or ()


def context_for(
    said: Mapping[str, Any],
    *,
    principal: EntityUid,
    action: str,
    resource: EntityUid,
    assumed: Assumed,
) -> dict[str, Any]:
    """Return the whole context: what is ``said``, and for the rest what the gate would give.

    Tables within are merged. Nothing is checked here: the schema of the policies does that.
    """
    capabilities = capabilities_in(said, resource=resource, assumed=assumed)
    channel = said.get("channel", assumed.channel)
    caller = f"{_KIND_OF.get(principal.type, '')}:{principal.id}"
    is_complete = said.get("is_complete") is not False
    files = said.get("files")
    derived: dict[str, Any] = {
        "allow_sensitive_tools": assumed.allow_sensitive_tools,
        "approved": False,
        "assurance": str(assumed.assurance),
        "budget": full_budget(assumed),
        "capabilities": list(capabilities),
        "channel": channel,
        "depth": 0,
        "duration_ms": 0,
        "initiated": principal.type == "Operator" and said.get("depth", 0) == 0,
        "is_allowlisted_skill": False,
        "is_allowlisted_tool": action in _CALLS and _is_listed(resource, assumed.allowed_tools),
        "is_channel_allowed": _is_allowed(channel, assumed.allowed_channels),
        "is_complete": True,
        "is_principal_allowed": _is_allowed(caller, assumed.allowed_principals),
        "is_sensitive_action": _is_sensitive(action, capabilities),
        "lifts_ceiling": False,
        "plan": _plan(capabilities, files),
        "posture": str(Posture.ALWAYS_ALLOW),
        "risk": _risk(capabilities, files, is_complete=is_complete),
        "run": "",
        "session": "",
        "size_bytes": 0,
        "time": _time(assumed.now_ms),
        "tool_version": "",
    }
    if isinstance(files, dict):
        derived["files"] = _files(files, is_complete=is_complete)
    if isinstance(said.get("process"), dict):
        derived["process"] = _process(said["process"])
    if isinstance(said.get("network"), dict):
        derived["network"] = {"hosts": [], "methods": [], "ports": []}
    return _merged(derived, said)


def _is_listed(resource: EntityUid, tools: frozenset[str] | None) -> bool:
    return resource.type == "Tool" and (tools is None or resource.id in tools)


def _is_allowed(name: object, allowed: Collection[str]) -> bool:
    return not allowed or (isinstance(name, str) and name in allowed)


def _is_sensitive(action: str, capabilities: tuple[str, ...]) -> bool:
    is_power = not SENSITIVE_CAPABILITIES.isdisjoint(capabilities)
    return is_power or "sensitive" in actions().get(action, ())


def _plan(capabilities: tuple[str, ...], files: object) -> dict[str, Any]:
    """Return the plan of a tool that nothing confines: what its powers and files reach."""
    workspace = files.get("workspace") if isinstance(files, dict) else None
    lasts = Capability.FILESYSTEM_WRITE in capabilities and isinstance(workspace, str)
    return {
        "egress": [ANYWHERE] if Capability.NETWORK in capabilities else [],
        "secrets": [ANYWHERE] if Capability.SECRETS_READ in capabilities else [],
        "tier": str(Tier.NONE),
        "writes": [workspace] if lasts else [],
    }


def _risk(capabilities: tuple[str, ...], files: object, *, is_complete: bool) -> str:
    touched = files if isinstance(files, dict) else {}
    facts = Facts(
        protected=texts_in(touched.get("protected")),
        outside=texts_in(touched.get("outside")),
        left_out=0 if is_complete else 1,
    )
    known = [each for each in capabilities if each in set(Capability)]
    return str(risk_of(known, facts))


def _files(said: dict[str, Any], *, is_complete: bool) -> dict[str, Any]:
    # Where paths are left out, or are outside, no folder of the workspace holds them all.
    is_whole = is_complete and not texts_in(said.get("outside"))
    reads, writes = (texts_in(said.get(name)) if is_whole else () for name in ("reads", "writes"))
    return {
        "outside": [],
        "protected": [],
        "reads": [],
        "reads_under": common_folder(reads),
        "workspace": "",
        "writes": [],
        "writes_under": common_folder(writes),
    }


def _process(said: dict[str, Any]) -> dict[str, Any]:
    executable = said.get("executable", "")
    return {
        "argv": [],
        "command": shlex.join(texts_in(said.get("argv"))),
        "executable": "",
        "program": posixpath.basename(executable) if isinstance(executable, str) else "",
    }


def full_budget(assumed: Assumed) -> dict[str, int]:
    """Return the budget of somebody who has made no call yet."""
    return {
        "agent_hour": assumed.budget.max_calls_per_agent_hour,
        "run": assumed.budget.max_calls_per_run,
        "session": assumed.budget.max_calls_per_session,
    }


def _time(now_ms: int) -> dict[str, int]:
    moment = datetime.fromtimestamp(now_ms // 1000, tz=UTC)
    return {
        "hour": moment.hour,
        "minute": moment.minute,
        "unix_ms": now_ms,
        "weekday": moment.isoweekday(),
    }


def texts_in(value: object) -> tuple[str, ...]:
    """Return the texts of a list of texts, and nothing of anything else: Cedar will refuse it."""
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return tuple(value)
    return ()


def _merged(below: dict[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``below`` with what ``above`` says otherwise, table by table."""
    merged = dict(below)
    for name, value in above.items():
        known = merged.get(name)
        merged[name] = (
            _merged(known, value) if isinstance(known, dict) and isinstance(value, dict) else value
        )
    return merged
