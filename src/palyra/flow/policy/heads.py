# SPDX-License-Identifier: Apache-2.0
"""Scope heads of policies in, keys out; entities of a request in, the keys they answer to out.

A policy's head matches a request exactly if, for each of principal, action and resource, one of
the policy's keys is among the request's. So the policies that can matter are found by looking
keys up, and all others need not be evaluated: Cedar never looks into a policy whose head does not
match.

==================  ==================  ===================================
head                key                 which entities answer to it
==================  ==================  ===================================
(none)              ``*``               all
``== E``            ``=TYPE::"ID"``     E
``in G``            ``<TYPE::"ID"``     G, and whatever is in G
``is T``            ``:T``              those of type T
``is T in G``       ``:T<TYPE::"ID"``   those of type T that are G or in G
==================  ==================  ===================================

Ids stand in keys as they are, without any escaping. Keys are never parsed, and two different heads
never share one: a type's name holds neither a quotation mark nor ``<``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, assert_never

from cedarpy import pst

if TYPE_CHECKING:
    from collections.abc import Iterable

    from palyra.core.policy_request import EntityUid

_ANY: Final = "*"


class HeadKeys(NamedTuple):
    """The keys of one policy. An empty place can never match."""

    principal: tuple[str, ...]
    action: tuple[str, ...]
    resource: tuple[str, ...]


def head_keys(template: pst.Template) -> HeadKeys:
    """Return the keys of a policy's scope heads. Raises ``ValueError`` for one with slots."""
    return HeadKeys(
        principal=(_scope_key(template.principal),),
        action=_action_keys(template.action),
        resource=(_scope_key(template.resource),),
    )


def request_keys(uid: EntityUid, ancestors: Iterable[EntityUid]) -> tuple[str, ...]:
    """Return every key that a head matching this entity can have.

    ``ancestors`` are all it is in, at any distance, as the engine sees them: a group left out here
    hides the policies about it, also those that forbid.
    """
    is_type = f":{uid.type}"
    groups = [f'<{each.type}::"{each.id}"' for each in (uid, *ancestors)]  # "in" is reflexive
    every = (
        _ANY,
        f'={uid.type}::"{uid.id}"',
        is_type,
        *groups,
        *[f"{is_type}{group}" for group in groups],
    )
    return tuple(dict.fromkeys(every))


def _scope_key(head: pst.PrincipalOrResourceConstraint) -> str:
    match head:
        case pst.ScopeAny():
            return _ANY
        case pst.ScopeEq(entity=entity):
            return f"={_uid(entity)}"
        case pst.ScopeIn(entity=entity):
            return f"<{_uid(entity)}"
        case pst.ScopeIs(entity_type=entity_type):
            return f":{entity_type}"
        case pst.ScopeIsIn(entity_type=entity_type, entity=entity):
            return f":{entity_type}<{_uid(entity)}"
        case _:
            assert_never(head)


def _action_keys(head: pst.ActionConstraint) -> tuple[str, ...]:
    match head:
        case pst.ScopeAny():
            return (_ANY,)
        case pst.ActionEq(entity=entity):
            return (f"={_uid(entity)}",)
        case pst.ActionIn(entities=entities):
            return tuple(dict.fromkeys(f"<{_uid(entity)}" for entity in entities))
        case _:
            assert_never(head)


def _uid(entity: pst.EntityOrSlot) -> str:
    match entity:
        case pst.Slot(name=name):
            raise ValueError(f"a template with the slot ?{name} is not a policy by itself")
        case pst.EntityUid(type=entity_type, id=entity_id):
            return f'{entity_type}::"{entity_id}"'
        case _:
            assert_never(entity)
