# SPDX-License-Identifier: Apache-2.0
"""Two packs in, what differs between them out; policies are the same if their ids are.

It compares what is written, not what it does. Whether a difference may let more through is only a
hint: what the calls of the past would have come to shows :mod:`palyra.flow.policy.replay`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

import cedarpy
import msgspec

from palyra.core.errors import Code, ConfigError
from palyra.core.obligations import combined
from palyra.core.pack import Effect, Members, Pack, Policy
from palyra.flow.policy.annotations import obligations_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cedarpy import pst

_ANY: Final = ("*",)
_HEADS: Final = ("principal", "action", "resource")


class Change(StrEnum):
    """What happened to a policy. ``MOVED``: it stands in another file, and nothing else."""

    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"
    MOVED = "moved"


class Part(StrEnum):
    """What of a policy is another."""

    EFFECT = "effect"
    HEADS = "heads"
    CONDITIONS = "conditions"
    ANNOTATIONS = "annotations"


class PolicyChange(msgspec.Struct, frozen=True, kw_only=True):
    """One policy that is not as it was."""

    change: Change
    before: Policy | None
    after: Policy | None
    parts: tuple[Part, ...] = ()
    """What differs where it was changed."""
    is_widening: bool = False
    """Whether more may be let through: a hint."""

    @property
    def policy(self) -> Policy:
        """The policy as it is, or as it was where it is gone."""
        policy = self.after if self.after is not None else self.before
        if policy is None:
            raise ValueError("a change of nothing")
        return policy

    @property
    def policy_id(self) -> str:
        """Which policy."""
        return self.policy.policy_id

    @property
    def effect(self) -> Effect:
        """What it does, or did."""
        return self.policy.effect

    @property
    def reason(self) -> str:
        """What people are, or were, told about it."""
        return self.policy.reason

    @property
    def source(self) -> str:
        """The file it stands, or stood, in."""
        return self.policy.source

    @property
    def line(self) -> int:
        """Where in that file."""
        return self.policy.line


class Belonging(StrEnum):
    """To what somebody or something belongs."""

    ROLE = "role"
    GROUP = "group"
    TOOL_GROUP = "tool_group"


class MemberChange(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody or something that joined or left."""

    belonging: Belonging
    name: str
    """Of the role or group."""
    member: str
    is_added: bool
    is_widening: bool
    """Whether more may be let through: a hint."""


class Differences(msgspec.Struct, frozen=True, kw_only=True):
    """All that differs, in the order of ids and names."""

    preset_before: str
    preset_after: str
    is_schema_changed: bool
    policies: tuple[PolicyChange, ...]
    members: tuple[MemberChange, ...]

    @property
    def is_preset_changed(self) -> bool:
        """Whether another preset is the ground."""
        return self.preset_before != self.preset_after

    @property
    def added(self) -> tuple[PolicyChange, ...]:
        """The new policies."""
        return self._of(Change.ADDED)

    @property
    def removed(self) -> tuple[PolicyChange, ...]:
        """The policies that are gone."""
        return self._of(Change.REMOVED)

    @property
    def changed(self) -> tuple[PolicyChange, ...]:
        """The policies that are not what they were."""
        return self._of(Change.CHANGED)

    @property
    def moved(self) -> tuple[PolicyChange, ...]:
        """The policies that only stand in another file."""
        return self._of(Change.MOVED)

    @property
    def is_empty(self) -> bool:
        """Whether nothing differs at all."""
        return not (
            self.policies or self.members or self.is_preset_changed or self.is_schema_changed
        )

    @property
    def is_widening(self) -> bool:
        """Whether anything here may let more through: a hint."""
        return any(policy.is_widening for policy in self.policies) or any(
            member.is_widening for member in self.members
        )

    def _of(self, change: Change) -> tuple[PolicyChange, ...]:
        return tuple(each for each in self.policies if each.change is change)


def compare(before: Pack, after: Pack) -> Differences:
    """Return what differs.

    Raises:
        ConfigError: a policy of one of the packs is not a policy.
    """
    old = {policy.policy_id: policy for policy in before.policies}
    new = {policy.policy_id: policy for policy in after.policies}
    changes = (_policy_change(old.get(each), new.get(each)) for each in sorted({*old, *new}))
    return Differences(
        preset_before=before.preset,
        preset_after=after.preset,
        is_schema_changed=before.schema_sha256 != after.schema_sha256,
        policies=tuple(change for change in changes if change is not None),
        members=tuple(_member_changes(before, after)),
    )


def _policy_change(before: Policy | None, after: Policy | None) -> PolicyChange | None:
    if before is None or after is None:
        added, changed = before is None, after or before
        is_permit = changed is not None and changed.effect is Effect.PERMIT
        return PolicyChange(
            change=Change.ADDED if added else Change.REMOVED,
            before=before,
            after=after,
            is_widening=is_permit if added else not is_permit,
        )
    if before.text != after.text:
        old, new = _parsed(before), _parsed(after)
        parts = tuple(_parts(old, new))
        if parts:
            return PolicyChange(
                change=Change.CHANGED,
                before=before,
                after=after,
                parts=parts,
                is_widening=_is_loosened(before, after, old, new),
            )
    if before.source != after.source:
        return PolicyChange(change=Change.MOVED, before=before, after=after)
    return None


def _parsed(policy: Policy) -> pst.Template:
    """Return what the parser makes of a policy: without comments, spaces and its place."""
    try:
        policies = cedarpy.PolicySet.from_str(policy.text).to_pst().static_policies
    except ValueError as error:
        raise ConfigError(Code.POLICY_INVALID, "a compiled policy is not a policy") from error
    if len(policies) != 1:
        raise ConfigError(Code.POLICY_INVALID, "a compiled policy is not exactly one policy")
    return next(iter(policies.values()))


def _parts(before: pst.Template, after: pst.Template) -> Iterator[Part]:
    if before.effect != after.effect:
        yield Part.EFFECT
    if any(getattr(before, head) != getattr(after, head) for head in _HEADS):
        yield Part.HEADS
    if before.clauses != after.clauses:
        yield Part.CONDITIONS
    if before.annotations != after.annotations:
        yield Part.ANNOTATIONS


def _is_loosened(before: Policy, after: Policy, old: pst.Template, new: pst.Template) -> bool:
    """Say whether more may be let through. Where it cannot be told, it may."""
    if before.effect is not after.effect:
        return after.effect is Effect.PERMIT
    demanded, demands = obligations_of(before.annotations), obligations_of(after.annotations)
    if combined((demanded, demands)) != combined((demands,)):
        return True
    # A permit must not reach further than it did, a forbid not less far.
    if after.effect is Effect.PERMIT:
        return not (_is_within(after, before) and _has_all(new, of=old))
    return not (_is_within(before, after) and _has_all(old, of=new))


def _is_within(inner: Policy, outer: Policy) -> bool:
    """Say whether the heads of ``outer`` surely match whatever those of ``inner`` do."""
    return all(
        getattr(outer, head) == _ANY or set(getattr(inner, head)) <= set(getattr(outer, head))
        for head in _HEADS
    )


def _has_all(policy: pst.Template, *, of: pst.Template) -> bool:
    """Say whether all conditions of ``of`` are conditions of ``policy`` too: all must hold."""
    return all(clause in policy.clauses for clause in of.clauses)


def _member_changes(before: Pack, after: Pack) -> Iterator[MemberChange]:
    for belonging, entity_type, old, new in _belongings(before.members, after.members):
        for name in sorted({*old, *new}):
            had, has = set(old.get(name, ())), set(new.get(name, ()))
            for member in sorted(had ^ has):
                is_added = member in has
                yield MemberChange(
                    belonging=belonging,
                    name=name,
                    member=member,
                    is_added=is_added,
                    # Whoever leaves is no longer held back by what forbids to the group.
                    is_widening=is_added or _is_forbidden_to(f'{entity_type}::"{name}"', after),
                )


def _belongings(
    before: Members, after: Members
) -> tuple[tuple[Belonging, str, dict[str, tuple[str, ...]], dict[str, tuple[str, ...]]], ...]:
    return (
        (Belonging.ROLE, "Role", before.roles, after.roles),
        (Belonging.GROUP, "Group", before.groups, after.groups),
        (Belonging.TOOL_GROUP, "ToolGroup", before.tool_groups, after.tool_groups),
    )


def _is_forbidden_to(group: str, pack: Pack) -> bool:
    """Say whether a policy's head forbids something to, or on, the members of a group."""
    return any(
        key.endswith(f"<{group}")
        for policy in pack.policies
        if policy.effect is Effect.FORBID
        for key in (*policy.principal, *policy.resource)
    )
