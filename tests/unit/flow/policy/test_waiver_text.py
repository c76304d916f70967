# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import TYPE_CHECKING

import cedarpy
import msgspec
import pytest
from cedarpy import pst
from hypothesis import example, given, settings
from hypothesis import strategies as st

from palyra.core.decision import Verdict
from palyra.core.facts import Facts
from palyra.core.plan import SandboxPlan
from palyra.core.policy_request import EntityUid
from palyra.flow.policy.heads import head_keys
from palyra.flow.policy.statements import split
from palyra.flow.policy.suggest import Obstacle, suggest
from palyra.flow.policy.waiver_text import (
    MOST_COMBINATIONS,
    Likeness,
    Seen,
    cedar_text,
    combinations,
    seen_in,
    waiver_text,
)
from tests.support.past_calls import RULES, TOOL, all_approved, question, with_suggestions
from tests.support.store import WORKSPACE, call_id

if TYPE_CHECKING:
    from collections.abc import Iterator

AGENT = EntityUid("Agent", "ada")
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))


def text_of(*seen: Seen) -> str:
    return waiver_text(
        seen, policy_id="x", reason="y", principal=AGENT, resource=EntityUid("Tool", TOOL)
    )


def parsed(policy: str) -> pst.Template:
    (template,) = cedarpy.PolicySet.from_str(policy).to_pst().static_policies.values()
    return template


@given(TEXTS)
@example('"); permit (principal, action, resource); //')
@example("\\")
@example('\\"')
@example("*")
@example("\\*")
@example("\0\n\r\t\x7f\u2028\u202e\U0001f600\ufffe")
@pytest.mark.invariant("I2")
def test_every_text_means_itself_to_the_parser(text: str) -> None:
    written = cedar_text(text)
    assert written.isascii()
    assert written.isprintable()
    policy = f"permit (principal, action, resource) when {{ context.channel == {written} }};"
    (statement,) = split(policy)
    assert statement.flaw is None
    (clause,) = parsed(policy).clauses
    channel = pst.GetAttr(base=pst.Var(name="context"), attr="channel")
    assert clause.expr == pst.BinaryOp(op="eq", left=channel, right=pst.StringLit(value=text))


@given(TEXTS)
def test_every_text_can_be_the_name_of_an_entity_and_an_annotation(text: str) -> None:
    policy = waiver_text(
        [seen_in(question())],
        policy_id=text,
        reason=text,
        principal=EntityUid("Agent", text),
        resource=EntityUid("Tool", text),
    )
    template = parsed(policy)
    assert template.annotations == {"id": text, "reason": text}
    keys = head_keys(template)
    assert keys.principal == (f'=Agent::"{text}"',)
    assert keys.action == ('=Action::"approval.waive"',)
    assert keys.resource == (f'=Tool::"{text}"',)


def test_the_text_of_a_call_that_starts_a_program() -> None:
    facts = Facts(executable="/usr/bin/git", argv=("git", "log", "a b"), size_bytes=5)
    assert text_of(seen_in(question(facts))) == (
        '@id("x")\n'
        '@reason("y")\n'
        "permit (\n"
        '  principal == Agent::"ada",\n'
        '  action == Action::"approval.waive",\n'
        f'  resource == Tool::"{TOOL}"\n'
        ")\n"
        "when {\n"
        '  context.tool_version == "1.0.0" &&\n'
        "  !(context has files) &&\n"
        "  context has process &&\n"
        '  context.process.executable == "/usr/bin/git" &&\n'
        "  !(context has network) &&\n"
        '  context.plan.tier == "none" &&\n'
        "  context.process.command == \"git log 'a b'\" &&\n"
        "  context.plan.egress.isEmpty() &&\n"
        "  context.plan.writes.isEmpty() &&\n"
        "  context.plan.secrets.isEmpty() &&\n"
        '  context.capabilities == ["process_exec"] &&\n'
        "  context.size_bytes <= 5 &&\n"
        "  context.duration_ms <= 0\n"
        "};"
    )


def test_the_text_of_calls_tells_them_apart() -> None:
    one = Facts(workspace="site", writes=("b", "a"), hosts=("x.org",), ports=(443,), size_bytes=9)
    other = Facts(workspace="site", writes=("c",), hosts=("y.org",), size_bytes=7)
    text = text_of(*(seen_in(question(facts)) for facts in (one, other)))
    first, second = text.partition("  (\n")[2].split(" ||\n")
    assert 'context.files.writes == ["a", "b"] &&' in second
    assert 'context.network.hosts == ["x.org"] &&' in second
    assert "context.network.ports == [443] &&" in second
    assert "context.size_bytes <= 9 &&" in second
    assert 'context.files.writes == ["c"] &&' in first
    assert 'context.network.hosts == ["y.org"] &&' in first
    assert "context.network.ports.isEmpty() &&" in first
    assert "context.size_bytes <= 7 &&" in first
    (statement,) = split(text)
    assert statement.flaw is None


def test_the_text_does_not_depend_on_the_order_of_calls() -> None:
    facts = [Facts(executable="/bin/x", argv=("x", str(n))) for n in range(4)]
    seen = [seen_in(question(each)) for each in facts]
    assert text_of(*seen) == text_of(*reversed(seen), seen[1])


@pytest.mark.invariant("I13")
def test_one_text_tells_only_so_many_calls_apart() -> None:
    names = [f"{n}{'y' * 30}" for n in range(MOST_COMBINATIONS + 1)]
    facts = [Facts(workspace="site", writes=(name,), argv=(name,), hosts=(name,)) for name in names]
    seen = [seen_in(question(each)) for each in facts]
    (statement,) = split(text_of(*seen[:-1]))
    assert statement.flaw is None
    with pytest.raises(ValueError, match="differ in too many ways"):
        text_of(*seen)


def test_many_sizes_of_one_call_are_one_combination() -> None:
    seen = [seen_in(question(Facts(argv=("x",), size_bytes=n))) for n in range(1000)]
    assert combinations(seen) == (seen[-1],)


def test_likeness_is_version_workspace_program_network_and_tier() -> None:
    facts = Facts(workspace="site", reads=("a",), executable="/bin/ls", hosts=("x.org",))
    assert seen_in(question(facts)).likeness == Likeness(
        tool_version="1.0.0",
        workspace="site",
        executable="/bin/ls",
        has_network=True,
        tier="none",
    )
    assert seen_in(question(tool_version="1.0.1")).likeness == Likeness(
        tool_version="1.0.1", workspace=None, executable=None, has_network=False, tier="none"
    )


def test_calls_that_are_not_alike_have_no_text() -> None:
    with pytest.raises(ValueError, match="must be alike"):
        text_of(seen_in(question()), seen_in(question(Facts(executable="/bin/ls"))))
    with pytest.raises(ValueError, match="must be alike"):
        text_of()


# --- How narrow it is --------------------------------------------------------------------------

_NAMES = st.text(
    st.characters(exclude_categories=["Cs"]) | st.sampled_from("*\"\\/'; \n\u202e"),
    min_size=1,
    max_size=8,
)
_LISTS = st.lists(_NAMES, max_size=3, unique=True).map(tuple)


@st.composite
def _facts(draw: st.DrawFn) -> Facts:
    has_files, has_network = draw(st.booleans()), draw(st.booleans())
    argv = draw(_LISTS)
    return Facts(
        workspace=WORKSPACE.name if has_files else None,
        reads=draw(_LISTS) if has_files else (),
        writes=draw(_LISTS) if has_files else (),
        executable=draw(st.sampled_from(["/bin/a", "/bin/*", '/"'])) if argv else "",
        argv=argv,
        hosts=draw(_LISTS) if has_network else (),
        ports=draw(st.lists(st.integers(1, 65535), max_size=2).map(tuple)) if has_network else (),
        methods=("GET",) if has_network else (),
        size_bytes=draw(st.integers(0, 1 << 40)),
        duration_ms=draw(st.integers(0, 1000)),
    )


def tells_something(facts: Facts) -> bool:
    return bool(facts.size_bytes) or touches(facts)


def touches(facts: Facts) -> bool:
    return bool(facts.reads or facts.writes or facts.argv or facts.hosts or facts.methods)


def includes(seen: Facts, asked: Facts) -> bool:
    """Say whether one call was seen with exactly the facts of another, and no smaller."""
    limits = {"size_bytes": 0, "duration_ms": 0} if touches(seen) else {"duration_ms": 0}
    return (
        _sets(msgspec.structs.replace(seen, **limits))
        == _sets(msgspec.structs.replace(asked, **limits))
        and asked.size_bytes <= seen.size_bytes
        and asked.duration_ms <= seen.duration_ms
    )


def _sets(facts: Facts) -> dict[str, object]:
    """Return facts without the order of what policy sees as sets."""
    listed = {name: frozenset(getattr(facts, name)) for name in ("reads", "writes", "hosts")}
    return {**msgspec.structs.asdict(facts), **listed, "ports": frozenset(facts.ports)}


_FIELDS = tuple(name for name in msgspec.structs.asdict(Facts()) if name != "left_out")


@pytest.mark.invariant("I2")
@settings(max_examples=60, deadline=None)
@given(
    seen=st.lists(_facts(), min_size=1, max_size=4),
    mixtures=st.lists(
        st.lists(st.integers(0, 3), min_size=len(_FIELDS), max_size=len(_FIELDS)), max_size=8
    ),
)
def test_no_mixture_of_what_was_seen_is_covered(
    seen: list[Facts], mixtures: list[list[int]]
) -> None:
    plan = SandboxPlan()
    suggestions = suggest(all_approved(*(question(each, plan=plan) for each in seen)), RULES)
    rules = with_suggestions(suggestions)
    taken = [
        {name: getattr(seen[n % len(seen)], name) for name, n in zip(_FIELDS, each, strict=True)}
        for each in mixtures
    ]
    for facts in (*seen, *(Facts(**each) for each in taken)):
        if (facts.reads or facts.writes) and not facts.workspace:
            continue  # cannot be
        is_covered = rules.judge(question(facts, plan=plan)).verdict is Verdict.ALLOW
        expected = any(tells_something(each) and includes(each, facts) for each in seen)
        assert is_covered is expected, facts


def one_thing_more(facts: Facts, seen: list[Facts], extra: str) -> Iterator[Facts]:
    """Yield calls that differ from an approved one in a thing that no approved one had."""
    if facts.workspace:
        for name in ("reads", "writes"):
            if not any(extra in getattr(each, name) for each in seen):
                more = (*getattr(facts, name), extra)
                yield msgspec.structs.replace(facts, **{name: more})
        yield msgspec.structs.replace(facts, workspace="another")
        yield msgspec.structs.replace(facts, outside=("/etc/passwd",))
        yield msgspec.structs.replace(facts, protected=(".git",))
    if facts.argv:
        if not any(each.argv == (*facts.argv, extra) for each in seen):
            yield msgspec.structs.replace(facts, argv=(*facts.argv, extra))
        if not any(each.argv == facts.argv and each.executable == extra for each in seen):
            yield msgspec.structs.replace(facts, executable=extra)
    yield msgspec.structs.replace(facts, size_bytes=max(each.size_bytes for each in seen) + 1)
    yield msgspec.structs.replace(facts, duration_ms=1001)
    yield msgspec.structs.replace(facts, left_out=1)


def further_reach(facts: Facts, seen: list[Facts], extra: str) -> Iterator[Facts]:
    """Yield calls that reach further in the network, or do what no approved one did at all."""
    if facts.hosts and not any(extra in each.hosts for each in seen):
        yield msgspec.structs.replace(facts, hosts=(*facts.hosts, extra))
        yield msgspec.structs.replace(facts, hosts=(extra,))
    if facts.methods:
        yield msgspec.structs.replace(facts, methods=("GET", "POST"))
        yield msgspec.structs.replace(facts, ports=(*facts.ports, 65536))
    if not any(each.methods for each in seen):
        yield msgspec.structs.replace(facts, hosts=(extra,))
    if not any(each.workspace for each in seen):
        yield msgspec.structs.replace(facts, workspace=WORKSPACE.name)
    if not any(each.argv for each in seen):
        yield msgspec.structs.replace(facts, executable=extra, argv=(extra,))


@pytest.mark.invariant("I2")
@settings(max_examples=40, deadline=None)
@given(seen=st.lists(_facts(), min_size=1, max_size=4), extra=_NAMES)
def test_a_suggestion_covers_what_was_seen_and_nothing_beyond(
    seen: list[Facts], extra: str
) -> None:
    inquiries = [question(facts) for facts in seen]
    suggestions = suggest(all_approved(*inquiries), RULES)
    told = [number for number, each in enumerate(seen, start=1) if tells_something(each)]
    covered = [each.call_id for one in suggestions.suggestions for each in one.calls]
    assert sorted(covered) == [call_id(number) for number in told]
    assert {each.obstacle for each in suggestions.uncovered} <= {Obstacle.NO_FACTS}
    rules = with_suggestions(suggestions)
    for facts, inquiry in zip(seen, inquiries, strict=True):
        if not tells_something(facts):
            assert rules.judge(inquiry).verdict is Verdict.ASK
            continue
        assert rules.judge(inquiry).verdict is Verdict.ALLOW
        for beyond in (
            *one_thing_more(facts, seen, extra),
            *further_reach(facts, seen, extra),
        ):
            # The plan is that of the approved call, so that the facts alone make the difference.
            asked = question(
                beyond,
                plan=SandboxPlan(egress=facts.hosts),
                workspace=msgspec.structs.replace(WORKSPACE, name=beyond.workspace)
                if beyond.workspace
                else None,
            )
            verdict = Verdict.ASK if not beyond.left_out else Verdict.FORBID
            assert rules.judge(asked).verdict is verdict, beyond
        wider = SandboxPlan(egress=("anywhere.example",), secrets=("*",))
        assert rules.judge(question(facts, plan=wider)).verdict is Verdict.ASK
        powers = ("process_exec", "secrets_read")
        assert rules.judge(question(facts, capabilities=powers)).verdict is Verdict.ASK
