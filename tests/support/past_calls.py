# SPDX-License-Identifier: Apache-2.0
"""Questions that policy was asked, what it said, and the journal entries that tell of both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from palyra.core.attestation import DecisionRecord
from palyra.core.capability import SENSITIVE_CAPABILITIES, Capability
from palyra.core.facts import NO_FACTS
from palyra.core.pack import NOBODY, Pack
from palyra.core.plan import SandboxPlan
from palyra.core.posture import Posture
from palyra.core.session import BudgetLeft
from palyra.flow.policy.compile import compile_pack
from palyra.flow.policy.inquiry import Inquiries
from palyra.flow.policy.presets import packaged_sources
from palyra.flow.policy.replay import PastDecision
from palyra.flow.policy.rules import Rules
from palyra.flow.policy.sources import Source
from palyra.flow.policy.suggest import ApprovedCall
from tests.support.samples import NOW_MS, PROPOSAL, SNAPSHOT, SNAPSHOT_DIGEST
from tests.support.store import WORKSPACE, call_id, decided

if TYPE_CHECKING:
    from palyra.core.events import CallDecided
    from palyra.core.facts import Facts
    from palyra.core.pack import Members
    from palyra.flow.policy.inquiry import Inquiry
    from palyra.flow.policy.suggest import Suggestions

TOOL = "test.tool"
PLENTY = BudgetLeft(run=9, session=99, agent_hour=999)
_INQUIRIES = Inquiries(
    msgspec.structs.replace(SNAPSHOT, allowed_tools=("palyra.echo", TOOL, "test.other")),
    assurance="developer",
    administrators=frozenset(),
)


def pack_with(text: str = "", *, members: Members = NOBODY, name: str = "site.cedar") -> Pack:
    """Return the packaged policies and those of ``text``."""
    sources = (*packaged_sources("ask"), Source(name, text))
    pack = compile_pack(sources, preset="ask", members=members)
    assert isinstance(pack, Pack), pack
    return pack


def rules_with(text: str = "") -> Rules:
    return Rules(pack_with(text))


def question(
    facts: Facts = NO_FACTS,
    *,
    capabilities: tuple[str, ...] = (Capability.PROCESS_EXEC,),
    left: BudgetLeft = PLENTY,
    posture: Posture = Posture.ALWAYS_ALLOW,
    **changes: Any,  # noqa: ANN401 - fields of the proposal
) -> Inquiry:
    """Return what policy is asked about a call of an agent; by default it is sensitive."""
    proposal = msgspec.structs.replace(
        PROPOSAL,
        **{
            "tool": TOOL,
            "capabilities": capabilities,
            "is_sensitive": bool(set(capabilities) & SENSITIVE_CAPABILITIES),
            "facts": facts,
            "workspace": WORKSPACE if facts.workspace else None,
            "plan": SandboxPlan(egress=facts.hosts),
            **changes,
        },
    )
    return _INQUIRIES.about_call(proposal, left=left, posture=posture, now_ms=NOW_MS)


def past(inquiry: Inquiry, rules: Rules, *, number: int = 1, **changes: Any) -> PastDecision:  # noqa: ANN401 - its fields
    """Return what the rules said, as it is read back from the journal."""
    said = rules.judge(inquiry)
    decision = PastDecision(
        entry=number,
        call_id=call_id(number),
        tool=inquiry.resource.id,
        principal=f"agent:{inquiry.principal.id}",
        at_ms=NOW_MS + number,
        verdict=said.verdict,
        code=said.code.value,
        policies=said.policies,
        policy_digest=rules.policy_digest,
        request=inquiry.request,
        obligations=said.obligations,
    )
    return msgspec.structs.replace(decision, **changes)


def decided_by(rules: Rules, inquiry: Inquiry, *, number: int) -> CallDecided:
    """Return the journal's entry about what the rules said."""
    said = rules.judge(inquiry)
    return msgspec.structs.replace(
        decided(number),
        tool=inquiry.resource.id,
        request=inquiry.request,
        decision=DecisionRecord(
            verdict=said.verdict.wire,
            code=said.code.value,
            reason=said.reason,
            policies=said.policies,
            policy_digest=rules.policy_digest,
            snapshot_digest=SNAPSHOT_DIGEST,
            obligations=said.obligations,
        ),
    )


RULES = rules_with()


def approved(inquiry: Inquiry, *, number: int = 1, rules: Rules = RULES) -> ApprovedCall:
    """Return a call that a human agreed to."""
    return ApprovedCall(
        past=past(inquiry, rules, number=number), basis="approval", launched_at_ms=NOW_MS + 99
    )


def all_approved(*inquiries: Inquiry, rules: Rules = RULES) -> list[ApprovedCall]:
    return [
        approved(inquiry, number=number, rules=rules)
        for number, inquiry in enumerate(inquiries, start=1)
    ]


def with_suggestions(suggestions: Suggestions, text: str = "") -> Rules:
    """Do what an operator would do: put the text into a file."""
    texts = [text, *(suggestion.text for suggestion in suggestions.suggestions)]
    return rules_with("\n".join(texts))
