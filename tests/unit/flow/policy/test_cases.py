# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palyra.core.decision import Verdict
from palyra.core.errors import Code, InputError
from palyra.core.policy_request import EntityUid
from palyra.flow.policy import cases
from palyra.flow.policy.assumed import ASSUMED_FOR_EXAMPLES
from palyra.flow.policy.cases import KINDS, Case, CaseFault, entity, inquiry_for, read_cases
from palyra.flow.policy.inquiry import inquiry_of
from palyra.flow.policy.presets import packaged_pack
from palyra.flow.policy.rules import Judgement, Rules
from palyra.flow.policy.vocabulary import entity_types

FULL = b"""
[[case]]
name = "everything that can be said"
principal = "user:grace"
roles = ["vault_keeper"]
action = "vault.get"
resource = "secret:token"
groups = ["secret_scope:production"]
expect = "needs_approval"
code = "tool.sensitive"
policies = ["p"]
applies = ["a"]
does_not_apply = ["b"]
[case.context]
posture = "disabled"
[case.context.plan]
tier = "c"
"""
LEAST = 'name = "n"\nprincipal = "agent:ada"\nresource = "tool:palyra.echo"\n'


def table(*lines: str, least: str = LEAST) -> bytes:
    return ("[[case]]\n" + least + "\n".join(lines)).encode()


def faults(content: bytes) -> list[tuple[str, str]]:
    read = read_cases(content, "x.toml")
    assert read.cases == ()
    return [(fault.key, fault.nearest) for fault in read.faults]


def test_a_case_says_what_it_says() -> None:
    assert read_cases(FULL, "x.toml") == (
        (
            Case(
                name="everything that can be said",
                source="x.toml",
                number=1,
                principal=EntityUid("Operator", "grace"),
                roles=("vault_keeper",),
                action="vault.get",
                resource=EntityUid("Secret", "token"),
                groups=(EntityUid("SecretScope", "production"),),
                expect=Verdict.ASK,
                code=Code.TOOL_SENSITIVE,
                policies=("p",),
                applies=("a",),
                does_not_apply=("b",),
                context={"posture": "disabled", "plan": {"tier": "c"}},
            ),
        ),
        (),
    )


def test_an_empty_table_holds_no_cases() -> None:
    assert read_cases(b"", "x.toml") == ((), ())


def test_executing_is_what_is_asked_about_unless_said_otherwise() -> None:
    (case,), _ = read_cases(table('expect = "allow"'), "x.toml")
    assert case.action == "tool.execute"
    assert case.policies is None


def test_resting_on_no_policy_can_be_expected() -> None:
    (case,), _ = read_cases(table('expect = "deny"', "policies = []"), "x.toml")
    assert case.policies == ()


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (('expekt = "allow"', 'applies = ["p"]'), ("expekt", "expect")),
        (('expect = "alow"',), ("expect", "allow")),
        (("expect = 1",), ("expect", "")),
        ((), ("expect", "")),
        (('code = "tool.sensitive"', 'applies = ["p"]'), ("expect", "")),
        (('expect = "allow"', 'code = "tool.sensitiv"'), ("code", "tool.sensitive")),
        (('expect = "deny"', 'action = "tool.exekute"'), ("action", "tool.execute")),
        (('expect = "deny"', 'action = "management"'), ("action", "management")),
        (('expect = "allow"', "roles = [1]"), ("roles", "")),
        (('expect = "allow"', 'groups = ["tool_grup:x"]'), ("groups", "tool_group")),
        (('expect = "allow"', 'groups = ["role:x"]'), ("groups", "")),
        (('applies = ["p"]', 'does_not_apply = ["p"]'), ("does_not_apply", "")),
        (('expect = "allow"', "context = 1"), ("context", "")),
        (('expect = "allow"', 'context.postur = "x"'), ("context.postur", "posture")),
        (('expect = "allow"', "context.run = 1979-05-27"), ("context.run", "")),
        (('expect = "allow"', "context.depth = nan"), ("context.depth", "")),
        (
            ('expect = "allow"', 'context.capabilities = ["proces_exec"]'),
            ("context.capabilities", "process_exec"),
        ),
    ],
    ids=lambda value: repr(value) if isinstance(value, tuple) else None,
)
def test_a_fault_names_the_key_and_what_was_meant(
    lines: tuple[str, ...], expected: tuple[str, str]
) -> None:
    assert faults(table(*lines)) == [expected]


@pytest.mark.parametrize(
    ("least", "expected"),
    [
        ('principal = "agent:a"\nresource = "tool:t"\n', ("name", "")),
        ('name = "n"\nresource = "tool:t"\n', ("principal", "")),
        ('name = "n"\nprincipal = "agnt:a"\nresource = "tool:t"\n', ("principal", "agent")),
        ('name = "n"\nprincipal = "tool:a"\nresource = "tool:t"\n', ("principal", "")),
        ('name = "n"\nprincipal = "agent:a"\nresource = "agent:t"\n', ("resource", "")),
        ('name = "n"\nprincipal = "agent:a"\nresource = "tool"\n', ("resource", "")),
        ('name = "n"\nprincipal = "agent:"\nresource = "tool:t"\n', ("principal", "")),
    ],
)
def test_what_a_case_cannot_do_without(least: str, expected: tuple[str, str]) -> None:
    assert faults(table('expect = "allow"', least=least)) == [expected]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"\xff", "is not UTF-8 text"),
        (b"[[case", "is not TOML"),
        (b"a = " + b"[" * 5000, "is nested too deeply"),
        (b"case" + b".a" * 40_000 + b" = 1", "a key has more than 6 parts"),
        (b"case = [" + b"1," * 200_001 + b"]", "over 200000 values"),
        (b"case = 1", "is not a list of tables"),
        (b"case = [1]", "is not a list of tables"),
        (b"[[cases]]", "there is no such key"),
    ],
)
def test_what_is_no_table_of_cases_is_one_fault(content: bytes, says: str) -> None:
    read = read_cases(content, "x.toml")
    (fault,) = read.faults
    assert says in str(fault)
    assert str(fault).startswith("x.toml:")
    assert read.cases == ()


def test_one_fault_leaves_no_case() -> None:
    good = table('expect = "allow"')
    read = read_cases(good + b"\n" + table("expect = 1"), "x.toml")
    assert read.cases == ()
    assert [fault.number for fault in read.faults] == [2]


@pytest.mark.invariant("I13")
def test_tables_and_lists_of_faults_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    many = (table('expect = "x"') + b"\n") * 150
    assert len(read_cases(many, "x.toml").faults) == 100
    monkeypatch.setattr(cases, "MOST_CASES", 149)
    assert "more than 149" in read_cases(many, "x.toml").faults[0].message
    monkeypatch.setattr(cases, "LARGEST_TABLE_BYTES", 10)
    assert "larger than 10" in read_cases(many, "x.toml").faults[0].message


@pytest.mark.invariant("I13")
@pytest.mark.parametrize(
    "line",
    [
        "\n".join(f"k{n} = 1" for n in range(500)),
        "groups = [" + '"tol_group:x",' * 500 + "]",
        "context.capabilities = [" + '"proces_exec",' * 500 + "]",
        "\n".join(f"context.k{n} = 1" for n in range(500)),
    ],
    ids=["keys", "groups", "capabilities", "attributes"],
)
def test_one_case_is_not_searched_for_more_faults_than_are_told(
    line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[str] = []
    monkeypatch.setattr(cases, "nearest", lambda name, _: compared.append(name))
    many = (table('expect = "allow"', line) + b"\n") * 3
    assert len(read_cases(many, "x.toml").faults) == 100
    assert len(compared) <= 101


def test_a_fault_is_a_sentence() -> None:
    fault = CaseFault(
        source="x.toml",
        number=3,
        name="a\nb",
        key="expekt",
        message="there is no such key",
        nearest="expect",
    )
    assert str(fault) == (
        "x.toml: case 3 'a\\u{a}b': expekt: there is no such key; did you mean 'expect'?"
    )
    (case,), _ = read_cases(table('expect = "allow"'), "x.toml")
    assert str(case) == "x.toml: case 1 'n'"


@given(st.binary(max_size=200) | st.text(max_size=200).map(lambda text: text.encode()))
def test_any_bytes_are_cases_or_faults(content: bytes) -> None:
    read = read_cases(content, "x.toml")
    assert not (read.cases and read.faults)


def test_an_action_that_does_not_exist_must_be_what_the_case_shows() -> None:
    lines = ('expect = "deny"', 'action = "tool.read.write"', 'code = "policy.action_unknown"')
    (case,), found = read_cases(table(*lines), "x.toml")
    assert found == ()
    judgement = _judge(case)
    assert judgement.code is Code.POLICY_ACTION_UNKNOWN


def test_every_type_of_entity_but_actions_has_a_kind() -> None:
    assert set(KINDS.values()) == entity_types()


def test_a_name_may_hold_colons() -> None:
    assert entity("host:[::1]:443") == EntityUid("Host", "[::1]:443")


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("tol:x", "did you mean 'tool'?"),
        ("tool", "write it as"),
        ("", "write it as"),
        (":x", "kinds"),
    ],
)
def test_an_unknown_kind_is_a_fault_with_what_was_meant(text: str, hint: str) -> None:
    with pytest.raises(InputError) as caught:
        entity(text)
    assert caught.value.code is Code.USAGE
    assert hint in caught.value.hint


def _case(**said: object) -> Case:
    return Case(
        name="n",
        principal=EntityUid("Agent", "ada"),
        resource=EntityUid("Tool", "palyra.fs.write"),
        context=dict(said),
    )


def _judge(case: Case) -> Judgement:
    rules = Rules(packaged_pack())
    return rules.judge(inquiry_for(case, assumed=ASSUMED_FOR_EXAMPLES), afresh=True)


def test_a_tool_is_in_its_prefixes_its_powers_and_what_is_said() -> None:
    case = Case(
        name="n",
        principal=EntityUid("Agent", "ada"),
        resource=EntityUid("Tool", "palyra.fs.write"),
        groups=(EntityUid("ToolGroup", "files"), EntityUid("ToolGroup", "palyra")),
        context={"capabilities": ["filesystem_write"]},
    )
    assert inquiry_for(case, assumed=ASSUMED_FOR_EXAMPLES).groups == (
        EntityUid("ToolGroup", "files"),
        EntityUid("ToolGroup", "palyra"),
        EntityUid("ToolGroup", "palyra.fs"),
        EntityUid("Capability", "filesystem_write"),
    )


def test_the_question_is_one_that_could_be_journaled() -> None:
    inquiry = inquiry_for(_case(plan={"tier": "c"}), assumed=ASSUMED_FOR_EXAMPLES)
    assert inquiry_of(inquiry.request) == inquiry
    assert inquiry.attributes["plan"] == '{"egress":[],"secrets":[],"tier":"c","writes":[]}'


@pytest.mark.parametrize(
    "said",
    [
        {"budget": 3},
        {"budget": {"run": "many"}},
        {"budget": {"days": 1}},
        {"capabilities": "process_exec"},
        {"capabilities": [1]},
        {"posture": 1},
        {"plan": {"teir": "c"}},
        {"depth": 1.5},
        {"files": 1},
        {"channel": None},
        {"time": {"hour": "ten"}},
    ],
    ids=str,
)
@pytest.mark.invariant("I1")
def test_what_does_not_fit_the_schema_is_refused_as_such(said: dict[str, object]) -> None:
    judgement = _judge(_case(**said))
    assert judgement.verdict is Verdict.FORBID
    assert judgement.code is Code.POLICY_REQUEST_INVALID


def test_a_part_of_a_record_can_be_said_alone() -> None:
    files = {"files": {"writes": ["src/a.py"]}, "process": {"argv": ["ls"]}, "network": {}}
    assert _judge(_case(**files)).verdict is Verdict.ALLOW
