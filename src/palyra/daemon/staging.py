# SPDX-License-Identifier: Apache-2.0
"""Policies in a folder in, a checked pack and what it would change out. Nothing comes into force.

A pack passes only as a whole: every file parses, fits the schema and comes out as its own examples
say. What it would have changed is found by deciding the journal's past calls again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from palyra.core.errors import Code, InputError
from palyra.core.pack import NOBODY, Members, Pack
from palyra.flow.policy.assumed import ASSUMED_FOR_EXAMPLES
from palyra.flow.policy.cases import Case, CaseFault, ReadCases, read_cases
from palyra.flow.policy.compare import Differences, compare
from palyra.flow.policy.compile import compile_pack
from palyra.flow.policy.examples import Outcome, run_cases, unexampled
from palyra.flow.policy.members import read_members
from palyra.flow.policy.presets import packaged_pack, packaged_sources, packaged_tables
from palyra.flow.policy.replay import Replay, past_decisions, replay
from palyra.flow.policy.rules import Rules
from palyra.flow.policy.sources import PACKAGED, Fault, printable
from palyra.tools.built_in import built_in_catalogue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from palyra.core.ports import JournalReader
    from palyra.daemon.policy_folder import FolderContent

    Progress = Callable[[str], None]

_MEMBERS_NAME: Final = "members.toml"
_SHOWN_FAULTS: Final = 100


class InvalidPoliciesError(InputError):
    """The policies are not in order; those in force stay in force."""

    def __init__(self, faults: tuple[Fault | CaseFault, ...]) -> None:
        first = faults[0]
        code = first.code if isinstance(first, Fault) else Code.POLICY_INVALID
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        told = [str(fault) for fault in faults[:_SHOWN_FAULTS]]
        super().__init__(code, f"{first}{more}", details={"faults": told})
        self.faults = faults


class CheckedPack(msgspec.Struct, frozen=True, kw_only=True):
    """A pack that may be activated, and how its examples came out."""

    pack: Pack
    outcomes: tuple[Outcome, ...]
    unexampled: tuple[str, ...]
    """Operators' policies without both an example and a counter-example."""
    notes: tuple[str, ...]


class StageReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a checked pack would change."""

    checked: CheckedPack
    differences: Differences
    replayed: Replay


def check(content: FolderContent, *, preset: str, progress: Progress | None = None) -> CheckedPack:
    """Return the pack that a folder's policies make on top of a preset.

    Raises:
        InvalidPoliciesError: something is wrong with them; every fault has its place.
        InputError: an example came out otherwise (``policy.example_failed``).
    """
    members = _members(content)
    cases = _cases(content.cases)
    pack = compile_pack(
        (*packaged_sources(preset), *content.sources),
        preset=preset,
        members=members if isinstance(members, Members) else NOBODY,
        progress=_counted(progress, "checking policies"),
    )
    faults: tuple[Fault | CaseFault, ...] = (
        *(() if isinstance(pack, Pack) else pack),
        *(() if isinstance(members, Members) else members),
        *cases.faults,
    )
    if not isinstance(pack, Pack) or faults:
        raise InvalidPoliciesError(faults)
    packaged = _cases(packaged_tables(preset))
    _run(Rules(packaged_pack(preset)), packaged.cases)  # what others add may change their verdicts
    outcomes = _run(Rules(pack), cases.cases)
    own = frozenset(
        policy.policy_id for policy in pack.policies if not policy.source.startswith(PACKAGED)
    )
    return CheckedPack(
        pack=pack,
        outcomes=outcomes,
        unexampled=tuple(each for each in unexampled(pack, cases.cases) if each in own),
        notes=(*content.notes, *_unknown_tools(pack)),
    )


def _run(rules: Rules, cases: Sequence[Case]) -> tuple[Outcome, ...]:
    """Put cases to the rules, and refuse the rules if any comes out otherwise."""
    outcomes = run_cases(rules, cases, assumed=ASSUMED_FOR_EXAMPLES)
    told = [f"{each.case.name}: {each.differed}" for each in outcomes if each.differed]
    if told:
        raise InputError(
            Code.POLICY_EXAMPLE,
            f"{len(told)} of {len(outcomes)} examples came out otherwise: {told[0]}",
            details={"failed": told[:_SHOWN_FAULTS]},
        )
    return outcomes


def _unknown_tools(pack: Pack) -> Iterator[str]:
    """Yield a note for each policy about a tool that does not come with Palyra.

    It may be a tool of the operator's own, or a name that was misspelt and will never apply.
    """
    catalogue = built_in_catalogue()
    for policy in pack.policies:
        for key in policy.resource:
            name = key.removeprefix('=Tool::"').removesuffix('"')
            if key.startswith('=Tool::"') and catalogue.find(name) is None:
                close = catalogue.nearest(name)
                hint = f"; did you mean {close}?" if close is not None else ""
                about = f"policy {policy.policy_id} is about {printable(name)}"
                yield f"{about}, no built-in tool{hint}"


def report(
    checked: CheckedPack,
    *,
    in_force: Pack,
    reader: JournalReader,
    since_ms: int = 0,
    progress: Progress | None = None,
) -> StageReport:
    """Return what a pack changes against the one in force, on paper and for past calls."""
    told = progress or _silent
    replayed = replay(
        past_decisions(reader, since_ms=since_ms),
        Rules(checked.pack),
        progress=lambda done: told(f"deciding past calls again: {done}"),
    )
    return StageReport(
        checked=checked, differences=compare(in_force, checked.pack), replayed=replayed
    )


def _members(content: FolderContent) -> Members | tuple[Fault, ...]:
    if content.members_toml is None:
        return NOBODY
    return read_members(content.members_toml, _MEMBERS_NAME)


def _cases(tables: Iterable[tuple[str, bytes]]) -> ReadCases:
    read = [read_cases(table, name) for name, table in tables]
    return ReadCases(
        cases=tuple(case for each in read for case in each.cases),
        faults=tuple(fault for each in read for fault in each.faults),
    )


def _counted(progress: Progress | None, doing: str) -> Callable[[int, int], None]:
    told = progress or _silent
    return lambda done, steps: told(f"{doing}: {done} of {steps}")


def _silent(_: str) -> None:
    pass
