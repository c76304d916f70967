# SPDX-License-Identifier: Apache-2.0
"""All policies in; out come the few whose heads match a request, ready to be evaluated.

Evaluating a slice gives the same answer as evaluating everything, because Cedar never looks into a
policy whose head does not match. What a lookup costs depends on the request and on what it finds,
not on how many policies there are.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from threading import Lock
from typing import TYPE_CHECKING, Final

from palyra.core.pack import Effect
from palyra.flow.policy.cedar import build_policies

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import cedarpy

    from palyra.core.pack import Policy

MOST_SLICES: Final = 1024
MOST_SLICED_POLICIES: Final = 32_768
"""In all slices kept together. A parsed policy takes some 4 KiB: that is about 128 MiB (I13)."""


@dataclass(frozen=True, kw_only=True)
class Slice:
    """The policies that can matter to a request, in the order of the pack."""

    positions: tuple[int, ...]
    policies: tuple[Policy, ...]

    @cached_property
    def policy_set(self) -> cedarpy.PolicySet:
        """The policies as the engine takes them, parsed when first asked for."""
        return build_policies([policy.text for policy in self.policies])

    @cached_property
    def has_permit(self) -> bool:
        """Whether any of them permits; without one the answer is no."""
        return any(policy.effect is Effect.PERMIT for policy in self.policies)

    @cached_property
    def reads(self) -> tuple[str, ...] | None:
        """The attributes of ``context`` that any of them may look at; ``None`` if unknown."""
        found: set[str] = set()
        for policy in self.policies:
            if policy.reads is None:
                return None
            found.update(policy.reads)
        return tuple(sorted(found))


class PolicyIndex:
    """Finds policies by the keys of their heads: see :mod:`palyra.flow.policy.heads`."""

    def __init__(self, policies: Sequence[Policy]) -> None:
        self._policies: Final = tuple(policies)
        self._by_action: Final[dict[str, dict[str, dict[str, list[int]]]]] = {}
        for position, policy in enumerate(self._policies):
            places = product(policy.action, policy.resource, policy.principal)
            for action, resource, principal in places:
                by_resource = self._by_action.setdefault(action, {})
                by_principal = by_resource.setdefault(resource, {})
                by_principal.setdefault(principal, []).append(position)

    def matching(
        self,
        principal_keys: Iterable[str],
        action_keys: Iterable[str],
        resource_keys: Iterable[str],
    ) -> tuple[int, ...]:
        """Return the positions of the policies whose heads match, in order."""
        principals, resources = frozenset(principal_keys), frozenset(resource_keys)
        found: set[int] = set()
        # "&" walks the shorter side, so neither many policies nor many groups are costly alone.
        for action in self._by_action.keys() & frozenset(action_keys):
            by_resource = self._by_action[action]
            for resource in by_resource.keys() & resources:
                by_principal = by_resource[resource]
                for principal in by_principal.keys() & principals:
                    found.update(by_principal[principal])
        return tuple(sorted(found))

    def slice_at(self, positions: tuple[int, ...]) -> Slice:
        """Return the policies at these positions."""
        return Slice(
            positions=positions, policies=tuple(self._policies[place] for place in positions)
        )


class SliceCache:
    """Keeps the slices last used; all requests that match the same policies share one (I13).

    It is bounded by the number of slices and by the policies they hold together. At the bound the
    slices unused for longest go, and are built again when they are wanted.
    """

    def __init__(
        self,
        index: PolicyIndex,
        limit: int = MOST_SLICES,
        *,
        policy_limit: int = MOST_SLICED_POLICIES,
    ) -> None:
        self._index: Final = index
        self._limit: Final = limit
        self._policy_limit: Final = policy_limit
        self._slices: Final[OrderedDict[tuple[int, ...], Slice]] = OrderedDict()
        self._policies_kept = 0
        self._lock: Final = Lock()

    def find(
        self,
        principal_keys: Iterable[str],
        action_keys: Iterable[str],
        resource_keys: Iterable[str],
    ) -> Slice:
        """Return the slice for a request with these keys."""
        positions = self._index.matching(principal_keys, action_keys, resource_keys)
        with self._lock:
            found = self._slices.get(positions)
            if found is not None:
                self._slices.move_to_end(positions)
                return found
            return self._keep(self._index.slice_at(positions))

    def _keep(self, new: Slice) -> Slice:
        self._slices[new.positions] = new
        self._policies_kept += len(new.positions)
        while len(self._slices) > self._limit or self._policies_kept > self._policy_limit:
            positions, _ = self._slices.popitem(last=False)
            self._policies_kept -= len(positions)
        return new

    def __len__(self) -> int:
        return len(self._slices)
