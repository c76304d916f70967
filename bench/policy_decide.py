# SPDX-License-Identifier: Apache-2.0
"""A decision from a proposal, against one call of the bare engine on the same request.

Ours reads the rules in force and the budgets, puts the question together, asks Cedar and explains
its answer; the reference is told the finished question and answers yes or no.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import cedarpy

from bench.harness import Experiment, Figure, Pair, Place, Round, at_most
from bench.policy_scene import (
    FEW,
    Side,
    microseconds,
    pack_of,
    require_evaluations,
    scene_under,
)
from palyra.core.decision import Decision, Verdict
from palyra.flow.policy.inquiry import inquiry_of
from palyra.flow.policy.vocabulary import schema_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from palyra.core.pack import Pack
    from palyra.core.policy_request import EntityUid, PolicyRequest

ROUNDS = 15
TURNS = 24
CALLS = 32
CALLS_FROM_TEXT = 4
_UNIT = "us"
_NOTE = (
    f"From a Proposal to a Decision under {FEW} policies, with the store behind it, against one"
    " public cedarpy.is_authorized on the same request: parsed PolicySet (all policies), Entities"
    " and Schema, ids as dicts, the context as a dict. No two questions in a row look the same to"
    " the policies, so each decision is a real evaluation; that is counted."
)
_AS_TEXT = "As the figure without this addition, with policies, entities and schema as text."
_SERIALISED = "As the figure without this addition, with the reference's context made beforehand."

ALLOW = Figure(name="policy decide to ALLOW", unit=_UNIT, reach=at_most(1.4), note=_NOTE)
ALLOW_SERIALISED = Figure(
    name="policy decide to ALLOW (reference's context as text)", unit=_UNIT, note=_SERIALISED
)
ALLOW_TEXT = Figure(
    name="policy decide to ALLOW (reference from text)",
    unit=_UNIT,
    reach=at_most(0.1),
    note=_AS_TEXT,
)
ALLOW_AGAIN = Figure(
    name="policy decide to ALLOW, the same question again",
    unit=_UNIT,
    note="Against the same call of the engine. Palyra remembers the judgement and asks nobody.",
)
ASK = Figure(
    name="policy decide, second evaluation",
    unit=_UNIT,
    reach=at_most(2.2),
    note="A sensitive call by an agent: refused as it stands, then evaluated as if a human had"
    f" agreed, against one call of the engine for the first of the two. {_NOTE}",
)
ASK_SERIALISED = Figure(
    name="policy decide, second evaluation (reference's context as text)",
    unit=_UNIT,
    note=_SERIALISED,
)
ASK_TEXT = Figure(
    name="policy decide, second evaluation (reference from text)", unit=_UNIT, note=_AS_TEXT
)


PublicCall = Callable[[dict[str, Any]], cedarpy.AuthzResult]


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicCalls:
    """The requests of some decisions, as an ordinary user would put them to Cedar."""

    policies_text: str
    entities_text: str
    schema_text: str
    requests: tuple[dict[str, Any], ...]

    @classmethod
    def of(cls, pack: Pack, decisions: Sequence[Decision]) -> PublicCalls:
        """Take up what our engine was asked; all of it is about the same caller and tool."""
        asked = [each.request for each in decisions if each.request is not None]
        first = asked[0]
        entities = [
            {"uid": _uid(first.principal), "attrs": {}, "parents": []},
            {
                "uid": _uid(first.resource),
                "attrs": {},
                "parents": [_uid(group) for group in first.groups],
            },
        ]
        return cls(
            policies_text="\n".join(policy.text for policy in pack.policies),
            entities_text=json.dumps(entities),
            schema_text=schema_text(),
            requests=tuple(_request(each) for each in asked),
        )

    def ways(self) -> dict[str, tuple[PublicCall, Sequence[dict[str, Any]]]]:
        """Return the three ways of asking, each with its requests."""
        schema = cedarpy.Schema.from_str(self.schema_text)
        policies = cedarpy.PolicySet.from_str(self.policies_text)
        entities = cedarpy.Entities.from_json_str(self.entities_text, schema)
        serialised = tuple(
            {**each, "context": json.dumps(each["context"])} for each in self.requests
        )

        def with_handles(request: dict[str, Any]) -> cedarpy.AuthzResult:
            return cedarpy.is_authorized(request, policies, entities, schema)

        def from_text(request: dict[str, Any]) -> cedarpy.AuthzResult:
            return cedarpy.is_authorized(
                request, self.policies_text, self.entities_text, self.schema_text
            )

        return {
            "dict": (with_handles, self.requests),
            "serialised": (with_handles, serialised),
            "text": (from_text, self.requests),
        }

    def sides(self) -> dict[str, Side]:
        """Return the three ways, to be timed."""
        return {
            name: Side(call, requests, calls=CALLS_FROM_TEXT if name == "text" else CALLS)
            for name, (call, requests) in self.ways().items()
        }


@contextmanager
def _open(place: Place) -> Iterator[Round]:
    pack = pack_of(FEW)
    with scene_under(pack, place) as scene:
        decide = scene.decider.decide
        require_evaluations(decide, scene.reads, verdict=Verdict.ALLOW, each=1)
        require_evaluations(decide, scene.writes, verdict=Verdict.ASK, each=2)
        allowed = [decide(proposal) for proposal in scene.reads]
        asked = [decide(proposal) for proposal in scene.writes]
        for_reads, for_writes = PublicCalls.of(pack, allowed), PublicCalls.of(pack, asked)
        require_same_answers(for_reads, allowed)
        require_same_answers(for_writes, asked)
        sides = {
            "allow": Side(decide, scene.reads, calls=CALLS),
            "again": Side(decide, (scene.known_read,), calls=CALLS),
            "ask": Side(decide, scene.writes, calls=CALLS),
            **{f"read {name}": side for name, side in for_reads.sides().items()},
            **{f"write {name}": side for name, side in for_writes.sides().items()},
        }

        def measure() -> Mapping[Figure, Pair]:
            took = microseconds(sides, turns=TURNS)
            return {
                ALLOW: Pair(took["allow"], took["read dict"]),
                ALLOW_SERIALISED: Pair(took["allow"], took["read serialised"]),
                ALLOW_TEXT: Pair(took["allow"], took["read text"]),
                ALLOW_AGAIN: Pair(took["again"], took["read dict"]),
                ASK: Pair(took["ask"], took["write dict"]),
                ASK_SERIALISED: Pair(took["ask"], took["write serialised"]),
                ASK_TEXT: Pair(took["ask"], took["write text"]),
            }

        yield measure


def require_same_answers(calls: PublicCalls, decisions: Sequence[Decision]) -> None:
    """Make sure that every way of asking gives what the decision rests on."""
    for call, requests in calls.ways().values():
        for request, decision in zip(requests, decisions, strict=True):
            answer = call(request)
            named = set(answer.diagnostics.id_annotations_by_reason.values())
            is_same = named == set(decision.policies) and not answer.diagnostics.errors
            if not is_same or answer.allowed is not (decision.verdict is Verdict.ALLOW):
                raise RuntimeError(f"the reference answers {answer.decision} by {sorted(named)}")


def _request(asked: PolicyRequest) -> dict[str, Any]:
    return {
        "principal": _uid(asked.principal),
        "action": {"type": "Action", "id": asked.action},
        "resource": _uid(asked.resource),
        "context": json.loads(inquiry_of(asked).context_json),
    }


def _uid(uid: EntityUid) -> dict[str, str]:
    return {"type": uid.type, "id": uid.id}


EXPERIMENTS = (
    Experiment(
        name="policy_decide",
        group="policy",
        figures=(
            ALLOW,
            ALLOW_SERIALISED,
            ALLOW_TEXT,
            ALLOW_AGAIN,
            ASK,
            ASK_SERIALISED,
            ASK_TEXT,
        ),
        rounds=ROUNDS,
        open=_open,
    ),
)
