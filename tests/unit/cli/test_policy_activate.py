# SPDX-License-Identifier: Apache-2.0
import pytest

from palyra.flow.policy.presets import packaged_pack
from tests.support.command_line import CommandLine
from tests.support.own_policies import NO_ECHO, called, own_policies


def verdict(palyra: CommandLine) -> str:
    ran = palyra.json("call", "palyra.echo", '{"text":"x"}', "--agent", "demo")
    return str(ran.document["decision"]["verdict"])


def test_from_then_on_it_decides(palyra: CommandLine) -> None:
    own_policies(palyra, mine__cedar=NO_ECHO)
    digest = palyra.json("policy", "stage").document["policy_digest"]
    assert verdict(palyra) == "allow"
    ran = palyra("policy", "activate", digest[:8], "--reason", "spring")
    before = packaged_pack().digest
    assert ran.out == (
        f"policies {digest} are in force\n  before: {before}\n"
        f"  'palyra policy activate {before[:12]}' goes back\n"
    )
    assert verdict(palyra) == "deny"
    assert palyra.json("policy", "show").document["activated"]["reason"] == "spring"
    assert palyra.json("policy", "activate", before[:12]).document == {
        "policy_digest": before,
        "before": digest,
        "is_changed": True,
    }
    assert verdict(palyra) == "allow"


def test_what_is_in_force_is_left_alone(palyra: CommandLine) -> None:
    called(palyra, "palyra.echo", '{"text":"x"}')
    before = palyra.json("journal", "tail").document["entries"][-1]["index"]
    digest = packaged_pack().digest
    assert palyra("policy", "activate", digest).out == f"policies {digest} are in force already\n"
    assert palyra.json("journal", "tail").document["entries"][-1]["index"] == before


@pytest.mark.parametrize(
    ("digest", "status", "code"),
    [("deadbeef", 8, "policy.unknown"), ("dead", 2, "usage.invalid")],
)
def test_refusals(palyra: CommandLine, digest: str, status: int, code: str) -> None:
    ran = palyra.json("policy", "activate", digest)
    assert (ran.status, ran.document["error"]["code"]) == (status, code)
