# SPDX-License-Identifier: Apache-2.0
"""What is done at start about calls that a crash cut off: files first, then the record (I7)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from palyra.core.errors import PalyraError, StateConflictError
from palyra.core.events import EffectPlanned, EffectRecovered
from palyra.core.ids import CredentialId
from palyra.core.transitions import Note
from palyra.flow.sandbox.staged import discard, recover
from palyra.flow.seal.interrupt import interruption, planned_effect

if TYPE_CHECKING:
    from palyra.core.ids import CallId
    from palyra.core.ports import CallRecord, Clock
    from palyra.flow.seal.attest import Attestor
    from palyra.store.sqlite.ledger import Ledger

_log: Final = logging.getLogger(__name__)


def recover_interrupted(ledger: Ledger, *, attestor: Attestor, clock: Clock) -> int:
    """Finish or undo half-applied file changes and mark their calls; return how many there were."""
    orphans = ledger.orphans()
    for orphan in orphans:
        _recover(ledger, orphan, attestor=attestor, clock=clock)
    return len(orphans)


def _recover(ledger: Ledger, orphan: CallRecord, *, attestor: Attestor, clock: Clock) -> None:
    entries = ledger.reads.of_subject(orphan.call_id)
    planned = planned_effect(entries)
    if planned is None:
        _discard_stage(ledger, orphan.call_id)
    elif all(entry.kind != EffectRecovered.kind for entry in entries):
        ledger.record_now(Note(events=(_recover_effect(ledger, planned),)))
    session = ledger.reads.session(orphan.session_id)
    end = interruption(
        orphan.call_id,
        entries,
        attestor=attestor,
        credential_id=session.credential_id if session is not None else CredentialId(""),
        anchor=ledger.anchor,
        at_ms=clock.now_ms(),
    )
    try:
        ledger.record_now(end)
    except StateConflictError:
        _log.info("call %s was recovered by another process", orphan.call_id)


def _discard_stage(ledger: Ledger, call_id: CallId) -> None:
    """Remove what a call had staged without a recorded plan: no file was changed yet.

    Which workspace it was for is not recorded either, but the folder's name is the call's own.
    """
    for workspace in ledger.reads.workspaces():
        try:
            discard(workspace, call_id)
        except (PalyraError, OSError) as error:
            _log.warning("workspace %s cannot be cleaned: %s", workspace.name, error)


def _recover_effect(ledger: Ledger, planned: EffectPlanned) -> EffectRecovered:
    workspace = next(
        (each for each in ledger.reads.workspaces() if each.name == planned.workspace), None
    )
    paths = tuple(change.path for change in planned.changes)
    if workspace is None:
        return EffectRecovered(call_id=planned.call_id, result="workspace removed", paths=paths)
    try:
        recovery = recover(workspace, planned)
    except (PalyraError, OSError) as error:
        _log.warning("the files of call %s cannot be recovered: %s", planned.call_id, error)
        return EffectRecovered(call_id=planned.call_id, result="failed", paths=paths)
    return EffectRecovered(
        call_id=planned.call_id,
        result=recovery.result.value,
        paths=recovery.paths,
        kept=recovery.kept,
    )
