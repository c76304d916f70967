# SPDX-License-Identifier: Apache-2.0
"""Sources of policies in, one pack out; or everything that is wrong with them, each with its place.

Nothing of a set of policies with a fault comes into force (I1). No text makes this raise.
"""

from __future__ import annotations

import os
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final

import cedarpy

from palyra.core.errors import Code
from palyra.core.pack import LARGEST_PACK_BYTES, MOST_POLICIES, Effect, Pack, Policy
from palyra.flow.policy.annotations import problems
from palyra.flow.policy.diagnosis import (
    Finding,
    impossible_values,
    schema_findings,
    syntax_finding,
    vacuous_tests,
)
from palyra.flow.policy.heads import head_keys
from palyra.flow.policy.references import attributes_read
from palyra.flow.policy.sources import Fault, Source, printable
from palyra.flow.policy.statements import place_of, statements_in
from palyra.flow.policy.vocabulary import schema, schema_sha256

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cedarpy import pst

    from palyra.core.pack import Members
    from palyra.flow.policy.statements import Statement

__all__ = ["MOST_FAULTS", "Fault", "Source", "compile_pack"]

MOST_FAULTS: Final = 100
_CHUNK: Final = 100
"""Policies that are validated at a time, between two reports of progress."""
_MOST_THREADS: Final = 4


@dataclass(frozen=True, slots=True)
class _Read:
    """A statement that is one policy."""

    source: Source
    statement: Statement
    template: pst.Template


def compile_pack(
    sources: Sequence[Source],
    *,
    preset: str,
    members: Members,
    progress: Callable[[int, int], None] | None = None,
) -> Pack | tuple[Fault, ...]:
    """Return the pack, or the first 100 faults in the order of the sources.

    ``progress`` is told how many steps are done, and how many there are; each policy takes two.
    """
    statements = _cut(sources)
    if isinstance(statements, Fault):
        return (statements,)
    reporter = _Progress(progress, 2 * len(statements))
    faults: list[Fault] = []
    read = _read_all(statements, faults, reporter)
    _check_ids(read, faults)
    _validate(read, faults, reporter)
    if faults:
        order = {source.name: index for index, source in reversed(list(enumerate(sources)))}
        faults.sort(key=lambda fault: (order[fault.source], fault.line, fault.column))
        return tuple(faults[:MOST_FAULTS])
    pack = Pack(
        preset=preset,
        schema_sha256=schema_sha256(),
        policies=tuple(_policy(each) for each in read),
        members=members,
    )
    if len(pack.encoded()) > LARGEST_PACK_BYTES:
        return (_too_large(sources[-1].name, f"the pack is over {LARGEST_PACK_BYTES} bytes"),)
    return pack


class _Progress:
    def __init__(self, report: Callable[[int, int], None] | None, steps: int) -> None:
        self._report = report
        self._steps = steps
        self._done = 0
        self._reported = 0

    def advance(self, steps: int) -> None:
        self._done += steps
        is_due = self._done - self._reported >= _CHUNK or self._done == self._steps
        if self._report is not None and steps and is_due:
            self._reported = self._done
            self._report(self._done, self._steps)


def _cut(sources: Sequence[Source]) -> list[tuple[Source, Statement]] | Fault:
    """Return every statement, unless there are more or larger ones than a pack may hold (I13)."""
    size = 0
    statements: list[tuple[Source, Statement]] = []
    for source in sources:
        size += len(source.text.encode("utf-8", "surrogatepass"))
        if size > LARGEST_PACK_BYTES:
            return _too_large(source.name, f"the policies are over {LARGEST_PACK_BYTES} bytes")
        room = MOST_POLICIES - len(statements)
        found = list(islice(statements_in(source.text), room + 1))
        if len(found) > room:
            return _too_large(source.name, f"there are over {MOST_POLICIES} policies")
        statements.extend((source, statement) for statement in found)
    return statements


def _read_all(
    statements: Sequence[tuple[Source, Statement]], faults: list[Fault], reporter: _Progress
) -> list[_Read]:
    """Parse each statement alone, so that one fault hides no other."""
    read = []
    for source, statement in statements:
        if len(faults) >= MOST_FAULTS:
            break
        outcome = _parse(source, statement)
        if isinstance(outcome, Fault):
            faults.append(outcome)
            reporter.advance(2)
            continue
        one = _Read(source, statement, outcome)
        faults.extend(_annotation_faults(one))
        faults.extend(_fault(one, finding) for finding in vacuous_tests(statement, outcome))
        faults.extend(_fault(one, finding) for finding in impossible_values(statement, outcome))
        read.append(one)
        reporter.advance(1)
    return read


def _parse(source: Source, statement: Statement) -> pst.Template | Fault:
    if statement.flaw is not None:
        return Fault(
            source=source.name,
            line=statement.flaw.line,
            column=statement.flaw.column,
            message=statement.flaw.sentence,
            code=Code.POLICY_TOO_LARGE if statement.flaw.is_size else Code.POLICY_INVALID,
        )
    try:
        parsed = cedarpy.policies_to_pst(statement.text)
    except ValueError as error:
        return _placed(source, syntax_finding(statement, str(error)))
    if parsed.templates:
        line, column = (
            place_of("?principal", statement)
            or place_of("?resource", statement)
            or (statement.line, statement.column)
        )
        return _placed(
            source,
            Finding(
                "templates cannot be used here", line, column, hint="name the principal or resource"
            ),
        )
    if len(parsed.static_policies) != 1:
        finding = Finding("this is not exactly one policy", statement.line, statement.column)
        return _placed(source, finding)
    return next(iter(parsed.static_policies.values()))


def _annotation_faults(read: _Read) -> list[Fault]:
    found = problems(
        read.template.annotations,
        Effect(read.template.effect),
        is_packaged=read.source.is_packaged,
    )
    here = read.statement.line, read.statement.column
    return [
        _fault(
            read,
            Finding(
                problem.sentence,
                *(place_of(f"@{problem.annotation}", read.statement) or here),
                f"@{problem.annotation}",
                problem.hint,
            ),
        )
        for problem in found
    ]


def _check_ids(read: Sequence[_Read], faults: list[Fault]) -> None:
    first: dict[str, _Read] = {}
    for each in read:
        policy_id = each.template.annotations.get("id", "")
        if not policy_id:
            continue  # a fault of its own
        earlier = first.setdefault(policy_id, each)
        if earlier is not each:
            place = f"{earlier.source.name}:{earlier.statement.line}"
            here = each.statement.line, each.statement.column
            line, column = place_of("@id", each.statement) or here
            sentence = f"the id {printable(policy_id)} is taken by the policy at {place}"
            faults.append(_fault(each, Finding(sentence, line, column, policy_id)))


def _validate(read: Sequence[_Read], faults: list[Fault], reporter: _Progress) -> None:
    """Hold every policy against the schema, some at a time; Cedar works without the GIL here."""
    if len(faults) >= MOST_FAULTS:
        return
    chunks = [read[start : start + _CHUNK] for start in range(0, len(read), _CHUNK)]
    threads = min(_MOST_THREADS, os.cpu_count() or 1, max(1, len(chunks)))
    with ThreadPoolExecutor(threads) as pool:
        for chunk, found in zip(chunks, pool.map(_validated, chunks), strict=True):
            faults.extend(found)
            reporter.advance(len(chunk))
            if len(faults) >= MOST_FAULTS:
                pool.shutdown(wait=False, cancel_futures=True)
                break


def _validated(chunk: Sequence[_Read]) -> list[Fault]:
    text = "\n".join(each.statement.text for each in chunk)
    result = cedarpy.validate_policies(text, schema(), release_gil=True)
    said: defaultdict[str, list[str]] = defaultdict(list)
    for error in result.errors:
        said[error.policy_id].append(error.error)
    found = [
        _fault(each, finding)
        for index, each in enumerate(chunk)
        for finding in schema_findings(each.statement, said.pop(f"policy{index}", ()))
    ]
    if not result.validation_passed and not found:  # it speaks of none of them: still no
        said.setdefault("", ["the policies do not fit the schema"])
    for messages in said.values():
        found.extend(
            _fault(chunk[0], each) for each in schema_findings(chunk[0].statement, messages)
        )
    return found


def _policy(read: _Read) -> Policy:
    keys = head_keys(read.template)
    return Policy(
        policy_id=read.template.annotations["id"],
        effect=Effect(read.template.effect),
        source=read.source.name,
        line=read.statement.line,
        text=read.statement.text,
        principal=keys.principal,
        action=keys.action,
        resource=keys.resource,
        reads=attributes_read(read.template),
        annotations=dict(read.template.annotations),
    )


def _fault(read: _Read, finding: Finding) -> Fault:
    return _placed(read.source, finding, policy_id=read.template.annotations.get("id", ""))


def _placed(source: Source, finding: Finding, *, policy_id: str = "") -> Fault:
    return Fault(
        source=source.name,
        line=finding.line,
        column=finding.column,
        message=finding.message,
        token=finding.token,
        hint=finding.hint,
        policy_id=printable(policy_id),
    )


def _too_large(source: str, message: str) -> Fault:
    return Fault(source=source, message=message, code=Code.POLICY_TOO_LARGE)
