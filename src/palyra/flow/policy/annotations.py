# SPDX-License-Identifier: Apache-2.0
"""A policy's annotations in; its demands, its code, and what is wrong with them out.

=====================  ================================================================
``@id``                names the policy; ``palyra.*`` is for what ships with Palyra
``@reason``            what people are told
``@code``              the reason code, only in policies that ship with Palyra
``@tier``              confined at least as well as tier ``b``, ``c`` or ``a``
``@egress``            the only hosts that may be reached, separated by spaces; may be none
``@timeout_ms``        stopped after this time
``@max_output_bytes``  no more output than this
``@quorum``            how many operators must agree, where a human is asked
``@redact``            JSON pointers into the output, separated by spaces
=====================  ================================================================
"""

from __future__ import annotations

import ipaddress
import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from palyra.core.errors import Code
from palyra.core.nearest import nearest
from palyra.core.obligations import Obligations
from palyra.core.pack import Effect
from palyra.core.plan import Tier
from palyra.flow.policy.sources import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

KNOWN: Final = (
    "id",
    "reason",
    "code",
    "tier",
    "egress",
    "timeout_ms",
    "max_output_bytes",
    "quorum",
    "redact",
)
CODES: Final[Mapping[Effect, frozenset[Code]]] = MappingProxyType(
    {
        Effect.PERMIT: frozenset(
            {
                Code.POLICY_PERMITTED,
                Code.POLICY_WAIVED,
                Code.TOOL_ALLOWLISTED,
                Code.OPERATOR_INITIATED,
            }
        ),
        Effect.FORBID: frozenset(
            {
                Code.POLICY_FORBIDDEN,
                Code.POLICY_ASKS,
                Code.TOOL_SENSITIVE,
                Code.TOOL_DISABLED,
                Code.TOOL_POSTURE_ASKS,
                Code.FACTS_INCOMPLETE,
                Code.TOOL_NOT_ALLOWLISTED,
            }
        ),
    }
)
"""The only codes that a policy may carry, by what it does."""

LONGEST_TIMEOUT_MS: Final = 600_000
LARGEST_OUTPUT_BYTES: Final = 1 << 30
MOST_OPERATORS: Final = 16
MOST_ITEMS: Final = 64
_LONGEST_REASON: Final = 200
_LONGEST_HOST: Final = 253
_PACKAGED_ID: Final = "palyra."

_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,128}", re.ASCII)
_INTEGER: Final = re.compile(r"[1-9][0-9]{0,9}", re.ASCII)
_LABEL: Final = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_HOST: Final = re.compile(rf"{_LABEL}(?:\.{_LABEL})*", re.ASCII)
_POINTER: Final = re.compile(r"(?:/(?:[^~/]|~[01])*)+")
_TIERS: Final = (Tier.B, Tier.C, Tier.A)


class Problem(NamedTuple):
    """What is wrong with one annotation, or with its absence."""

    annotation: str
    sentence: str
    hint: str = ""


def obligations_of(annotations: Mapping[str, str]) -> Obligations:
    """Return what a policy demands. Raises ``ValueError`` where :func:`problems` finds a fault."""
    return Obligations(
        tiers=(_tier(annotations["tier"]),) if "tier" in annotations else (),
        egress=_hosts(annotations["egress"]) if "egress" in annotations else None,
        timeout_ms=_timeout(annotations["timeout_ms"]) if "timeout_ms" in annotations else None,
        max_output_bytes=(
            _output(annotations["max_output_bytes"]) if "max_output_bytes" in annotations else None
        ),
        quorum=_quorum(annotations["quorum"]) if "quorum" in annotations else 1,
        redact=_pointers(annotations["redact"]) if "redact" in annotations else (),
    )


def code_of(annotations: Mapping[str, str], effect: Effect) -> Code | None:
    """Return the reason code of a policy, or ``None`` where it has none that it may carry."""
    value = annotations.get("code")
    return next((code for code in CODES[effect] if code.value == value), None)


def problems(
    annotations: Mapping[str, str], effect: Effect, *, is_packaged: bool
) -> tuple[Problem, ...]:
    """Return everything that is wrong with the annotations of one policy."""
    return (
        *_unknown(annotations),
        *_naming(annotations, is_packaged=is_packaged),
        *_telling(annotations),
        *_coding(annotations, effect, is_packaged=is_packaged),
        *_demanding(annotations),
    )


def _unknown(annotations: Mapping[str, str]) -> list[Problem]:
    found = []
    for name in annotations:
        if name not in KNOWN:
            close = nearest(name, KNOWN)
            hint = f"did you mean @{close}?" if close else f"known are @{', @'.join(KNOWN)}"
            found.append(Problem(name, f"there is no annotation @{name}", hint))
    return found


def _naming(annotations: Mapping[str, str], *, is_packaged: bool) -> list[Problem]:
    policy_id = annotations.get("id")
    if policy_id is None:
        return [Problem("id", "the policy has no @id", 'write @id("NAME") before it')]
    if not _ID.fullmatch(policy_id):
        return [Problem("id", "@id is not 1 to 128 letters, digits or . _ -")]
    if policy_id.casefold().startswith(_PACKAGED_ID) and not is_packaged:
        sentence = f"@id begins with {_PACKAGED_ID}, which is kept for what ships with Palyra"
        return [Problem("id", sentence)]
    return []


def _telling(annotations: Mapping[str, str]) -> list[Problem]:
    reason = annotations.get("reason")
    if reason is None:
        hint = 'write @reason("WHY") before it: people are told'
        return [Problem("reason", "the policy has no @reason", hint)]
    if not reason.strip() or len(reason) > _LONGEST_REASON or not reason.isprintable():
        return [Problem("reason", f"@reason is not 1 to {_LONGEST_REASON} printable characters")]
    return []


def _coding(annotations: Mapping[str, str], effect: Effect, *, is_packaged: bool) -> list[Problem]:
    if "code" not in annotations:
        return []
    if not is_packaged:
        return [Problem("code", "@code is kept for what ships with Palyra")]
    if code_of(annotations, effect) is None:
        value = printable(annotations["code"])
        return [Problem("code", f"{effect} policies cannot carry the code {value}")]
    return []


def _demanding(annotations: Mapping[str, str]) -> list[Problem]:
    found = []
    for name, read in _READERS.items():
        if name in annotations:
            try:
                read(annotations[name])
            except ValueError as error:
                found.append(Problem(name, f"@{name} {error}"))
    return found


def _tier(value: str) -> Tier:
    if value not in _TIERS:
        raise ValueError('is not "b", "c" or "a"')
    return Tier(value)


def _hosts(value: str) -> tuple[str, ...]:
    hosts = _items(value)
    for host in hosts:
        if not (len(host) <= _LONGEST_HOST and _HOST.fullmatch(host)) and not _is_address(host):
            raise ValueError(
                f"names {printable(host)}, which is neither a host's name in small letters"
                " nor an address"
            )
    return hosts


def _is_address(host: str) -> bool:
    try:
        return str(ipaddress.ip_address(host)) == host
    except ValueError:
        return False


def _pointers(value: str) -> tuple[str, ...]:
    pointers = _items(value)
    if not pointers or not all(_POINTER.fullmatch(pointer) for pointer in pointers):
        raise ValueError("is not JSON pointers, such as /token, separated by spaces")
    return pointers


def _items(value: str) -> tuple[str, ...]:
    items = tuple(value.split(" ")) if value else ()
    if not value.isprintable() or not all(items):
        raise ValueError("is not a list separated by single spaces")
    if len(items) > MOST_ITEMS:
        raise ValueError(f"lists more than {MOST_ITEMS}")
    if len(set(items)) < len(items):
        raise ValueError("names something twice")
    return items


def _timeout(value: str) -> int:
    return _integer(value, LONGEST_TIMEOUT_MS)


def _output(value: str) -> int:
    return _integer(value, LARGEST_OUTPUT_BYTES)


def _quorum(value: str) -> int:
    return _integer(value, MOST_OPERATORS)


def _integer(value: str, most: int) -> int:
    if not _INTEGER.fullmatch(value) or int(value) > most:
        raise ValueError(f"is not a number from 1 to {most}")
    return int(value)


_READERS: Final[Mapping[str, Callable[[str], object]]] = MappingProxyType(
    {
        "tier": _tier,
        "egress": _hosts,
        "timeout_ms": _timeout,
        "max_output_bytes": _output,
        "quorum": _quorum,
        "redact": _pointers,
    }
)
