# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import msgspec
import pytest

from palyra.core.chain import Entry
from palyra.core.decision import Verdict
from palyra.core.errors import Code, IntegrityError
from palyra.core.events import CallDecided, CallLaunched, read_event
from palyra.core.facts import Facts
from palyra.core.lifecycle import CallState
from palyra.core.policy_request import PolicyRequest
from palyra.core.posture import Posture
from palyra.core.session import BudgetLeft
from palyra.flow.policy.replay import (
    ChangedDecision,
    Direction,
    is_reproduced,
    past_decision,
    past_decisions,
    replay,
)
from tests.support.journals import build_home
from tests.support.past_calls import TOOL, decided_by, past, question, rules_with
from tests.support.samples import AGENT, NOW_MS
from tests.support.store import (
    admit,
    call_id,
    decided,
    ledger_with_run,
    open_archive,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from palyra.flow.policy.rules import Rules
    from palyra.store.sqlite.ledger import Archive, Ledger

WAIVER = f"""
@id("site.waiver")
@reason("it is harmless")
permit (principal, action == Action::"approval.waive", resource == Tool::"{TOOL}");
"""
FORBID = f"""
@id("site.forbid")
@reason("not here")
forbid (principal, action == Action::"tool.execute", resource == Tool::"{TOOL}");
"""
DEMAND = """
@id("site.demand")
@reason("not for long")
@timeout_ms("5")
permit (principal, action == Action::"tool.execute", resource)
when { context.is_allowlisted_tool };
"""


@pytest.fixture(scope="module")
def rules() -> Rules:
    return rules_with()


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    yield from ledger_with_run(tmp_path / "home")


@pytest.fixture
def journal(ledger: Ledger, tmp_path: Path) -> Iterator[Archive]:
    """Read what the ledger wrote, as another process would."""
    assert ledger.reads.size() > 0
    with closing(open_archive(tmp_path / "home")) as archive:
        yield archive


def entry_of(event: CallDecided, *, index: int = 7) -> Entry:
    return Entry(
        index=index,
        recorded_at_ms=NOW_MS,
        kind=event.kind,
        subject=event.subject,
        body=msgspec.json.encode(event),
        link=b"",
    )


@pytest.mark.invariant("I2")
def test_decisions_are_read_back_from_the_journal(
    ledger: Ledger, journal: Archive, rules: Rules
) -> None:
    asked, harmless = question(), question(capabilities=())
    for number, inquiry in ((1, asked), (2, harmless)):
        event = decided_by(rules, inquiry, number=number)
        launched = admit(number).events[1]
        ledger.record_now(admit(number, events=(event, launched)))
    ledger.record_now(admit(3, CallState.DENIED))  # without a question to policy
    first, second, third = past_decisions(journal)
    assert first == past(asked, rules, entry=first.entry, at_ms=first.at_ms)
    assert first.entry == 4  # after the log, the session and the run
    assert second == past(harmless, rules, number=2, entry=second.entry, at_ms=second.at_ms)
    assert (third.call_id, third.request) == (call_id(3), None)
    assert replay(past_decisions(journal), rules).skipped == 1


def test_only_decisions_since_a_time_are_read(ledger: Ledger, journal: Archive) -> None:
    ledger.record_now(admit(1))
    (only,) = past_decisions(journal, since_ms=NOW_MS)
    assert not list(past_decisions(journal, since_ms=only.at_ms + 1))
    assert list(past_decisions(journal, since_ms=only.at_ms)) == [only]


async def test_the_rules_in_force_reproduce_a_whole_journal(tmp_path: Path) -> None:
    """Except for what others did after policy had spoken, and what never came to policy."""
    (tmp_path / "work" / "inner").mkdir(parents=True)
    (tmp_path / "work" / "notes.txt").write_text("notes\n")
    await build_home(tmp_path / "home", tmp_path / "work")
    with closing(open_archive(tmp_path / "home")) as archive:
        decisions = list(past_decisions(archive))
    rules = rules_with()
    result = replay(decisions, rules)
    assert result.examined > 10
    assert result.skipped > 0
    assert {change.is_overtaken for change in result.changes} <= {True}
    assert (result.widening, result.narrowing) == (0, 0)
    for decision in decisions:
        changed = {change.call_id for change in result.changes}
        expected = decision.request is not None and decision.call_id not in changed
        assert is_reproduced(decision, rules) is expected


def test_nothing_changes_under_the_same_rules(rules: Rules) -> None:
    decisions = [past(question(), rules), past(question(capabilities=()), rules, number=2)]
    result = replay(decisions, rules)
    assert (result.examined, result.unchanged, result.changes) == (2, 2, ())
    assert result.left_out == 0


def test_a_waiver_widens(rules: Rules) -> None:
    result = replay([past(question(), rules)], rules_with(WAIVER))
    assert result.changes == (
        ChangedDecision(
            call_id=call_id(1),
            tool=TOOL,
            principal=str(AGENT),
            at_ms=NOW_MS + 1,
            direction=Direction.WIDENING,
            before=Verdict.ASK,
            after=Verdict.ALLOW,
            code_before="tool.sensitive",
            code_after="policy.waived",
            policies_before=("palyra.sensitive-needs-approval",),
            policies_after=("palyra.allowlisted-tools", "site.waiver"),
            is_overtaken=False,
        ),
    )
    assert (result.widening, result.narrowing, result.other) == (1, 0, 0)


@pytest.mark.parametrize(
    ("before", "after", "direction"),
    [
        pytest.param("", FORBID, Direction.NARROWING, id="a-forbid-narrows"),
        pytest.param(FORBID, "", Direction.WIDENING, id="a-forbid-less-widens"),
        pytest.param(WAIVER, "", Direction.NARROWING, id="a-waiver-less-narrows"),
        pytest.param(WAIVER, WAIVER + DEMAND, Direction.NARROWING, id="a-demand-narrows"),
        pytest.param(WAIVER + DEMAND, WAIVER, Direction.WIDENING, id="a-demand-less-widens"),
        pytest.param(
            WAIVER + DEMAND,
            WAIVER + DEMAND.replace('"5"', '"6"'),
            Direction.WIDENING,
            id="more-time-widens",
        ),
        pytest.param(
            WAIVER,
            WAIVER.replace("site.waiver", "site.renamed"),
            Direction.OTHER,
            id="another-policy-is-another-ground",
        ),
    ],
)
def test_the_direction_of_a_change(before: str, after: str, direction: Direction) -> None:
    result = replay([past(question(), rules_with(before))], rules_with(after))
    assert [change.direction for change in result.changes] == [direction]
    assert {
        Direction.WIDENING: result.widening,
        Direction.NARROWING: result.narrowing,
        Direction.OTHER: result.other,
    }[direction] == 1


def test_posture_and_budget_are_those_of_that_moment(rules: Rules) -> None:
    asked = question(capabilities=(), posture=Posture.ASK_EACH_TIME)
    spent = question(capabilities=(), left=BudgetLeft(run=0, session=9, agent_hour=9))
    decisions = [past(asked, rules), past(spent, rules, number=2)]
    assert [decision.code for decision in decisions] == ["tool.posture_asks", "budget.exhausted"]
    assert replay(decisions, rules).unchanged == 2
    assert replay(decisions, rules_with(WAIVER)).unchanged == 2
    changes = replay(decisions, rules_with(FORBID)).changes
    assert [(change.direction, change.is_overtaken) for change in changes] == [
        (Direction.NARROWING, False),
        (Direction.OTHER, False),  # refused then and now, on other grounds
    ]


@pytest.mark.parametrize("code", [Code.BUDGET_EXHAUSTED, Code.POLICY_CHANGED])
def test_what_others_did_after_policy_spoke_is_no_widening(rules: Rules, code: Code) -> None:
    refused = past(
        question(capabilities=()), rules, verdict=Verdict.FORBID, code=code.value, policies=()
    )
    result = replay([refused], rules)
    (change,) = result.changes
    assert change.is_overtaken
    assert (change.before, change.after) == (Verdict.FORBID, Verdict.ALLOW)
    assert (change.direction, result.other) == (Direction.OTHER, 1)
    assert not is_reproduced(refused, rules)


@pytest.mark.invariant("I13")
def test_no_more_changes_are_listed_than_asked_for_and_the_rest_is_counted(rules: Rules) -> None:
    decisions = [past(question(), rules, number=number) for number in range(1, 6)]
    result = replay(decisions, rules_with(WAIVER), limit=2)
    assert [change.call_id for change in result.changes] == [call_id(1), call_id(2)]
    assert (result.examined, result.unchanged, result.widening, result.left_out) == (5, 0, 5, 3)


def test_progress_is_told(rules: Rules) -> None:
    told: list[int] = []
    decision = past(question(capabilities=()), rules)
    replay([decision] * 2500, rules, progress=told.append)
    assert told == [1000, 2000]


def test_only_the_same_answer_on_the_same_grounds_is_reproduced(rules: Rules) -> None:
    decision = past(question(Facts(argv=("ls",), executable="/bin/ls")), rules)
    assert is_reproduced(decision, rules)
    for changes in (
        {"verdict": Verdict.ALLOW},
        {"code": "policy.asks"},
        {"policies": ("another",)},
        {"request": None},
    ):
        assert not is_reproduced(msgspec.structs.replace(decision, **changes), rules)
    assert not is_reproduced(decision, rules_with(WAIVER))


@pytest.mark.parametrize(
    "context",
    [b"[]", b'{"a":1}', b'"x"', b'{"budget":{"run":1}}'],
)
def test_a_question_that_nobody_could_have_put_is_named(rules: Rules, context: bytes) -> None:
    decision = past(question(), rules, entry=12)
    assert decision.request is not None
    request = msgspec.structs.replace(decision.request, context=msgspec.Raw(context))
    with pytest.raises(IntegrityError, match="entry 12 holds no question to policy") as caught:
        replay([msgspec.structs.replace(decision, request=request)], rules)
    assert caught.value.code is Code.JOURNAL_BROKEN


def test_a_question_that_does_not_fit_the_schema_is_refused_and_not_remembered(
    rules: Rules,
) -> None:
    good = past(question(capabilities=()), rules)
    assert good.request is not None
    context = bytes(good.request.context).replace(b'"run":', b'"depth":"none","run":')
    odd = PolicyRequest(
        **{
            **{name: getattr(good.request, name) for name in good.request.__struct_fields__},
            "context": msgspec.Raw(context),
        }
    )
    result = replay([good, msgspec.structs.replace(good, request=odd), good], rules)
    assert [change.code_after for change in result.changes] == ["policy.request_invalid"]


def test_an_entry_that_cannot_be_read_is_named() -> None:
    entry = entry_of(decided(1))
    for body in (b"", b"{}", b"\xff", b"[" * 100_000):
        broken = msgspec.structs.replace(entry, body=body)
        with pytest.raises(IntegrityError, match=r"entry 7 is not a call\.decided event"):
            past_decision(broken)
    with pytest.raises(IntegrityError, match=r"entry 7 is not a call\.launched event"):
        read_event(entry, CallLaunched)


def test_an_unknown_verdict_is_named() -> None:
    event = decided(1)
    record = msgspec.structs.replace(event.decision, verdict="perhaps")
    with pytest.raises(IntegrityError, match="entry 7 has an unknown verdict"):
        past_decision(entry_of(msgspec.structs.replace(event, decision=record)))
