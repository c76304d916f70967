# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import msgspec
import pytest

from palyra.core.errors import Code
from palyra.core.execution import Enforcement, Execution, Executor, Failure, Outcome
from palyra.core.lifecycle import CallState
from tests.support.samples import NOW_MS, PERMIT_ID


@pytest.mark.parametrize("state", CallState)
def test_only_success_is_ok(state: CallState) -> None:
    outcome = Outcome(state=state, output=None, failure=None)
    assert outcome.ok is (state is CallState.SUCCEEDED)


def test_names_the_contract_relies_on() -> None:
    assert {executor.value for executor in Executor} == {"builtin", "workspace", "policy"}
    assert [level.value for level in Enforcement] == ["none", "preflight", "strict"]


def test_failures_do_not_share_their_details() -> None:
    one, two = (Failure(code=Code.TOOL_FAILED, message="no") for _ in range(2))
    assert one.details == {}
    assert one.details is not two.details


def test_execution_names_its_permit() -> None:
    execution = Execution(
        permit_id=PERMIT_ID,
        executor=Executor.BUILTIN,
        enforcement=Enforcement.NONE,
        observed=msgspec.Raw(b"{}"),
        outcome=Outcome(state=CallState.SUCCEEDED, output=msgspec.Raw(b"1"), failure=None),
        started_at_ms=NOW_MS,
        ended_at_ms=NOW_MS + 1,
    )
    assert execution.permit_id == PERMIT_ID
