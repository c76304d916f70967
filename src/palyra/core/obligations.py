# SPDX-License-Identifier: Apache-2.0
"""What a decision demands of whoever runs the call; the strictest of several demands counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from palyra.core.plan import ANYWHERE, SandboxPlan, Tier

if TYPE_CHECKING:
    from collections.abc import Iterable

_STRENGTH: Final = {Tier.NONE: 0, Tier.B: 1, Tier.C: 2, Tier.A: 2}
"""C and A confine different things equally well: neither stands in for the other."""


class Obligations(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Demands. A default value demands nothing."""

    tiers: tuple[Tier, ...] = ()
    """Every tier that was demanded; the call must be confined at least as well as each."""
    egress: tuple[str, ...] | None = None
    """The only hosts that may be reached; ``None`` demands nothing, ``()`` demands no network."""
    timeout_ms: int | None = None
    max_output_bytes: int | None = None
    quorum: int = 1
    """How many operators must agree where a human is asked."""
    redact: tuple[str, ...] = ()
    """JSON pointers into the output whose values are withheld from the caller."""


NO_OBLIGATIONS: Final = Obligations()


def combined(demands: Iterable[Obligations]) -> Obligations:
    """Return the demands that meet all of ``demands``."""
    each = tuple(demand for demand in demands if demand != NO_OBLIGATIONS)
    if not each:
        return NO_OBLIGATIONS
    hosts = [set(demand.egress) for demand in each if demand.egress is not None]
    return Obligations(
        tiers=tuple(sorted({tier for demand in each for tier in demand.tiers})),
        egress=tuple(sorted(set.intersection(*hosts))) if hosts else None,
        timeout_ms=_least(demand.timeout_ms for demand in each),
        max_output_bytes=_least(demand.max_output_bytes for demand in each),
        quorum=max(NO_OBLIGATIONS.quorum, *(demand.quorum for demand in each)),
        redact=tuple(sorted({pointer for demand in each for pointer in demand.redact})),
    )


def unmet_by_plan(demand: Obligations, plan: SandboxPlan) -> str:
    """Say what ``plan`` would not meet, or nothing; limits and redactions are met by running."""
    for tier in demand.tiers:
        if plan.tier != tier and _STRENGTH[plan.tier] <= _STRENGTH[tier] and tier is not Tier.NONE:
            return f"policy demands sandbox tier {tier}, the call would run in {plan.tier}"
    if demand.egress is not None:
        beyond = sorted(set(plan.egress) - set(demand.egress))
        if plan.tier is Tier.NONE and plan.egress:
            return "policy limits the hosts, but nothing would enforce that"
        if beyond:
            reach = "any host" if ANYWHERE in beyond else beyond[0]
            return f"policy limits the hosts, the call could reach {reach}"
    return ""


def _least(values: Iterable[int | None]) -> int | None:
    return min((value for value in values if value is not None), default=None)
