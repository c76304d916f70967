# SPDX-License-Identifier: Apache-2.0
"""Whether policies and postures agree with the journal: entries in, what does not fit out (I8).

What is in force decides everything else, so it must follow from the entries alone: which policies
were activated after which, every posture as it was last set, and each call that went on decided by
what was in force. Acts of operators may be decided by the packaged policies while those in force
cannot be loaded, so their decisions are not compared. Memory grows with the packs and postures
there were, not with the journal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from palyra.core.decision import Verdict
from palyra.core.digest import PolicyDigest, policy_digest
from palyra.core.errors import IntegrityError
from palyra.core.events import (
    ApprovalRequested,
    CallDecided,
    CallEnded,
    CallInterrupted,
    CallLaunched,
    ConfigApplied,
    Event,
    PolicyActivated,
    PolicyStaged,
    PostureChanged,
)
from palyra.core.ports import RulesInForce

if TYPE_CHECKING:
    from collections.abc import Iterator

    from palyra.core.ports import JournalReader
    from palyra.core.posture import PostureSetting

Trouble = tuple[int, str]
"""The entry concerned, and what is wrong."""

_Key = tuple[str, str, str]
_Columns = tuple[str | int | None, ...]

_SHOWN: Final = 16
"""Characters of a digest that tell it apart from others in a sentence."""
_SHOWN_NAME: Final = 64


class RulesAgreement:
    """Follows the entries about rules, then compares what they add up to with the tables."""

    def __init__(self) -> None:
        self._staged: set[str] = set()
        self._activated: dict[str, int] = {}
        self._in_force = ""
        self._changes = 0
        self._last_change = 0
        self._postures: dict[_Key, tuple[int, _Columns]] = {}
        self._outdated: set[str] = set()

    def follow(self, index: int, event: Event) -> str | None:
        """Take up one entry; return what is impossible about it."""
        match event:
            case CallDecided():
                return self._decide(event)
            case CallLaunched() | ApprovalRequested():
                if event.call_id in self._outdated:
                    return "the call went on although its policies were no longer in force"
            case CallEnded() | CallInterrupted():
                self._outdated.discard(event.call_id)
            case PolicyStaged():
                self._staged.add(event.policy_digest)
            case PolicyActivated():
                return self._activate(index, event)
            case PostureChanged():
                return self._change(index, event)
            case ConfigApplied() if event.policy_digest:  # empty where none could be read
                return self._unknown(event.policy_digest)
            case _:
                pass
        return None

    def disagreements(self, reader: JournalReader) -> Iterator[Trouble]:
        """Yield where the tables differ from what the entries say, with the entry concerned."""
        for compare in (self._rules_troubles, self._posture_troubles, self._pack_troubles):
            try:
                yield from compare(reader)
            except IntegrityError as error:  # a row that cannot be read
                yield reader.size(), error.message

    def _decide(self, event: CallDecided) -> str | None:
        """Note a call decided on other policies than those in force: it may not go on.

        Refused it may be: a refusal is recorded even if policies were activated in that moment, and
        one that rests on no policy at all (a fault, a budget) needs none to be in force.
        """
        decision = event.decision
        if decision.policy_digest == self._in_force or not self._activated:
            return None
        self._outdated.add(event.call_id)
        rests_on_none = decision.verdict == Verdict.FORBID.wire and not decision.policies
        return None if rests_on_none else self._unknown(decision.policy_digest)

    def _unknown(self, digest: str) -> str | None:
        if not self._activated or digest in self._activated:
            return None  # journals may be older than policies that are activated
        return f"it rests on policies {digest[:_SHOWN]!r} that were never in force"

    def _activate(self, index: int, event: PolicyActivated) -> str | None:
        before, self._in_force = self._in_force, event.policy_digest
        self._activated[event.policy_digest] = index
        self._count(index)
        if event.before_digest != before:
            return "the policies it replaced were not the ones in force"
        if event.policy_digest not in self._staged:
            return "the policies were never staged"
        return None

    def _change(self, index: int, event: PostureChanged) -> str | None:
        key = (event.tool, event.scope, event.scope_id)
        _, before = self._postures.pop(key, (0, ("",)))
        if event.after:
            self._postures[key] = index, _columns_of_entry(event)
        self._count(index)
        return None if event.before == before[0] else "the posture was not set like this before"

    def _count(self, index: int) -> None:
        self._changes += 1
        self._last_change = index

    def _rules_troubles(self, reader: JournalReader) -> Iterator[Trouble]:
        recorded = None
        if self._changes:
            recorded = RulesInForce(
                version=self._changes, policy_digest=PolicyDigest(self._in_force)
            )
        found = reader.rules_in_force()
        if found == recorded:
            return
        index = self._last_change or reader.size()
        if found is None:
            yield index, "the rules in force are no longer in the state"
        elif recorded is None:
            yield index, "rules are in force, but no entry has brought them"
        elif found.policy_digest != recorded.policy_digest:
            yield index, "the policies in force are not those that were activated last"
        else:
            yield index, f"the version of the rules is not {recorded.version}, as its changes count"

    def _posture_troubles(self, reader: JournalReader) -> Iterator[Trouble]:
        left = dict(self._postures)
        for setting in reader.postures():
            key = (setting.tool, setting.scope.value, setting.scope_id)
            index, recorded = left.pop(key, (reader.size(), None))
            if recorded is None:
                yield index, f"{_posture(key)} is set, but no entry has set it"
            elif recorded != _columns_of_row(setting):
                yield index, f"{_posture(key)} is not as it was set"
        for key, (index, _) in left.items():
            yield index, f"{_posture(key)} is no longer set, but was not cleared"

    def _pack_troubles(self, reader: JournalReader) -> Iterator[Trouble]:
        left = dict(self._activated)
        for pack in reader.packs():
            digest = pack.policy_digest
            index = left.pop(digest, 0)
            what = f"the pack of policies {digest[:_SHOWN]!r}"
            if digest not in self._staged:
                yield index or reader.size(), f"{what} is kept, but no entry has staged it"
            elif pack.was_active != (index > 0):
                says = "was never in force" if pack.was_active else "was in force"
                yield index or reader.size(), f"{what} {says}, which the state has otherwise"
            if not _is_whole(reader, digest):
                yield index or reader.size(), f"{what} is not what its digest says"
        for missing, index in left.items():
            yield index, f"the pack of policies {missing[:_SHOWN]!r} is no longer kept"


def _is_whole(reader: JournalReader, digest: PolicyDigest) -> bool:
    pack = reader.pack(digest)
    return pack is not None and policy_digest(pack.body) == digest


def _posture(key: _Key) -> str:
    tool, scope, scope_id = key
    whom = f"{scope} {scope_id}".rstrip()
    return f"the posture of {tool[:_SHOWN_NAME]!r} for {whom[:_SHOWN_NAME]!r}"


def _columns_of_entry(event: PostureChanged) -> _Columns:
    return (
        event.after,
        event.reason,
        event.principal,
        event.by_administrator,
        event.set_at_ms,
        event.expires_at_ms,
    )


def _columns_of_row(setting: PostureSetting) -> _Columns:
    return (
        setting.state.value,
        setting.reason,
        str(setting.set_by),
        setting.by_administrator,
        setting.set_at_ms,
        setting.expires_at_ms,
    )
