# SPDX-License-Identifier: Apache-2.0
"""Ports that do what a test tells them: a clock, ids, a policy engine, a reviewer, a store."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from palyra.core.approval import Answer, Approval, Pending
from palyra.core.decision import Decision, Verdict
from palyra.core.digest import PolicyDigest, SnapshotDigest
from palyra.core.errors import Code
from palyra.core.ids import ApprovalId, ulid
from palyra.core.principal import PrincipalKind
from tests.support.samples import APPROVAL, GRANT, NOW_MS, OPERATOR

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from palyra.core.act import Act
    from palyra.core.approval import Grant
    from palyra.core.attestation import Anchor
    from palyra.core.chain import Entry
    from palyra.core.ids import CallId, RequestId, RunId, SessionId
    from palyra.core.ports import CallRecord, Recorded
    from palyra.core.principal import Principal
    from palyra.core.proposal import Proposal
    from palyra.core.session import BudgetLeft, BudgetLimits, Run, Session
    from palyra.core.transitions import Transition
    from palyra.core.workspace import Workspace
    from palyra.store.sqlite.ledger import Ledger


class FakeClock:
    """Stands still until a test moves it."""

    def __init__(self, now_ms: int = NOW_MS) -> None:
        self._now_ms = now_ms
        self._monotonic_ms = 0

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic_ms(self) -> int:
        return self._monotonic_ms

    def advance(self, milliseconds: int) -> None:
        self._now_ms += milliseconds
        self._monotonic_ms += milliseconds


class CountedIds:
    """Ids that differ between simulators of different ``series`` and repeat from test to test."""

    def __init__(self, clock: FakeClock, *, series: int = 0) -> None:
        self._clock = clock
        self._series = series
        self._count = 0

    def ulid(self) -> str:
        self._count += 1
        entropy = self._series.to_bytes(2, "big") + self._count.to_bytes(8, "big")
        return ulid(time_ms=self._clock.now_ms(), entropy=entropy)


class ScriptedPolicy:
    """Gives one verdict on everything, or one for each tool; may fail, and may change its mind."""

    def __init__(self, verdict: Verdict = Verdict.ALLOW, **by_tool: Verdict) -> None:
        self.policy_digest = PolicyDigest("e" * 64)
        self.snapshot_digest = SnapshotDigest("f" * 64)
        self.fault: Exception | None = None
        self.decided: list[tuple[str, BudgetLeft]] = []
        self._verdict = verdict
        self._by_tool = by_tool
        self._changes = 0
        self.rules_version = 0

    def refresh(self, *, at_once: bool = False) -> None:
        """Have nothing to take up: a test changes this policy itself."""

    def roles_of(self, principal: Principal) -> tuple[str, ...]:
        return ("administrator",) if principal.kind is PrincipalKind.OPERATOR else ()

    def decide_act(self, act: Act) -> Decision:
        if self.fault is not None:
            raise self.fault
        verdict = self._by_tool.get(act.action.replace(".", "_"), Verdict.ALLOW)
        return Decision(
            call_digest=act.digest,
            verdict=verdict,
            code=Code.POLICY_PERMITTED if verdict is Verdict.ALLOW else Code.POLICY_FORBIDDEN,
            reason="as scripted",
            policies=("script",),
            policy_digest=self.policy_digest,
            snapshot_digest=self.snapshot_digest,
        )

    def decide(self, proposal: Proposal, *, left: BudgetLeft) -> Decision:
        self.decided.append((proposal.tool, left))
        if self.fault is not None:
            raise self.fault
        verdict = self._by_tool.get(proposal.tool.rpartition(".")[2], self._verdict)
        codes = (Code.TOOL_ALLOWLISTED, Code.TOOL_SENSITIVE, Code.TOOL_NOT_ALLOWLISTED)
        return Decision(
            call_digest=proposal.call_digest,
            verdict=verdict,
            code=codes[verdict],
            reason="as scripted",
            policies=("script",),
            policy_digest=self.policy_digest,
            snapshot_digest=self.snapshot_digest,
        )

    def change_to(self, verdict: Verdict) -> None:
        """Put another policy in force."""
        self._changes += 1
        self._verdict, self._by_tool = verdict, {}
        self.policy_digest = PolicyDigest(f"{self._changes:064x}")


@dataclass
class Question:
    """What a scripted reviewer was asked, and the answer once a test gives it."""

    approval_id: ApprovalId
    proposal: Proposal
    answer: asyncio.Future[Answer] = field(default_factory=asyncio.Future)


class ScriptedReviewer:
    """Leaves every question pending until a test answers it; may answer at once, fail or hang."""

    def __init__(self) -> None:
        self.questions: dict[ApprovalId, Question] = {}
        self.announced: list[ApprovalId] = []
        self.at_once: Callable[[Proposal], Answer] | None = None
        self.faults: dict[str, Exception] = {}
        self.on_ask: Callable[[], Awaitable[object]] | None = None
        self.waiting = 0

    async def ask(self, proposal: Proposal, decision: Decision) -> Answer | Pending:
        assert decision.verdict is Verdict.ASK
        if self.on_ask is not None:
            await self.on_ask()
        self._fail("ask")
        if self.at_once is not None:
            return self.at_once(proposal)
        count = len(self.questions) + 1
        approval_id = ApprovalId(ulid(time_ms=NOW_MS, entropy=count.to_bytes(10, "big")))
        self.questions[approval_id] = Question(approval_id, proposal)
        return Pending(approval_id=approval_id)

    async def announce(self, pending: Pending) -> None:
        self._fail("announce")
        self.announced.append(pending.approval_id)

    async def wait(self, approval_id: ApprovalId) -> Answer:
        self._fail("wait")
        self.waiting += 1
        try:
            return await asyncio.shield(self.questions[approval_id].answer)
        finally:
            self.waiting -= 1

    @property
    def latest(self) -> Question:
        return next(reversed(self.questions.values()))

    def reply(self, answer: Answer, *, to: Question | None = None) -> None:
        """Answer a question; an approval that names no other question is of this one."""
        question = to or self.latest
        if isinstance(answer, Approval) and answer.approval_id == APPROVAL.approval_id:
            answer = msgspec.structs.replace(answer, approval_id=question.approval_id)
        question.answer.set_result(answer)

    def approve(self, **changes: Any) -> None:  # noqa: ANN401 - fields of an approval
        """Approve the latest question, with ``changes`` to what would be a good approval."""
        self.reply(approval_of(self.latest.proposal, **changes))

    def _fail(self, where: str) -> None:
        if where in self.faults:
            raise self.faults[where]


def approval_of(proposal: Proposal, **changes: Any) -> Approval:  # noqa: ANN401 - its fields
    """Return an operator's approval of exactly this call, with ``changes``."""
    good = {
        "call_digest": proposal.call_digest,
        "plan_digest": proposal.plan_digest,
        "decided_by": OPERATOR,
    }
    return msgspec.structs.replace(APPROVAL, **(good | changes))


def grant_of(proposal: Proposal, **changes: Any) -> Grant:  # noqa: ANN401 - its fields
    """Return a grant that covers exactly this call, with ``changes``."""
    good = {
        "principal": proposal.principal,
        "call_digest": proposal.call_digest,
        "plan_digest": proposal.plan_digest,
    }
    return msgspec.structs.replace(GRANT, **(good | changes))


class FaultyStore:
    """The ledger, until a test says where it fails. Keeps what was put before it."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.put: list[Transition] = []
        self.fails: Callable[[Transition], Exception | None] = lambda _: None
        self.hold: asyncio.Event | None = None
        self.read_fault: Exception | None = None

    async def record(self, transition: Transition) -> Recorded:
        fault = self.fails(transition)
        self.put.append(transition)
        if fault is not None:
            raise fault
        if self.hold is not None:
            await self.hold.wait()
        return await self._ledger.record(transition)

    @property
    def anchor(self) -> Anchor:
        return self._ledger.anchor

    def session(self, session_id: SessionId) -> Session | None:
        return self._reads().session(session_id)

    def run(self, run_id: RunId) -> Run | None:
        return self._reads().run(run_id)

    def call(self, call_id: CallId) -> CallRecord | None:
        return self._reads().call(call_id)

    def budget_left(
        self, subject: Run | Proposal, *, limits: BudgetLimits, at_ms: int
    ) -> BudgetLeft:
        return self._reads().budget_left(subject, limits=limits, at_ms=at_ms)

    def workspaces(self) -> tuple[Workspace, ...]:
        return self._reads().workspaces()

    def by_request(self, principal: Principal, request_id: RequestId) -> CallRecord | None:
        return self._reads().by_request(principal, request_id)

    def of_subject(self, subject: str) -> tuple[Entry, ...]:
        return self._reads().of_subject(subject)

    def _reads(self) -> Ledger:
        if self.read_fault is not None:
            raise self.read_fault
        return self._ledger
