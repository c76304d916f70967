# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from contextlib import closing
from itertools import product
from typing import TYPE_CHECKING

import msgspec
import pytest

from palyra.core.attestation import PermitRecord
from palyra.core.decision import Verdict
from palyra.core.errors import Code, ConfigError, IntegrityError
from palyra.core.facts import Facts
from palyra.core.pack import MOST_POLICIES
from palyra.core.plan import SandboxPlan, Tier
from palyra.core.policy_request import EntityUid
from palyra.core.posture import Posture
from palyra.core.principal import Principal, PrincipalKind
from palyra.flow.policy import suggest as suggest_module
from palyra.flow.policy.replay import past_decisions
from palyra.flow.policy.rules import Rules
from palyra.flow.policy.suggest import (
    CoveredCall,
    Obstacle,
    Suggestions,
    approved_calls,
    suggest,
)
from tests.support.journals import build_home
from tests.support.past_calls import (
    RULES,
    TOOL,
    all_approved,
    approved,
    decided_by,
    pack_with,
    past,
    question,
    rules_with,
    with_suggestions,
)
from tests.support.samples import APPROVAL_ID, NOW_MS, PERMIT_ID
from tests.support.store import (
    WORKSPACE,
    admit,
    call_id,
    launched,
    ledger_with_run,
    open_archive,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from palyra.flow.policy.inquiry import Inquiry
    from palyra.store.sqlite.ledger import Archive, Ledger

GIT = Facts(executable="/usr/bin/git", argv=("git", "status"))
WRITE = Facts(workspace=WORKSPACE.name, writes=("a.txt",), size_bytes=10)


def obstacles(suggestions: Suggestions) -> list[tuple[Obstacle, Code | None, tuple[str, ...]]]:
    return [(each.obstacle, each.code, each.policies) for each in suggestions.uncovered]


# --- Which calls -------------------------------------------------------------------------------


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    yield from ledger_with_run(tmp_path / "home")


@pytest.fixture
def journal(ledger: Ledger, tmp_path: Path) -> Iterator[Archive]:
    assert ledger.reads.size() > 0
    with closing(open_archive(tmp_path / "home")) as archive:
        yield archive


def record(ledger: Ledger, inquiry: Inquiry, *, number: int, basis: str) -> None:
    permit = PermitRecord(permit_id=PERMIT_ID, basis=basis, approval_id=APPROVAL_ID, grant_id=None)
    events = (
        decided_by(RULES, inquiry, number=number),
        msgspec.structs.replace(launched(number), permit=permit),
    )
    ledger.record_now(admit(number, events=events))


def test_approved_calls_are_those_that_policy_asked_about_and_a_human_let_run(
    ledger: Ledger, journal: Archive
) -> None:
    record(ledger, question(GIT), number=1, basis="approval")
    record(ledger, question(WRITE), number=2, basis="grant")
    record(ledger, question(capabilities=()), number=3, basis="allow")
    record(ledger, question(capabilities=()), number=4, basis="approval")  # not even asked
    record(ledger, question(GIT), number=5, basis="allow")  # the rules changed meanwhile
    first, second = approved_calls(journal)
    assert (first.past.call_id, first.basis) == (call_id(1), "approval")
    assert (second.past.call_id, second.basis) == (call_id(2), "grant")
    assert first.past.request == question(GIT).request
    assert not list(approved_calls(journal, since_ms=second.launched_at_ms + 1))


async def test_what_was_approved_at_a_real_gate_is_found(tmp_path: Path) -> None:
    (tmp_path / "work" / "inner").mkdir(parents=True)
    (tmp_path / "work" / "notes.txt").write_text("notes\n")
    await build_home(tmp_path / "home", tmp_path / "work")
    with closing(open_archive(tmp_path / "home")) as journal:
        (call,) = approved_calls(journal)
        assert (call.past.tool, call.basis) == ("test.sensitive", "approval")
        suggestions = suggest([call], RULES, past=past_decisions(journal))
    # Its tool tells nothing of what it does. So what was agreed to cannot be told from the rest.
    assert suggestions.suggestions == ()
    assert [each.call_id for each in suggestions.uncovered] == [call.past.call_id]
    assert obstacles(suggestions) == [(Obstacle.NO_FACTS, None, ())]


def test_a_launch_that_nobody_decided_is_named(ledger: Ledger, journal: Archive) -> None:
    permit = PermitRecord(
        permit_id=PERMIT_ID, basis="approval", approval_id=APPROVAL_ID, grant_id=None
    )
    alone = msgspec.structs.replace(launched(1), permit=permit)
    ledger.record_now(admit(1, events=(alone,)))
    with pytest.raises(IntegrityError, match="launches a call that nobody decided"):
        list(approved_calls(journal))


# --- What is suggested -------------------------------------------------------------------------


def test_nothing_approved_nothing_suggested() -> None:
    assert suggest([], RULES) == Suggestions(suggestions=(), uncovered=(), left_out=0)


def test_a_suggestion_lets_exactly_the_approved_calls_run() -> None:
    calls = all_approved(question(GIT), question(GIT))
    suggestions = suggest(calls, RULES)
    (only,) = suggestions.suggestions
    assert only.policy_id.startswith(f"suggested.ada.{TOOL}.")
    assert only.principal == EntityUid("Agent", "ada")
    assert only.resource == EntityUid("Tool", TOOL)
    assert only.calls == (
        CoveredCall(call_id=call_id(1), at_ms=NOW_MS + 1),
        CoveredCall(call_id=call_id(2), at_ms=NOW_MS + 2),
    )
    assert '@reason("operators agreed to 2 calls like this")' in only.text
    assert suggestions.uncovered == ()
    rules = with_suggestions(suggestions)
    judgement = rules.judge(question(GIT))
    assert judgement.verdict is Verdict.ALLOW
    assert only.policy_id in judgement.policies
    other = Facts(executable="/usr/bin/git", argv=("git", "push"))
    assert rules.judge(question(other)).verdict is Verdict.ASK


def test_the_rules_are_left_as_they_are() -> None:
    digest = RULES.policy_digest
    suggest(all_approved(question(GIT)), RULES)
    assert RULES.policy_digest == digest == RULES.pack.digest
    assert RULES.judge(question(GIT)).verdict is Verdict.ASK


def test_what_was_seen_in_two_calls_is_not_put_together() -> None:
    get = Facts(hosts=("a.example",), methods=("GET",), ports=(443,))
    post = Facts(hosts=("b.example",), methods=("POST",), ports=(8443,))
    suggestions = suggest(all_approved(question(get), question(post)), RULES)
    assert len(suggestions.suggestions) == 1
    rules = with_suggestions(suggestions)
    egress = SandboxPlan(egress=("a.example",))
    for hosts, methods, ports in product(
        (get.hosts, post.hosts, get.hosts + post.hosts),
        (get.methods, post.methods, get.methods + post.methods),
        (get.ports, post.ports, get.ports + post.ports),
    ):
        facts = Facts(hosts=hosts, methods=methods, ports=ports)
        is_covered = rules.judge(question(facts)).verdict is Verdict.ALLOW
        assert is_covered is (facts in {get, post})
    assert rules.judge(question(get)).verdict is Verdict.ALLOW
    assert rules.judge(question(post, plan=egress)).verdict is Verdict.ASK


def test_neither_are_sizes_and_durations() -> None:
    large = msgspec.structs.replace(WRITE, size_bytes=1000, duration_ms=10)
    long = msgspec.structs.replace(WRITE, size_bytes=10, duration_ms=1000)
    less = msgspec.structs.replace(WRITE, size_bytes=900, duration_ms=9)
    suggestions = suggest(all_approved(*map(question, (less, long, large, long))), RULES)
    (only,) = suggestions.suggestions
    assert only.text.count("context.size_bytes") == 2  # what is smaller needs no words of its own
    rules = with_suggestions(suggestions)
    assert {rules.judge(question(each)).verdict for each in (large, long, less)} == {Verdict.ALLOW}
    for size_bytes, duration_ms in ((1000, 1000), (11, 11), (1001, 1), (1, 1001)):
        both = msgspec.structs.replace(WRITE, size_bytes=size_bytes, duration_ms=duration_ms)
        assert rules.judge(question(both)).verdict is Verdict.ASK


def test_another_version_of_a_tool_is_another_tool() -> None:
    suggestions = suggest(all_approved(question(GIT, tool_version="1.0.0")), RULES)
    rules = with_suggestions(suggestions)
    assert rules.judge(question(GIT, tool_version="1.0.0")).verdict is Verdict.ALLOW
    assert rules.judge(question(GIT, tool_version="1.0.1")).verdict is Verdict.ASK
    both = all_approved(question(GIT), question(GIT, tool_version="2.0.0"))
    assert len(suggest(both, RULES).suggestions) == 2


def test_where_a_size_is_all_that_shows_it_is_that_size() -> None:
    suggestions = suggest(
        all_approved(*(question(Facts(size_bytes=size)) for size in (7, 9))), RULES
    )
    rules = with_suggestions(suggestions)
    verdicts = [rules.judge(question(Facts(size_bytes=size))).verdict for size in range(11)]
    covered = [size for size, verdict in enumerate(verdicts) if verdict is Verdict.ALLOW]
    assert covered == [7, 9]


def test_callers_tools_workspaces_and_programs_are_not_mixed() -> None:
    bob = Principal(kind=PrincipalKind.AGENT, name="bob")
    inquiries = [
        question(GIT),
        question(GIT, principal=bob),
        question(GIT, tool="test.other"),
        question(Facts(executable="/bin/ls", argv=("git", "status"))),
        question(WRITE),
        question(WRITE, workspace=msgspec.structs.replace(WORKSPACE, name="docs")),
        question(GIT, plan=SandboxPlan(tier=Tier.C)),
    ]
    suggestions = suggest(all_approved(*inquiries), RULES)
    assert [len(each.calls) for each in suggestions.suggestions] == [1] * 7
    rules = with_suggestions(suggestions)
    assert {rules.judge(inquiry).verdict for inquiry in inquiries} == {Verdict.ALLOW}
    assert rules.judge(question(WRITE, principal=bob)).verdict is Verdict.ASK


def test_the_suggestion_that_rests_on_the_most_calls_comes_first() -> None:
    inquiries = [question(WRITE), question(GIT), question(GIT)]
    suggestions = suggest(all_approved(*inquiries), RULES)
    assert [len(each.calls) for each in suggestions.suggestions] == [2, 1]


def test_other_past_calls_that_would_run_are_counted() -> None:
    approved_before = all_approved(question(GIT))
    decisions = [
        approved_before[0].past,  # does not count: the suggestion rests on it
        past(question(GIT), RULES, number=2),
        past(question(WRITE), RULES, number=3),
        past(question(GIT, posture=Posture.DISABLED), RULES, number=4),
        past(question(capabilities=()), RULES, number=5),
        past(question(GIT), RULES, number=6, request=None),
        past(question(GIT, principal=Principal(kind=PrincipalKind.AGENT, name="bob")), RULES),
    ]
    (only,) = suggest(approved_before, RULES, past=decisions).suggestions
    assert (only.would_change, only.others) == (1, (call_id(2),))


@pytest.mark.invariant("I13")
def test_only_so_many_of_them_are_named() -> None:
    decisions = [past(question(GIT), RULES, number=number) for number in range(2, 32)]
    (only,) = suggest(all_approved(question(GIT)), RULES, past=decisions).suggestions
    assert only.would_change == 30
    assert only.others == tuple(call_id(number) for number in range(2, 22))


# --- What is not -------------------------------------------------------------------------------


def test_what_no_waiver_lifts_is_listed_with_its_reason() -> None:
    asks = """
    @id("site.asks")
    @reason("the night is for sleeping")
    forbid (principal, action == Action::"tool.execute", resource)
    when { context.size_bytes > 100 } unless { context.approved };
    """
    rules = rules_with(asks)
    inquiries = [
        question(GIT, posture=Posture.ASK_EACH_TIME),
        question(Facts(argv=("x",), left_out=3)),
        question(Facts(size_bytes=101)),
        question(GIT, posture=Posture.DISABLED),
        question(capabilities=()),
    ]
    suggestions = suggest(all_approved(*inquiries, rules=rules), rules)
    assert suggestions.suggestions == ()
    assert obstacles(suggestions) == [
        (Obstacle.ASKED_ANYWAY, Code.TOOL_POSTURE_ASKS, ("palyra.posture-asks",)),
        (Obstacle.FORBIDDEN, Code.FACTS_INCOMPLETE, ("palyra.incomplete",)),
        (Obstacle.ASKED_ANYWAY, Code.POLICY_ASKS, ("site.asks",)),
        (Obstacle.FORBIDDEN, Code.TOOL_DISABLED, ("palyra.posture-disabled",)),
        (Obstacle.ALREADY_ALLOWED, Code.TOOL_ALLOWLISTED, ("palyra.allowlisted-tools",)),
    ]
    assert suggestions.uncovered[2].reason == "the night is for sleeping"


@pytest.mark.parametrize(
    "facts",
    [
        Facts(workspace="site", writes=(".git/config",), protected=(".git/config",)),
        Facts(workspace="site", reads=("/etc/passwd",), outside=("/etc/passwd",)),
    ],
    ids=["protected", "outside"],
)
def test_what_is_out_of_bounds_is_always_asked(facts: Facts) -> None:
    suggestions = suggest(all_approved(question(facts)), RULES)
    assert suggestions.suggestions == ()
    assert obstacles(suggestions) == [(Obstacle.OUT_OF_BOUNDS, None, ())]


@pytest.mark.parametrize(
    "facts",
    [Facts(), Facts(workspace="site"), Facts(duration_ms=5)],
    ids=["nothing", "a workspace", "a duration"],
)
def test_calls_that_policy_cannot_tell_apart_are_always_asked(facts: Facts) -> None:
    suggestions = suggest(all_approved(question(facts), question(GIT)), RULES)
    assert [len(each.calls) for each in suggestions.suggestions] == [1]
    assert obstacles(suggestions) == [(Obstacle.NO_FACTS, None, ())]
    assert "cannot tell the calls of this tool apart" in suggestions.uncovered[0].reason
    assert with_suggestions(suggestions).judge(question(facts)).verdict is Verdict.ASK


def test_a_policy_against_waivers_takes_its_calls_out_and_leaves_the_rest() -> None:
    forbid = """
    @id("site.no-waiver")
    @reason("always ask about these")
    forbid (principal, action == Action::"approval.waive", resource)
    when { context.size_bytes > 50 };
    """
    rules = rules_with(forbid)
    inquiries = [question(WRITE), question(msgspec.structs.replace(WRITE, size_bytes=60))]
    suggestions = suggest(all_approved(*inquiries, rules=rules), rules)
    (only,) = suggestions.suggestions
    assert [each.call_id for each in only.calls] == [call_id(1)]
    assert "context.size_bytes <= 10" in only.text
    assert obstacles(suggestions) == [(Obstacle.WAIVER_FORBIDDEN, None, ("site.no-waiver",))]


def test_what_policy_was_not_asked_is_passed_over() -> None:
    unasked = approved(question(GIT))
    unasked = msgspec.structs.replace(
        unasked, past=msgspec.structs.replace(unasked.past, request=None)
    )
    assert suggest([unasked], RULES).uncovered == ()


@pytest.mark.invariant("I13")
def test_too_different_calls_are_not_put_into_one_policy() -> None:
    inquiries = [question(Facts(executable="/bin/x", argv=("x", str(n)))) for n in range(17)]
    (only,) = suggest(all_approved(*inquiries[:16], *inquiries[:16]), RULES).suggestions
    assert len(only.calls) == 32
    suggestions = suggest(all_approved(*inquiries), RULES)
    assert suggestions.suggestions == ()
    assert {each.obstacle for each in suggestions.uncovered} == {Obstacle.TOO_VARIED}
    assert len(suggestions.uncovered) == 17
    assert suggestions.uncovered[0].reason.startswith("over 16 different calls")


@pytest.mark.invariant("I13")
def test_neither_are_calls_that_are_too_long_together() -> None:
    calls = all_approved(
        *(question(Facts(executable="/bin/x", argv=("x", "y" * 6000, str(n)))) for n in range(12))
    )
    suggestions = suggest(calls, RULES)
    assert suggestions.suggestions == ()
    assert {each.reason for each in suggestions.uncovered} == {
        "the calls like it are too long for one policy"
    }


@pytest.mark.invariant("I13")
def test_only_so_many_calls_and_suggestions_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suggest_module, "MOST_CALLS", 4)
    monkeypatch.setattr(suggest_module, "MOST_SUGGESTIONS", 1)
    inquiries = [question(GIT), question(GIT), question(WRITE), question(GIT), question(GIT)]
    suggestions = suggest(all_approved(*inquiries), RULES)
    assert [len(each.calls) for each in suggestions.suggestions] == [3]
    assert suggestions.left_out == 2


def test_a_full_pack_leaves_no_room() -> None:
    pack = pack_with()
    many = [
        msgspec.structs.replace(
            pack.policies[0],
            policy_id=f"site.{number}",
            source="site.cedar",
            text=f'@id("site.{number}") @reason("r") permit (principal, action, resource);',
        )
        for number in range(MOST_POLICIES - len(pack.policies))
    ]
    full = msgspec.structs.replace(pack, policies=(*pack.policies, *many))
    with pytest.raises(ConfigError) as caught:
        suggest(all_approved(question(GIT)), Rules(full))
    assert caught.value.code is Code.POLICY_TOO_LARGE
