# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest
from hypothesis import given

from palyra.core import events
from palyra.core.canonical import canonical_record, canonicalize
from palyra.core.events import EVENT_TYPES, Event
from palyra.core.facts import Facts
from palyra.core.ids import KeyId, LogId
from palyra.core.policy_request import PolicyRequest
from tests.support.json_values import TEXTS
from tests.support.samples import (
    APPROVAL_ID,
    ATTESTATION,
    CALL,
    CALL_ID,
    CREDENTIAL_ID,
    DECISION_RECORD,
    NO_ENDING,
    NOW_MS,
    PERMIT_RECORD,
    PLAN,
    POLICY,
    REQUEST,
    RUN_ID,
    SESSION_ID,
    SNAPSHOT,
)
from tests.support.vectors import vectors

REFERENCE = (
    Path(__file__).resolve().parents[3] / "docs" / "reference" / "journal-format.md"
).read_text("utf-8")
DECIDED = events.CallDecided(
    call_id=CALL_ID,
    request_id="r-1",
    principal="agent:ada",
    session_id=SESSION_ID,
    run_id=RUN_ID,
    parent_call_id=None,
    depth=0,
    tool="palyra.echo",
    tool_version="1.0.0",
    arguments=msgspec.Raw(b'{"text":"hi"}'),
    facts=Facts(size_bytes=2),
    call_digest=CALL,
    plan_digest=PLAN,
    request=REQUEST,
    decision=DECISION_RECORD,
)
CHANGE = events.PlannedChange(path="a", before_sha256="", after_sha256="7" * 64, mode=0o644)

#: One event of each kind, and its subject.
EXAMPLES: list[tuple[Event, str]] = [
    (
        events.LogOpened(log_id=LogId("log"), key_id=KeyId("key"), public_key="00" * 32),
        "log",
    ),
    (
        events.ConfigApplied(
            snapshot_digest=SNAPSHOT.digest,
            policy_digest=POLICY,
            assurance="developer",
            snapshot=SNAPSHOT,
        ),
        SNAPSHOT.digest,
    ),
    (
        events.SessionOpened(
            session_id=SESSION_ID, principal="agent:ada", credential_id=CREDENTIAL_ID
        ),
        SESSION_ID,
    ),
    (events.RunOpened(run_id=RUN_ID, session_id=SESSION_ID, principal="agent:ada"), RUN_ID),
    (DECIDED, CALL_ID),
    (
        events.CallRedecided(call_id=CALL_ID, request=REQUEST, decision=DECISION_RECORD),
        CALL_ID,
    ),
    (events.ApprovalRequested(call_id=CALL_ID, approval_id=APPROVAL_ID), CALL_ID),
    (events.CallLaunched(call_id=CALL_ID, executor="builtin", permit=PERMIT_RECORD), CALL_ID),
    (
        events.EffectPlanned(
            call_id=CALL_ID, workspace="site", staging=".palyra-stage-x", changes=(CHANGE,)
        ),
        CALL_ID,
    ),
    (events.EffectRecovered(call_id=CALL_ID, result="finished", paths=("a",)), CALL_ID),
    (events.CallEnded(call_id=CALL_ID, attestation=ATTESTATION, ending_sha256=NO_ENDING), CALL_ID),
    (
        events.CallInterrupted(call_id=CALL_ID, attestation=ATTESTATION, ending_sha256=NO_ENDING),
        CALL_ID,
    ),
    (
        events.WorkspaceAdded(
            principal="operator:grace", name="site", root="/srv/site", folder="1:2"
        ),
        "site",
    ),
    (events.WorkspaceRemoved(principal="operator:grace", name="site"), "site"),
    (
        events.PolicyStaged(
            policy_digest=POLICY,
            principal="operator:grace",
            preset="standard",
            policies=1,
            sources=("own.cedar",),
        ),
        POLICY,
    ),
    (
        events.PolicyActivated(
            policy_digest=POLICY,
            before_digest="",
            principal="operator:grace",
            credential_id=CREDENTIAL_ID,
            reason="reviewed",
            request=REQUEST,
            decision=DECISION_RECORD,
        ),
        POLICY,
    ),
    (
        events.PostureChanged(
            tool="palyra.echo",
            scope="global",
            scope_id="",
            before="",
            after="disabled",
            principal="operator:grace",
            credential_id=CREDENTIAL_ID,
            by_administrator=True,
            reason="an incident",
            set_at_ms=NOW_MS,
            expires_at_ms=None,
            request=REQUEST,
            decision=DECISION_RECORD,
        ),
        "palyra.echo",
    ),
    (
        events.ActionRefused(
            action="posture.set",
            principal="agent:ada",
            credential_id=CREDENTIAL_ID,
            request=REQUEST,
            decision=DECISION_RECORD,
        ),
        "posture.set",
    ),
    (
        events.FloodSuppressed(principal="agent:ada", code="budget.exhausted", count=3),
        "agent:ada",
    ),
]


def kind_of(example: object) -> str:
    return example.kind if isinstance(example, Event) else ""


def test_every_kind_has_an_example_and_a_place_in_the_table() -> None:
    assert {type(event) for event, _ in EXAMPLES} == set(EVENT_TYPES.values())
    assert all(event.kind == kind for kind, event in EVENT_TYPES.items())
    concrete = {
        event
        for event in vars(events).values()
        if isinstance(event, type) and issubclass(event, Event) and hasattr(event, "kind")
    }
    assert concrete == set(EVENT_TYPES.values())


@pytest.mark.parametrize("event", [event for event, _ in EXAMPLES], ids=kind_of)
def test_event_survives_the_journal(event: Event) -> None:
    body = canonical_record(event)
    again = msgspec.json.decode(body, type=EVENT_TYPES[event.kind])
    assert type(again) is type(event)
    assert canonical_record(again) == body
    assert body == canonicalize(msgspec.json.decode(body))


@pytest.mark.parametrize("vector", vectors("journal")["bodies"], ids=lambda each: each["name"])
def test_a_body_of_the_vectors_is_read_and_written_alike(vector: dict[str, str]) -> None:
    body = vector["body_utf8"].encode()
    event = msgspec.json.decode(body, type=EVENT_TYPES[vector["kind"]])
    assert event.subject == vector["subject"]
    assert canonical_record(event) == body


def test_a_call_refused_before_policy_was_asked_has_no_request() -> None:
    unasked = msgspec.structs.replace(DECIDED, request=None)
    assert b'"request":null' in canonical_record(unasked)


def test_an_entry_of_before_requests_were_kept_is_still_read() -> None:
    older = msgspec.json.decode(canonical_record(DECIDED))
    del older["request"]
    read = msgspec.json.decode(msgspec.json.encode(older), type=events.CallDecided)
    assert read == msgspec.structs.replace(DECIDED, request=None, arguments=read.arguments)


@pytest.mark.parametrize("event", [event for event, _ in EXAMPLES], ids=kind_of)
def test_a_decision_is_told_with_what_it_was_asked(event: Event) -> None:
    fields = set(event.__struct_fields__)
    assert ("decision" in fields) is ("request" in fields)


@pytest.mark.parametrize(("event", "subject"), EXAMPLES, ids=kind_of)
def test_event_names_its_subject(event: Event, subject: str) -> None:
    assert event.subject == subject


@pytest.mark.invariant("I8")
@pytest.mark.parametrize("event", [event for event, _ in EXAMPLES], ids=kind_of)
def test_event_cannot_be_changed(event: Event) -> None:
    with pytest.raises(AttributeError):
        setattr(event, event.__struct_fields__[0], "other")


def test_the_reference_names_every_kind() -> None:
    named = set(re.findall(r"`([a-z]+\.[a-z]+)`", REFERENCE.partition("\n## State")[0]))
    assert set(EVENT_TYPES) <= named


@pytest.mark.parametrize(
    "kind", ["policy.staged", "policy.activated", "posture.changed", "action.refused"]
)
def test_the_reference_names_subject_and_fields_of_entries_about_the_rules(kind: str) -> None:
    (row,) = re.findall(rf"^\| `{re.escape(kind)}` \| `(\w+)` \| (.*) \|$", REFERENCE, re.MULTILINE)
    event = EVENT_TYPES[kind]
    assert row[0] == event.about
    assert re.findall(r"`(\w+)`", row[1]) == list(event.__struct_fields__)


def test_the_reference_names_every_fact_and_what_policy_is_asked() -> None:
    for field in (*Facts.__struct_fields__, *PolicyRequest.__struct_fields__):
        assert f"`{field}`" in REFERENCE


@given(TEXTS, TEXTS)
def test_any_text_is_written_canonically(name: str, root: str) -> None:
    event = events.WorkspaceAdded(principal="operator:grace", name=name, root=root, folder="1:2")
    value = {"folder": "1:2", "name": name, "principal": "operator:grace", "root": root}
    assert canonical_record(event) == canonicalize(value)
    assert msgspec.json.decode(canonical_record(event), type=events.WorkspaceAdded) == event
