# SPDX-License-Identifier: Apache-2.0
"""What the policy benchmarks share: packs of a given size, a gate under one, and its questions.

Palyra remembers judgements on questions that look the same to every policy concerned. No figure
with a reach may be served from that memory: the operator's policy below looks at paths, no two
questions name the same path, and :func:`require_evaluations` counts what Cedar was really asked.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle, islice
from typing import TYPE_CHECKING, Any

import cedarpy

from palyra.core.canonical import canonicalize
from palyra.core.pack import NOBODY, Pack
from palyra.core.proposal import CallRequest, Malformed, Proposal
from palyra.daemon.embedded import EmbeddedGate
from palyra.daemon.local_identity import local_agent, local_operator
from palyra.flow.policy.compile import compile_pack
from palyra.flow.policy.presets import DEFAULT_PRESET, packaged_sources
from palyra.flow.policy.sources import Source
from palyra.flow.policy.statements import statements_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from bench.harness import Place
    from palyra.core.decision import Decision, Verdict
    from palyra.core.session import Run
    from palyra.flow.policy.decide import Decider

FEW = 20
MANY = 2000
QUESTIONS = 256
"""More than Palyra remembers of one caller and tool, so that asking them in a circle helps not."""

AGENT = "builder"
OTHER_AGENT = "clerk"
WORKSPACE = "project"

_FILES = """\
@id("{policy_id}")
@reason("agents work on files, but not below secrets/")
permit (principal is Agent, action == Action::"tool.execute", resource in ToolGroup::"palyra.fs")
when {{
  context has files && !(context.files.reads_under like "secrets*") &&
  !(context.files.writes_under like "secrets*")
}};
"""

_ELSEWHERE = (
    """\
permit (
  principal == Agent::"worker-{n}",
  action == Action::"tool.execute",
  resource == Tool::"crm.customer.lookup_{n}"
)
when {{ context.size_bytes < 65536 && context.depth == 0 }};
""",
    """\
forbid (
  principal == Agent::"worker-{n}",
  action in [Action::"tool.execute", Action::"tool.preview"],
  resource in ToolGroup::"billing.region_{n}"
)
unless {{ context.approved }};
""",
    """\
permit (
  principal in Group::"team-{n}",
  action == Action::"skill.execute",
  resource == Skill::"summarise-{n}"
)
when {{ context.is_channel_allowed && context.risk != "high" }};
""",
    """\
forbid (principal, action == Action::"tool.execute", resource in ToolGroup::"vendor_{n}")
when {{ context has network && context.network.hosts.contains("internal-{n}.example.com") }};
""",
    """\
permit (
  principal in Role::"keeper-{n}",
  action in [Action::"vault.list", Action::"vault.get"],
  resource in SecretScope::"project-{n}"
)
when {{ context.approved && context.time.hour >= 7 && context.time.hour < 19 }};
""",
    """\
forbid (principal == Agent::"worker-{n}", action == Action::"tool.execute", resource)
when {{ context has process && context.process.command like "git push*" }}
unless {{ context.approved }};
""",
    """\
permit (
  principal == Service::"nightly-{n}",
  action in [Action::"cron.run", Action::"cron.logs"],
  resource == Job::"report-{n}"
);
""",
    """\
permit (
  principal == Operator::"operator-{n}",
  action == Action::"channel.send",
  resource == Channel::"room-{n}"
)
when {{ context.budget.run > 0 }};
""",
)
"""What fills a large pack: policies about other agents, tools and actions, as teams have them."""


def own_policy(generation: int) -> str:
    """Return the id of the one operator's policy that decides about the questions here."""
    return f"team.files-{generation}"


def operator_policies(policies: int, *, generation: int = 0) -> str:
    """Return what an operator writes so that there are so many policies with the packaged ones."""
    packaged = sum(
        1 for source in packaged_sources(DEFAULT_PRESET) for _ in statements_in(source.text)
    )
    fillers = policies - packaged - 1
    if fillers < 0:
        raise RuntimeError(f"{packaged} policies are packaged, which leaves no room for others")
    texts = [_FILES.format(policy_id=own_policy(generation))]
    for n in range(fillers):
        body = _ELSEWHERE[n % len(_ELSEWHERE)].format(n=n)
        texts.append(f'@id("team.rule-{n}")\n@reason("rule {n} of the team")\n{body}')
    return "\n".join(texts)


def pack_of(policies: int, *, generation: int = 0) -> Pack:
    """Return a compiled pack of so many policies in all."""
    own = Source("team.cedar", operator_policies(policies, generation=generation))
    pack = compile_pack(
        (*packaged_sources(DEFAULT_PRESET), own), preset=DEFAULT_PRESET, members=NOBODY
    )
    if not isinstance(pack, Pack):
        raise RuntimeError(str(pack[0]))  # noqa: TRY004 - of the texts here, not of a type
    if len(pack.policies) != policies:
        raise RuntimeError(f"the pack holds {len(pack.policies)} policies, not {policies}")
    return pack


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A gate as it is in production, under one pack, and calls that were proposed to it."""

    gate: EmbeddedGate
    decider: Decider
    reads: tuple[Proposal, ...]
    """Each reads another file: allowed."""
    writes: tuple[Proposal, ...]
    """Each writes another file: a human is asked."""
    known_read: Proposal
    """By another agent, who asks for nothing else."""


@contextmanager
def scene_under(pack: Pack, place: Place) -> Iterator[Scene]:
    """Open a gate on a new home and put ``pack`` into force."""
    gate = EmbeddedGate.open(place.fresh(), environ={})
    try:
        yield asyncio.run(_prepared(gate, pack, place))
    finally:
        asyncio.run(gate.close())


async def _prepared(gate: EmbeddedGate, pack: Pack, place: Place) -> Scene:
    operations = gate.composition.operations
    await operations.stage_pack(pack, credential=local_operator())
    await operations.activate_pack(pack.digest, credential=local_operator(), reason="benchmark")
    await gate.add_workspace(place.fresh(), name=WORKSPACE)
    builder, clerk = await _run_of(gate, AGENT), await _run_of(gate, OTHER_AGENT)
    return Scene(
        gate=gate,
        decider=gate.composition.gate.decider,
        reads=tuple(_read(gate, builder, n) for n in range(QUESTIONS)),
        writes=tuple(_write(gate, builder, n) for n in range(QUESTIONS)),
        known_read=_read(gate, clerk, 0),
    )


async def _run_of(gate: EmbeddedGate, agent: str) -> Run:
    """Return a run with one call behind it, so that its budgets are known as they usually are."""
    credential = local_agent(agent)
    run = await gate.composition.gate.open_session(credential)
    await gate.call("palyra.echo", {"text": "hello"}, agent=agent, run_id=run.run_id)
    return run


def _read(gate: EmbeddedGate, run: Run, n: int) -> Proposal:
    return _proposal(gate, run, "palyra.fs.read", {"path": f"src/module_{n}.py"})


def _write(gate: EmbeddedGate, run: Run, n: int) -> Proposal:
    arguments = {"path": f"src/module_{n}.py", "content": f"VALUE = {n}\n"}
    return _proposal(gate, run, "palyra.fs.write", arguments)


def _proposal(gate: EmbeddedGate, run: Run, tool: str, arguments: Mapping[str, str]) -> Proposal:
    request = CallRequest(tool=tool, raw_arguments=canonicalize(dict(arguments)), run_id=run.run_id)
    proposal = gate.composition.gate.receiver.receive(request, run=run)
    if isinstance(proposal, Malformed):
        raise RuntimeError(proposal.reason)  # noqa: TRY004 - of the call here, not of a type
    return proposal


@contextmanager
def counted_evaluations() -> Iterator[Callable[[], int]]:
    """Count what Cedar is asked within. Not for timed passes."""
    counted = 0
    original = cedarpy.is_authorized

    def counting(*arguments: Any, **options: Any) -> cedarpy.AuthzResult:  # noqa: ANN401
        nonlocal counted
        counted += 1
        return original(*arguments, **options)

    cedarpy.is_authorized = counting
    try:
        yield lambda: counted
    finally:
        cedarpy.is_authorized = original


def require_evaluations(
    decide: Callable[[Proposal], Decision],
    proposals: Sequence[Proposal],
    *,
    verdict: Verdict,
    each: int,
) -> None:
    """Go round twice and make sure that each decision is ``verdict``, from ``each`` evaluations.

    Whatever is remembered from the first round would show in the second.
    """
    for _ in range(2):
        for proposal in proposals:
            with counted_evaluations() as counted:
                decision = decide(proposal)
            if decision.verdict is not verdict:
                raise RuntimeError(f"decided {decision.verdict.name}: {decision.reason}")
            if counted() != each:
                raise RuntimeError(f"Cedar was asked {counted()} times, not {each}")


class Side:
    """Something to be called with one item after the other, round and round."""

    def __init__(self, call: Callable[[Any], object], items: Iterable[Any], *, calls: int) -> None:
        """Take what to call, what with, and how often in each turn."""
        self.calls = calls
        self._call = call
        self._items = cycle(items)

    def seconds(self) -> float:
        """Return how long one turn takes; the next one goes on where it ended."""
        items = tuple(islice(self._items, self.calls))
        call = self._call
        began = time.perf_counter()
        for item in items:
            call(item)
        return time.perf_counter() - began


def microseconds(sides: Mapping[str, Side], *, turns: int) -> dict[str, float]:
    """Return what one call takes on each side; the sides take turns, so they meet the same load."""
    seconds = dict.fromkeys(sides, 0.0)
    for _ in range(turns):
        for name, side in sides.items():
            seconds[name] += side.seconds()
    return {name: seconds[name] / (turns * side.calls) * 1e6 for name, side in sides.items()}
