# SPDX-License-Identifier: Apache-2.0
"""Decisions while another process compiles and activates 2,000 policies, against a quiet time.

Decisions come at a steady pace, one after the other in one thread as in a gate's event loop; here
a plain loop. Each takes up the rules in force before it decides, so one of them loads the pack.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import cycle
from math import ceil
from typing import TYPE_CHECKING, Any

from bench.harness import Experiment, Figure, Pair, Place, Round, at_most
from bench.policy_scene import (
    MANY,
    operator_policies,
    own_policy,
    pack_of,
    require_evaluations,
    scene_under,
)
from palyra.core.decision import Verdict
from palyra.core.pack import read_pack
from palyra.daemon.home import POLICIES_NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from bench.policy_scene import Scene
    from palyra.core.decision import Decision
    from palyra.core.digest import PolicyDigest

ROUNDS = 5
SAMPLES = 5000
PACE_SECONDS = 0.001
PERCENTILE = 0.99
_NOTE = (
    f"One decision each ms in one thread; at least {SAMPLES:,} while 'palyra policy stage' and"
    " 'palyra policy activate' run beside it, again and again, and as many in between, in each"
    " round. Each is a real evaluation, and rests on policies of the very pack that its digest"
    " names; that is checked."
)

ACTIVATION = Figure(
    name=f"policy activation of {MANY:,} policies while deciding, p99",
    unit="ms",
    reach=at_most(3),
    note=f"From the call to the decision. {_NOTE}",
)
SINCE_DUE = Figure(
    name=f"policy activation of {MANY:,} policies while deciding, p99 since due",
    unit="ms",
    note="From the moment at which the decision was due: whoever waits behind another one counts.",
)
STALL = Figure(
    name=f"policy activation of {MANY:,} policies while deciding, longest",
    unit="ms",
    note="The longest decision of each round: as a rule one that loads the new pack.",
)


@dataclass(slots=True)
class Samples:
    """How long decisions took, in seconds."""

    took: list[float] = field(default_factory=list)
    since_due: list[float] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.took)


@dataclass(slots=True)
class Verdicts:
    """What was decided under each pack, for a look at it afterwards."""

    policies: dict[PolicyDigest, set[tuple[str, ...]]] = field(default_factory=dict)
    latest: PolicyDigest | None = None

    def add(self, decision: Decision) -> None:
        """Take note of a decision, which must allow."""
        if decision.verdict is not Verdict.ALLOW:
            raise RuntimeError(f"decided {decision.verdict.name}: {decision.reason}")
        self.latest = decision.policy_digest
        self.policies.setdefault(decision.policy_digest, set()).add(decision.policies)


@contextmanager
def _open(place: Place) -> Iterator[Round]:
    first = pack_of(MANY)

    def measure() -> Mapping[Figure, Pair]:
        with scene_under(first, place) as scene:
            require_evaluations(scene.decider.decide, scene.reads, verdict=Verdict.ALLOW, each=1)
            busy, quiet = _measured(scene, place)
        return {
            ACTIVATION: _pair(busy.took, quiet.took, percentile),
            SINCE_DUE: _pair(busy.since_due, quiet.since_due, percentile),
            STALL: _pair(busy.took, quiet.took, max),
        }

    yield measure


class Deciding:
    """Decides at a steady pace, and remembers what the decisions rested on."""

    def __init__(self, scene: Scene) -> None:
        self.verdicts = Verdicts()
        self._decide = scene.decider.decide
        self._questions = cycle(scene.reads)  # goes on: begun anew, some would be remembered

    def until(self, is_over: Callable[[], bool], samples: Samples) -> None:
        """Decide until ``is_over``, and once more; what is late is made up for."""
        due = time.perf_counter()
        is_last = False
        while not is_last:
            is_last = is_over()
            time.sleep(max(0.0, due - time.perf_counter()))
            proposal = next(self._questions)
            began = time.perf_counter()
            decision = self._decide(proposal)
            ended = time.perf_counter()
            samples.took.append(ended - began)
            samples.since_due.append(ended - due)
            self.verdicts.add(decision)
            due += PACE_SECONDS


def _measured(scene: Scene, place: Place) -> tuple[Samples, Samples]:
    """Return what decisions took during activations and between them, in turn."""
    busy, quiet = Samples(), Samples()
    deciding = Deciding(scene)
    verdicts = deciding.verdicts
    generation = 0
    while len(busy) < SAMPLES:
        generation += 1
        before = len(busy)
        _write_policies(scene.gate.composition.home, generation)
        digest = _while_activating(
            scene.gate.composition.home,
            place.fresh(),
            decide=lambda is_over: deciding.until(is_over, busy),
        )
        if verdicts.latest != digest:
            raise RuntimeError(f"decided under {verdicts.latest}, though {digest} is in force")
        deciding.until(_after(len(busy) - before), quiet)
    if len(verdicts.policies) != generation + 1:
        raise RuntimeError(f"{len(verdicts.policies)} packs decided, not {generation + 1}")
    require_unmixed(scene, verdicts)
    return busy, quiet


def _after(decisions: int) -> Callable[[], bool]:
    """Return a question that is answered with yes when it is asked for so many decisions."""
    left = iter(range(decisions - 1))
    return lambda: next(left, None) is None


def _write_policies(home: Path, generation: int) -> None:
    """Write the operator's file; it says something else in each generation."""
    folder = home / POLICIES_NAME
    folder.mkdir(mode=0o700, exist_ok=True)
    policies = folder / "team.cedar"
    policies.write_text(operator_policies(MANY, generation=generation), encoding="utf-8")
    policies.chmod(0o600)


def _while_activating(
    home: Path, scratch: Path, *, decide: Callable[[Callable[[], bool]], None]
) -> str:
    """Decide until the command line has put a new pack into force, and return its digest."""
    printed = scratch / "printed.json"  # not a pipe: nobody reads it while we decide

    def run(*arguments: str) -> dict[str, Any]:
        command = [sys.executable, "-m", "palyra", "--json", "--home", str(home), *arguments]
        with (
            printed.open("wb") as output,
            subprocess.Popen(
                command, env=_environ(), stdout=output, stderr=subprocess.DEVNULL
            ) as process,
        ):
            decide(lambda: process.poll() is not None)
        if process.returncode != 0:
            raise RuntimeError(f"palyra {arguments[1]} failed: {printed.read_text('utf-8')}")
        told: dict[str, Any] = json.loads(printed.read_bytes())
        return told

    digest: str = run("policy", "stage")["policy_digest"]
    if not run("policy", "activate", digest)["is_changed"]:
        raise RuntimeError(f"the pack {digest} was in force before")
    return digest


def _environ() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("PALYRA_")}


def require_unmixed(scene: Scene, verdicts: Verdicts) -> None:
    """Make sure that each decision rests on policies of the pack that its digest names (I4)."""
    for digest, rested_on in verdicts.policies.items():
        kept = scene.gate.composition.ledger.pack(digest)
        if kept is None:
            raise RuntimeError(f"the pack {digest} was never staged")
        pack = {policy.policy_id for policy in read_pack(kept.body).policies}
        for policies in rested_on:
            # Each generation has a policy of its own, which no other pack holds.
            if not any(policy.startswith(own_policy(0)[:-1]) for policy in policies):
                raise RuntimeError(f"a decision rests on {policies} alone")
            if not pack.issuperset(policies):
                raise RuntimeError(f"{policies} are not all in the pack {digest}")


def percentile(seconds: Sequence[float]) -> float:
    """Return the time that 99 of 100 decisions did not exceed."""
    return sorted(seconds)[ceil(PERCENTILE * len(seconds)) - 1]


def _pair(
    busy: Sequence[float], quiet: Sequence[float], figure: Callable[[Sequence[float]], float]
) -> Pair:
    return Pair(figure(busy) * 1000, figure(quiet) * 1000)


EXPERIMENTS = (
    Experiment(
        name="policy_activation",
        group="policy",
        figures=(ACTIVATION, SINCE_DUE, STALL),
        rounds=ROUNDS,
        open=_open,
    ),
)
