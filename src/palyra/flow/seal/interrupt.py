# SPDX-License-Identifier: Apache-2.0
"""Launches without an outcome: found at start, and made visible as ``interrupted`` (I7)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from palyra.core.digest import content_sha256
from palyra.core.errors import MEANINGS, Code, IntegrityError
from palyra.core.events import (
    CallDecided,
    CallInterrupted,
    CallLaunched,
    EffectPlanned,
    read_event,
)
from palyra.core.lifecycle import CallState
from palyra.core.result import NO_OUTPUT, Ending, OutcomeError, OutcomeView
from palyra.core.transitions import End

if TYPE_CHECKING:
    from collections.abc import Sequence

    from palyra.core.attestation import Anchor
    from palyra.core.chain import Entry
    from palyra.core.ids import CallId, CredentialId
    from palyra.flow.seal.attest import Attestor

_encode: Final = msgspec.json.Encoder().encode


def planned_effect(entries: Sequence[Entry]) -> EffectPlanned | None:
    """Return the file changes a call had planned, if it came that far."""
    for entry in entries:
        if entry.kind == EffectPlanned.kind:
            return read_event(entry, EffectPlanned)
    return None


def interruption(
    call_id: CallId,
    entries: Sequence[Entry],
    *,
    attestor: Attestor,
    credential_id: CredentialId,
    anchor: Anchor,
    at_ms: int,
) -> End:
    """Return the transition that ends a launched call as interrupted."""
    by_kind = {entry.kind: entry for entry in entries}
    try:
        decided = read_event(by_kind[CallDecided.kind], CallDecided)
        launch = by_kind[CallLaunched.kind]
    except KeyError as error:
        raise IntegrityError(
            Code.JOURNAL_BROKEN, f"call {call_id} was launched without an entry that says so"
        ) from error
    attestation = attestor.interrupted(
        decided,
        read_event(launch, CallLaunched),
        credential_id=credential_id,
        launched_at_ms=launch.recorded_at_ms,
        at_ms=at_ms,
        anchor=anchor,
    )
    meaning = MEANINGS[Code.TOOL_INTERRUPTED]
    outcome = OutcomeView(
        ok=False,
        output=NO_OUTPUT,
        error=OutcomeError(
            code=Code.TOOL_INTERRUPTED.value, message=meaning.sentence, hint=meaning.hint
        ),
        timed_out=False,
        truncated=False,
        limit=None,
        duration_ms=0,
    )
    ending = _encode(Ending(outcome=outcome))
    interrupted = CallInterrupted(
        call_id=call_id, attestation=attestation, ending_sha256=content_sha256(ending)
    )
    return End(
        call_id=call_id,
        before=CallState.LAUNCHED,
        after=CallState.INTERRUPTED,
        ending=ending,
        events=(interrupted,),
    )
