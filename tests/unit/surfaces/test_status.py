# SPDX-License-Identifier: Apache-2.0
import msgspec
import pytest

from palyra.core.errors import Code
from palyra.core.ids import CallId, RunId, SessionId
from palyra.core.lifecycle import CallState
from palyra.core.result import CallResult, DecisionView
from palyra.surfaces.status import EXIT_MEANINGS, EXITS, Exit, exit_of_result, is_callers_mistake


def result(state: str, *, verdict: str = "allow", code: Code = Code.TOOL_ALLOWLISTED) -> CallResult:
    return CallResult(
        call_id=CallId("call"),
        tool="palyra.echo",
        state=state,
        session_id=SessionId("session"),
        run_id=RunId("run"),
        call_digest="",
        plan_digest="",
        decision=DecisionView(
            verdict=verdict,
            code=code.value,
            reason="",
            hint="",
            policies=(),
            policy_digest="",
            snapshot_digest="",
        ),
        approval=None,
        outcome=None,
        attestation=None,
    )


def test_every_code_has_a_row() -> None:
    assert set(EXITS) == set(Code)


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (Code.POLICY_PERMITTED, Exit.DONE),
        (Code.POLICY_WAIVED, Exit.DONE),
        (Code.POLICY_FORBIDDEN, Exit.DENIED),
        (Code.POLICY_NO_PERMIT, Exit.DENIED),
        (Code.POLICY_CHANGED, Exit.DENIED),
        (Code.OBLIGATION_UNMET, Exit.DENIED),
        (Code.TOOL_DISABLED, Exit.DENIED),
        (Code.PRINCIPAL_NOT_ALLOWED, Exit.DENIED),
        (Code.CHANNEL_NOT_ALLOWED, Exit.DENIED),
        (Code.ACTION_DENIED, Exit.NOT_PERMITTED),
        (Code.POLICY_INVALID, Exit.WRONG),
        (Code.POLICY_UNKNOWN, Exit.NOT_FOUND),
        (Code.POSTURE_UNKNOWN, Exit.NOT_FOUND),
        (Code.POLICY_EXAMPLE, Exit.PROBLEM_FOUND),
    ],
)
def test_exit_of_what_policy_says(code: Code, status: Exit) -> None:
    assert EXITS[code] is status


@pytest.mark.parametrize(
    "code",
    [code for code in Code if code.value.startswith("policy.")]
    + [Code.OBLIGATION_UNMET, Code.PRINCIPAL_NOT_ALLOWED, Code.CHANNEL_NOT_ALLOWED],
)
def test_what_policy_refuses_is_no_mistake_of_the_caller(code: Code) -> None:
    assert not is_callers_mistake(result("denied", verdict="deny", code=code))


def test_every_exit_code_has_a_meaning_and_a_code() -> None:
    # Nothing that a host could lack exists yet, so no code leads to UNSUPPORTED.
    assert set(EXIT_MEANINGS) == set(Exit) == {*EXITS.values(), Exit.UNSUPPORTED}
    assert [status.value for status in Exit] == list(range(11))


@pytest.mark.parametrize(
    ("told", "status"),
    [
        pytest.param(result("succeeded"), Exit.DONE, id="succeeded"),
        pytest.param(result("pending", verdict="needs_approval"), Exit.DONE, id="pending"),
        pytest.param(result("failed"), Exit.FAILED, id="failed"),
        pytest.param(result("timed_out"), Exit.FAILED, id="timed-out"),
        pytest.param(result("cancelled"), Exit.FAILED, id="cancelled"),
        pytest.param(result("interrupted"), Exit.FAILED, id="interrupted"),
        pytest.param(
            result("denied", verdict="deny", code=Code.TOOL_NOT_ALLOWLISTED),
            Exit.DENIED,
            id="denied-by-policy",
        ),
        pytest.param(
            result("denied", verdict="needs_approval", code=Code.TOOL_SENSITIVE),
            Exit.DENIED,
            id="denied-because-nobody-agreed",
        ),
        pytest.param(
            result("denied", verdict="deny", code=Code.TOOL_UNKNOWN),
            Exit.DENIED,
            id="a-call-of-an-unknown-tool-is-denied",
        ),
        pytest.param(
            result("denied", verdict="deny", code=Code.INPUT_TOO_DEEP),
            Exit.WRONG,
            id="wrong-input",
        ),
        pytest.param(
            result("denied", verdict="deny", code=Code.WORKSPACE_UNKNOWN),
            Exit.WRONG,
            id="a-workspace-that-is-none",
        ),
        pytest.param(result("dry_run"), Exit.DONE, id="would-be-allowed"),
        pytest.param(
            result("dry_run", verdict="needs_approval", code=Code.TOOL_SENSITIVE),
            Exit.DONE,
            id="would-be-asked",
        ),
        pytest.param(
            result("dry_run", verdict="deny", code=Code.BUDGET_EXHAUSTED),
            Exit.DENIED,
            id="would-be-denied",
        ),
        pytest.param(
            result("dry_run", verdict="deny", code=Code.INPUT_NOT_JSON),
            Exit.WRONG,
            id="wrong-input-of-a-dry-run",
        ),
    ],
)
def test_exit_of_result(told: CallResult, status: Exit) -> None:
    assert exit_of_result(told) is status
    assert is_callers_mistake(told) is (status is Exit.WRONG)


@pytest.mark.parametrize("state", sorted(set(CallState) - {CallState.LAUNCHED}))
def test_only_what_was_done_or_waits_ends_with_zero(state: CallState) -> None:
    is_fine = state in {CallState.SUCCEEDED, CallState.PENDING}
    assert (exit_of_result(result(state.value)) is Exit.DONE) is is_fine


def test_an_allowed_call_is_nobodys_mistake() -> None:
    allowed = result("succeeded")
    odd = msgspec.structs.replace(allowed.decision, code="input.invalid")
    assert not is_callers_mistake(msgspec.structs.replace(allowed, decision=odd))
