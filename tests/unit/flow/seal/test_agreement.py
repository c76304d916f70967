# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from palyra.core.attestation import Anchor
from palyra.core.canonical import canonical_record
from palyra.core.chain import Entry
from palyra.core.digest import call_digest, content_sha256
from palyra.core.errors import Code
from palyra.core.events import (
    ApprovalRequested,
    CallEnded,
    CallInterrupted,
    Event,
    RunOpened,
    SessionOpened,
    WorkspaceAdded,
    WorkspaceRemoved,
)
from palyra.core.execution import Enforcement, Execution, Executor, Failure, Outcome
from palyra.core.ids import CallId, InstanceId, RunId, SessionId
from palyra.core.lifecycle import CallState
from palyra.core.permit import Permit
from palyra.core.ports import CallRecord, RulesInForce
from palyra.core.principal import Assurance
from palyra.core.result import call_result, ending_of
from palyra.flow.seal.agreement import StateAgreement
from palyra.flow.seal.attest import Attestor
from tests.support.samples import (
    AGENT,
    ALLOW,
    APPROVAL_ID,
    ATTESTATION,
    CREDENTIAL_ID,
    NO_ENDING,
    NOW_MS,
    PERMIT_ID,
    PROPOSAL,
)
from tests.support.scripted import CountedIds, FakeClock
from tests.support.store import (
    KEY,
    RUN,
    SESSION,
    WORKSPACE,
    activate,
    call_id,
    decided,
    launched,
    note,
    pack_digest,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from palyra.core.ports import JournalReader, StagedPack
    from palyra.core.posture import PostureSetting
    from palyra.core.session import Run, Session
    from palyra.core.workspace import Workspace

change = msgspec.structs.replace
ASKED = ApprovalRequested(call_id=call_id(1), approval_id=APPROVAL_ID)
ADDED = WorkspaceAdded(
    principal="operator:grace", name="site", root="/srv/site", folder=WORKSPACE.folder
)
REMOVED = WorkspaceRemoved(principal="operator:grace", name="site")


def ended(state: str, number: int = 1) -> CallEnded:
    outcome = change(ATTESTATION.statement.outcome, state=state)
    statement = change(ATTESTATION.statement, outcome=outcome)
    return CallEnded(
        call_id=call_id(number),
        attestation=change(ATTESTATION, statement=statement),
        ending_sha256=NO_ENDING,
    )


def troubles(*events: Event) -> list[str | None]:
    agreement = StateAgreement()
    return [agreement.follow(index, event) for index, event in enumerate(events, start=1)]


@pytest.mark.parametrize(
    "events",
    [
        pytest.param((decided(1), launched(1), ended("succeeded")), id="executed"),
        pytest.param((decided(1), ended("denied")), id="denied"),
        pytest.param((decided(1), ASKED, ended("denied")), id="asked-and-denied"),
        pytest.param((decided(1), ASKED, launched(1), ended("failed")), id="asked-and-executed"),
        pytest.param((decided(1), launched(1), decided(2), ended("cancelled")), id="two-at-once"),
        pytest.param((ADDED, REMOVED, ADDED), id="a-workspace-comes-again"),
        pytest.param(note().events, id="what-changes-no-state"),
    ],
)
def test_what_can_happen_is_no_trouble(events: tuple[Event, ...]) -> None:
    assert troubles(*events) == [None] * len(events)


@pytest.mark.invariant("I5")
@pytest.mark.parametrize(
    ("events", "trouble"),
    [
        ((decided(1), decided(1)), "the call was decided twice"),
        ((launched(1),), "the call was not decided, or had ended before"),
        ((ASKED,), "the call was not decided, or had ended before"),
        (
            (decided(1), ended("denied"), ended("denied")),
            "the call was not decided, or had ended before",
        ),
        ((decided(1), launched(1), launched(1)), "no call goes from launched to launched"),
        ((decided(1), ended("succeeded")), "no call goes from decided to succeeded"),
        ((decided(1), launched(1), ended("denied")), "no call goes from launched to denied"),
        ((decided(1), launched(1), ended("flying")), "the call ended in a state that there is not"),
        ((ADDED, ADDED), "the workspace was added twice"),
        ((REMOVED,), "the workspace was not there"),
        (activate(1, before=None).events, "the policies were never staged"),
    ],
)
def test_what_cannot_happen_is_told_at_its_entry(events: tuple[Event, ...], trouble: str) -> None:
    assert troubles(*events) == [None] * (len(events) - 1) + [trouble]


DIGEST = call_digest(
    tool=PROPOSAL.tool,
    version=PROPOSAL.tool_version,
    canonical_arguments=bytes(PROPOSAL.arguments),
)
KEPT = change(PROPOSAL, call_id=call_id(1), call_digest=DIGEST)
DECIDED = change(decided(1), call_digest=DIGEST)
RECORD = CallRecord(
    call_id=call_id(1),
    principal=AGENT,
    session_id=RUN.session_id,
    run_id=RUN.run_id,
    state=CallState.LAUNCHED,
    approval_id=None,
    request_id=None,
    call_digest=DIGEST,
    owner=InstanceId("01JOWNER"),
    kept_proposal=None,
    ending=b"",
)
OPENED = (
    SessionOpened(
        session_id=SESSION.session_id, principal="agent:ada", credential_id=CREDENTIAL_ID
    ),
    RunOpened(run_id=RUN.run_id, session_id=RUN.session_id, principal="agent:ada"),
)


class Tables:
    """A journal and the state beside it, as a test puts them together."""

    def __init__(self, *events: Event) -> None:
        self.events = (*OPENED, *events)
        calls = [event for event in events if event.kind == "call.decided"]
        self.call_rows: list[CallRecord | CallId] = []
        self.session_rows: list[Session | SessionId] = [SESSION]
        self.run_rows: list[Run | RunId] = [RUN]
        self.workspace_rows: list[Workspace] = []
        self.rules_row: RulesInForce | None = None
        self.bodies: dict[int, bytes] = {}
        self.charged: dict[tuple[str, str], int] = {}
        if calls:
            self.charged = {
                ("run", RUN.run_id): len(calls),
                ("session", RUN.session_id): len(calls),
                ("agent", "agent:ada"): len(calls),
            }

    def entries(self, **_: Any) -> Iterator[Entry]:  # noqa: ANN401 - all of them
        for index, event in enumerate(self.events, start=1):
            yield Entry(
                index=index,
                recorded_at_ms=NOW_MS,
                kind=event.kind,
                subject=event.subject,
                body=self.bodies.get(index, canonical_record(event)),
                link=b"",
            )

    def of_subject(self, subject: str) -> tuple[Entry, ...]:
        return tuple(entry for entry in self.entries() if entry.subject == subject)

    def size(self) -> int:
        return len(self.events)

    def calls(self) -> Iterator[CallRecord | CallId]:
        return iter(self.call_rows)

    def sessions(self) -> Iterator[Session | SessionId]:
        return iter(self.session_rows)

    def runs(self) -> Iterator[Run | RunId]:
        return iter(self.run_rows)

    def workspaces(self) -> tuple[Workspace, ...]:
        return tuple(self.workspace_rows)

    def rules_in_force(self) -> RulesInForce | None:
        return self.rules_row

    def packs(self) -> tuple[StagedPack, ...]:
        return ()

    def postures(self) -> tuple[PostureSetting, ...]:
        return ()

    def charges(self) -> Iterator[tuple[str, str, int]]:
        return iter([(*scope, calls) for scope, calls in self.charged.items()])

    def disagreements(self) -> list[tuple[int, str]]:
        agreement = StateAgreement()
        for index, event in enumerate(self.events, start=1):
            assert agreement.follow(index, event) is None
        reader: JournalReader = self  # type: ignore[assignment]  # the reads that are needed
        return list(agreement.disagreements(reader))


def under_way() -> Tables:
    tables = Tables(DECIDED, launched(1))
    tables.call_rows = [RECORD]
    return tables


def pending() -> Tables:
    tables = Tables(DECIDED, ASKED)
    tables.call_rows = [
        change(
            RECORD,
            state=CallState.PENDING,
            approval_id=APPROVAL_ID,
            owner=None,
            kept_proposal=KEPT,
            ending=b"{}",
        )
    ]
    return tables


def finished(outcome: Outcome) -> Tables:
    attestor = Attestor(signer=KEY, ids=CountedIds(FakeClock()), assurance=Assurance.DEVELOPER)
    decision = change(ALLOW, call_digest=DIGEST)
    permit = Permit.from_allow(KEPT, decision, permit_id=PERMIT_ID)
    execution = Execution(
        permit_id=PERMIT_ID,
        executor=Executor.BUILTIN,
        enforcement=Enforcement.NONE,
        observed=msgspec.Raw(b"{}"),
        outcome=outcome,
        started_at_ms=NOW_MS,
        ended_at_ms=NOW_MS,
    )
    anchor = Anchor(index=0, link="0" * 64)
    attestation = attestor.executed(KEPT, decision, permit, execution, anchor=anchor)
    result = call_result(KEPT, decision, state=outcome.state, outcome=outcome)
    kind = CallInterrupted if outcome.state is CallState.INTERRUPTED else CallEnded
    ending = ending_of(result)
    ended = kind(call_id=call_id(1), attestation=attestation, ending_sha256=content_sha256(ending))
    tables = Tables(DECIDED, launched(1), ended)
    tables.call_rows = [change(RECORD, state=outcome.state, owner=None, ending=ending)]
    return tables


SUCCESS = Outcome(state=CallState.SUCCEEDED, output=msgspec.Raw(b'{"a":1}'), failure=None)
FAILURE = Outcome(
    state=CallState.FAILED,
    output=None,
    failure=Failure(code=Code.TOOL_FAILED, message="it failed"),
    limit="bytes",
    duration_ms=3,
)
TIMEOUT = change(FAILURE, state=CallState.TIMED_OUT)


@pytest.mark.parametrize(
    "tables",
    [
        Tables(),
        under_way(),
        pending(),
        finished(SUCCESS),
        finished(change(SUCCESS, output=msgspec.Raw(b"null"))),
        finished(FAILURE),
        finished(TIMEOUT),
        finished(change(FAILURE, state=CallState.INTERRUPTED)),
    ],
    ids=[
        "empty",
        "under-way",
        "pending",
        "succeeded",
        "succeeded-with-nothing",
        "failed",
        "timed-out",
        "interrupted",
    ],
)
def test_a_state_that_agrees_is_no_trouble(tables: Tables) -> None:
    assert tables.disagreements() == []


def test_a_row_that_no_entry_brought_is_found() -> None:
    tables = under_way()
    tables.call_rows.append(change(RECORD, call_id=call_id(9)))
    sentence = f"{call_id(9)} is in the state, but no entry has brought it"
    assert tables.disagreements() == [(4, sentence)]


def test_a_row_that_is_gone_is_found_at_its_entry() -> None:
    tables = under_way()
    tables.call_rows = []
    assert tables.disagreements() == [(3, f"{call_id(1)} is no longer in the state")]


def test_a_row_that_cannot_be_read_is_found_at_its_entry() -> None:
    tables = under_way()
    tables.call_rows = [call_id(1)]
    assert tables.disagreements() == [(4, f"the state of {call_id(1)} cannot be read")]


@pytest.mark.invariant("I8")
@pytest.mark.parametrize(
    "changes",
    [
        {"principal": change(AGENT, name="eve")},
        {"session_id": "other"},
        {"run_id": "other"},
        {"request_id": "other"},
        {"call_digest": "0" * 64},
        {"approval_id": "other"},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_a_call_is_in_the_state_as_decided(changes: dict[str, Any]) -> None:
    tables = under_way()
    tables.call_rows = [change(RECORD, **changes)]
    assert tables.disagreements() == [(3, f"call {call_id(1)} is not in the state as decided")]


@pytest.mark.invariant("I4")
@pytest.mark.parametrize(
    "changes",
    [
        {"arguments": msgspec.Raw(b'{"text":"other"}')},
        {"tool": "palyra.fs.write"},
        {"plan_digest": "0" * 64},
        {"run_id": "other"},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_what_would_be_resumed_is_what_was_decided(changes: dict[str, Any]) -> None:
    tables = pending()
    (record,) = tables.call_rows
    assert isinstance(record, CallRecord)
    tables.call_rows = [change(record, kept_proposal=change(KEPT, **changes))]
    assert tables.disagreements() == [(3, f"call {call_id(1)} is not in the state as decided")]


@pytest.mark.parametrize(
    ("outcome", "changes", "what"),
    [
        (SUCCESS, {"state": CallState.FAILED}, "the state"),
        (SUCCESS, {"state": CallState.LAUNCHED}, "the state"),
        (SUCCESS, {"owner": InstanceId("x")}, "the owner or the proposal"),
        (SUCCESS, {"kept_proposal": KEPT}, "the owner or the proposal"),
        (SUCCESS, {"ending": b"{}"}, "the form of the end"),
    ],
)
def test_an_ended_call_is_as_attested(outcome: Outcome, changes: dict[str, Any], what: str) -> None:
    tables = finished(outcome)
    (record,) = tables.call_rows
    assert isinstance(record, CallRecord)
    tables.call_rows = [change(record, **changes)]
    assert tables.disagreements() == [(5, f"{what} of call {call_id(1)} is not the recorded one")]


@pytest.mark.parametrize(
    ("outcome", "told"),
    [
        (SUCCESS, change(SUCCESS, output=msgspec.Raw(b'{"a":2}'))),
        (SUCCESS, change(SUCCESS, truncated=True)),
        (SUCCESS, change(SUCCESS, duration_ms=9)),
        (SUCCESS, change(FAILURE, limit=None, duration_ms=0)),
        (FAILURE, change(FAILURE, limit="other")),
        (FAILURE, TIMEOUT),
        (FAILURE, change(FAILURE, failure=Failure(code=Code.FS_IO, message="it failed"))),
        (FAILURE, change(FAILURE, output=msgspec.Raw(b"1"))),
        (TIMEOUT, FAILURE),
        (FAILURE, None),
    ],
)
def test_an_outcome_is_told_as_attested(outcome: Outcome, told: Outcome | None) -> None:
    tables = finished(outcome)
    (record,) = tables.call_rows
    assert isinstance(record, CallRecord)
    result = call_result(KEPT, ALLOW, state=outcome.state, outcome=told)
    tables.call_rows = [change(record, ending=ending_of(result))]
    assert tables.disagreements() == [
        (5, f"the outcome of call {call_id(1)} is not the recorded one")
    ]


def test_a_call_that_ended_has_an_entry_that_says_so() -> None:
    tables = under_way()
    tables.call_rows = [change(RECORD, state=CallState.SUCCEEDED)]
    assert tables.disagreements() == [(4, f"the end of call {call_id(1)} is not the recorded one")]


def test_an_ending_that_cannot_be_read_is_found() -> None:
    tables = finished(SUCCESS)
    (record,) = tables.call_rows
    assert isinstance(record, CallRecord)
    tables.call_rows = [change(record, ending=b"\xff")]
    assert tables.disagreements() == [(5, f"the record of call {call_id(1)} cannot be read")]


@pytest.mark.invariant("I14")
@pytest.mark.parametrize(
    "changes", [{"credential_id": "stolen"}, {"principal": change(AGENT, name="eve")}]
)
def test_a_session_is_bound_to_who_opened_it(changes: dict[str, Any]) -> None:
    tables = Tables()
    tables.session_rows = [change(SESSION, **changes)]
    sentence = f"session {SESSION.session_id} is not in the state as it was opened"
    assert tables.disagreements() == [(1, sentence)]


def test_a_run_belongs_to_its_session() -> None:
    tables = Tables()
    tables.run_rows = [change(RUN, session_id="other")]
    sentence = f"run {RUN.run_id} is not in the state as it was opened"
    assert tables.disagreements() == [(2, sentence)]


@pytest.mark.parametrize(
    ("entry", "who"), [(1, f"session {SESSION.session_id}"), (2, f"run {RUN.run_id}")]
)
def test_an_opening_that_cannot_be_read_is_found(entry: int, who: str) -> None:
    tables = Tables()
    tables.bodies[entry] = b"\xff"
    assert tables.disagreements() == [(entry, f"the record of {who} cannot be read")]


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ([WORKSPACE], None),
        ([change(WORKSPACE, root="/")], "workspace site is not registered as it was added"),
        ([], "workspace site is no longer registered, but was not removed"),
    ],
)
def test_workspaces_are_registered_as_added(rows: list[Workspace], sentence: str | None) -> None:
    tables = Tables(ADDED)
    tables.workspace_rows = rows
    assert tables.disagreements() == ([(3, sentence)] if sentence else [])


def test_a_workspace_that_was_never_added_is_found() -> None:
    tables = Tables()
    tables.workspace_rows = [WORKSPACE]
    sentence = "workspace site is not registered as it was added"
    assert tables.disagreements() == [(2, sentence)]


def test_rules_are_compared_too() -> None:
    tables = Tables()
    tables.rules_row = RulesInForce(version=1, policy_digest=pack_digest(1))
    assert tables.disagreements() == [(2, "rules are in force, but no entry has brought them")]


@pytest.mark.invariant("I14")
@pytest.mark.parametrize("scope", [("run", RUN.run_id), ("session", RUN.session_id)])
@pytest.mark.parametrize("calls", [0, 2, None])
def test_budgets_are_what_the_calls_add_up_to(scope: tuple[str, str], calls: int | None) -> None:
    tables = under_way()
    del tables.charged[scope]
    what = "is missing"
    if calls is not None:
        tables.charged[scope] = calls
        what = "is not what its calls add up to"
    assert tables.disagreements() == [(4, f"the budget of {scope[0]} {scope[1]} {what}")]
