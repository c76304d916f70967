# SPDX-License-Identifier: Apache-2.0
"""A table of requests with what is expected of them in, typed cases or typed faults out.

A case says only what matters to it. Everything else is filled in as the gate would do it: from the
configuration that is assumed, and by the same derivations. A name that does not exist is a fault
and never an empty match: an example that was misspelt would otherwise hold for the wrong reason.
"""

from __future__ import annotations

import tomllib
from contextlib import suppress
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import msgspec

from palyra.core.canonical import canonicalize
from palyra.core.capability import Capability
from palyra.core.decision import Verdict
from palyra.core.errors import Code, InputError
from palyra.core.nearest import nearest
from palyra.core.policy_request import EntityUid, PolicyRequest
from palyra.flow.policy.assumed import capabilities_in, context_for, full_budget, texts_in
from palyra.flow.policy.inquiry import EXECUTE, groups_of, inquiry_of
from palyra.flow.policy.sources import printable
from palyra.flow.policy.toml_strain import toml_strain
from palyra.flow.policy.vocabulary import (
    actions,
    context_attributes,
    declared_actions,
    nearest_action,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from palyra.flow.policy.assumed import Assumed
    from palyra.flow.policy.inquiry import Inquiry

LARGEST_TABLE_BYTES: Final = 2 << 20
MOST_CASES: Final = 20_000
_MOST_FAULTS: Final = 100

PRINCIPAL_KINDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "agent": "Agent",
        "operator": "Operator",
        "user": "Operator",
        "device": "Device",
        "service": "Service",
    }
)
RESOURCE_KINDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "tool": "Tool",
        "skill": "Skill",
        "secret": "Secret",
        "secret_scope": "SecretScope",
        "channel": "Channel",
        "host": "Host",
        "workspace": "Workspace",
        "policy_pack": "PolicyPack",
        "approval": "Approval",
        "job": "Job",
        "memory": "Memory",
        "attachment": "Attachment",
        "journal": "Journal",
        "daemon": "Daemon",
    }
)
GROUP_KINDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "tool_group": "ToolGroup",
        "capability": "Capability",
        "secret_scope": "SecretScope",
        "domain": "Domain",
    }
)
KINDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        **PRINCIPAL_KINDS,
        **RESOURCE_KINDS,
        **GROUP_KINDS,
        "role": "Role",
        "group": "Group",
    }
)
"""Every kind of thing in texts such as ``tool:palyra.echo``, and its type in policies."""

_VERDICTS: Final = {verdict.wire: verdict for verdict in Verdict}
_CODES: Final = {code.value: code for code in Code}
_Known = TypeVar("_Known")
_KEYS: Final = (
    "name",
    "principal",
    "roles",
    "action",
    "resource",
    "groups",
    "expect",
    "code",
    "policies",
    "applies",
    "does_not_apply",
    "context",
)


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One request, and what is expected of it."""

    name: str
    source: str = ""
    number: int = 0
    """Its place in its file, counted from 1."""
    principal: EntityUid
    roles: tuple[str, ...] = ()
    action: str = EXECUTE
    resource: EntityUid
    groups: tuple[EntityUid, ...] = ()
    expect: Verdict | None = None
    code: Code | None = None
    policies: tuple[str, ...] | None = None
    """Exactly the policies that determine the answer."""
    applies: tuple[str, ...] = ()
    does_not_apply: tuple[str, ...] = ()
    context: dict[str, Any] = {}
    """What is otherwise than assumed; tables within are merged."""

    def __str__(self) -> str:
        place = f"{self.source}: " if self.source else ""
        number = f"case {self.number} " if self.number else "case "
        return f"{place}{number}'{printable(self.name)}'"


class CaseFault(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is wrong with a table of cases, and where."""

    source: str
    number: int = 0
    """Which case, counted from 1; 0 where it is about the table."""
    name: str = ""
    key: str = ""
    message: str
    nearest: str = ""
    """What was probably meant."""

    def __str__(self) -> str:
        case = f" case {self.number}" if self.number else ""
        name = f" '{printable(self.name)}'" if self.name else ""
        key = f" {printable(self.key)}:" if self.key else ""
        hint = f"; did you mean '{self.nearest}'?" if self.nearest else ""
        return f"{self.source}:{case}{name}{':' if case else ''}{key} {self.message}{hint}"


class ReadCases(NamedTuple):
    """What a table holds; nothing of it where anything is wrong with it."""

    cases: tuple[Case, ...] = ()
    faults: tuple[CaseFault, ...] = ()


def entity(text: str, kinds: Mapping[str, str] = KINDS) -> EntityUid:
    """Return the thing that a text such as ``tool:palyra.echo`` or ``agent:ada`` names.

    Raises:
        InputError: it is not ``kind:name``, or there is no such kind.
    """
    kind, colon, name = text.partition(":")
    if not colon or not name:
        raise InputError(
            Code.USAGE,
            f"'{printable(text)}' is not KIND:NAME",
            hint=f"write it as {next(iter(kinds))}:NAME; kinds are {', '.join(kinds)}",
        )
    if kind not in kinds:
        close = nearest(kind, kinds)
        raise InputError(
            Code.USAGE,
            f"'{printable(kind)}' is no kind of thing that can stand here",
            hint=f"did you mean '{close}'?" if close else f"kinds are {', '.join(kinds)}",
            details={"nearest": close or ""},
        )
    return EntityUid(kinds[kind], name)


def read_cases(content: bytes, source: str) -> ReadCases:
    """Read a table of cases, all of it or none."""
    try:
        tables = _tables(content)
    except InputError as error:
        return ReadCases(
            faults=(
                CaseFault(
                    source=source,
                    key=str(error.details.get("key", "")),
                    message=error.message,
                    nearest=str(error.details.get("nearest", "")),
                ),
            )
        )
    cases: list[Case] = []
    faults: list[CaseFault] = []
    with suppress(_EnoughFaultsError):
        for number, table in enumerate(tables, start=1):
            cases.append(_CaseReader(table, faults, source=source, number=number).case())
    return ReadCases(faults=tuple(faults)) if faults else ReadCases(cases=tuple(cases))


def inquiry_for(case: Case, *, assumed: Assumed) -> Inquiry:
    """Return the question that a case puts; what does not fit the schema is for Cedar to refuse.

    Raises:
        InputError: a value of the context is none that JSON has.
    """
    groups = case.groups
    if case.resource.type == "Tool":
        powers = capabilities_in(case.context, resource=case.resource, assumed=assumed)
        groups = (*groups, *groups_of(case.resource.id, powers))
    context = context_for(
        case.context,
        principal=case.principal,
        action=case.action,
        resource=case.resource,
        assumed=assumed,
    )
    request = PolicyRequest(
        principal=case.principal,
        roles=case.roles,
        action=case.action,
        resource=case.resource,
        groups=tuple(dict.fromkeys(groups)),
        context=msgspec.Raw(canonicalize(context)),
    )
    try:
        return inquiry_of(request)
    except ValueError:
        # What stands for the budget is none. Cedar says so, once it is asked.
        claimed = canonicalize(context["budget"]).decode()
        sound = canonicalize({**context, "budget": full_budget(assumed)})
        inquiry = inquiry_of(msgspec.structs.replace(request, context=msgspec.Raw(sound)))
        return replace(inquiry, attributes={**inquiry.attributes, "budget": claimed})


class _EnoughFaultsError(Exception):
    """Nobody reads more than so many faults, so nothing is done to find them."""


class _CaseReader:
    """Reads one case and adds everything that is wrong with it to ``faults``."""

    def __init__(
        self, table: dict[str, Any], faults: list[CaseFault], *, source: str, number: int
    ) -> None:
        self._table = table
        self._source = source
        self._number = number
        name = table.get("name")
        self._name = name if isinstance(name, str) else ""
        self._faults = faults

    def case(self) -> Case:
        """Return the case, which is good for nothing if there are faults.

        Raises ``_EnoughFaultsError`` at the last fault that is noted.
        """
        for key in self._table:
            if key not in _KEYS:
                self._fault(key, "there is no such key", nearest(key, _KEYS))
        name = self._text("name", is_required=True)
        principal = self._entity("principal", PRINCIPAL_KINDS)
        resource = self._entity("resource", RESOURCE_KINDS)
        case = Case(
            name=name,
            source=self._source,
            number=self._number,
            principal=principal,
            roles=self._texts("roles"),
            action=self._text("action") or EXECUTE,
            resource=resource,
            groups=self._groups(),
            expect=self._one_of("expect", _VERDICTS),
            code=self._one_of("code", _CODES),
            policies=self._texts("policies") if "policies" in self._table else None,
            applies=self._texts("applies"),
            does_not_apply=self._texts("does_not_apply"),
            context=self._context(),
        )
        self._check(case)
        return case

    def _check(self, case: Case) -> None:
        says_nothing = not case.applies and not case.does_not_apply
        if says_nothing and "expect" not in self._table:
            self._fault("expect", "is missing: what should the answer be?")
        if case.expect is None and (case.code is not None or case.policies is not None):
            self._fault("expect", "is missing beside 'code' or 'policies'")
        if both := sorted(set(case.applies) & set(case.does_not_apply)):
            self._fault("does_not_apply", f"'{printable(both[0])}' is also in 'applies'")
        # That an action does not exist can be what a case shows; then it must say so.
        is_meant = case.code is Code.POLICY_ACTION_UNKNOWN and says_nothing
        if case.action not in declared_actions() and not is_meant:
            what = "is a family of actions" if case.action in actions() else "is no action"
            self._fault("action", f"'{printable(case.action)}' {what}", nearest_action(case.action))

    def _fault(self, key: str, message: str, close: str | None = None) -> None:
        self._faults.append(
            CaseFault(
                source=self._source,
                number=self._number,
                name=self._name,
                key=key,
                message=message,
                nearest=close or "",
            )
        )
        if len(self._faults) >= _MOST_FAULTS:  # (I13)
            raise _EnoughFaultsError

    def _text(self, key: str, *, is_required: bool = False) -> str:
        value = self._table.get(key)
        if value is None and not is_required:
            return ""
        if not isinstance(value, str) or not value:
            self._fault(key, "is missing" if value is None else "is not a text with anything in it")
            return ""
        return value

    def _texts(self, key: str) -> tuple[str, ...]:
        value = self._table.get(key, [])
        if not isinstance(value, list) or not all(isinstance(each, str) and each for each in value):
            self._fault(key, "is not a list of texts")
            return ()
        return tuple(value)

    def _entity(self, key: str, kinds: Mapping[str, str]) -> EntityUid:
        text = self._text(key, is_required=True)
        return self._parsed(key, text, kinds) if text else EntityUid("", "")

    def _parsed(self, key: str, text: str, kinds: Mapping[str, str]) -> EntityUid:
        try:
            return entity(text, kinds)
        except InputError as error:
            self._fault(key, error.message, str(error.details.get("nearest", "")))
            return EntityUid("", "")

    def _groups(self) -> tuple[EntityUid, ...]:
        return tuple(self._parsed("groups", text, GROUP_KINDS) for text in self._texts("groups"))

    def _one_of(self, key: str, known: Mapping[str, _Known]) -> _Known | None:
        text = self._text(key)
        if text and text not in known:
            self._fault(key, f"'{printable(text)}' is not known", nearest(text, known))
        return known.get(text)

    def _context(self) -> dict[str, Any]:
        context = self._table.get("context", {})
        if not isinstance(context, dict):
            self._fault("context", "is not a table")
            return {}
        attributes = {path for path in context_attributes() if "." not in path}
        for name, value in context.items():
            if name not in attributes:
                close = nearest(name, attributes)
                self._fault(f"context.{name}", "there is no such attribute", close)
            try:
                canonicalize(value)
            except InputError:
                self._fault(f"context.{name}", "holds a value that JSON does not have")
        for capability in texts_in(context.get("capabilities")):
            if capability not in set(Capability):
                close = nearest(capability, set(Capability))
                self._fault(
                    "context.capabilities", f"'{printable(capability)}' is no capability", close
                )
        return context


def _tables(content: bytes) -> list[dict[str, Any]]:
    """Return the tables named ``case``. Raises ``InputError`` where there is anything else."""
    if len(content) > LARGEST_TABLE_BYTES:  # (I13)
        raise InputError(Code.POLICY_TOO_LARGE, f"is larger than {LARGEST_TABLE_BYTES} bytes")
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise InputError(Code.POLICY_EXAMPLE, "is not UTF-8 text") from error
    if strain := toml_strain(text):  # (I13)
        raise InputError(Code.POLICY_TOO_LARGE, strain)
    try:
        document = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
        raise InputError(Code.POLICY_EXAMPLE, f"is not TOML: {printable(str(error))}") from error
    for key in document:
        if key != "case":
            raise InputError(
                Code.POLICY_EXAMPLE,
                "there is no such key: a table of cases consists of [[case]]",
                details={"key": key, "nearest": nearest(key, ("case",)) or ""},
            )
    tables = document.get("case", [])
    if not isinstance(tables, list) or not all(isinstance(each, dict) for each in tables):
        raise InputError(Code.POLICY_EXAMPLE, "'case' is not a list of tables: write [[case]]")
    if len(tables) > MOST_CASES:  # (I13)
        raise InputError(Code.POLICY_TOO_LARGE, f"has more than {MOST_CASES} cases")
    return tables
