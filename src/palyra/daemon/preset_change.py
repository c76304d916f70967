# SPDX-License-Identifier: Apache-2.0
"""A pack and the name of a preset in, the same policies of operators on top of that preset out."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, Final

from palyra.core.pack import Pack
from palyra.daemon.staging import InvalidPoliciesError
from palyra.flow.policy.compile import compile_pack
from palyra.flow.policy.presets import packaged_sources
from palyra.flow.policy.sources import PACKAGED, Source
from palyra.flow.policy.statements import split

if TYPE_CHECKING:
    from collections.abc import Iterable

    from palyra.core.pack import Policy

_BREAK: Final = re.compile(r"\r\n?|\n")


def with_preset(pack: Pack, preset: str) -> Pack:
    """Return the pack on other ground. With the preset it has, packaged policies become current.

    Raises:
        KeyError: there is no preset of that name.
        InvalidPoliciesError: an operator's policy does not fit the schema of today.
    """
    changed = compile_pack(
        (*packaged_sources(preset), *operators_sources(pack)),
        preset=preset,
        members=pack.members,
    )
    if not isinstance(changed, Pack):
        raise InvalidPoliciesError(changed)
    return changed


def operators_sources(pack: Pack) -> tuple[Source, ...]:
    """Return the operators' policies by file, each on the line it stood on."""
    by_file: defaultdict[str, list[Policy]] = defaultdict(list)
    for policy in pack.policies:
        if not policy.source.startswith(PACKAGED):
            by_file[policy.source].append(policy)
    return tuple(Source(name, _text(policies)) for name, policies in by_file.items())


def _text(policies: Iterable[Policy]) -> str:
    pieces: list[str] = []
    line = 1
    for policy in policies:
        # The text begins with the comments before the policy; its line is that of the policy.
        (statement,) = split(policy.text)
        begins = policy.line - (statement.line - statement.first_line)
        pieces += ("\n" * (begins - line) or " ", policy.text)
        line = begins + len(_BREAK.findall(policy.text))
    return "".join(pieces)
