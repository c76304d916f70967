# SPDX-License-Identifier: Apache-2.0
"""What was seen of some calls in, the text of a policy that waives the question for them out.

It lets one principal call one tool with the same workspace and program, no other path, host or
command, and nothing larger. What stands in the facts of a call was chosen by an agent. So it is
a text in the policy and never a part of its language, and nothing in it is a pattern (I2).
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

    workspace: str | None
    executable: str | None
    has_network: bool
    tier: str


class Seen(msgspec.Struct, frozen=True):
    """What policy saw of a call, as far as a suggestion limits it."""

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
            workspace=self.files.workspace if self.files is not None else None,
            executable=self.process.executable if self.process is not None else None,
            has_network=self.network is not None,
            tier=self.plan.tier,
        )


_seen: Final = msgspec.json.Decoder(Seen)


def seen_in(inquiry: Inquiry) -> Seen:
    """Return what a question that fits the schema shows. Raises ``msgspec.MsgspecError``."""
    return _seen.decode(inquiry.context_json)


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
        ValueError: there is no call, or they are not.
    """
    if len({each.likeness for each in seen}) != 1:
        raise ValueError("the calls of one policy must be alike")
    conditions = " &&\n  ".join(_conditions(seen))
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


def _conditions(seen: Sequence[Seen]) -> Iterator[str]:
    """Yield what all of these calls fulfil; they are of one kind."""
    if files := [each.files for each in seen if each.files is not None]:
        yield "context has files"
        yield f"context.files.workspace == {cedar_text(files[0].workspace)}"
        yield from _within("context.files.reads", [each.reads for each in files])
        yield from _within("context.files.writes", [each.writes for each in files])
        yield "context.files.protected.isEmpty()"
        yield "context.files.outside.isEmpty()"
    else:
        yield "!(context has files)"
    if processes := [each.process for each in seen if each.process is not None]:
        yield "context has process"
        yield f"context.process.executable == {cedar_text(processes[0].executable)}"
        yield f"{_set({each.command for each in processes})}.contains(context.process.command)"
    else:
        yield "!(context has process)"
    if networks := [each.network for each in seen if each.network is not None]:
        yield "context has network"
        yield from _within("context.network.hosts", [each.hosts for each in networks])
        yield from _within("context.network.methods", [each.methods for each in networks])
        yield from _within("context.network.ports", [each.ports for each in networks])
    else:
        yield "!(context has network)"
    plans = [each.plan for each in seen]
    yield f"context.plan.tier == {cedar_text(plans[0].tier)}"
    yield from _within("context.plan.egress", [plan.egress for plan in plans])
    yield from _within("context.plan.writes", [plan.writes for plan in plans])
    yield from _within("context.plan.secrets", [plan.secrets for plan in plans])
    yield from _within("context.capabilities", [each.capabilities for each in seen])
    yield f"context.size_bytes <= {max(each.size_bytes for each in seen)}"
    yield f"context.duration_ms <= {max(each.duration_ms for each in seen)}"


def _within(attribute: str, seen: Sequence[tuple[str, ...] | tuple[int, ...]]) -> Iterator[str]:
    """Yield that a set holds nothing that was not seen, and something where it always did.

    Nothing at all is within every set: without the second, what names no host would pass for what
    names a known one.
    """
    every = {item for items in seen for item in items}
    if not every:
        yield f"{attribute}.isEmpty()"
        return
    if all(seen):
        yield f"!{attribute}.isEmpty()"
    yield f"{_set(every)}.containsAll({attribute})"


def _set(items: Iterable[str | int]) -> str:
    """Write a set; Cedar knows none without a type, so there must be something in it."""
    written = sorted(cedar_text(item) if isinstance(item, str) else str(item) for item in items)
    return f"[{', '.join(written)}]"


def _entity(uid: EntityUid) -> str:
    return f"{uid.type}::{cedar_text(uid.id)}"


def _escape(character: re.Match[str]) -> str:
    return _PLAIN.get(character[0]) or f"\\u{{{ord(character[0]):x}}}"
