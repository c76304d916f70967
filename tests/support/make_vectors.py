# SPDX-License-Identifier: Apache-2.0
"""Write tests/vectors/*.json: run ``python -m tests.support.make_vectors`` from the root.

An independent computation from the documented formats: it imports nothing of Palyra, so that the
vectors judge the code and not the other way round. Canonical JSON is written here only for what
the vectors hold (no floats); the vectors with floats are those of RFC 8785 itself, spelled out.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.support.vector_values import entry_bodies, fact_lists, pack

VECTORS = Path(__file__).resolve().parents[1] / "vectors"
SEED = bytes(range(32))
KEY = Ed25519PrivateKey.from_private_bytes(SEED)
PUBLIC_KEY = KEY.public_key().public_bytes_raw()
KEY_ID = hashlib.sha256(PUBLIC_KEY).hexdigest()

#: RFC 8785, appendix B: the bits of a double, and how it is written.
RFC_NUMBERS = [
    ("0000000000000000", "0"),
    ("8000000000000000", "0"),
    ("0000000000000001", "5e-324"),
    ("8000000000000001", "-5e-324"),
    ("7fefffffffffffff", "1.7976931348623157e+308"),
    ("ffefffffffffffff", "-1.7976931348623157e+308"),
    ("4340000000000000", "9007199254740992"),
    ("c340000000000000", "-9007199254740992"),
    ("4430000000000000", "295147905179352830000"),
    ("44b52d02c7e14af5", "9.999999999999997e+22"),
    ("44b52d02c7e14af6", "1e+23"),
    ("44b52d02c7e14af7", "1.0000000000000001e+23"),
    ("444b1ae4d6e2ef4e", "999999999999999700000"),
    ("444b1ae4d6e2ef4f", "999999999999999900000"),
    ("444b1ae4d6e2ef50", "1e+21"),
    ("3eb0c6f7a0b5ed8c", "9.999999999999997e-7"),
    ("3eb0c6f7a0b5ed8d", "0.000001"),
    ("41b3de4355555553", "333333333.3333332"),
    ("41b3de4355555554", "333333333.33333325"),
    ("41b3de4355555555", "333333333.3333333"),
    ("41b3de4355555556", "333333333.3333334"),
    ("41b3de4355555557", "333333333.33333343"),
    ("becbf647612f3696", "-0.0000033333333333333333"),
    ("43143ff3c1cb0959", "1424953923781206.2"),
]
RFC_REFUSED_NUMBERS = ["7fffffffffffffff", "7ff0000000000000", "fff0000000000000"]

DOCUMENTS = [
    {
        "name": "RFC 8785 section 3.2.2: literals, numbers and strings",
        "input": '{"numbers":[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001],'
        '"string":"\\u20ac$\\u000F\\u000aA\'\\u0042\\u0022\\u005c\\\\\\"\\/",'
        '"literals":[null,true,false]}',
        "canonical": '{"literals":[null,true,false],'
        '"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],'
        '"string":"\u20ac$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}',
    },
    {
        "name": "RFC 8785 section 3.2.3: keys sort by their UTF-16 form",
        "input": '{"\\u20ac":"Euro Sign","\\r":"Carriage Return",'
        '"\\ufb33":"Hebrew Letter Dalet With Dagesh","1":"One",'
        '"\\ud83d\\ude00":"Emoji: Grinning Face","\\u0080":"Control",'
        '"\\u00f6":"Latin Small Letter O With Diaeresis"}',
        "canonical": '{"\\r":"Carriage Return","1":"One","\x80":"Control",'
        '"\u00f6":"Latin Small Letter O With Diaeresis","\u20ac":"Euro Sign",'
        '"\U0001f600":"Emoji: Grinning Face","\ufb33":"Hebrew Letter Dalet With Dagesh"}',
    },
    {"name": "nothing in nothing", "input": '[ { }, [ ], "" ]', "canonical": '[{},[],""]'},
    {
        "name": "the largest integers",
        "input": "[9007199254740991,-9007199254740991]",
        "canonical": "[9007199254740991,-9007199254740991]",
    },
]


def canonical(value: Any) -> bytes:  # noqa: ANN401
    """Write RFC 8785 for values without floats and beyond-BMP keys."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode()


def framed_sha256(domain: str, *parts: bytes) -> str:
    """Hash domain and parts, each behind its length as eight big-endian bytes."""
    pieces = (domain.encode(), *parts)
    return hashlib.sha256(b"".join(len(p).to_bytes(8, "big") + p for p in pieces)).hexdigest()


def digests() -> dict[str, Any]:
    """Return one example of each digest."""
    arguments, plan = {"text": "h\u00e9llo", "n": 1}, {"executor": "builtin", "timeout_ms": 30000}
    call = framed_sha256("palyra.call.v1", b"palyra.echo", b"1.0.0", canonical(arguments))
    planned = framed_sha256("palyra.plan.v1", canonical(plan))
    view = hashlib.sha256(b"what was shown").hexdigest()
    snapshot = {
        "format": "palyra.snapshot.v1",
        "allowed_tools": ["palyra.echo"],
        "max_calls_per_run": 32,
        "max_calls_per_session": 1024,
        "max_calls_per_agent_hour": 4096,
        "max_depth": 4,
        "execution_timeout_ms": 30000,
    }
    restricted = {
        **snapshot,
        "allowed_principals": ["agent:ada"],
        "allowed_channels": ["embedded", "http"],
        "allow_sensitive_tools": True,
    }
    policy_pack = pack()
    lists = fact_lists()
    consent = {"scope": "once", "expires_at_ms": 1700000600000, "policies": ["a", "b"]}
    return {
        "framed": [
            {"domain": "d", "parts_hex": [], "sha256": framed_sha256("d")},
            {"domain": "d", "parts_hex": [""], "sha256": framed_sha256("d", b"")},
            {"domain": "d", "parts_hex": ["00ff"], "sha256": framed_sha256("d", b"\x00\xff")},
            {"domain": "d", "parts_hex": ["61", "62"], "sha256": framed_sha256("d", b"a", b"b")},
            {"domain": "d", "parts_hex": ["6162"], "sha256": framed_sha256("d", b"ab")},
        ],
        "content": {"hex": b"abc".hex(), "sha256": hashlib.sha256(b"abc").hexdigest()},
        "call": {
            "tool": "palyra.echo",
            "version": "1.0.0",
            "arguments": arguments,
            "digest": call,
        },
        "plan": {"plan": plan, "digest": planned},
        "consent": {
            "call": call,
            "plan": planned,
            "view": view,
            **consent,
            "digest": framed_sha256(
                "palyra.consent.v1",
                call.encode(),
                planned.encode(),
                view.encode(),
                b"once",
                b"1700000600000",
                b"a",
                b"b",
            ),
        },
        "policy": {"policy": {"a": 1}, "digest": framed_sha256("palyra.policy.v1", b'{"a":1}')},
        "pack": {
            "pack": policy_pack,
            "digest": framed_sha256("palyra.policy.v1", canonical(policy_pack)),
        },
        "facts": {
            "lists": lists,
            "lists_sha256": hashlib.sha256(canonical(lists)).hexdigest(),
        },
        "snapshot": {
            "snapshot": snapshot,
            "digest": framed_sha256("palyra.snapshot.v1", canonical(snapshot)),
        },
        "restricted_snapshot": {
            "snapshot": restricted,
            "digest": framed_sha256("palyra.snapshot.v1", canonical(restricted)),
        },
    }


def signed(payload_type: str, payload: bytes) -> str:
    """Sign the DSSE pre-authentication encoding of a payload."""
    kind = payload_type.encode()
    return KEY.sign(b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)).hex()


def attestation(**demands: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return a statement of a call that succeeded, signed, and how its digest is made.

    ``demands``: the obligations of its decision; there are none where nothing is demanded.
    """
    output = canonical({"echo": "hi"})
    statement: dict[str, Any] = {
        "format": "palyra.attestation.v1",
        "attestation_id": "01JCZK5M8N0000000000000004",
        "call_id": "01JCZK5M8N0000000000000001",
        "principal": "agent:ada",
        "credential_id": "01JCZK5M8N0000000000000009",
        "session_id": "01JCZK5M8N0000000000000002",
        "run_id": "01JCZK5M8N0000000000000003",
        "parent_call_id": None,
        "depth": 0,
        "tool": "palyra.echo",
        "tool_version": "1.0.0",
        "call_digest": "c" * 64,
        "plan_digest": "d" * 64,
        "decision": {
            "verdict": "allow",
            "code": "tool.allowlisted",
            "reason": "the tool is allowlisted and has no sensitive capability",
            "policies": ["allowlist"],
            "policy_digest": "e" * 64,
            "snapshot_digest": "f" * 64,
            **({"obligations": demands} if demands else {}),
        },
        "permit": {
            "permit_id": "01JCZK5M8N0000000000000005",
            "basis": "allow",
            "approval_id": None,
            "grant_id": None,
        },
        "executor": "builtin",
        "sandbox_enforcement": "none",
        "observed": {"process": "shared", "note": "d\u00e9j\u00e0 vu"},
        "assurance": "developer",
        "outcome": {
            "state": "succeeded",
            "output_sha256": hashlib.sha256(output).hexdigest(),
            "output_bytes": len(output),
            "error_code": "",
            "truncated": False,
            "limit": "",
            "duration_ms": 3,
        },
        "started_at_ms": 1700000000000,
        "ended_at_ms": 1700000000003,
        "anchor": {"index": 7, "link": "a" * 64},
    }
    statement["execution_sha256"] = framed_sha256(
        "palyra.execution.v1",
        *(
            part.encode()
            for part in (
                statement["call_id"],
                statement["call_digest"],
                statement["plan_digest"],
                statement["decision"]["policy_digest"],
                statement["decision"]["snapshot_digest"],
                statement["permit"]["permit_id"],
                statement["executor"],
                statement["sandbox_enforcement"],
                statement["outcome"]["state"],
                statement["outcome"]["output_sha256"],
                statement["outcome"]["error_code"],
                str(statement["ended_at_ms"]),
            )
        ),
    )
    payload_type = "application/vnd.palyra.attestation.v1+json"
    payload = canonical(statement)
    return {
        "seed_hex": SEED.hex(),
        "public_key_hex": PUBLIC_KEY.hex(),
        "key_id": KEY_ID,
        "payload_type": payload_type,
        "statement": statement,
        "payload_utf8": payload.decode(),
        "execution_sha256": statement["execution_sha256"],
        "signature_hex": signed(payload_type, payload),
    }


def journal() -> dict[str, Any]:
    """Return a chain of entries, a signed head, and a receipt for the first of the last three."""

    def sized(text: bytes) -> bytes:
        return len(text).to_bytes(8, "big") + text

    entries = []
    leaves = []
    link = bytes(32)
    for index in range(1, 6):
        kind, subject = "call.decided", f"01JCZK5M8N000000000000000{index}"
        body = canonical({"call_id": subject, "note": "\u00e9" * index})
        recorded_at_ms = 1700000000000 + index
        leaf = hashlib.sha256(
            sized(b"palyra.journal.leaf.v1")
            + index.to_bytes(8, "big")
            + recorded_at_ms.to_bytes(8, "big")
            + sized(kind.encode())
            + sized(subject.encode())
            + sized(body)
        ).digest()
        link = hashlib.sha256(sized(b"palyra.journal.link.v1") + link + leaf).digest()
        leaves.append(leaf.hex())
        entries.append(
            {
                "index": index,
                "recorded_at_ms": recorded_at_ms,
                "kind": kind,
                "subject": subject,
                "body_utf8": body.decode(),
                "leaf": leaf.hex(),
                "link": link.hex(),
            }
        )
    head = {
        "format": "palyra.journal-head.v1",
        "log_id": "01JCZK5M8N000000000000000Z",
        "first": 3,
        "index": 5,
        "link": link.hex(),
        "recorded_at_ms": 1700000000005,
    }
    payload_type = "application/vnd.palyra.journal-head.v1+json"
    signed_head = {
        "head": head,
        "key_id": KEY_ID,
        "signature": signed(payload_type, canonical(head)),
    }
    first = entries[2]
    return {
        "public_key_hex": PUBLIC_KEY.hex(),
        "entries": entries,
        "bodies": [
            {"name": name, "kind": kind, "subject": subject, "body_utf8": canonical(body).decode()}
            for name, kind, subject, body in entry_bodies()
        ],
        "head_payload_type": payload_type,
        "signed_head": signed_head,
        "receipt": {
            **{name: first[name] for name in ("index", "recorded_at_ms", "kind", "subject")},
            "previous": entries[1]["link"],
            "leaves_after": leaves[3:],
            "head": signed_head,
        },
    }


def main() -> None:
    """Write every file of vectors."""
    numbers = [{"ieee754": bits, "canonical": text} for bits, text in RFC_NUMBERS]
    files: dict[str, Any] = {
        "canonical": {
            "numbers": numbers,
            "refused_numbers": RFC_REFUSED_NUMBERS,
            "documents": DOCUMENTS,
        },
        "digests": digests(),
        "attestation": {
            **attestation(),
            "obliged": attestation(redact=["/token"], tiers=["b"], timeout_ms=5000),
        },
        "journal": journal(),
    }
    VECTORS.mkdir(exist_ok=True)
    for name, vectors in files.items():
        text = json.dumps(vectors, indent=2, ensure_ascii=True)
        (VECTORS / f"{name}.json").write_text(text + "\n", encoding="ascii")


if __name__ == "__main__":
    main()
