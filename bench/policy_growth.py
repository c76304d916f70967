# SPDX-License-Identifier: Apache-2.0
"""A decision under 2,000 policies, against the same decision under 20 of which as many match."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import msgspec

from bench.harness import Experiment, Figure, Pair, Place, Round, at_most
from bench.policy_scene import (
    FEW,
    MANY,
    Scene,
    Side,
    microseconds,
    pack_of,
    require_evaluations,
    scene_under,
)
from palyra.core.decision import Verdict
from palyra.core.principal import Principal, PrincipalKind
from palyra.flow.policy.inquiry import inquiry_of
from palyra.flow.policy.rules import Rules

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from palyra.core.pack import Pack
    from palyra.core.proposal import Proposal

ROUNDS = 15
TURNS = 24
CALLS = 32
NEWCOMERS = 4096
"""More than Palyra keeps callers and tools in mind, so that each comes as a stranger."""

GROWTH = Figure(
    name=f"policy decide, {MANY:,} policies of which few can match",
    unit="us",
    reach=at_most(1.5),
    note=f"Against {FEW} policies, of which the same ones match; most of the others name other"
    " agents, tools or actions. Each decision is a real evaluation; that is counted.",
)
STRANGERS = Figure(
    name=f"policy decide, {MANY:,} policies, an agent never seen before",
    unit="us",
    note=f"As the figure above, also against {FEW} policies. The policies that can match are found"
    " anew, the caller's entities built and the budgets read from the store.",
)


@contextmanager
def _open(place: Place) -> Iterator[Round]:
    with ExitStack() as opened:
        sides: dict[str, Side] = {}
        matching = set()
        for policies in (MANY, FEW):
            pack = pack_of(policies)
            scene = opened.enter_context(scene_under(pack, place))
            decide = scene.decider.decide
            require_evaluations(decide, scene.reads, verdict=Verdict.ALLOW, each=1)
            matching.add(_matching(pack, scene))
            sides[f"known {policies}"] = Side(decide, scene.reads, calls=CALLS)
            strangers = tuple(_by_stranger(scene.reads[0], n) for n in range(NEWCOMERS))
            require_evaluations(decide, strangers, verdict=Verdict.ALLOW, each=1)
            sides[f"new {policies}"] = Side(decide, strangers, calls=CALLS)
        if len(matching) != 1:
            raise RuntimeError(f"other policies match: {matching}")

        def measure() -> Mapping[Figure, Pair]:
            took = microseconds(sides, turns=TURNS)
            return {
                GROWTH: Pair(took[f"known {MANY}"], took[f"known {FEW}"]),
                STRANGERS: Pair(took[f"new {MANY}"], took[f"new {FEW}"]),
            }

        yield measure


def _matching(pack: Pack, scene: Scene) -> tuple[str, ...]:
    """Return the ids of the policies whose heads match the questions."""
    # The last one was asked last: asking it again leaves what is remembered as it is.
    request = scene.decider.decide(scene.reads[-1]).request
    if request is None:
        raise RuntimeError("policy was not asked")
    return tuple(policy.policy_id for policy in Rules(pack).candidates(inquiry_of(request)))


def _by_stranger(proposal: Proposal, n: int) -> Proposal:
    stranger = Principal(kind=PrincipalKind.AGENT, name=f"stranger-{n}")
    return msgspec.structs.replace(proposal, principal=stranger)


EXPERIMENTS = (
    Experiment(
        name="policy_growth",
        group="policy",
        figures=(GROWTH, STRANGERS),
        rounds=ROUNDS,
        open=_open,
    ),
)
