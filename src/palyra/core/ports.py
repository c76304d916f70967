# SPDX-License-Identifier: Apache-2.0
"""What the flow needs from outside, as protocols. Adapters implement them; wiring joins them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Protocol

import msgspec

from palyra.core.chain import Entry, Receipt, SignedHead
from palyra.core.digest import PolicyDigest
from palyra.core.ids import (
    ApprovalId,
    CallId,
    InstanceId,
    KeyId,
    RequestId,
    RunId,
    SessionId,
)
from palyra.core.lifecycle import CallState
from palyra.core.principal import Principal
from palyra.core.proposal import Proposal
from palyra.core.transitions import Admission, Transition

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from palyra.core.act import Act
    from palyra.core.approval import Answer, Pending
    from palyra.core.attestation import Anchor
    from palyra.core.decision import Decision
    from palyra.core.digest import SnapshotDigest
    from palyra.core.events import PlannedChange
    from palyra.core.execution import Execution
    from palyra.core.manifest import ToolManifest
    from palyra.core.permit import Permit
    from palyra.core.posture import PostureSetting
    from palyra.core.result import CallResult
    from palyra.core.session import BudgetLeft, BudgetLimits, Run, Session
    from palyra.core.workspace import Workspace


class Clock(Protocol):
    """Time, as a dependency."""

    def now_ms(self) -> int:
        """Return unix milliseconds."""

    def monotonic_ms(self) -> int:
        """Return milliseconds that never go backwards, for durations only."""


class IdSource(Protocol):
    """Fresh identifiers."""

    def ulid(self) -> str:
        """Return a new ULID."""


class Signer(Protocol):
    """The journal's signing key; the key itself never leaves the adapter."""

    @property
    def key_id(self) -> KeyId:
        """Identify the public key."""

    @property
    def public_key(self) -> bytes:
        """The raw Ed25519 public key."""

    def sign(self, message: bytes) -> bytes:
        """Return the Ed25519 signature of ``message``."""


class Catalogue(Protocol):
    """The tools there are."""

    def find(self, name: str) -> ToolManifest | None:
        """Return the manifest of exactly this name."""

    def nearest(self, name: str) -> str | None:
        """Return the known name closest to an unknown one."""


class RulesInForce(msgspec.Struct, frozen=True, kw_only=True):
    """Which rules hold: the version counts every change of policies and postures."""

    version: int
    policy_digest: PolicyDigest


class StagedPack(msgspec.Struct, frozen=True, kw_only=True):
    """A policy pack that is kept."""

    policy_digest: PolicyDigest
    staged_at_ms: int
    was_active: bool
    body: bytes


class RulesStore(Protocol):
    """Reads of policies and postures."""

    def rules_version(self) -> int:
        """Count the changes of the rules so far; 0 before the first start. Asked at each call."""

    def rules_in_force(self) -> RulesInForce | None:
        """Return which rules hold at this moment; ``None`` before the first start."""

    def pack(self, policy_digest: PolicyDigest) -> StagedPack | None:
        """Return a kept pack."""

    def packs(self) -> tuple[StagedPack, ...]:
        """Return the kept packs without their bodies, the latest first."""

    def postures(self) -> tuple[PostureSetting, ...]:
        """Return every posture that is set, expired or not."""


class PolicyEngine(Protocol):
    """Stage 2. Never raises for a call it dislikes; what it cannot decide it forbids (I1)."""

    def refresh(self, *, at_once: bool = False) -> None:
        """Take up what has changed in the rules; decisions until then rest on the old ones.

        Calls that come together may be decided by what was looked up for the first of them; whoever
        was told that the rules have changed asks ``at_once``.
        """

    @property
    def rules_version(self) -> int:
        """Count the changes of the rules as far as they were taken up."""

    @property
    def policy_digest(self) -> PolicyDigest:
        """Identify the active policies."""

    @property
    def snapshot_digest(self) -> SnapshotDigest:
        """Identify the configuration in force."""

    def decide(self, proposal: Proposal, *, left: BudgetLeft) -> Decision:
        """Return the verdict on ``proposal``."""

    def decide_act(self, act: Act) -> Decision:
        """Return the verdict on what somebody wants to manage."""

    def roles_of(self, principal: Principal) -> tuple[str, ...]:
        """Return the roles that the rules give to somebody."""


class Reviewer(Protocol):
    """Stage 3: asks a human, and waits without holding anything."""

    async def ask(self, proposal: Proposal, decision: Decision) -> Answer | Pending:
        """Answer from what is known, or prepare a question. Nobody is told yet."""

    async def announce(self, pending: Pending) -> None:
        """Tell operators of a question that is durable by now."""

    async def wait(self, approval_id: ApprovalId) -> Answer:
        """Return the answer to a question put earlier, once there is one."""


class EffectLog(Protocol):
    """Where an executor records the exact changes it is about to make, before it makes them."""

    async def plan(
        self, *, workspace: str, staging: str, changes: tuple[PlannedChange, ...]
    ) -> None:
        """Return once the plan is durable (I7)."""


class NestedCall(Protocol):
    """How a running tool calls another tool: through the same gate, on the same budget."""

    def __call__(self, tool: str, raw_arguments: bytes) -> Awaitable[CallResult]:
        """Propose a child call and wait for its result."""


class ExecutionContext(msgspec.Struct, frozen=True, kw_only=True):
    """What the gate hands to an executor besides the permit."""

    effects: EffectLog
    nested: NestedCall
    on_clock: Callable[[Clockwork], None]


class Clockwork(Protocol):
    """A running time limit that can be stopped and continued."""

    def pause(self) -> None:
        """Stop counting."""

    def resume(self) -> None:
        """Go on counting with what was left."""


class ToolExecutor(Protocol):
    """Stage 4. Takes only a permit; turns every failure of the tool into an outcome."""

    async def execute(
        self, proposal: Proposal, permit: Permit, context: ExecutionContext
    ) -> Execution:
        """Run the call and say what was observed."""


class CallRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What the store knows of one call."""

    call_id: CallId
    principal: Principal
    session_id: SessionId
    run_id: RunId
    state: CallState
    approval_id: ApprovalId | None
    request_id: RequestId | None
    call_digest: str
    owner: InstanceId | None
    kept_proposal: Proposal | None
    ending: bytes
    """What the journal keeps only by digest: see :class:`palyra.core.result.Ending`."""


class Recorded(msgspec.Struct, frozen=True, kw_only=True):
    """A transition is durable: its admission where it was one, and where its last entry is."""

    admission: Admission | None
    prove: Callable[[], Receipt] | None
    """``None`` when nothing was recorded: the admission says why."""

    @property
    def receipt(self) -> Receipt | None:
        """The proof that the last entry is durable; made when it is asked for, as few are."""
        return self.prove() if self.prove is not None else None


class Recorder(Protocol):
    """The one way into the journal: a state change and its entries, durable or not at all."""

    async def record(self, transition: Transition) -> Recorded:
        """Return once the transition is durable. Raises ``StoreError`` if it is not (I7)."""

    @property
    def anchor(self) -> Anchor:
        """The latest place in the journal this process has seen durable."""


class CallStore(Protocol):
    """Reads of the state that transitions change."""

    def session(self, session_id: SessionId) -> Session | None:
        """Return an issued session."""

    def run(self, run_id: RunId) -> Run | None:
        """Return an issued run."""

    def call(self, call_id: CallId) -> CallRecord | None:
        """Return a recorded call."""

    def budget_left(
        self, subject: Run | Proposal, *, limits: BudgetLimits, at_ms: int
    ) -> BudgetLeft:
        """Return what each budget of this run and its caller still has."""

    def workspaces(self) -> tuple[Workspace, ...]:
        """Return the registered workspaces."""

    def by_request(self, principal: Principal, request_id: RequestId) -> CallRecord | None:
        """Return the call that used this request id."""

    def of_subject(self, subject: str) -> tuple[Entry, ...]:
        """Return the journal's entries about a call, in order."""


class JournalReader(Protocol):
    """Reads of the journal and of the state it must agree with, for people and verifiers."""

    def snapshot(self) -> AbstractContextManager[None]:
        """Let all reads within see one moment, whatever is written meanwhile."""

    def entries(self, *, first: int = 1, last: int | None = None) -> Iterator[Entry]:
        """Yield entries in order."""

    def of_subject(self, subject: str) -> tuple[Entry, ...]:
        """Return the entries about one call, session or other subject, in order."""

    def of_kind(self, kind: str, *, since_ms: int = 0) -> Iterator[Entry]:
        """Yield the entries of one kind recorded at or after a time, in order."""

    def attested_at(self, attestation_id: str) -> int | None:
        """Return the index of the entry that holds an attestation."""

    def size(self) -> int:
        """Return the index of the last entry."""

    def heads(self, *, first: int = 1) -> Iterator[tuple[int, SignedHead | None]]:
        """Yield the entries with a signed head beside them, and ``None`` for an unreadable one."""

    def kept_head(self) -> SignedHead | None:
        """Return the head that is kept outside the database."""

    def calls(self) -> Iterator[CallRecord | CallId]:
        """Yield every call, oldest first; only its id where it cannot be read."""

    def sessions(self) -> Iterator[Session | SessionId]:
        """Yield every session; only its id where it cannot be read."""

    def runs(self) -> Iterator[Run | RunId]:
        """Yield every run with the identity of its session; only its id where it has none."""

    def workspaces(self) -> tuple[Workspace, ...]:
        """Return the registered workspaces."""

    def charges(self) -> Iterator[tuple[str, str, int]]:
        """Yield the calls charged so far: to each ``run``, ``session`` and ``agent``, by name."""

    def rules_in_force(self) -> RulesInForce | None:
        """Return which rules hold at this moment; ``None`` before the first start."""

    def pack(self, policy_digest: PolicyDigest) -> StagedPack | None:
        """Return a kept pack."""

    def packs(self) -> tuple[StagedPack, ...]:
        """Return the kept packs without their bodies, the latest first."""

    def postures(self) -> tuple[PostureSetting, ...]:
        """Return every posture that is set, expired or not."""

    def damage(self) -> Iterator[str]:
        """Yield what is wrong with the store's own pages and indexes."""
