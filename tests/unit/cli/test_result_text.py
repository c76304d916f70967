# SPDX-License-Identifier: Apache-2.0
import msgspec
import pytest

from palyra.cli.result_text import hint_about, tone_of, words_of
from palyra.core.attestation import Anchor
from palyra.core.ids import AttestationId, CallId, RunId, SessionId
from palyra.core.result import (
    ApprovalView,
    AttestationView,
    CallResult,
    DecisionView,
    OutcomeError,
    OutcomeView,
)

ALLOWED = CallResult(
    call_id=CallId("CALL"),
    tool="palyra.echo",
    state="succeeded",
    session_id=SessionId("SESSION"),
    run_id=RunId("RUN"),
    call_digest="",
    plan_digest="",
    decision=DecisionView(
        verdict="allow",
        code="tool.allowlisted",
        reason="it is harmless",
        hint="",
        policies=("p",),
        policy_digest="",
        snapshot_digest="",
    ),
    approval=None,
    outcome=OutcomeView(
        ok=True,
        output=msgspec.Raw(b'{"echo":"hi"}'),
        error=None,
        timed_out=False,
        truncated=False,
        limit=None,
        duration_ms=1,
    ),
    attestation=AttestationView(
        attestation_id=AttestationId("ATTESTATION"),
        execution_sha256="",
        executor="builtin",
        sandbox_enforcement="none",
        observed=msgspec.Raw(b"{}"),
        assurance="developer",
        log_index=7,
        anchor=Anchor(index=6, link=""),
    ),
)
ASKED = msgspec.structs.replace(
    ALLOWED.decision,
    verdict="needs_approval",
    code="tool.sensitive",
    reason="a human must agree",
    hint="ask one",
)
NOT_RUN = msgspec.structs.replace(ALLOWED, outcome=None, decision=ASKED)
DRY = msgspec.structs.replace(
    ALLOWED, call_id=None, state="dry_run", outcome=None, attestation=None
)
RECORD = "  call: CALL\n  attestation: ATTESTATION (journal entry 7)"


def test_an_allowed_call() -> None:
    assert words_of(ALLOWED) == (
        "allowed palyra.echo: it is harmless\n  code: tool.allowlisted",
        '{\n  "echo": "hi"\n}',
        RECORD,
    )


@pytest.mark.parametrize(
    ("approval", "told"),
    [
        pytest.param(
            ApprovalView(
                approval_id=None, state="denied", decision="deny", reason="nobody is\there"
            ),
            "denied: nobody is\\u0009here",
            id="nobody-there",
        ),
        pytest.param(
            ApprovalView(approval_id="A", state="denied", decided_by="operator:ada\n"),
            "denied by operator:ada\\u000a",
            id="an-operator-said-no",
        ),
    ],
)
def test_a_denied_call(approval: ApprovalView, told: str) -> None:
    denied = msgspec.structs.replace(NOT_RUN, state="denied", approval=approval)
    first = "denied palyra.echo: a human must agree"
    rest = f"  approval: {told}\n  hint: ask one\n  code: tool.sensitive"
    assert words_of(denied) == (f"{first}\n{rest}", RECORD)
    assert tone_of(denied) == "bad"


def test_a_pending_call() -> None:
    pending = msgspec.structs.replace(
        NOT_RUN,
        state="pending",
        attestation=None,
        approval=ApprovalView(approval_id="A", state="pending"),
    )
    first = "pending palyra.echo: a human must agree"
    rest = "  approval: pending, A\n  hint: ask one\n  code: tool.sensitive"
    assert words_of(pending) == (f"{first}\n{rest}", "  call: CALL")
    assert tone_of(pending) == "held"


@pytest.mark.parametrize(
    ("state", "word"),
    [("failed", "failed"), ("timed_out", "timed out"), ("interrupted", "interrupted")],
)
def test_a_call_that_failed_tells_why_the_tool_did(state: str, word: str) -> None:
    outcome = OutcomeView(
        ok=False,
        output=msgspec.Raw(b"null"),
        error=OutcomeError(code="fs.io", message="no\x1b", hint="look"),
        timed_out=False,
        truncated=False,
        limit=None,
        duration_ms=1,
    )
    failed = msgspec.structs.replace(ALLOWED, state=state, outcome=outcome)
    told = f"{word} palyra.echo: no\\u001b\n  hint: look\n  code: fs.io"
    assert words_of(failed) == (told, RECORD)
    assert tone_of(failed) == "bad"


@pytest.mark.parametrize(
    ("verdict", "word", "tone"),
    [
        ("allow", "would be allowed", "good"),
        ("needs_approval", "would ask a human", "held"),
        ("deny", "would be denied", "bad"),
    ],
)
def test_a_dry_run(verdict: str, word: str, tone: str) -> None:
    decision = msgspec.structs.replace(DRY.decision, verdict=verdict)
    dry = msgspec.structs.replace(DRY, decision=decision)
    assert words_of(dry) == (f"{word} palyra.echo: it is harmless\n  code: tool.allowlisted",)
    assert tone_of(dry) == tone


def test_output_cannot_write_lines_of_ours() -> None:
    output = msgspec.Raw(b'{"echo":"\\n  call: FORGED"}')
    forged = msgspec.structs.replace(
        ALLOWED,
        outcome=msgspec.structs.replace(ALLOWED.outcome, output=output),  # type: ignore[type-var]
    )
    assert words_of(forged)[1] == '{\n  "echo": "\\n  call: FORGED"\n}'


def test_a_hint_names_the_call_that_is_meant() -> None:
    hint = "'palyra policy explain CALL_ID' tells"
    assert hint_about(hint, "01J") == "'palyra policy explain 01J' tells"
    assert hint_about("write to CALL_ID", "01J") == "write to CALL_ID"
