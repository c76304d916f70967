# SPDX-License-Identifier: Apache-2.0
"""Small random worlds for policy tests: entities in groups, policies about them, requests.

Ids hold what could break out of a quoted text; policies take every form of head, read random
attributes of the context, and some of them fail because an attribute is missing.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import cedarpy
from hypothesis import strategies as st

from palyra.core.pack import Effect, Policy
from palyra.core.policy_request import EntityUid
from palyra.flow.policy.cedar import Answer, build_entities, evaluate
from palyra.flow.policy.heads import head_keys, request_keys
from palyra.flow.policy.references import attributes_read

if TYPE_CHECKING:
    from collections.abc import Mapping

HOSTILE_IDS: Final = (
    'quote"',
    "back\\slash",
    "line\nbreak",
    'a"::"b',
    'x"<N::T::"y',
    '"; permit(principal,action,resource);//',
    "",
    "*",
    "ř\u202e\x00😀",
)
_TYPES: Final = ("T", "U", "N::T", "N::M::U")
_IDS: Final = ("a", "b", *HOSTILE_IDS)
_ACTIONS: Final = ("run", "look", "all", "some")
_CLAUSES: Final = (
    "",
    "",
    "when { context.a }",
    "unless { context.b }",
    "when { context has b && context.b }",
    "when { context has n.m && context.n.m > 1 }",
    "when { context.n.m > 1 } unless { context.a }",
    'when { context["odd name"] == 1 }',
    'when { context.a like "x*" }',
    "when { [context.a, true].contains(false) }",
    "when { context == {} }",
    "when { (if context.a then context else {b: true}).b }",
)


class Request(NamedTuple):
    """One question, with its context as JSON."""

    principal: EntityUid
    action: EntityUid
    resource: EntityUid
    context: dict[str, Any]


class Universe(NamedTuple):
    """What there is, which policies hold, and what is asked."""

    parents: Mapping[EntityUid, tuple[EntityUid, ...]]
    policies: tuple[Policy, ...]
    request: Request

    def keys(self) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
        """Return the keys of principal, action and resource."""
        asked = self.request
        return (
            request_keys(asked.principal, ancestors(asked.principal, self.parents)),
            request_keys(asked.action, ancestors(asked.action, self.parents)),
            request_keys(asked.resource, ancestors(asked.resource, self.parents)),
        )

    def ask(self, policies: cedarpy.PolicySet, *, context: dict[str, Any] | None = None) -> Answer:
        """Put the request to these policies."""
        return evaluate(
            policies,
            build_entities(self.parents, None),
            None,
            principal=self.request.principal,
            action=self.request.action,
            resource=self.request.resource,
            context_json=json.dumps(self.request.context if context is None else context),
        )


def ancestors(
    uid: EntityUid, parents: Mapping[EntityUid, tuple[EntityUid, ...]]
) -> tuple[EntityUid, ...]:
    """Return all that ``uid`` is in, at any distance, nearest first."""
    found: dict[EntityUid, None] = {}
    nearest = [uid]
    while nearest:
        above = [parent for each in nearest for parent in parents.get(each, ())]
        nearest = [parent for parent in dict.fromkeys(above) if parent not in found]
        found.update(dict.fromkeys(nearest))
    return tuple(found)


def quoted(text: str) -> str:
    """Return ``text`` as a Cedar string literal."""
    return '"' + "".join(f"\\u{{{ord(char):x}}}" for char in text) + '"'


def written(uid: EntityUid) -> str:
    """Return ``uid`` as it stands in policy text."""
    return f"{uid.type}::{quoted(uid.id)}"


def parsed(text: str) -> cedarpy.pst.Template:
    """Return the one policy, or the one template, in ``text``."""
    tree = cedarpy.PolicySet.from_str(text).to_pst()
    (template,) = (*tree.static_policies.values(), *tree.templates.values())
    return template


def compiled(text: str) -> Policy:
    """Return the one policy in ``text``, which needs an ``@id``."""
    template = parsed(text)
    keys = head_keys(template)
    return Policy(
        policy_id=template.annotations["id"],
        effect=Effect(template.effect),
        source="random.cedar",
        line=1,
        text=text,
        principal=keys.principal,
        action=keys.action,
        resource=keys.resource,
        reads=attributes_read(template),
        annotations=dict(template.annotations),
    )


def universes(*, clauses: tuple[str, ...] = _CLAUSES) -> st.SearchStrategy[Universe]:
    """Draw worlds whose policies have these conditions."""
    return _universes(clauses)


@st.composite
def _universes(draw: st.DrawFn, clauses: tuple[str, ...]) -> Universe:
    uids = st.builds(EntityUid, st.sampled_from(_TYPES), st.sampled_from(_IDS))
    things = draw(st.lists(uids, min_size=2, max_size=7, unique=True))
    actions = [EntityUid("Action", name) for name in _ACTIONS]
    parents = {**draw(_hierarchy(things)), **draw(_hierarchy(actions))}
    texts = draw(st.lists(_texts(things, actions, clauses), min_size=1, max_size=8))
    request = Request(
        principal=draw(st.sampled_from(things)),
        action=draw(st.sampled_from(actions)),
        resource=draw(st.sampled_from(things)),
        context=draw(_contexts),
    )
    policies = tuple(compiled(f'@id("p{place}") {text}') for place, text in enumerate(texts))
    return Universe(parents, policies, request)


@st.composite
def _hierarchy(draw: st.DrawFn, uids: list[EntityUid]) -> dict[EntityUid, tuple[EntityUid, ...]]:
    """Put each into some of those after it, so that nothing is in itself."""
    return {
        uid: tuple(draw(st.lists(st.sampled_from(uids[place + 1 :]), max_size=2, unique=True)))
        if uids[place + 1 :]
        else ()
        for place, uid in enumerate(uids)
    }


@st.composite
def _texts(
    draw: st.DrawFn, things: list[EntityUid], actions: list[EntityUid], clauses: tuple[str, ...]
) -> str:
    effect = draw(st.sampled_from(["permit", "forbid"]))
    principal, resource = draw(_heads("principal", things)), draw(_heads("resource", things))
    action = draw(_action_heads(actions))
    return f"{effect} ({principal}, {action}, {resource}) {draw(st.sampled_from(clauses))};"


@st.composite
def _heads(draw: st.DrawFn, place: str, things: list[EntityUid]) -> str:
    thing, kind = draw(st.sampled_from(things)), draw(st.sampled_from(things)).type
    forms = ["", "", f"== {written(thing)}", f"in {written(thing)}", f"is {kind}"]
    return f"{place} {draw(st.sampled_from([*forms, f'is {kind} in {written(thing)}']))}"


@st.composite
def _action_heads(draw: st.DrawFn, actions: list[EntityUid]) -> str:
    some = draw(st.lists(st.sampled_from(actions), max_size=3))
    one = draw(st.sampled_from(actions))
    group = f"in [{', '.join(map(written, some))}]"
    return (
        f"action {draw(st.sampled_from(['', f'== {written(one)}', f'in {written(one)}', group]))}"
    )


_contexts: Final = st.fixed_dictionaries(
    {},
    optional={
        "a": st.booleans(),
        "b": st.booleans(),
        "n": st.fixed_dictionaries({}, optional={"m": st.integers(0, 3)}),
        "odd name": st.integers(0, 1),
        "unread": st.integers(-(2**63), 2**63 - 1),
    },
)
