# SPDX-License-Identifier: Apache-2.0
"""Ledgers on a folder of the test's own, and one transition of each kind to record in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import apsw
import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from palyra.core.digest import PolicyDigest, content_sha256, policy_digest
from palyra.core.events import (
    ApprovalRequested,
    CallDecided,
    CallEnded,
    CallInterrupted,
    CallLaunched,
    CallRedecided,
    EffectPlanned,
    FloodSuppressed,
    PlannedChange,
    PolicyActivated,
    PolicyStaged,
    PostureChanged,
    RunOpened,
    SessionOpened,
    WorkspaceAdded,
    WorkspaceRemoved,
)
from palyra.core.facts import NO_FACTS
from palyra.core.ids import CallId, LogId
from palyra.core.lifecycle import CallState
from palyra.core.posture import Posture, PostureScope, PostureSetting
from palyra.core.session import BudgetLimits, Run, Session
from palyra.core.transitions import (
    ActivatePack,
    AddWorkspace,
    Admission,
    Admit,
    ClearPosture,
    End,
    Launch,
    Note,
    OpenRun,
    OpenSession,
    PlanEffect,
    RemoveWorkspace,
    SetPosture,
    StagePack,
)
from palyra.core.workspace import Workspace
from palyra.store.sqlite.ledger import (
    DATABASE_NAME,
    HEAD_NAME,
    Archive,
    Ledger,
    keep_first_head,
)
from palyra.store.sqlite.schema import STEPS
from palyra.trust.signing_key import SigningKey
from tests.support.samples import (
    AGENT,
    APPROVAL_ID,
    ATTESTATION,
    CALL,
    CREDENTIAL_ID,
    DECISION_RECORD,
    NO_ENDING,
    NOW_MS,
    OPERATOR,
    PERMIT_RECORD,
    PLAN,
    PROPOSAL,
    RUN_ID,
    SESSION_ID,
)
from tests.support.scripted import CountedIds, FakeClock

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from palyra.core.ports import Recorded, RulesInForce, Signer

KEY = SigningKey(Ed25519PrivateKey.from_private_bytes(bytes(range(32))))
OTHER_KEY = SigningKey(Ed25519PrivateKey.from_private_bytes(bytes(range(1, 33))))
BUSY_TIMEOUT_MS = 2000
LIMITS = BudgetLimits()
SESSION = Session(
    session_id=SESSION_ID, principal=AGENT, credential_id=CREDENTIAL_ID, opened_at_ms=NOW_MS
)
RUN = Run(
    run_id=RUN_ID,
    session_id=SESSION_ID,
    principal=AGENT,
    credential_id=CREDENTIAL_ID,
    opened_at_ms=NOW_MS,
)
WORKSPACE = Workspace(name="site", root="/srv/site", device=1, inode=2)
POSTURE = PostureSetting(
    tool="palyra.echo",
    scope=PostureScope.WORKSPACE,
    scope_id="site",
    state=Posture.DISABLED,
    reason="an incident",
    set_by=OPERATOR,
    by_administrator=True,
    set_at_ms=NOW_MS,
    expires_at_ms=NOW_MS + 1000,
)


def open_ledger(
    home: Path, *, signer: Signer = KEY, clock: FakeClock | None = None, series: int = 0
) -> Ledger:
    """Open a ledger as an instance of its own; ``series`` tells two of them apart."""
    home.mkdir(mode=0o700, exist_ok=True)
    clock = clock or FakeClock()
    ids = CountedIds(clock, series=series)
    if not (home / DATABASE_NAME).exists() and not (home / HEAD_NAME).exists():
        keep_first_head(home, signer=signer, log_id=LogId(ids.ulid()))
    return Ledger.open(
        home,
        signer=signer,
        clock=clock,
        ids=ids,
        busy_timeout_ms=BUSY_TIMEOUT_MS,
    )


def memory_database() -> apsw.Connection:
    """Return a database with our tables that no disk has to be waited for."""
    connection = apsw.Connection(":memory:")
    connection.pragma("foreign_keys", True)  # noqa: FBT003 - apsw's own signature
    for step in STEPS:
        connection.execute(step)
    return connection


def open_archive(home: Path) -> Archive:
    return Archive(home, busy_timeout_ms=BUSY_TIMEOUT_MS)


def ledger_with_run(home: Path) -> Iterator[Ledger]:
    """Yield a ledger in which the session and the run of the samples are open; for fixtures."""
    ledger = open_ledger(home)
    ledger.record_now(opening())
    yield ledger
    ledger.close()


def call_id(number: int) -> CallId:
    return CallId(f"01J{number:023d}")


def opening(session: Session = SESSION, run: Run = RUN) -> OpenSession:
    opened = SessionOpened(
        session_id=session.session_id,
        principal=str(session.principal),
        credential_id=session.credential_id,
    )
    return OpenSession(session=session, run=run, events=(opened, _run_opened(run)))


def another_run(run: Run) -> OpenRun:
    return OpenRun(run=run, events=(_run_opened(run),))


def _run_opened(run: Run) -> RunOpened:
    return RunOpened(run_id=run.run_id, session_id=run.session_id, principal=str(run.principal))


def decided(number: int, *, run: Run = RUN) -> CallDecided:
    return CallDecided(
        call_id=call_id(number),
        request_id=None,
        principal=str(run.principal),
        session_id=run.session_id,
        run_id=run.run_id,
        parent_call_id=None,
        depth=0,
        tool="palyra.echo",
        tool_version="1.0.0",
        arguments=msgspec.Raw(b'{"text":"hi"}'),
        facts=NO_FACTS,
        call_digest=CALL,
        plan_digest=PLAN,
        request=None,
        decision=DECISION_RECORD,
    )


def launched(number: int) -> CallLaunched:
    return CallLaunched(call_id=call_id(number), executor="builtin", permit=PERMIT_RECORD)


def admit(
    number: int,
    state: CallState = CallState.LAUNCHED,
    *,
    run: Run = RUN,
    **changes: Any,  # noqa: ANN401 - fields of the transition
) -> Admit:
    """Return the admission of a new call, with the entries that belong to its state."""
    identifier = call_id(number)
    second: CallLaunched | ApprovalRequested | CallEnded
    match state:
        case CallState.LAUNCHED:
            second = launched(number)
        case CallState.PENDING:
            second = ApprovalRequested(call_id=identifier, approval_id=APPROVAL_ID)
        case _:
            second = CallEnded(call_id=identifier, attestation=ATTESTATION, ending_sha256=NO_ENDING)
    is_pending = state is CallState.PENDING
    admission = Admit(
        call_id=identifier,
        principal=run.principal,
        session_id=run.session_id,
        run_id=run.run_id,
        request_id=None,
        call_digest=CALL,
        at_ms=NOW_MS,
        limits=LIMITS,
        state=state,
        rules_version=0,
        approval_id=APPROVAL_ID if is_pending else None,
        kept_proposal=msgspec.structs.replace(PROPOSAL, call_id=identifier) if is_pending else None,
        ending=b"{}" if state is not CallState.LAUNCHED else b"",
        events=(decided(number, run=run), second),
    )
    return msgspec.structs.replace(admission, **changes)


def admit_under(rules: RulesInForce | None, number: int) -> Admit:
    """Return the admission of a launched call as decided by the rules in force."""
    assert rules is not None
    decision = msgspec.structs.replace(DECISION_RECORD, policy_digest=rules.policy_digest)
    decided_so = msgspec.structs.replace(decided(number), decision=decision)
    return admit(number, rules_version=rules.version, events=(decided_so, launched(number)))


def launch(number: int, *, rules_version: int = 0) -> Launch:
    return Launch(
        call_id=call_id(number),
        rules_version=rules_version,
        events=(redecided(number), launched(number)),
    )


def redecided(number: int) -> CallRedecided:
    return CallRedecided(call_id=call_id(number), request=None, decision=DECISION_RECORD)


def plan(number: int) -> PlanEffect:
    change = PlannedChange(path="a", before_sha256="", after_sha256="1" * 64, mode=0o644)
    planned = EffectPlanned(
        call_id=call_id(number), workspace="site", staging=".palyra-stage-x", changes=(change,)
    )
    return PlanEffect(call_id=call_id(number), events=(planned,))


def end(number: int, before: CallState, after: CallState, *, ending: bytes = b"{}") -> End:
    kind = CallInterrupted if after is CallState.INTERRUPTED else CallEnded
    ended = kind(
        call_id=call_id(number), attestation=ATTESTATION, ending_sha256=content_sha256(ending)
    )
    return End(call_id=call_id(number), before=before, after=after, ending=ending, events=(ended,))


def add_workspace(workspace: Workspace = WORKSPACE) -> AddWorkspace:
    added = WorkspaceAdded(
        principal=str(OPERATOR),
        name=workspace.name,
        root=workspace.root,
        folder=workspace.folder,
    )
    return AddWorkspace(workspace=workspace, events=(added,))


def remove_workspace(name: str = WORKSPACE.name) -> RemoveWorkspace:
    removed = WorkspaceRemoved(principal=str(OPERATOR), name=name)
    return RemoveWorkspace(name=name, events=(removed,))


def pack_body(number: int) -> bytes:
    """Return what stands for a pack; the store looks at its digest only."""
    return b'{"pack":%d}' % number


def pack_digest(number: int) -> PolicyDigest:
    return policy_digest(pack_body(number))


def stage(number: int, *, at_ms: int = NOW_MS) -> StagePack:
    staged = PolicyStaged(
        policy_digest=pack_digest(number),
        principal=str(OPERATOR),
        preset="standard",
        policies=0,
        sources=(),
    )
    return StagePack(
        policy_digest=pack_digest(number), body=pack_body(number), at_ms=at_ms, events=(staged,)
    )


def activate(number: int, *, before: int | None) -> ActivatePack:
    """Return the activation of a pack that was staged, in place of another one's."""
    replaced = pack_digest(before) if before is not None else None
    activated = PolicyActivated(
        policy_digest=pack_digest(number),
        before_digest=replaced or "",
        principal=str(OPERATOR),
        credential_id=CREDENTIAL_ID,
        reason="a test",
        request=None,
        decision=DECISION_RECORD if replaced else None,
    )
    return ActivatePack(policy_digest=pack_digest(number), before=replaced, events=(activated,))


def set_posture(
    setting: PostureSetting = POSTURE, *, before: PostureSetting | None = None
) -> SetPosture:
    changed = _posture_changed(setting, before=before, after=setting.state.value)
    return SetPosture(setting=setting, before=before, events=(changed,))


def clear_posture(before: PostureSetting = POSTURE) -> ClearPosture:
    return ClearPosture(
        tool=before.tool,
        scope=before.scope,
        scope_id=before.scope_id,
        before=before,
        events=(_posture_changed(before, before=before, after=""),),
    )


def _posture_changed(
    setting: PostureSetting, *, before: PostureSetting | None, after: str
) -> PostureChanged:
    return PostureChanged(
        tool=setting.tool,
        scope=setting.scope.value,
        scope_id=setting.scope_id,
        before=before.state.value if before is not None else "",
        after=after,
        principal=str(setting.set_by),
        credential_id=CREDENTIAL_ID,
        by_administrator=setting.by_administrator,
        reason=setting.reason,
        set_at_ms=setting.set_at_ms,
        expires_at_ms=setting.expires_at_ms if after else None,
        request=None,
        decision=DECISION_RECORD,
    )


def note(count: int = 1) -> Note:
    flood = FloodSuppressed(principal=str(AGENT), code="rate.limited", count=count)
    return Note(events=(flood,))


def admission(recorded: Recorded) -> Admission:
    assert recorded.admission is not None
    return recorded.admission


def kinds(ledger: Ledger | Archive) -> list[str]:
    """Return what the entries of the journal are, in order."""
    reads = ledger.reads if isinstance(ledger, Ledger) else ledger
    return [entry.kind for entry in reads.entries()]


def state_of(ledger: Ledger, number: int) -> CallState | None:
    record = ledger.call(call_id(number))
    return record.state if record is not None else None
