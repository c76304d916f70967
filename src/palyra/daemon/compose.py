# SPDX-License-Identifier: Apache-2.0
"""Builds every object once, from the settings, and joins them behind one gate."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from palyra.core.canonical import canonicalize
from palyra.core.errors import Code, IntegrityError
from palyra.core.events import ConfigApplied, PolicyActivated
from palyra.core.ids import LogId
from palyra.core.transitions import ActivatePack, Note
from palyra.daemon.clock import SystemClock, UlidSource
from palyra.daemon.function_body import function_body
from palyra.daemon.home import prepare_home
from palyra.daemon.local_identity import ASSURANCE, local_operator
from palyra.daemon.recovery import recover_interrupted
from palyra.daemon.settings import Settings, budget_limits, snapshot
from palyra.flow.gate import Gate
from palyra.flow.intake.rate import Allowance, ProposalRate
from palyra.flow.intake.receive import Receiver
from palyra.flow.intake.schema import ArgumentSchema
from palyra.flow.intake.sessions import Sessions
from palyra.flow.operations import Operations
from palyra.flow.policy.decide import Decider
from palyra.flow.policy.engine import CedarPolicy
from palyra.flow.policy.inquiry import Inquiries
from palyra.flow.policy.presets import packaged_pack
from palyra.flow.policy.rules import Rules
from palyra.flow.review.permits import Permits
from palyra.flow.review.resolve import Resolver
from palyra.flow.review.unattended import Unattended
from palyra.flow.sandbox import builtin, files
from palyra.flow.sandbox.execute import OutputCheck, Runnable, Sandbox, ToolBody
from palyra.flow.sandbox.registration import require_apart
from palyra.flow.sandbox.supervise import Supervisor
from palyra.flow.sandbox.time_limit import RunningClocks
from palyra.flow.sandbox.walks import Walks
from palyra.flow.seal.admissions import Admissions
from palyra.flow.seal.attest import Attestor
from palyra.flow.seal.recall import Recall
from palyra.flow.seal.rule_scribe import RuleScribe, staging
from palyra.flow.seal.scribe import Scribe
from palyra.store.instances import starting
from palyra.store.sqlite.ledger import DATABASE_NAME, Ledger, keep_first_head
from palyra.tools.built_in import BUILT_IN_TOOLS
from palyra.tools.catalogue import Catalogue
from palyra.tools.function import FunctionTool
from palyra.trust.signing_key import SigningKey

if TYPE_CHECKING:
    from palyra.core.manifest import ToolManifest
    from palyra.core.ports import Clock, IdSource, PolicyEngine, Reviewer, RulesStore

KEYS_NAME = "keys"
CHANNEL = "embedded"
"""The surface that calls of this process come by."""

BODIES: Mapping[str, ToolBody] = {
    "palyra.echo": builtin.echo,
    "palyra.sleep": builtin.sleep,
    **files.FILE_BODIES,
}

Tools = Iterable[FunctionTool[Any, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Composition:
    """The gate and what stands behind it."""

    home: Path
    gate: Gate
    ledger: Ledger
    operations: Operations
    catalogue: Catalogue
    recovered: int
    """Calls that a crash had cut off, found and marked at this start."""

    async def close(self) -> None:
        """Let calls end, then close the store."""
        await self.gate.close()
        self.ledger.close()


def compose(
    home: Path,
    settings: Settings,
    *,
    tools: Tools = (),
    policy: PolicyEngine | None = None,
    reviewer: Reviewer | None = None,
    clock: Clock | None = None,
    ids: IdSource | None = None,
) -> Composition:
    """Open the store and build the gate before it.

    Raises:
        ConfigError: the state directory is not safe.
        StoreError, IntegrityError: the store, the key or the journal are not as they were left.
    """
    tools = tuple(tools)
    clock = clock or SystemClock()
    ids = ids or UlidSource()
    limits = budget_limits(settings)
    catalogue = Catalogue((*BUILT_IN_TOOLS, *(tool.manifest for tool in tools)))
    prepare_home(home)
    with starting(home):
        signer = signing_key(home, ids=ids)
        ledger = Ledger.open(
            home,
            signer=signer,
            clock=clock,
            ids=ids,
            busy_timeout_ms=settings.store.busy_timeout_ms,
        )
        attestor = Attestor(signer=signer, ids=ids, assurance=ASSURANCE)
        try:
            require_apart(ledger.reads.workspaces(), state=home)  # I10
            if policy is None:
                _activate_first_pack(ledger, clock=clock)
                policy = cedar_policy(ledger, settings, clock=clock)
            _apply_configuration(ledger, settings, policy)
            recovered = recover_interrupted(ledger, attestor=attestor, clock=clock)
        except BaseException:
            ledger.close()
            raise
    walks = Walks()
    ledger.attend(lambda: walks.is_alone)
    clocks = RunningClocks()
    scribe = Scribe(recorder=ledger, attestor=attestor, clock=clock, limits=limits)
    recall = Recall(ledger, under_way=walks.joined)
    decider = Decider(engine=policy, store=ledger, limits=limits)
    gate = Gate(
        sessions=Sessions(store=ledger, clock=clock, ids=ids),
        rate=ProposalRate(
            Allowance(
                proposals_per_second=settings.limits.proposals_per_second,
                burst=settings.limits.proposal_burst,
            ),
            clock=clock,
        ),
        receiver=Receiver(
            catalogue=catalogue,
            store=ledger,
            clock=clock,
            ids=ids,
            max_depth=settings.tool_call.max_depth,
            execution_timeout_ms=settings.tool_call.execution_timeout_ms,
            commitment_key=signer.derive("palyra.commitment.v1"),
            channel=CHANNEL,
        ),
        decider=decider,
        resolver=Resolver(reviewer or Unattended()),
        permits=Permits(clock=clock, ids=ids),
        supervisor=Supervisor(
            executor=Sandbox(_runnables(catalogue, tools), clock=clock),
            walks=walks,
            clocks=clocks,
            clock=clock,
        ),
        scribe=scribe,
        recall=recall,
        admissions=Admissions(scribe=scribe, recall=recall),
        walks=walks,
        clocks=clocks,
    )
    return Composition(
        home=home,
        gate=gate,
        ledger=ledger,
        operations=Operations(
            decider=decider,
            scribe=scribe,
            rule_scribe=RuleScribe(ledger),
            store=ledger,
            clock=clock,
            channel=CHANNEL,
        ),
        catalogue=catalogue,
        recovered=recovered,
    )


def user_homes() -> tuple[Path, ...]:
    """Return the home directories that can never be workspaces themselves."""
    homes = {Path.home()}
    with suppress(KeyError):
        homes.add(Path(pwd.getpwuid(os.geteuid()).pw_dir))
    return tuple(sorted(homes))


def signing_key(home: Path, *, ids: IdSource) -> SigningKey:
    """Return the key; a new one only where there is no journal yet."""
    folder = home / KEYS_NAME
    key = SigningKey.load(folder)
    if key is not None:
        return key  # Opening the ledger refuses if the head that came before the key is gone.
    if (home / DATABASE_NAME).exists():
        raise IntegrityError(Code.KEY_MISSING)
    key = SigningKey.generate()
    keep_first_head(home, signer=key, log_id=LogId(ids.ulid()))
    key.save(folder)
    return key


def cedar_policy(store: RulesStore, settings: Settings, *, clock: Clock) -> CedarPolicy:
    """Return the engine that decides by the rules in ``store`` and by ``settings``."""
    in_force = snapshot(settings)
    return CedarPolicy(
        store=store,
        inquiries=Inquiries(
            in_force,
            assurance=ASSURANCE.value,
            administrators=frozenset({local_operator().principal}),
        ),
        snapshot_digest=in_force.digest,
        clock=clock,
        fallback=lambda: Rules(packaged_pack()),
    )


def _activate_first_pack(ledger: Ledger, *, clock: Clock) -> None:
    """Put the packaged policies into force where there are none yet."""
    if ledger.rules_in_force() is not None:
        return
    pack, owner = packaged_pack(), local_operator()
    principal = str(owner.principal)
    ledger.record_now(staging(pack, principal=principal, at_ms=clock.now_ms()))
    activated = PolicyActivated(
        policy_digest=pack.digest,
        before_digest="",
        principal=principal,
        credential_id=owner.credential_id,
        reason="the first start",
        request=None,
        decision=None,
    )
    ledger.record_now(ActivatePack(policy_digest=pack.digest, before=None, events=(activated,)))


def _apply_configuration(ledger: Ledger, settings: Settings, policy: PolicyEngine) -> None:
    """Record the configuration in force, if it is another than the last one (I8)."""
    in_force = snapshot(settings)
    latest = ledger.reads.latest_configuration()
    if latest == (policy.snapshot_digest, policy.policy_digest):
        return
    applied = ConfigApplied(
        snapshot_digest=policy.snapshot_digest,
        policy_digest=policy.policy_digest,
        assurance=ASSURANCE.value,
        snapshot=in_force,
    )
    ledger.record_now(Note(events=(applied,)))


def _runnables(catalogue: Catalogue, tools: Tools) -> dict[str, Runnable]:
    bodies = {**BODIES, **{tool.manifest.name: function_body(tool) for tool in tools}}
    return {
        manifest.name: Runnable(
            body=bodies[manifest.name],
            check_output=_output_check(manifest),
            executor=manifest.executor,
            max_output_bytes=manifest.max_output_bytes,
            observed=_IN_PROCESS,
        )
        for manifest in catalogue
    }


def _output_check(manifest: ToolManifest) -> OutputCheck:
    """Compile the output schema at its first use: most commands never need most of them."""
    compiled: list[ArgumentSchema] = []

    def check(value: object) -> str | None:
        if not compiled:
            compiled.append(ArgumentSchema.of_output(manifest))
        fault = compiled[0].check(value)
        return f"{fault.path or 'the output'}: {fault.problem}" if fault is not None else None

    return check


_IN_PROCESS = msgspec.Raw(canonicalize({"confined": False, "in_process": True}))
"""What is known of a tool that runs in this process: that nothing confines it (I9)."""
