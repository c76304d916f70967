# SPDX-License-Identifier: Apache-2.0
"""One verdict on one exact call, why, and what it rests on."""

from __future__ import annotations

from enum import IntEnum

import msgspec

from palyra.core.digest import CallDigest, PolicyDigest, SnapshotDigest
from palyra.core.errors import Code
from palyra.core.obligations import NO_OBLIGATIONS, Obligations
from palyra.core.policy_request import PolicyRequest


class Verdict(IntEnum):
    """Ordered by strictness: the strictest of several verdicts is their max."""

    ALLOW = 0
    ASK = 1
    FORBID = 2

    @property
    def wire(self) -> str:
        """The name on the wire."""
        return _WIRE[self]


_WIRE = {Verdict.ALLOW: "allow", Verdict.ASK: "needs_approval", Verdict.FORBID: "deny"}


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """One verdict on one exact proposal, and the policies it rests on."""

    call_digest: CallDigest
    verdict: Verdict
    code: Code
    reason: str
    policies: tuple[str, ...]
    policy_digest: PolicyDigest
    snapshot_digest: SnapshotDigest
    hint: str = ""
    path: str = ""
    """Where in the arguments the fault lies, as a JSON pointer, if it lies there."""
    obligations: Obligations = NO_OBLIGATIONS
    request: PolicyRequest | None = None
    """What policy was asked; ``None`` where it never came to that."""
    rules_version: int = 0
    """Counts the changes of policies and postures: a launch under older rules is refused."""

    def __post_init__(self) -> None:
        if self.verdict is not Verdict.FORBID and not self.policies:
            raise ValueError("only FORBID may rest on no policy")  # I1


def forbid(
    call_digest: CallDigest,
    *,
    code: Code,
    reason: str,
    hint: str,
    path: str = "",
    policy_digest: PolicyDigest,
    snapshot_digest: SnapshotDigest,
) -> Decision:
    """Return a FORBID that rests on no policy: a fault, a budget, a malformed call (I1)."""
    return Decision(
        call_digest=call_digest,
        verdict=Verdict.FORBID,
        code=code,
        reason=reason,
        hint=hint,
        path=path,
        policies=(),
        policy_digest=policy_digest,
        snapshot_digest=snapshot_digest,
    )
