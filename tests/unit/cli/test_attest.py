# SPDX-License-Identifier: Apache-2.0
import base64
import json
from pathlib import Path

import pytest

from tests.support.command_line import CommandLine


@pytest.fixture
def result(palyra: CommandLine) -> dict[str, str]:
    document = palyra.json("call", "palyra.echo", '{"text":"hi"}', "--agent", "demo").document
    return {
        "call": document["call_id"],
        "attestation": document["attestation"]["attestation_id"],
        "execution": document["attestation"]["execution_sha256"],
    }


@pytest.mark.parametrize("by", ["call", "attestation"])
def test_show(palyra: CommandLine, result: dict[str, str], by: str) -> None:
    shown = palyra("attest", "show", result[by])
    statement = json.loads(base64.b64decode(shown.document["payload"]))
    assert statement["execution_sha256"] == result["execution"]
    assert palyra.json("attest", "show", result[by]).out == shown.out


def test_verify_needs_no_store(palyra: CommandLine, result: dict[str, str], tmp_path: Path) -> None:
    key = tmp_path / "kept.pub"
    key.write_bytes((palyra.home / "keys" / "journal.pub").read_bytes())
    file = tmp_path / "attestation.json"
    told = palyra.json("attest", "show", result["call"], "-o", str(file)).document
    assert told == {"file": str(file), "bytes": file.stat().st_size}
    offline = ("--home", "/nowhere", "attest", "verify", "--key", str(key))
    document = palyra.json(*offline, str(file)).document
    assert document["valid"]
    assert document["statement"]["call_id"] == result["call"]
    spoken = palyra(*offline, "-", standard_input=file.read_bytes()).out
    assert spoken.startswith(f"valid: call {result['call']} of palyra.echo\n  by: agent:demo\n")


def test_a_changed_attestation_is_found(
    palyra: CommandLine, result: dict[str, str], tmp_path: Path
) -> None:
    document = palyra("attest", "show", result["call"]).document
    payload = base64.b64decode(document["payload"]).replace(b"agent:demo", b"agent:memo")
    document["payload"] = base64.b64encode(payload).decode()
    file = tmp_path / "attestation.json"
    file.write_text(json.dumps(document))
    key = str(palyra.home / "keys" / "journal.pub")
    ran = palyra.json("attest", "verify", str(file), "--key", key)
    assert (ran.status, ran.document["error"]["code"]) == (10, "attestation.invalid")


def test_what_is_no_attestation_or_no_key(palyra: CommandLine, tmp_path: Path) -> None:
    palyra("call", "palyra.echo", '{"text":"hi"}')
    file = tmp_path / "file"
    file.write_text("{}")
    key = str(palyra.home / "keys" / "journal.pub")
    no_attestation = palyra.json("attest", "verify", str(file), "--key", key)
    assert (no_attestation.status, no_attestation.document["error"]["code"]) == (2, "input.invalid")
    no_key = palyra.json("attest", "verify", str(file), "--key", str(file))
    assert (no_key.status, no_key.document["error"]["code"]) == (2, "key.unreadable")


def test_an_unknown_attestation(palyra: CommandLine, result: dict[str, str]) -> None:
    assert result
    ran = palyra.json("attest", "show", "none")
    assert (ran.status, ran.document["error"]["code"]) == (8, "attestation.unknown")


def test_written_for_people(palyra: CommandLine, result: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "attestation.json"
    told = palyra("attest", "show", result["call"], "-o", str(file)).out
    assert told == f"wrote the attestation to {file}\n"
