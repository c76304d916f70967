# SPDX-License-Identifier: Apache-2.0
"""The real gate on a store of the test's own, with a clock, ids, policy and reviewer by script.

The store is the product's ledger in a temporary folder, because admission, compare-and-set and
restart are what most promises rest on: a second implementation in memory would only be believed.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import msgspec
import orjson

from palyra.core.ids import CredentialId, RequestId
from palyra.core.principal import Assurance, Credential
from palyra.core.proposal import CallRequest
from palyra.core.session import BudgetLimits
from palyra.daemon.compose import Composition, compose
from palyra.daemon.settings import LimitsConfig, Settings, ToolCallConfig
from palyra.flow.seal.verify import Report, verify_journal
from palyra.store.sqlite.ledger import Archive
from palyra.tools.function import FunctionTool, tool
from tests.support.samples import AGENT, OPERATOR
from tests.support.scripted import CountedIds, FakeClock, FaultyStore, ScriptedReviewer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path
    from types import TracebackType

    from palyra.core.ids import CallId, RunId
    from palyra.core.ports import CallRecord, PolicyEngine, Reviewer
    from palyra.core.result import CallResult
    from palyra.core.session import Run
    from palyra.flow.gate import Gate

AGENT_CREDENTIAL = Credential(
    credential_id=CredentialId("key-of-ada"), principal=AGENT, assurance=Assurance.DEVELOPER
)
OPERATOR_CREDENTIAL = Credential(
    credential_id=CredentialId("key-of-grace"), principal=OPERATOR, assurance=Assurance.DEVELOPER
)
BUILT_IN = ("palyra.echo", "palyra.sleep")
PLENTY = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted:
    """One journal entry as a test reads it."""

    kind: str
    subject: str
    body: dict[str, Any]


class GateSimulator:
    """One process's gate. Open another on the same home to restart it, or to compete with it."""

    def __init__(  # noqa: PLR0913 - what a test may script
        self,
        home: Path,
        *,
        tools: Iterable[FunctionTool[Any, Any]] = (),
        policy: PolicyEngine | None = None,
        reviewer: Reviewer | None = None,
        clock: FakeClock | None = None,
        limits: BudgetLimits | None = None,
        burst: int = PLENTY,
        per_second: int = 1,
        max_depth: int = 4,
        timeout_ms: int = 30_000,
        series: int = 0,
    ) -> None:
        tools = tuple(tools)
        limits = limits or BudgetLimits()
        self.home = home
        self.clock = clock or FakeClock()
        self.reviewer = ScriptedReviewer()
        self.ids = CountedIds(self.clock, series=series)
        settings = Settings(
            tool_call=ToolCallConfig(
                allowed_tools=(*BUILT_IN, *(each.manifest.name for each in tools)),
                max_calls_per_run=limits.max_calls_per_run,
                max_calls_per_session=limits.max_calls_per_session,
                max_calls_per_agent_hour=limits.max_calls_per_agent_hour,
                max_depth=max_depth,
                execution_timeout_ms=timeout_ms,
            ),
            limits=LimitsConfig(proposals_per_second=per_second, proposal_burst=burst),
        )
        self.composition: Composition = compose(
            home,
            settings,
            tools=tools,
            policy=policy,
            reviewer=reviewer or self.reviewer,
            clock=self.clock,
            ids=self.ids,
        )
        self.gate: Gate = self.composition.gate
        self.store = FaultyStore(self.composition.ledger)
        self._interpose()
        self._runs: dict[Credential, Run] = {}

    def _interpose(self) -> None:
        """Put the faulty store between the stages and the ledger, which are joined by now."""
        self.gate.scribe._recorder = self.store
        stages = (self.gate.sessions, self.gate.receiver, self.gate.decider, self.gate.recall)
        for stage in stages:
            stage._store = self.store

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.composition.close()

    async def run(self, credential: Credential = AGENT_CREDENTIAL) -> RunId:
        """Return the run that all calls of a credential share."""
        if credential not in self._runs:
            self._runs[credential] = await self.gate.open_session(credential)
        return self._runs[credential].run_id

    async def call(
        self,
        tool: str = "palyra.echo",
        arguments: Mapping[str, Any] | bytes | None = None,
        *,
        credential: Credential = AGENT_CREDENTIAL,
        wait: bool = True,
        **options: Any,  # noqa: ANN401 - fields of the request
    ) -> CallResult:
        """Submit one call; ``options`` are further fields of the request."""
        request = await self.request(tool, arguments, credential=credential, **options)
        return await self.gate.submit(request, credential=credential, wait=wait)

    async def request(
        self,
        tool: str = "palyra.echo",
        arguments: Mapping[str, Any] | bytes | None = None,
        *,
        credential: Credential = AGENT_CREDENTIAL,
        **options: Any,  # noqa: ANN401 - fields of the request
    ) -> CallRequest:
        """Return a request of this credential; an echo of ``hi`` unless it says otherwise."""
        if arguments is None:
            arguments = {"text": "hi"} if tool == "palyra.echo" else {}
        raw = arguments if isinstance(arguments, bytes) else orjson.dumps(dict(arguments))
        run_id = options.pop("run_id", None) or await self.run(credential)
        if "request_id" in options:
            options["request_id"] = RequestId(options["request_id"])
        return CallRequest(tool=tool, raw_arguments=raw, run_id=run_id, **options)

    async def at_rest(self) -> None:
        """Return once no call is under way; the gate stays open."""
        async with asyncio.timeout(5):
            while under_way := tuple(self.gate.walks._under_way):
                await asyncio.wait(under_way)

    def journal(self, *, about: str | None = None) -> list[Noted]:
        """Return the journal's entries, or those about one subject."""
        return [
            Noted(kind=entry.kind, subject=entry.subject, body=orjson.loads(entry.body))
            for entry in self.composition.ledger.reads.entries()
            if about in {None, entry.subject}
        ]

    def kinds(self, *, about: str | None = None) -> list[str]:
        """Return what the entries are, in order."""
        return [noted.kind for noted in self.journal(about=about)]

    def bodies(self, kind: str) -> list[dict[str, Any]]:
        """Return what the entries of one kind say, in order."""
        return [noted.body for noted in self.journal() if noted.kind == kind]

    def journal_bytes(self) -> bytes:
        """Return the bodies of all entries."""
        return b"\n".join(entry.body for entry in self.composition.ledger.reads.entries())

    def stored_bytes(self) -> bytes:
        """Return every byte in the state directory."""
        files = [each for each in self.home.rglob("*") if each.is_file()]
        return b"\n".join(path.read_bytes() for path in files)

    def states(self) -> dict[CallId, str]:
        """Return the state of every call."""
        return {call.call_id: call.state.value for call in self.calls()}

    def calls(self) -> list[CallRecord]:
        """Return every call in the store."""
        calls = self.composition.ledger.reads.calls()
        return [call for call in calls if not isinstance(call, str)]

    def verified(self) -> Report:
        """Return what a verifier finds, which reads the store by itself."""
        archive = Archive(self.home, busy_timeout_ms=1000)
        try:
            return verify_journal(archive)
        finally:
            archive.close()


def output_of(result: CallResult) -> Any:  # noqa: ANN401 - JSON
    """Return the output of a call that succeeded."""
    assert result.outcome is not None
    assert result.outcome.ok, result.outcome
    return orjson.loads(bytes(result.outcome.output))


def failure_of(result: CallResult) -> tuple[str, str]:
    """Return how a launched call failed: its state and code."""
    assert result.outcome is not None
    assert result.outcome.error is not None
    return result.state, result.outcome.error.code


def refusal_of(result: CallResult) -> tuple[str, str]:
    """Return the state and the policy code of a call that nobody ran."""
    assert result.outcome is None
    return result.state, result.decision.code


def attested_code(simulator: GateSimulator, result: CallResult) -> str:
    """Return the code that the signed statement of a call gives for its end."""
    assert result.call_id is not None
    ended = simulator.journal(about=result.call_id)[-1]
    code: str = ended.body["attestation"]["statement"]["outcome"]["error_code"]
    return code


def told(result: CallResult) -> bytes:
    """Return everything a caller is told."""
    return msgspec.json.encode(result)


def travel(seconds: float) -> None:
    """Let the running event loop's time jump ahead."""
    loop = asyncio.get_running_loop()
    present: Callable[[], float] = loop.time
    loop.time = lambda: present() + seconds  # type: ignore[method-assign]


async def settle_down(turns: int = 20) -> None:
    """Give every other task ``turns`` chances to go on."""
    for _ in range(turns):
        await asyncio.sleep(0)


class Probe:
    """A tool that keeps count, and waits inside its body where a test wants it to."""

    def __init__(self, *, holds: bool = False) -> None:
        self.begun = 0
        self.ended = 0
        self.cancelled = 0
        self.release = asyncio.Event()
        self._entries = asyncio.Semaphore(0)
        if not holds:
            self.release.set()

        @tool(name="test.probe")
        async def probe(word: str = "") -> str:
            """Return a word once it is let."""
            self.begun += 1
            self._entries.release()
            try:
                await self.release.wait()
            except asyncio.CancelledError:
                self.cancelled += 1
                raise
            else:
                self.ended += 1
                return word

        self.tool = probe

    @property
    def running(self) -> int:
        return self.begun - self.ended - self.cancelled

    async def until_begun(self, times: int = 1) -> None:
        """Return once the body has been entered so many times more."""
        async with asyncio.timeout(5):
            for _ in range(times):
                await self._entries.acquire()
