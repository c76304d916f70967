# SPDX-License-Identifier: Apache-2.0
"""Sessions and runs: issued here, and usable only with the credential that opened them (I14)."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from palyra.core.errors import Code, NotFoundError
from palyra.core.ids import RunId, SessionId, is_ulid
from palyra.core.session import Run, Session

if TYPE_CHECKING:
    from palyra.core.ports import CallStore, Clock, IdSource
    from palyra.core.principal import Credential

_MOST_REMEMBERED: Final = 4096


class Sessions:
    """Issues sessions and runs, and recognises them again."""

    def __init__(self, *, store: CallStore, clock: Clock, ids: IdSource) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids
        self._runs: OrderedDict[RunId, Run] = OrderedDict()

    def issue(self, credential: Credential) -> tuple[Session, Run]:
        """Return a new session with its first run; neither counts until it is recorded."""
        session = Session(
            session_id=SessionId(self._ids.ulid()),
            principal=credential.principal,
            credential_id=credential.credential_id,
            opened_at_ms=self._clock.now_ms(),
        )
        return session, self._run_within(session)

    def issue_run(self, session_id: SessionId, *, credential: Credential) -> Run:
        """Return a new run within a session of this credential."""
        session = self._store.session(session_id) if is_ulid(session_id) else None
        if session is None or not _is_held_by(session, credential):
            # Whose it is, if it is anyone's, is not told.
            raise NotFoundError(Code.SESSION_UNKNOWN)
        return self._run_within(session)

    def run(
        self, run_id: RunId, *, credential: Credential, otherwise: Code = Code.RUN_UNKNOWN
    ) -> Run:
        """Return a recorded run of this credential.

        Raises:
            NotFoundError: there is none, or it is another credential's; the two look the same,
                also to whoever named something within the run: that is not found ``otherwise``.
        """
        run = self._runs.get(run_id)
        if run is None and is_ulid(run_id):
            run = self._store.run(run_id)
            if run is not None:
                self._remember(run)
        if run is None or not _is_held_by(run, credential):
            raise NotFoundError(otherwise)
        return run

    def _run_within(self, session: Session) -> Run:
        return Run(
            run_id=RunId(self._ids.ulid()),
            session_id=session.session_id,
            principal=session.principal,
            credential_id=session.credential_id,
            opened_at_ms=self._clock.now_ms(),
        )

    def _remember(self, run: Run) -> None:
        """Whose a run is never changes, so it need not be read again (bounded: I13)."""
        self._runs[run.run_id] = run
        if len(self._runs) > _MOST_REMEMBERED:
            self._runs.popitem(last=False)


def _is_held_by(issued: Session | Run, credential: Credential) -> bool:
    return (
        issued.credential_id == credential.credential_id
        and issued.principal == credential.principal
    )
