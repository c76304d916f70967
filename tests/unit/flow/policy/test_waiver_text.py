# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import cedarpy
import pytest
from cedarpy import pst
from hypothesis import example, given
from hypothesis import strategies as st

from palyra.core.facts import Facts
from palyra.core.policy_request import EntityUid
from palyra.flow.policy.heads import head_keys
from palyra.flow.policy.statements import split
from palyra.flow.policy.waiver_text import Likeness, Seen, cedar_text, seen_in, waiver_text
from tests.support.past_calls import TOOL, question

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
        "  !(context has files) &&\n"
        "  context has process &&\n"
        '  context.process.executable == "/usr/bin/git" &&\n'
        "  [\"git log 'a b'\"].contains(context.process.command) &&\n"
        "  !(context has network) &&\n"
        '  context.plan.tier == "none" &&\n'
        "  context.plan.egress.isEmpty() &&\n"
        "  context.plan.writes.isEmpty() &&\n"
        "  context.plan.secrets.isEmpty() &&\n"
        "  !context.capabilities.isEmpty() &&\n"
        '  ["process_exec"].containsAll(context.capabilities) &&\n'
        "  context.size_bytes <= 5 &&\n"
        "  context.duration_ms <= 0\n"
        "};"
    )


def test_the_text_of_calls_holds_what_any_of_them_touched() -> None:
    one = Facts(workspace="site", writes=("b", "a"), hosts=("x.org",), ports=(443,), size_bytes=9)
    other = Facts(workspace="site", writes=("c",), hosts=("y.org",), size_bytes=7)
    text = text_of(*(seen_in(question(facts)) for facts in (one, other)))
    assert '["a", "b", "c"].containsAll(context.files.writes)' in text
    assert "!context.files.writes.isEmpty()" in text
    assert "context.files.reads.isEmpty()" in text
    assert '["x.org", "y.org"].containsAll(context.network.hosts)' in text
    assert "[443].containsAll(context.network.ports)" in text
    assert "!context.network.ports.isEmpty()" not in text  # one of them named none
    assert "context.size_bytes <= 9" in text


def test_likeness_is_workspace_program_network_and_tier() -> None:
    facts = Facts(workspace="site", reads=("a",), executable="/bin/ls", hosts=("x.org",))
    assert seen_in(question(facts)).likeness == Likeness(
        workspace="site", executable="/bin/ls", has_network=True, tier="none"
    )
    assert seen_in(question()).likeness == Likeness(
        workspace=None, executable=None, has_network=False, tier="none"
    )


def test_calls_that_are_not_alike_have_no_text() -> None:
    with pytest.raises(ValueError, match="must be alike"):
        text_of(seen_in(question()), seen_in(question(Facts(executable="/bin/ls"))))
    with pytest.raises(ValueError, match="must be alike"):
        text_of()
