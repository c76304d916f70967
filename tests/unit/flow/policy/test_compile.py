# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import subprocess
import sys
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palyra.core.errors import Code
from palyra.core.pack import (
    LARGEST_PACK_BYTES,
    MOST_POLICIES,
    NOBODY,
    Effect,
    Members,
    Pack,
    read_pack,
)
from palyra.flow.policy.compile import MOST_FAULTS, Fault, Source, compile_pack
from palyra.flow.policy.presets import packaged_sources
from palyra.flow.policy.vocabulary import schema_sha256

ANNOTATED = '@id("%s")\n@reason("because")\n'
POLICY = ANNOTATED + "permit (principal, action, resource);\n"


def compiled(*texts: str, members: Members = NOBODY) -> Pack:
    sources = [Source(f"rules{n}.cedar", text) for n, text in enumerate(texts)]
    pack = compile_pack(sources, preset="ask", members=members)
    assert isinstance(pack, Pack), [str(fault) for fault in pack]
    return pack


def faults_of(*texts: str) -> tuple[Fault, ...]:
    sources = [Source(f"rules{n}.cedar", text) for n, text in enumerate(texts)]
    faults = compile_pack(sources, preset="ask", members=NOBODY)
    assert isinstance(faults, tuple)
    return faults


def test_a_policy_keeps_its_place_its_text_and_what_deciding_needs() -> None:
    members = Members(roles={"auditor": ("agent:a",)})
    text = (
        "// first\n" + POLICY % "one" + "\n// second\n" + ANNOTATED % "two" + '@quorum("2")\n'
        'forbid (principal == Agent::"a", action == Action::"tool.execute", resource)\n'
        'when { context.plan.tier == "none" };\n'
    )
    pack = compiled(text, members=members)
    one, two = pack.policies
    assert (one.policy_id, one.source, one.line, one.effect) == (
        "one",
        "rules0.cedar",
        2,
        Effect.PERMIT,
    )
    assert one.text == "// first\n" + (POLICY % "one").rstrip()
    assert (one.principal, one.action, one.resource, one.reads) == (("*",), ("*",), ("*",), ())
    assert (two.line, two.effect, two.reads) == (7, Effect.FORBID, ("plan",))
    assert two.principal == ('=Agent::"a"',)
    assert two.action == ('=Action::"tool.execute"',)
    assert two.annotations == {"id": "two", "reason": "because", "quorum": "2"}
    assert two.text.startswith("// second\n@id")
    assert (pack.preset, pack.members, pack.schema_sha256) == ("ask", members, schema_sha256())
    assert read_pack(pack.encoded()) == pack


def test_sources_are_joined_in_their_order() -> None:
    pack = compile_pack(
        [*packaged_sources("boxed"), Source("rules.cedar", POLICY % "mine")],
        preset="boxed",
        members=NOBODY,
    )
    assert isinstance(pack, Pack)
    assert pack.policies[0].source == "palyra/base.cedar"
    assert [policy.policy_id for policy in pack.policies[-2:]] == ["palyra.boxed-process", "mine"]


def test_nothing_compiles_to_a_pack_that_permits_nothing() -> None:
    assert compiled().policies == compiled("", "// x").policies == ()


def test_compiling_twice_gives_the_same_digest() -> None:
    assert compiled(POLICY % "a").digest == compiled(POLICY % "a").digest


@pytest.mark.invariant("I1")
def test_every_fault_is_reported_in_the_order_of_the_text() -> None:
    first = (
        POLICY % "ok"
        + ANNOTATED % "action"
        + 'permit (principal, action == Action::"tool.exekute", resource);\n'
        + ANNOTATED % "syntax"
        + "permit (principal, action, resource) when { true && };\n"
        + "permit (principal, action, resource);\n"
        + ANNOTATED % "attribute"
        + "forbid (principal, action, resource) when { context.is_sensitiv };\n"
    )
    second = (
        ANNOTATED % "never"
        + "forbid (principal, action, resource) when { context has filez };\n"
        + 'permit (principal, "'
    )
    shown = "\n".join(str(fault) for fault in faults_of(first, second))
    assert shown.replace("; ", "\n  ").split("\n") == [
        'rules0.cedar:6:30: unrecognized action `Action::"tool.exekute"`',
        '  did you mean Action::"tool.execute"?',
        "rules0.cedar:9:53: unexpected token `}`",
        "rules0.cedar:10:1: the policy has no @id",
        '  write @id("NAME") before it',
        "rules0.cedar:10:1: the policy has no @reason",
        '  write @reason("WHY") before it: people are told',
        "rules0.cedar:13:53: attribute `is_sensitiv` in context not found",
        "  did you mean is_sensitive_action?",
        "rules1.cedar:3:57: attribute `filez` in context not found",
        "  did you mean files?",
        "rules1.cedar:4:20: a text is not closed",
    ]


def test_a_fault_names_the_policy_it_is_about() -> None:
    (fault,) = faults_of(ANNOTATED % "mine" + "permit (principal is Agnt, action, resource);")
    assert (fault.policy_id, fault.token, fault.code) == ("mine", "Agnt", Code.POLICY_INVALID)


def test_a_fault_beyond_the_first_chunk_is_about_the_right_policy() -> None:
    texts = [POLICY % f"p{n}" for n in range(600)]
    texts[555] = ANNOTATED % "p555" + "permit (principal is Agnt, action, resource);\n"
    (fault,) = faults_of("".join(texts))
    assert (fault.policy_id, fault.line) == ("p555", 555 * 3 + 3)


def test_an_id_stands_for_one_policy_in_all_sources() -> None:
    (fault,) = faults_of(POLICY % "a" + POLICY % "b", "\n" + POLICY % "b")
    assert str(fault) == "rules1.cedar:2:1: the id b is taken by the policy at rules0.cedar:4"


@pytest.mark.parametrize("slot", ["principal == ?principal", "principal in ?principal"])
def test_templates_are_refused(slot: str) -> None:
    (fault,) = faults_of(ANNOTATED % "a" + f"permit ({slot}, action, resource);")
    assert (fault.message, fault.line) == ("templates cannot be used here", 3)
    assert fault.column == 22


def test_annotations_are_checked_where_they_stand() -> None:
    text = '@id("palyra.x") @reason("r")\n  @tierr("b")\npermit (principal, action, resource);'
    assert [(fault.line, fault.column, fault.token) for fault in faults_of(text)] == [
        (1, 1, "@id"),
        (2, 3, "@tierr"),
    ]


def test_our_ids_and_codes_are_only_for_packaged_sources() -> None:
    text = ANNOTATED % "palyra.x" + '@code("policy.permitted") permit (principal,action,resource);'
    assert len(faults_of(text)) == 2
    pack = compile_pack([Source("palyra/x.cedar", text)], preset="ask", members=NOBODY)
    assert isinstance(pack, Pack)


def test_two_policies_cannot_pass_as_one() -> None:
    hidden = "permit (principal, action, resource) permit (principal, action, resource);"
    assert len(faults_of(ANNOTATED % "a" + hidden)) == 1
    (fault,) = faults_of(";")
    assert fault.message == "unexpected token `;`"


@pytest.mark.invariant("I13")
def test_too_many_policies_are_one_fault_of_their_own_code() -> None:
    (fault,) = faults_of(POLICY % "a", ";" * MOST_POLICIES)
    assert (fault.code, fault.source) == (Code.POLICY_TOO_LARGE, "rules1.cedar")
    assert str(MOST_POLICIES) in fault.message


@pytest.mark.invariant("I13")
def test_too_much_text_is_one_fault_of_its_own_code() -> None:
    (fault,) = faults_of("/" * (LARGEST_PACK_BYTES - 10), "/" * 11)
    assert (fault.code, fault.source) == (Code.POLICY_TOO_LARGE, "rules1.cedar")
    assert str(LARGEST_PACK_BYTES) in fault.message


@pytest.mark.invariant("I13")
def test_members_count_towards_the_size_of_a_pack() -> None:
    members = Members(roles={"a": tuple(f"agent:{n:>0200}" for n in range(90_000))})
    faults = compile_pack([Source("a.cedar", POLICY % "a")], preset="ask", members=members)
    assert isinstance(faults, tuple)
    assert [fault.code for fault in faults] == [Code.POLICY_TOO_LARGE]


@pytest.mark.parametrize("text", ["x;", "permit (principal is X, action, resource);"])
def test_no_more_than_a_hundred_faults_are_returned_and_soon(text: str) -> None:
    started = time.monotonic()
    assert len(faults_of(text * 5_000)) == MOST_FAULTS
    assert time.monotonic() - started < 10


def test_progress_is_reported_and_ends_at_its_end() -> None:
    text = "".join(POLICY % f"p{n}" for n in range(1_200))
    told: list[tuple[int, int]] = []
    pack = compile_pack(
        [Source("a.cedar", text)],
        preset="ask",
        members=NOBODY,
        progress=lambda done, steps: told.append((done, steps)),
    )
    assert isinstance(pack, Pack)
    done = [each for each, _ in told]
    assert {steps for _, steps in told} == {2_400}
    assert done[-1] == 2_400
    assert all(0 < after - before <= 500 for before, after in zip([0, *done], done, strict=False))


def test_a_long_line_is_a_fault() -> None:
    (fault,) = faults_of(POLICY % "a" + "x" * 10_000_000)
    assert fault.code is Code.POLICY_TOO_LARGE


@pytest.mark.parametrize("text", ["\0", "\ud800;", '"\ud800";', "\ufeff\ufeff;", "\u202e;", '"\\'])
def test_text_that_is_hardly_text_is_a_fault(text: str) -> None:
    assert len(faults_of(text)) == 1


@pytest.mark.parametrize(
    "shape", ["'(' * N + 'true' + ')' * N", "'true' + ' && true' * N", "'[' * N"]
)
@pytest.mark.parametrize("count", [120, 3_000, 100_000])
def test_deep_nesting_does_not_end_the_process(shape: str, count: int) -> None:
    program = (
        "from palyra.core.pack import NOBODY\n"
        "from palyra.flow.policy.compile import Source, compile_pack\n"
        f"N = {count}\n"
        "text = 'permit (principal, action, resource) when { ' + " + shape + " + ' };'\n"
        "faults = compile_pack([Source('a', text)], preset='ask', members=NOBODY)\n"
        "print(len(faults))\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert int(run.stdout) >= 1


PIECES = """permit forbid ( ) { } [ ] principal action resource context , ; when unless @id @reason
("a") "x" == in is has like . approved && || ! - 1 if then else Action::"tool.execute" Agent
?principal // \\ " * + < :: ip decimal permit(principal,action,resource) 99999999999999999999
__cedar \u00e9 \ufeff"""


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from([*PIECES.split(), "\n", "\r"]), max_size=40).map(" ".join))
def test_no_text_makes_compiling_raise(text: str) -> None:
    compile_pack([Source("a.cedar", text)], preset="ask", members=NOBODY)
    around = f"permit (principal, action, resource) when {{ {text} }};"
    compile_pack([Source("a.cedar", around)], preset="ask", members=NOBODY)
