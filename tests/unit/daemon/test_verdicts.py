# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from palyra.core.decision import Verdict
from palyra.core.errors import Code
from palyra.daemon.local_identity import local_agent, local_operator
from palyra.daemon.settings import Settings
from palyra.daemon.verdicts import verdict_on
from palyra.tools.built_in import built_in_catalogue

if TYPE_CHECKING:
    from palyra.core.manifest import ToolManifest

TOOLS = {manifest.name: manifest for manifest in built_in_catalogue()}
NOTHING_ALLOWED = Settings(
    tool_call=msgspec.structs.replace(Settings().tool_call, allowed_tools=())
)


@pytest.mark.parametrize("manifest", TOOLS.values(), ids=TOOLS)
def test_an_agent_is_asked_about_exactly_where_it_is_sensitive(manifest: ToolManifest) -> None:
    decision = verdict_on(manifest, caller=local_agent("demo"), settings=Settings())
    assert decision.verdict is (Verdict.ASK if manifest.is_sensitive else Verdict.ALLOW)


@pytest.mark.parametrize("manifest", TOOLS.values(), ids=TOOLS)
def test_an_operators_own_call_is_allowed(manifest: ToolManifest) -> None:
    decision = verdict_on(manifest, caller=local_operator(), settings=Settings())
    assert (decision.verdict, decision.code) == (Verdict.ALLOW, Code.OPERATOR_INITIATED)


@pytest.mark.invariant("I1")
@pytest.mark.parametrize("manifest", TOOLS.values(), ids=TOOLS)
def test_what_is_not_listed_is_forbidden_to_everybody(manifest: ToolManifest) -> None:
    for caller in (local_operator(), local_agent("demo")):
        decision = verdict_on(manifest, caller=caller, settings=NOTHING_ALLOWED)
        assert (decision.verdict, decision.code) == (Verdict.FORBID, Code.TOOL_NOT_ALLOWLISTED)
