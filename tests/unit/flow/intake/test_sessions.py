# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from palyra.core.errors import Code, NotFoundError
from palyra.core.ids import CredentialId, RunId, SessionId, is_ulid
from palyra.flow.intake import sessions
from palyra.flow.intake.sessions import Sessions
from tests.support.samples import NOW_MS, RUN_ID, SESSION_ID
from tests.support.scripted import CountedIds, FakeClock
from tests.support.simulator import AGENT_CREDENTIAL, OPERATOR_CREDENTIAL

if TYPE_CHECKING:
    from palyra.core.principal import Credential
    from palyra.core.session import Run, Session

change = msgspec.structs.replace
STRANGERS = [
    pytest.param(change(AGENT_CREDENTIAL, credential_id=CredentialId("stolen")), id="credential"),
    pytest.param(change(AGENT_CREDENTIAL, principal=OPERATOR_CREDENTIAL.principal), id="principal"),
]


class Shelf:
    """Sessions and runs in memory; counts how often it is asked."""

    def __init__(self) -> None:
        self.sessions: dict[str, Session] = {}
        self.runs: dict[str, Run] = {}
        self.asked: list[str] = []

    def session(self, session_id: SessionId) -> Session | None:
        self.asked.append(session_id)
        return self.sessions.get(session_id)

    def run(self, run_id: RunId) -> Run | None:
        self.asked.append(run_id)
        return self.runs.get(run_id)


class Scene:
    def __init__(self) -> None:
        self.shelf = Shelf()
        clock = FakeClock()
        self.sessions = Sessions(
            store=self.shelf,  # type: ignore[arg-type]  # the two reads that are needed
            clock=clock,
            ids=CountedIds(clock),
        )

    def opened(self, credential: Credential = AGENT_CREDENTIAL) -> tuple[Session, Run]:
        session, run = self.sessions.issue(credential)
        self.shelf.sessions[session.session_id] = session
        self.shelf.runs[run.run_id] = run
        return session, run


@pytest.mark.invariant("I14")
def test_a_session_and_its_run_carry_the_credential_that_opened_them() -> None:
    session, run = Scene().sessions.issue(AGENT_CREDENTIAL)
    assert (session.principal, session.credential_id) == (
        AGENT_CREDENTIAL.principal,
        AGENT_CREDENTIAL.credential_id,
    )
    assert (run.principal, run.credential_id, run.session_id) == (
        session.principal,
        session.credential_id,
        session.session_id,
    )
    assert session.opened_at_ms == run.opened_at_ms == NOW_MS
    assert is_ulid(session.session_id)
    assert is_ulid(run.run_id)
    assert str(session.session_id) != str(run.run_id)


@pytest.mark.invariant("I14")
def test_what_is_not_recorded_does_not_count() -> None:
    scene = Scene()
    session, run = scene.sessions.issue(AGENT_CREDENTIAL)
    with pytest.raises(NotFoundError):
        scene.sessions.run(run.run_id, credential=AGENT_CREDENTIAL)
    with pytest.raises(NotFoundError):
        scene.sessions.issue_run(session.session_id, credential=AGENT_CREDENTIAL)


def test_a_further_run_belongs_to_the_session() -> None:
    scene = Scene()
    session, first = scene.opened()
    second = scene.sessions.issue_run(session.session_id, credential=AGENT_CREDENTIAL)
    assert second == change(first, run_id=second.run_id)
    assert second.run_id != first.run_id


@pytest.mark.invariant("I14")
@pytest.mark.parametrize("stranger", STRANGERS)
def test_another_ones_is_like_none(stranger: Credential) -> None:
    scene = Scene()
    session, run = scene.opened()
    answers = []
    for run_id in (run.run_id, RUN_ID):
        with pytest.raises(NotFoundError) as caught:
            scene.sessions.run(run_id, credential=stranger)
        answers.append((caught.value.code, str(caught.value)))
    assert answers == [(Code.RUN_UNKNOWN, answers[0][1])] * 2
    answers = []
    for session_id in (session.session_id, SESSION_ID):
        with pytest.raises(NotFoundError) as caught:
            scene.sessions.issue_run(session_id, credential=stranger)
        answers.append((caught.value.code, str(caught.value)))
    assert answers == [(Code.SESSION_UNKNOWN, answers[0][1])] * 2


def test_what_is_named_within_a_run_is_what_is_not_found() -> None:
    with pytest.raises(NotFoundError) as caught:
        Scene().sessions.run(RUN_ID, credential=AGENT_CREDENTIAL, otherwise=Code.CALL_UNKNOWN)
    assert caught.value.code is Code.CALL_UNKNOWN


@pytest.mark.parametrize("claimed", ["", "x", "\ud800", "0" * 27, "01jczk5m8n0000000000000003"])
def test_what_is_no_id_is_not_even_looked_for(claimed: str) -> None:
    scene = Scene()
    with pytest.raises(NotFoundError):
        scene.sessions.run(RunId(claimed), credential=AGENT_CREDENTIAL)
    with pytest.raises(NotFoundError):
        scene.sessions.issue_run(SessionId(claimed), credential=AGENT_CREDENTIAL)
    assert scene.shelf.asked == []


@pytest.mark.invariant("I13")
def test_a_run_is_read_once_and_forgotten_when_there_are_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sessions, "_MOST_REMEMBERED", 2)
    scene = Scene()
    runs = [scene.opened()[1] for _ in range(3)]
    for run in (runs[0], runs[0], runs[1], runs[2], runs[1], runs[0]):
        assert scene.sessions.run(run.run_id, credential=AGENT_CREDENTIAL) == run
    assert scene.shelf.asked == [runs[number].run_id for number in (0, 1, 2, 0)]
