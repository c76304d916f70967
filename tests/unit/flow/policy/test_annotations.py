# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from palyra.core.errors import Code
from palyra.core.obligations import NO_OBLIGATIONS, Obligations
from palyra.core.pack import Effect
from palyra.core.plan import Tier
from palyra.flow.policy.annotations import CODES, code_of, obligations_of, problems

GOOD = {"id": "mine.one", "reason": "because"}


def sentences(annotations: dict[str, str], *, is_packaged: bool = False) -> list[str]:
    found = problems(annotations, Effect.PERMIT, is_packaged=is_packaged)
    return [problem.sentence for problem in found]


def test_id_and_reason_suffice_and_demand_nothing() -> None:
    assert sentences(GOOD) == []
    assert obligations_of(GOOD) == NO_OBLIGATIONS


def test_every_demand_is_read() -> None:
    demanding = {
        **GOOD,
        "tier": "c",
        "egress": "api.example.com 10.0.0.1 ::1",
        "timeout_ms": "2500",
        "max_output_bytes": "4096",
        "quorum": "2",
        "redact": "/token /a~1b/0",
    }
    assert sentences(demanding) == []
    assert obligations_of(demanding) == Obligations(
        tiers=(Tier.C,),
        egress=("api.example.com", "10.0.0.1", "::1"),
        timeout_ms=2500,
        max_output_bytes=4096,
        quorum=2,
        redact=("/token", "/a~1b/0"),
    )


def test_an_empty_list_of_hosts_demands_no_network() -> None:
    assert obligations_of({"egress": ""}).egress == ()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("tier", "none"),
        ("tier", "C"),
        ("tier", ""),
        ("egress", "*"),
        ("egress", "API.example.com"),
        ("egress", "a  b"),
        ("egress", "a a"),
        ("egress", "a\nb"),
        ("egress", "http://a"),
        ("egress", " ".join(f"h{n}" for n in range(65))),
        ("egress", "a" * 64),
        ("timeout_ms", "0"),
        ("timeout_ms", "600001"),
        ("timeout_ms", "1e3"),
        ("timeout_ms", "\u0661"),
        ("timeout_ms", "9" * 5000),
        ("max_output_bytes", "-1"),
        ("max_output_bytes", str((1 << 30) + 1)),
        ("quorum", "0"),
        ("quorum", "17"),
        ("quorum", ""),
        ("redact", ""),
        ("redact", "token"),
        ("redact", "/a~2"),
    ],
)
@pytest.mark.invariant("I1")
def test_a_demand_that_cannot_be_read_is_a_fault_and_never_no_demand(name: str, value: str) -> None:
    (sentence,) = sentences({**GOOD, name: value})
    assert sentence.startswith(f"@{name} ")
    with pytest.raises(ValueError, match=r"."):
        obligations_of({name: value})


@pytest.mark.parametrize("policy_id", ["", "a b", "a/b", "ä", "a" * 129, "a\n"])
def test_an_id_is_short_and_plain(policy_id: str) -> None:
    assert sentences({**GOOD, "id": policy_id}) == ["@id is not 1 to 128 letters, digits or . _ -"]


@pytest.mark.parametrize("policy_id", ["palyra.x", "Palyra.x"])
def test_our_ids_are_only_for_what_ships_with_palyra(policy_id: str) -> None:
    assert "kept for" in sentences({**GOOD, "id": policy_id})[0]
    assert sentences({**GOOD, "id": policy_id}, is_packaged=True) == []


@pytest.mark.parametrize("reason", ["", "  ", "a" * 201, "a\nb", "a\u202eb", "a\x1bb", "\u200b"])
def test_a_reason_can_be_shown_to_people(reason: str) -> None:
    assert sentences({**GOOD, "reason": reason}) == ["@reason is not 1 to 200 printable characters"]
    assert sentences({**GOOD, "reason": "a" * 200}) == []


def test_everything_that_is_wrong_is_said_at_once() -> None:
    found = problems({"tierr": "b", "quorum": "0"}, Effect.FORBID, is_packaged=False)
    assert [(problem.annotation, problem.hint) for problem in found] == [
        ("tierr", "did you mean @tier?"),
        ("id", 'write @id("NAME") before it'),
        ("reason", 'write @reason("WHY") before it: people are told'),
        ("quorum", ""),
    ]


def test_an_annotation_like_no_other_gets_the_whole_list() -> None:
    (problem,) = problems({**GOOD, "zzz": ""}, Effect.PERMIT, is_packaged=False)
    assert problem.hint.startswith("known are @id, @reason")


def test_a_policy_carries_only_a_code_that_fits_its_effect() -> None:
    assert code_of({"code": "tool.sensitive"}, Effect.FORBID) is Code.TOOL_SENSITIVE
    assert code_of({"code": "tool.sensitive"}, Effect.PERMIT) is None
    assert code_of({"code": "gate.fault"}, Effect.FORBID) is None
    assert code_of({}, Effect.FORBID) is None
    assert not CODES[Effect.PERMIT] & CODES[Effect.FORBID]
    assert sentences({**GOOD, "code": "policy.asks"}, is_packaged=True) == [
        "permit policies cannot carry the code policy.asks"
    ]


def test_a_code_is_only_for_what_ships_with_palyra() -> None:
    assert sentences({**GOOD, "code": "policy.permitted"}) == [
        "@code is kept for what ships with Palyra"
    ]
    assert sentences({**GOOD, "code": "policy.permitted"}, is_packaged=True) == []
