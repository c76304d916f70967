# SPDX-License-Identifier: Apache-2.0
"""What policy would say of a tool before anybody calls it: a manifest in, a decision out.

Arguments and budgets may change the answer. Records nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from palyra.core.digest import PlanDigest, call_digest
from palyra.core.facts import NO_FACTS
from palyra.core.ids import CallId, RunId, SessionId
from palyra.core.plan import SandboxPlan
from palyra.core.proposal import Proposal
from palyra.core.session import BudgetLeft
from palyra.daemon.compose import CHANNEL

if TYPE_CHECKING:
    from palyra.core.decision import Decision
    from palyra.core.manifest import ToolManifest
    from palyra.core.ports import PolicyEngine
    from palyra.core.principal import Credential

_NO_ARGUMENTS: Final = msgspec.Raw(b"{}")
_FULL: Final = BudgetLeft(run=1, session=1, agent_hour=1)


def verdict_on(manifest: ToolManifest, *, caller: Credential, engine: PolicyEngine) -> Decision:
    """Return what the policy in force would say if ``caller`` called this tool."""
    return engine.decide(_imagined_call(manifest, caller), left=_FULL)


def _imagined_call(manifest: ToolManifest, caller: Credential) -> Proposal:
    return Proposal(
        call_id=CallId(""),
        request_id=None,
        principal=caller.principal,
        credential_id=caller.credential_id,
        session_id=SessionId(""),
        run_id=RunId(""),
        parent_call_id=None,
        depth=0,
        tool=manifest.name,
        tool_version=manifest.version,
        capabilities=tuple(sorted(manifest.capabilities)),
        is_sensitive=manifest.is_sensitive,
        executor=manifest.executor,
        arguments=_NO_ARGUMENTS,
        journaled_arguments=_NO_ARGUMENTS,
        facts=NO_FACTS,
        workspace=None,
        channel=CHANNEL,
        plan=SandboxPlan(),
        call_digest=call_digest(
            tool=manifest.name, version=manifest.version, canonical_arguments=bytes(_NO_ARGUMENTS)
        ),
        plan_digest=PlanDigest(""),
        timeout_ms=1,
        proposed_at_ms=0,
    )
