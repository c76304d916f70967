# SPDX-License-Identifier: Apache-2.0
"""What the vectors are made of where it is long: a policy pack, facts, bodies of entries.

Written from the documented formats like the rest of the vectors: nothing of Palyra is imported.
"""

from __future__ import annotations

from typing import Any


def pack() -> dict[str, Any]:
    """Return a policy pack of one policy."""
    reason = "reading is harmless"
    return {
        "format": "palyra.pack.v1",
        "preset": "standard",
        "schema_sha256": "5" * 64,
        "policies": [
            {
                "policy_id": "reads",
                "effect": "permit",
                "source": "own.cedar",
                "line": 3,
                "text": f'@id("reads")\n@reason("{reason}")\npermit (principal, action, resource);',
                "principal": ["*"],
                "action": ['=Action::"tool.execute"'],
                "resource": ['<Capability::"filesystem_read"'],
                "reads": ["risk"],
                "annotations": {"id": "reads", "reason": reason},
            }
        ],
        "members": {"roles": {"reviewer": ["operator:grace"]}},
    }


def fact_lists() -> dict[str, Any]:
    """Return the lists of facts in full, more than are kept of one of them."""
    return {
        "argv": ["cp", "-r", "a", "a"],
        "hosts": ["example.org"],
        "methods": ["GET"],
        "outside": ["/etc/h\u00f4tes"],
        "ports": [443, 80],
        "protected": [],
        "reads": [f"p{number}" for number in range(65)],
        "writes": ["w"],
    }


def entry_bodies() -> list[tuple[str, str, str, dict[str, Any]]]:
    """Return bodies of entries about decisions and rules: name, kind, subject and body of each."""
    digest, before, credential = "e" * 64, "b" * 64, "01JCZK5M8N0000000000000009"
    decision = {
        "verdict": "allow",
        "code": "policy.permitted",
        "reason": "reading is harmless",
        "policies": ["reads"],
        "policy_digest": digest,
        "snapshot_digest": "f" * 64,
    }
    asked = {
        "principal": {"type": "Agent", "id": "ada"},
        "roles": [],
        "action": "tool.execute",
        "resource": {"type": "Tool", "id": "palyra.fs.read"},
        "groups": [
            {"type": "ToolGroup", "id": "palyra"},
            {"type": "Capability", "id": "filesystem_read"},
        ],
        "context": {"approved": False, "channel": "embedded", "depth": 0, "risk": "low"},
    }
    managed = {
        "principal": {"type": "Operator", "id": "grace"},
        "roles": ["administrator"],
        "resource": {"type": "Tool", "id": "palyra.fs.write"},
        "groups": [],
        "context": {"channel": "embedded", "lifts_ceiling": False},
    }
    activated = {
        "policy_digest": digest,
        "before_digest": before,
        "principal": "operator:grace",
        "credential_id": credential,
        "reason": "reviewed",
        "request": {
            **managed,
            "action": "policy.activate",
            "resource": {"type": "PolicyPack", "id": digest},
        },
        "decision": decision,
    }
    posture: dict[str, Any] = {
        "tool": "palyra.fs.write",
        "scope": "agent",
        "scope_id": "ada",
        "before": "",
        "after": "disabled",
        "principal": "operator:grace",
        "credential_id": credential,
        "by_administrator": True,
        "reason": "an incident",
        "set_at_ms": 1700000000000,
        "expires_at_ms": 1700000600000,
        "request": {**managed, "action": "posture.set"},
        "decision": decision,
    }
    call: dict[str, Any] = {
        "call_id": "01JCZK5M8N0000000000000001",
        "request_id": None,
        "principal": "agent:ada",
        "session_id": "01JCZK5M8N0000000000000002",
        "run_id": "01JCZK5M8N0000000000000003",
        "parent_call_id": None,
        "depth": 0,
        "tool": "palyra.fs.read",
        "tool_version": "1.0.0",
        "arguments": {"path": "d\u00e9j\u00e0 vu"},
        "facts": {"reads": ["d\u00e9j\u00e0 vu"], "workspace": "site"},
        "call_digest": "c" * 64,
        "plan_digest": "d" * 64,
        "request": asked,
        "decision": {
            **decision,
            "obligations": {"egress": [], "max_output_bytes": 4096, "quorum": 2},
        },
    }
    return [
        ("a call that policy was asked about", "call.decided", call["call_id"], call),
        (
            "a call that was refused before",
            "call.decided",
            call["call_id"],
            {
                **call,
                "facts": {},
                "plan_digest": "",
                "request": None,
                "decision": {**decision, "verdict": "deny", "policies": []},
            },
        ),
        (
            "policies that were staged",
            "policy.staged",
            digest,
            {
                "policy_digest": digest,
                "principal": "operator:grace",
                "preset": "standard",
                "policies": 1,
                "sources": ["own.cedar"],
            },
        ),
        (
            "the first policies",
            "policy.activated",
            digest,
            {**activated, "before_digest": "", "request": None, "decision": None},
        ),
        ("policies in place of others", "policy.activated", digest, activated),
        ("a posture that was set", "posture.changed", posture["tool"], posture),
        (
            "a posture that was removed",
            "posture.changed",
            posture["tool"],
            {**posture, "before": "disabled", "after": "", "expires_at_ms": None},
        ),
        (
            "an act that was refused",
            "action.refused",
            "posture.set",
            {
                "action": "posture.set",
                "principal": "agent:ada",
                "credential_id": credential,
                "request": {
                    **managed,
                    "action": "posture.set",
                    "principal": {"type": "Agent", "id": "ada"},
                    "roles": [],
                },
                "decision": {**decision, "verdict": "deny", "code": "policy.forbidden"},
            },
        ),
    ]
