# SPDX-License-Identifier: Apache-2.0
"""One question to the Cedar engine in, one answer out. The only place that calls the engine.

Ids and the context are handed over as data and never become policy text. The engine skips a policy
that fails to evaluate, also one that forbids: an answer with errors must never be read as a yes.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import cedarpy
import msgspec

from palyra.core.errors import Code, ConfigError, InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from palyra.core.policy_request import EntityUid

_FAILED: Final = re.compile(r"error while evaluating policy `policy([0-9]+)`: ")


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What the engine said."""

    allowed: bool
    """What Cedar answers, which skips policies that fail: it counts only without errors."""
    policies: tuple[str, ...]
    """The ids of the policies that determined the answer, sorted."""
    errors: tuple[str, ...]
    """Why policies failed, in their order; or why the request could not be put at all."""
    is_decided: bool
    """Whether the request fits the schema, so that policies were looked at."""


def evaluate(
    policies: cedarpy.PolicySet,
    entities: cedarpy.Entities,
    schema: cedarpy.Schema | None,
    *,
    principal: EntityUid,
    action: EntityUid,
    resource: EntityUid,
    context_json: str,
) -> Answer:
    """Return the engine's answer.

    The entities must have been built with the same schema: actions are in their groups only then.
    Raises ``RuntimeError`` where a policy that mattered has no ``@id``.
    """
    request = {
        "principal": _uid(principal),
        "action": _uid(action),
        "resource": _uid(resource),
        "context": context_json,
    }
    try:
        result = cedarpy.is_authorized(request, policies, entities, schema)
    except UnicodeEncodeError:  # a lone surrogate, which no policy can speak of
        return _undecided("failed to build request: a text is not valid Unicode")
    said = result.diagnostics
    if result.decision is cedarpy.Decision.NoDecision:
        return _undecided(*said.errors)
    ids = said.id_annotations_by_reason
    if not all(ids.get(reason) for reason in said.reasons):
        raise RuntimeError("a policy without @id is in force")
    return Answer(
        allowed=result.decision is cedarpy.Decision.Allow,
        policies=tuple(sorted(set(ids.values()))),
        errors=tuple(said.errors),
        is_decided=True,
    )


def failed_positions(answer: Answer) -> tuple[int, ...]:
    """Return which policies failed, by their place in the set that was evaluated."""
    found = (_FAILED.match(error) for error in answer.errors)
    return tuple(sorted({int(each[1]) for each in found if each is not None}))


def build_policies(texts: Sequence[str]) -> cedarpy.PolicySet:
    """Return the policies, one of each text, in this order. Raises ``ConfigError``."""
    try:
        policies = cedarpy.PolicySet.from_str("\n".join(texts))
    except ValueError as error:
        raise ConfigError(Code.POLICY_INVALID, "a compiled policy is not a policy") from error
    if len(policies) != len(texts):  # a comment may swallow one, a text hold two
        raise ConfigError(Code.POLICY_INVALID, "a compiled policy is not exactly one policy")
    return policies


def build_entities(
    parents: Mapping[EntityUid, tuple[EntityUid, ...]], schema: cedarpy.Schema | None
) -> cedarpy.Entities:
    """Return these entities, each in its parents, and the actions of the schema in their groups.

    Raises ``InputError`` where the schema knows no such thing, or a group is in itself.
    """
    every = [
        {"uid": _uid(uid), "attrs": {}, "parents": _uids(above)} for uid, above in parents.items()
    ]
    try:
        return cedarpy.Entities.from_json_str(msgspec.json.encode(every).decode(), schema)
    except ValueError as error:  # which a lone surrogate is as well
        raise InputError(
            Code.POLICY_REQUEST_INVALID, "the entities do not fit the schema of the policies"
        ) from error


def _uid(uid: EntityUid) -> dict[str, Any]:
    return {"type": uid.type, "id": uid.id}


def _uids(uids: Iterable[EntityUid]) -> list[dict[str, Any]]:
    return [_uid(uid) for uid in uids]


def _undecided(*errors: str) -> Answer:
    return Answer(allowed=False, policies=(), errors=errors, is_decided=False)
