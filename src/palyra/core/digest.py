# SPDX-License-Identifier: Apache-2.0
"""Digests: domain-separated, every part length-prefixed, so that no two inputs share a pre-image.

Three of them travel with a call and are never mixed: the call (what is asked), the plan (how it
would run) and the consent (what a human agreed to).
"""

from __future__ import annotations

import hashlib
from typing import NewType

CallDigest = NewType("CallDigest", str)
PlanDigest = NewType("PlanDigest", str)
ConsentDigest = NewType("ConsentDigest", str)
PolicyDigest = NewType("PolicyDigest", str)
SnapshotDigest = NewType("SnapshotDigest", str)
ViewDigest = NewType("ViewDigest", str)

_LENGTH_BYTES = 8


def framed(domain: str, *parts: bytes) -> bytes:
    """Return ``domain`` and ``parts``, each behind its length as eight big-endian bytes."""
    pieces = [len(domain).to_bytes(_LENGTH_BYTES, "big"), domain.encode("ascii")]
    for part in parts:
        pieces += (len(part).to_bytes(_LENGTH_BYTES, "big"), part)
    return b"".join(pieces)


def framed_sha256(domain: str, *parts: bytes) -> bytes:
    """Return the SHA-256 of :func:`framed`."""
    return hashlib.sha256(framed(domain, *parts)).digest()


def content_sha256(content: bytes) -> str:
    """Return the plain SHA-256 of file or output bytes, as any other tool would print it."""
    return hashlib.sha256(content).hexdigest()


def call_digest(*, tool: str, version: str, canonical_arguments: bytes) -> CallDigest:
    """Identify what is asked: tool, version and canonical arguments."""
    return CallDigest(
        framed_sha256("palyra.call.v1", tool.encode(), version.encode(), canonical_arguments).hex()
    )


def plan_digest(canonical_plan: bytes) -> PlanDigest:
    """Identify how a call would run: executor, limits, files, egress, environment."""
    return PlanDigest(framed_sha256("palyra.plan.v1", canonical_plan).hex())


def consent_digest(
    *,
    call: CallDigest,
    plan: PlanDigest,
    view: ViewDigest,
    scope: str,
    expires_at_ms: int,
    policies: tuple[str, ...],
) -> ConsentDigest:
    """Identify what a human agreed to: call, plan, the view shown, scope, expiry, policies."""
    return ConsentDigest(
        framed_sha256(
            "palyra.consent.v1",
            call.encode(),
            plan.encode(),
            view.encode(),
            scope.encode(),
            str(expires_at_ms).encode(),
            *(policy.encode() for policy in policies),
        ).hex()
    )


def policy_digest(canonical_policy: bytes) -> PolicyDigest:
    """Identify the active policy set."""
    return PolicyDigest(framed_sha256("palyra.policy.v1", canonical_policy).hex())


def snapshot_digest(canonical_snapshot: bytes) -> SnapshotDigest:
    """Identify the configuration in force: the ``ToolCallPolicySnapshot``."""
    return SnapshotDigest(framed_sha256("palyra.snapshot.v1", canonical_snapshot).hex())
