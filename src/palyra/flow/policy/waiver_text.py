# SPDX-License-Identifier: Apache-2.0
"""What was seen of some calls in, the text of a policy that waives the question for them out.

It lets one principal call one version of one tool, each time with all facts of a call that was
seen and nothing larger: of what was seen in two calls, nothing is put together. What stands in the
facts of a call was chosen by an agent. So it is a text in the policy and never a part of its
language, and nothing in it is a pattern (I2).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from palyra.core.policy_request import EntityUid
from palyra.flow.policy.inquiry import WAIVE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from palyra.flow.policy.inquiry import Inquiry

MOST_COMBINATIONS: Final = 16
"""What one policy tells apart: people are to read it (I13)."""
_ESCAPED: Final = re.compile(r"[^ !#-\[\]-~]")
"""All but printable ASCII, the quotation mark and the backslash."""
_PLAIN: Final = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t"}


class Files(msgspec.Struct, frozen=True):
    """Where it reads and writes."""

    workspace: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    protected: tuple[str, ...]
    outside: tuple[str, ...]


class Process(msgspec.Struct, frozen=True):
    """What it would start."""

    executable: str
    command: str


class Network(msgspec.Struct, frozen=True):
    """Where it would connect to."""

    hosts: tuple[str, ...]
    methods: tuple[str, ...]
    ports: tuple[int, ...]


class Plan(msgspec.Struct, frozen=True):
    """How it would be confined."""

    tier: str
    egress: tuple[str, ...]
    writes: tuple[str, ...]
    secrets: tuple[str, ...]


class Likeness(NamedTuple):
    """What all calls of one policy have in common."""

    tool_version: str
    workspace: str | None
    executable: str | None
    has_network: bool
    tier: str


class Seen(msgspec.Struct, frozen=True):
    """What policy saw of a call, as far as a suggestion limits it."""

    tool_version: str
    size_bytes: int
    duration_ms: int
    capabilities: tuple[str, ...]
    plan: Plan
    files: Files | None = None
    process: Process | None = None
    network: Network | None = None

    @property
    def likeness(self) -> Likeness:
        """What it has in common with other calls that one policy can speak of."""
        return Likeness(
            tool_version=self.tool_version,
            workspace=self.files.workspace if self.files is not None else None,
            executable=self.process.executable if self.process is not None else None,
            has_network=self.network is not None,
            tier=self.plan.tier,
        )

    @property
    def names_nothing(self) -> bool:
        """Whether it shows no path, program or host; policy may still see how large it is.

        A workspace is no such thing: a tool has one whatever it is called with.
        """
        has_paths = self.files is not None and bool(self.files.reads or self.files.writes)
        return not has_paths and self.process is None and self.network is None


_seen: Final = msgspec.json.Decoder(Seen)


def seen_in(inquiry: Inquiry) -> Seen:
    """Return what a question that fits the schema shows. Raises ``msgspec.MsgspecError``."""
    return _seen.decode(inquiry.context_json)


def combinations(seen: Iterable[Seen]) -> tuple[Seen, ...]:
    """Return the calls that differ, in a fixed order, without those that another one includes.

    One includes another if it is like it in everything, but no smaller and no shorter. Where the
    size is all that shows, none includes another.
    """
    largest: dict[Seen, int] = {}
    kept = []
    for each in sorted(set(seen), key=lambda call: (-call.size_bytes, -call.duration_ms)):
        others = msgspec.structs.replace(
            each, size_bytes=each.size_bytes if each.names_nothing else 0, duration_ms=0
        )
        # Those before are at least as large. So this one is included unless it takes longer.
        if each.duration_ms > largest.get(others, -1):
            largest[others] = each.duration_ms
            kept.append(each)
    return tuple(sorted(kept, key=msgspec.json.encode))


def waiver_text(
    seen: Sequence[Seen],
    *,
    policy_id: str,
    reason: str,
    principal: EntityUid,
    resource: EntityUid,
) -> str:
    """Return the policy for calls that are alike.

    Raises:
        ValueError: there is no call, they are not, or they differ in too many ways.
    """
    if len({each.likeness for each in seen}) != 1:
        raise ValueError("the calls of one policy must be alike")
    distinct = combinations(seen)
    if len(distinct) > MOST_COMBINATIONS:
        raise ValueError("the calls of one policy differ in too many ways")
    conditions = " &&\n  ".join((*_common(distinct[0]), _one_of(distinct)))
    return (
        f"@id({cedar_text(policy_id)})\n"
        f"@reason({cedar_text(reason)})\n"
        "permit (\n"
        f"  principal == {_entity(principal)},\n"
        f"  action == {_entity(EntityUid('Action', WAIVE))},\n"
        f"  resource == {_entity(resource)}\n"
        ")\n"
        f"when {{\n  {conditions}\n}};"
    )


def cedar_text(text: str) -> str:
    """Write a text so that it means itself, and shows everything that it holds.

    All but printable ASCII is written by number: a character may hide, look like another, or turn
    around what stands beside it.
    """
    return f'"{_ESCAPED.sub(_escape, text)}"'


def _common(seen: Seen) -> Iterator[str]:
    """Yield what all calls that are alike fulfil; Cedar has to know which records there are."""
    yield f"context.tool_version == {cedar_text(seen.tool_version)}"
    if seen.files is not None:
        yield "context has files"
        yield f"context.files.workspace == {cedar_text(seen.files.workspace)}"
        yield "context.files.protected.isEmpty()"
        yield "context.files.outside.isEmpty()"
    else:
        yield "!(context has files)"
    if seen.process is not None:
        yield "context has process"
        yield f"context.process.executable == {cedar_text(seen.process.executable)}"
    else:
        yield "!(context has process)"
    yield "context has network" if seen.network is not None else "!(context has network)"
    yield f"context.plan.tier == {cedar_text(seen.plan.tier)}"


def _one_of(seen: Sequence[Seen]) -> str:
    """Return that a call is as one of these was."""
    if len(seen) == 1:
        return " &&\n  ".join(_exactly(seen[0]))
    written = (" &&\n     ".join(_exactly(each)) for each in seen)
    return "(\n    " + " ||\n    ".join(f"({each})" for each in written) + "\n  )"


def _exactly(seen: Seen) -> Iterator[str]:
    """Yield what one call fulfils, beyond what it has in common with others."""
    if seen.files is not None:
        yield _equals("context.files.reads", seen.files.reads)
        yield _equals("context.files.writes", seen.files.writes)
    if seen.process is not None:
        yield f"context.process.command == {cedar_text(seen.process.command)}"
    if seen.network is not None:
        yield _equals("context.network.hosts", seen.network.hosts)
        yield _equals("context.network.methods", seen.network.methods)
        yield _equals("context.network.ports", seen.network.ports)
    yield _equals("context.plan.egress", seen.plan.egress)
    yield _equals("context.plan.writes", seen.plan.writes)
    yield _equals("context.plan.secrets", seen.plan.secrets)
    yield _equals("context.capabilities", seen.capabilities)
    # A size is a limit beside a name, but where it is all that is known it has to be that size.
    yield f"context.size_bytes {'==' if seen.names_nothing else '<='} {seen.size_bytes}"
    yield f"context.duration_ms <= {seen.duration_ms}"


def _equals(attribute: str, items: tuple[str, ...] | tuple[int, ...]) -> str:
    """Write that a set holds these and nothing else; Cedar knows no empty set without a type."""
    if not items:
        return f"{attribute}.isEmpty()"
    written = sorted({cedar_text(each) if isinstance(each, str) else str(each) for each in items})
    return f"{attribute} == [{', '.join(written)}]"


def _entity(uid: EntityUid) -> str:
    return f"{uid.type}::{cedar_text(uid.id)}"


def _escape(character: re.Match[str]) -> str:
    return _PLAIN.get(character[0]) or f"\\u{{{ord(character[0]):x}}}"
