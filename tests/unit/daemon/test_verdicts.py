# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from palyra.core.decision import Verdict
from palyra.core.errors import Code
from palyra.daemon.compose import cedar_policy
from palyra.daemon.local_identity import local_agent, local_operator
from palyra.daemon.rules_reading import PackagedRules
from palyra.daemon.settings import Settings
from palyra.daemon.verdicts import verdict_on
from palyra.tools.built_in import built_in_catalogue
from tests.support.scripted import FakeClock

if TYPE_CHECKING:
    from palyra.core.decision import Decision
    from palyra.core.manifest import ToolManifest
    from palyra.core.principal import Credential

TOOLS = {manifest.name: manifest for manifest in built_in_catalogue()}
NOTHING_ALLOWED = Settings(
    tool_call=msgspec.structs.replace(Settings().tool_call, allowed_tools=())
)


def verdict(manifest: ToolManifest, caller: Credential, settings: Settings) -> Decision:
    engine = cedar_policy(PackagedRules(), settings, clock=FakeClock())
    return verdict_on(manifest, caller=caller, engine=engine)


@pytest.mark.parametrize("manifest", TOOLS.values(), ids=TOOLS)
def test_an_agent_is_asked_about_exactly_where_it_is_sensitive(manifest: ToolManifest) -> None:
    decision = verdict(manifest, local_agent("demo"), Settings())
    assert decision.verdict is (Verdict.ASK if manifest.is_sensitive else Verdict.ALLOW)


@pytest.mark.parametrize("manifest", TOOLS.values(), ids=TOOLS)
def test_an_operators_own_call_is_allowed(manifest: ToolManifest) -> None:
    decision = verdict(manifest, local_operator(), Settings())
    assert (decision.verdict, decision.code) == (Verdict.ALLOW, Code.OPERATOR_INITIATED)


@pytest.mark.invariant("I1")
@pytest.mark.parametrize("manifest", TOOLS.values(), ids=TOOLS)
def test_what_is_not_listed_is_forbidden_to_everybody(manifest: ToolManifest) -> None:
    for caller in (local_operator(), local_agent("demo")):
        decision = verdict(manifest, caller, NOTHING_ALLOWED)
        assert (decision.verdict, decision.code) == (Verdict.FORBID, Code.TOOL_NOT_ALLOWLISTED)
