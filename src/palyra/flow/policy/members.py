# SPDX-License-Identifier: Apache-2.0
"""A file of members in, who is in which role or group out; or everything that is wrong with it.

.. code-block:: toml

    [roles]
    approver = ["operator:ada"]
    [groups]
    builders = ["agent:mason", "group:night_shift"]
    night_shift = ["agent:owl"]
    [tool_groups]
    files = ["palyra.fs.read_file", "tool_group:more_files"]
    more_files = ["palyra.fs.list_dir"]

Groups may hold groups; roles hold only principals, so that nobody has a role by way of a group.
A tool is in the groups of its name's beginnings, and in whatever holds these: ``palyra.fs.read``
is in ``dangerous`` where that holds ``tool_group:palyra.fs``.
``user:ada`` means ``operator:ada``, as it does on the command line.

Such files come with pull requests, so reading one takes little time whatever it holds (I13).
"""

from __future__ import annotations

import re
import tomllib
from contextlib import suppress
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from palyra.core.errors import Code
from palyra.core.manifest import is_tool_name
from palyra.core.nearest import nearest
from palyra.core.pack import MOST_MEMBERS, Members
from palyra.core.policy_request import EntityUid
from palyra.flow.policy.sources import Fault, printable
from palyra.flow.policy.toml_strain import toml_strain

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

TABLES: Final = ("roles", "groups", "tool_groups")
MOST_PARENTS: Final = 128
"""Roles and groups that one thing may be in: every decision about it looks at all of them (I13)."""
LARGEST_FILE_BYTES: Final = 2 << 20
_MOST_FAULTS: Final = 100
_MOST_COMPARISONS: Final = 2_000
"""Names that are looked at to say what was meant, for all faults of a file together (I13)."""
_LONGEST_LINE_START: Final = 256

_KINDS: Final = {"agent": "Agent", "operator": "Operator", "device": "Device", "service": "Service"}
_ALIASES: Final = {"user": "operator"}
"""Other names of kinds; members are kept under the first, so that they mean the same."""
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}", re.ASCII)
_PLACE: Final = re.compile(r" ?\(at (?:line ([0-9]+), column ([0-9]+)|end of document)\)$")
_NESTED: Final = {"groups": "group:", "tool_groups": "tool_group:"}


class Memberships:
    """What everybody and every tool is in, however far up. Built once from a pack's members."""

    def __init__(self, members: Members) -> None:
        self._roles = _inverted(members.roles)
        self._groups = _Nesting(members.groups, "group:")
        self._tool_groups = _Nesting(members.tool_groups, "tool_group:")

    def parents_of(self, principal: EntityUid) -> tuple[EntityUid, ...]:
        """Return all roles and groups that a principal is in, sorted."""
        text = f"{principal.type.lower()}:{principal.id}"
        if _KINDS.get(principal.type.lower()) != principal.type:
            return ()
        groups = self._groups.above(text)
        roles = self._roles.get(text, ())
        return tuple(
            sorted(
                (
                    *(EntityUid("Group", name) for name in groups),
                    *(EntityUid("Role", name) for name in roles),
                )
            )
        )

    def groups_of_tool(self, tool: EntityUid) -> tuple[EntityUid, ...]:
        """Return all groups that hold a tool or a beginning of its name, however far up, sorted.

        The beginnings themselves are among them only where a group holds them. Nothing is returned
        for what is not a tool.
        """
        if tool.type != "Tool":
            return ()
        groups = self._tool_groups.above(tool.id, *_beginnings(tool.id))
        return tuple(sorted(EntityUid("ToolGroup", name) for name in groups))


def parents_of(members: Members, principal: EntityUid) -> tuple[EntityUid, ...]:
    """Return all roles and groups that a principal is in, for those who ask only once."""
    return Memberships(members).parents_of(principal)


def groups_of_tool(members: Members, tool: EntityUid) -> tuple[EntityUid, ...]:
    """Return all groups that a tool is in, for those who ask only once."""
    return Memberships(members).groups_of_tool(tool)


def read_members(body: bytes, source: str) -> Members | tuple[Fault, ...]:
    """Return what the file ``source`` says, or the first 100 faults. Never raises."""
    if len(body) > LARGEST_FILE_BYTES:
        message = f"the file is over {LARGEST_FILE_BYTES} bytes"
        return (Fault(source=source, message=message, code=Code.POLICY_TOO_LARGE),)
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        return (Fault(source=source, message="the file is not UTF-8"),)
    if message := toml_strain(text):
        return (Fault(source=source, message=message, code=Code.POLICY_TOO_LARGE),)
    try:
        document = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
        return (_not_toml(error, source),)
    reader = _Reader(source, text)
    with suppress(_EnoughFaultsError):
        reader.read(document)
    return tuple(reader.faults) if reader.faults else Members(**reader.tables)


class _EnoughFaultsError(Exception):
    """Nobody reads more than so many faults, so nothing is done to find them."""


class _Reader:
    def __init__(self, source: str, text: str) -> None:
        self.faults: list[Fault] = []
        self.tables: dict[str, dict[str, tuple[str, ...]]] = {}
        self._source = source
        self._text = text
        self._comparisons_left = _MOST_COMPARISONS

    def read(self, document: Mapping[str, Any]) -> None:
        """Fill in the tables. Raises ``_EnoughFaultsError`` at the last fault that is noted."""
        for name, table in document.items():
            if name not in TABLES or not isinstance(table, dict):
                self._unknown_table(name)
                continue
            self.tables[name] = {
                key: tuple(self._members_of(name, key, value)) for key, value in table.items()
            }
        count = sum(len(each) for table in self.tables.values() for each in table.values())
        if count > MOST_MEMBERS:
            message = f"there are over {MOST_MEMBERS} memberships"
            self.faults = [Fault(source=self._source, message=message, code=Code.POLICY_TOO_LARGE)]
            return
        for name, prefix in _NESTED.items():
            self._check_nesting(name, prefix)
        if not self.faults:
            self._check_parents()

    def _unknown_table(self, name: str) -> None:
        close = nearest(name, TABLES)
        hint = f"did you mean [{close}]?" if close else f"known are [{'], ['.join(TABLES)}]"
        if name in TABLES:
            hint = f"write [{name}] and its names below"
        self._fault(f"there is no table {printable(name)}", name, "", hint)

    def _members_of(self, table: str, key: str, value: object) -> Iterator[str]:
        if not _NAME.fullmatch(key):
            self._fault("the name is not 1 to 64 letters, digits or . _ @ -", table, key)
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            self._fault("the members are not a list of texts", table, key)
            return
        seen: set[str] = set()
        for written in value:
            member = _meant(written) if table != "tool_groups" else written
            if member in seen:
                self._fault(f"{printable(written)} is listed twice", table, key)
            elif not (hint := _malformed(table, member)):
                yield member
            else:
                self._fault(f"{printable(written)} cannot be a member", table, key, hint)
            seen.add(member)

    def _check_nesting(self, table: str, prefix: str) -> None:
        """Refuse groups that do not exist, and groups that are in themselves."""
        groups = self.tables.get(table, {})
        below: dict[str, list[str]] = {}
        for key, members in groups.items():
            names = [each.removeprefix(prefix) for each in members if each.startswith(prefix)]
            below[key] = [name for name in names if name in groups]
            for name in names:
                if name not in groups:
                    close = self._nearest(name, groups)
                    hint = f"did you mean {prefix}{close}?" if close else f"add it to [{table}]"
                    self._fault(f"there is no {prefix}{name}", table, key, hint)
        if cycle := _cycle(below):
            sentence = f"a group is in itself: {_arrows(cycle)}"
            self._fault(sentence, table, cycle[0])

    def _nearest(self, name: str, known: Collection[str]) -> str | None:
        """Return what was probably meant, as long as not too much was compared (I13)."""
        if len(known) > self._comparisons_left:
            return None
        self._comparisons_left -= len(known)
        return nearest(name, known)

    def _check_parents(self) -> None:
        roles = _inverted(self.tables.get("roles", {}))
        for table, prefix in _NESTED.items():
            nesting = _Nesting(self.tables.get(table, {}), prefix, most=MOST_PARENTS)
            for member, direct in nesting.direct.items():
                if table == "groups":
                    count = len(nesting.above(member)) + len(roles.get(member, ()))
                else:
                    count = len(nesting.above(member, *_beginnings(member)))
                if count > MOST_PARENTS:
                    sentence = f"{member} is in over {MOST_PARENTS} roles and groups"
                    self._fault(sentence, table, direct[0])
        for member, held in roles.items():
            if len(held) > MOST_PARENTS:
                sentence = f"{member} is in over {MOST_PARENTS} roles and groups"
                self._fault(sentence, "roles", held[0])

    def _fault(self, message: str, table: str, key: str, hint: str = "") -> None:
        where = f"{printable(table)}.{printable(key)}: " if key else ""
        line = self._line_of(table, key)
        self.faults.append(
            Fault(
                source=self._source,
                line=line,
                column=1 if line else 0,
                message=where + message,
                token=printable(key or table),
                hint=hint,
            )
        )
        if len(self.faults) >= _MOST_FAULTS:
            raise _EnoughFaultsError

    def _line_of(self, table: str, key: str) -> int:
        """Return the line that most likely sets ``key``; TOML's reader does not tell."""
        return self._lines.get((table, key)) or self._lines.get((table, ""), 0)

    @cached_property
    def _lines(self) -> dict[tuple[str, str], int]:
        """The lines of all tables and of what they seem to set, found in one go (I13)."""
        lines: dict[tuple[str, str], int] = {}
        table = ""
        for number, line in enumerate(self._text.split("\n"), start=1):
            start = line[:_LONGEST_LINE_START].lstrip()
            if start.startswith("["):
                table = _unquoted(start.lstrip("[").partition("]")[0])
                lines.setdefault((table, ""), number)
                continue
            name, equals, _ = start.partition("=")
            if not equals:
                continue
            if table:
                lines.setdefault((table, _unquoted(name)), number)
            else:
                first, _, rest = name.partition(".")
                lines.setdefault((_unquoted(first), ""), number)
                lines.setdefault((_unquoted(first), _unquoted(rest)), number)
        return lines


def _meant(member: str) -> str:
    """Return a member under the first name of its kind."""
    kind, colon, name = member.partition(":")
    return f"{_ALIASES.get(kind, kind)}{colon}{name}"


def _malformed(table: str, member: str) -> str:
    """Say what ``member`` should look like, or nothing if it does."""
    prefix = _NESTED.get(table)
    kind, _, name = member.partition(":")
    if prefix is not None and f"{kind}:" == prefix:
        return "" if _NAME.fullmatch(name) else f"write {prefix}NAME"
    if table == "tool_groups":
        return "" if is_tool_name(member) else "write a tool's name, or tool_group:NAME"
    if kind in _KINDS and _NAME.fullmatch(name):
        return ""
    close = nearest(kind, _KINDS)
    if close and kind not in _KINDS:
        return f"did you mean {close}:{printable(name)}?"
    forms = [f"{each}:NAME" for each in _KINDS]
    return f"write {', '.join(forms)}" + (f" or {prefix}NAME" if prefix else "")


def _not_toml(error: Exception, source: str) -> Fault:
    if isinstance(error, RecursionError):
        return Fault(source=source, message="the file is nested too deeply")
    message = str(error)
    place = _PLACE.search(message)
    line, column = (int(place[1]), int(place[2])) if place and place[1] else (0, 0)
    return Fault(
        source=source,
        line=line,
        column=column,
        message=printable(f"this is not TOML: {_PLACE.sub('', message)}"),
    )


def _inverted(table: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    above: dict[str, list[str]] = {}
    for name, members in table.items():
        for member in members:
            above.setdefault(member, []).append(name)
    return {member: tuple(names) for member, names in above.items()}


class _Nesting:
    """Which groups are over something; what is over a group is found only once.

    That is kept for each group that there is, so for no more than :data:`MOST_MEMBERS` (I13).
    """

    def __init__(
        self, table: Mapping[str, tuple[str, ...]], prefix: str, *, most: int | None = None
    ) -> None:
        self.direct: Final = _inverted(table)
        self._prefix = prefix
        self._most = most
        self._above: dict[str, tuple[str, ...]] = {}

    def above(self, *members: str) -> set[str]:
        """Return every group over any of ``members``; one above ``most``, where there are more."""
        found: set[str] = set()
        for member in members:
            found.update(self._joined(self.direct.get(member, ())))
        return found

    def _joined(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Return groups and everything over them."""
        for name in names:
            self._settle(name)
        found = set(names).union(*(self._above[name] for name in names))
        return tuple(found if self._most is None else islice(found, self._most + 1))

    def _settle(self, name: str) -> None:
        """Find what is over a group, and first what is over the groups that hold it."""
        pending, waiting = [name], set[str]()
        while pending:
            last = pending[-1]
            holders = self.direct.get(self._prefix + last, ())
            unsettled = [each for each in holders if each not in self._above]
            if last in self._above:
                pending.pop()
            elif not unsettled:
                self._above[pending.pop()] = self._joined(holders)
            elif last in waiting or not waiting.isdisjoint(unsettled):
                # It is in itself. No file that was read says so, but nothing here may hang on it.
                self._above[pending.pop()] = self._walked(holders)
            else:
                waiting.add(last)
                pending.extend(unsettled)

    def _walked(self, names: tuple[str, ...]) -> tuple[str, ...]:
        found: set[str] = set()
        pending = list(names)
        while pending:
            name = pending.pop()
            if name not in found:
                found.add(name)
                pending.extend(self.direct.get(self._prefix + name, ()))
        return tuple(found)


def _cycle(below: Mapping[str, list[str]]) -> list[str]:
    """Return the groups of one cycle in their order, the first again at the end; or nothing."""
    settled: set[str] = set()
    for start in below:
        path: dict[str, Iterator[str]] = {}
        name: str | None = start
        while name is not None or path:
            if name is not None and name in path:
                names = list(path)
                return [*names[names.index(name) :], name]
            if name is not None and name not in settled:
                path[name] = iter(below[name])
            name = next(path[next(reversed(path))], None) if path else None
            if name is None and path:
                settled.add(path.popitem()[0])
    return []


def _beginnings(name: str) -> list[str]:
    """Return the groups that a tool is in by its name, as members of others are written.

    A group that is a member stands for the tools whose names begin with it.
    """
    words = name.removeprefix("tool_group:").split(".")
    return [f"tool_group:{'.'.join(words[:count])}" for count in range(1, len(words))]


def _unquoted(key: str) -> str:
    return key.strip().strip("\"'")


def _arrows(cycle: list[str]) -> str:
    most = 16
    shown = cycle if len(cycle) <= most else [*cycle[: most - 1], "...", cycle[-1]]
    return " -> ".join(shown)
