# SPDX-License-Identifier: Apache-2.0
"""One good example of each word, for tests to change a field of."""

from __future__ import annotations

import msgspec

from palyra.core.act import Act
from palyra.core.approval import Approval, Grant, Scope
from palyra.core.attestation import (
    Anchor,
    Attestation,
    DecisionRecord,
    OutcomeRecord,
    PermitRecord,
    Statement,
)
from palyra.core.decision import Decision, Verdict
from palyra.core.digest import (
    CallDigest,
    ConsentDigest,
    PlanDigest,
    PolicyDigest,
    SnapshotDigest,
    ViewDigest,
    content_sha256,
)
from palyra.core.errors import Code
from palyra.core.execution import Executor
from palyra.core.facts import Facts
from palyra.core.ids import (
    ApprovalId,
    AttestationId,
    CallId,
    CredentialId,
    GrantId,
    KeyId,
    PermitId,
    RunId,
    SessionId,
)
from palyra.core.pack import Effect, Members, Pack, Policy
from palyra.core.plan import SandboxPlan
from palyra.core.policy_request import EntityUid, PolicyRequest
from palyra.core.principal import Assurance, Credential, Principal, PrincipalKind
from palyra.core.proposal import Malformed, Proposal
from palyra.core.snapshot import ToolCallPolicySnapshot

AGENT = Principal(kind=PrincipalKind.AGENT, name="ada")
OPERATOR = Principal(kind=PrincipalKind.OPERATOR, name="grace")
CALL_ID = CallId("01JCZK5M8N0000000000000001")
SESSION_ID = SessionId("01JCZK5M8N0000000000000002")
RUN_ID = RunId("01JCZK5M8N0000000000000003")
ATTESTATION_ID = AttestationId("01JCZK5M8N0000000000000004")
PERMIT_ID = PermitId("01JCZK5M8N0000000000000005")
APPROVAL_ID = ApprovalId("01JCZK5M8N0000000000000006")
GRANT_ID = GrantId("01JCZK5M8N0000000000000007")
CREDENTIAL_ID = CredentialId("01JCZK5M8N0000000000000009")
CALL = CallDigest("c" * 64)
PLAN = PlanDigest("d" * 64)
POLICY = PolicyDigest("e" * 64)
SNAPSHOT_DIGEST = SnapshotDigest("f" * 64)
NOW_MS = 1_700_000_000_000

PROPOSAL = Proposal(
    call_id=CALL_ID,
    request_id=None,
    principal=AGENT,
    credential_id=CREDENTIAL_ID,
    session_id=SESSION_ID,
    run_id=RUN_ID,
    parent_call_id=None,
    depth=0,
    tool="palyra.echo",
    tool_version="1.0.0",
    capabilities=(),
    is_sensitive=False,
    executor=Executor.BUILTIN,
    arguments=msgspec.Raw(b'{"text":"hi"}'),
    journaled_arguments=msgspec.Raw(b'{"text":"hi"}'),
    facts=Facts(),
    workspace=None,
    channel="embedded",
    plan=SandboxPlan(),
    call_digest=CALL,
    plan_digest=PLAN,
    timeout_ms=30_000,
    proposed_at_ms=NOW_MS,
)

MALFORMED = Malformed(
    call_id=CALL_ID,
    request_id=None,
    principal=AGENT,
    credential_id=CREDENTIAL_ID,
    session_id=SESSION_ID,
    run_id=RUN_ID,
    parent_call_id=None,
    depth=0,
    tool="palyra.echo",
    tool_version="1.0.0",
    call_digest=CALL,
    code=Code.INPUT_INVALID,
    reason="/text: expected a string",
    hint="send one",
    path="/text",
    proposed_at_ms=NOW_MS,
)

ALLOW = Decision(
    call_digest=CALL,
    verdict=Verdict.ALLOW,
    code=Code.TOOL_ALLOWLISTED,
    reason="the tool is allowlisted",
    policies=("allowlist",),
    policy_digest=POLICY,
    snapshot_digest=SNAPSHOT_DIGEST,
)
ASK = msgspec.structs.replace(ALLOW, verdict=Verdict.ASK, code=Code.TOOL_SENSITIVE)
FORBID = msgspec.structs.replace(ALLOW, verdict=Verdict.FORBID, code=Code.TOOL_NOT_ALLOWLISTED)

APPROVAL = Approval(
    approval_id=APPROVAL_ID,
    call_digest=CALL,
    plan_digest=PLAN,
    view_digest=ViewDigest("1" * 64),
    consent_digest=ConsentDigest("2" * 64),
    scope=Scope.ONCE,
    decided_by=OPERATOR,
    decided_at_ms=NOW_MS,
    expires_at_ms=NOW_MS + 600_000,
)
GRANT = Grant(
    grant_id=GRANT_ID,
    approval_id=APPROVAL_ID,
    principal=AGENT,
    call_digest=CALL,
    plan_digest=PLAN,
    granted_by=OPERATOR,
    expires_at_ms=NOW_MS + 600_000,
)

DECISION_RECORD = DecisionRecord(
    verdict="allow",
    code="tool.allowlisted",
    reason="the tool is allowlisted",
    policies=("allowlist",),
    policy_digest=POLICY,
    snapshot_digest=SNAPSHOT_DIGEST,
)
PERMIT_RECORD = PermitRecord(permit_id=PERMIT_ID, basis="allow", approval_id=None, grant_id=None)
OUTCOME_RECORD = OutcomeRecord(
    state="succeeded",
    output_sha256="3" * 64,
    output_bytes=12,
    error_code="",
    truncated=False,
    limit="",
    duration_ms=3,
)
STATEMENT = Statement(
    attestation_id=ATTESTATION_ID,
    call_id=CALL_ID,
    principal=str(AGENT),
    credential_id=CREDENTIAL_ID,
    session_id=SESSION_ID,
    run_id=RUN_ID,
    parent_call_id=None,
    depth=0,
    tool="palyra.echo",
    tool_version="1.0.0",
    call_digest=CALL,
    plan_digest=PLAN,
    decision=DECISION_RECORD,
    permit=PERMIT_RECORD,
    executor="builtin",
    sandbox_enforcement="none",
    observed=msgspec.Raw(b"{}"),
    assurance="developer",
    outcome=OUTCOME_RECORD,
    started_at_ms=NOW_MS,
    ended_at_ms=NOW_MS + 3,
    anchor=Anchor(index=7, link="a" * 64),
    execution_sha256="4" * 64,
)
ATTESTATION = Attestation(key_id=KeyId("5" * 64), signature="6" * 128, statement=STATEMENT)

SNAPSHOT = ToolCallPolicySnapshot(
    allowed_tools=("palyra.echo",),
    allowed_principals=(),
    allowed_channels=(),
    allow_sensitive_tools=False,
    max_calls_per_run=32,
    max_calls_per_session=1024,
    max_calls_per_agent_hour=4096,
    max_depth=4,
    execution_timeout_ms=30_000,
)
REQUEST = PolicyRequest(
    principal=EntityUid("Agent", "ada"),
    roles=("reader",),
    action="tool.execute",
    resource=EntityUid("Tool", "palyra.echo"),
    groups=(EntityUid("ToolGroup", "palyra"),),
    context=msgspec.Raw(b'{"approved":false,"depth":0}'),
)
ACT = Act(
    action="posture.set",
    credential=Credential(
        credential_id=CREDENTIAL_ID, principal=OPERATOR, assurance=Assurance.DEVELOPER
    ),
    resource=EntityUid("Tool", "palyra.echo"),
    channel="embedded",
    at_ms=NOW_MS,
    details={"scope": "global", "state": "disabled"},
)
PACK = Pack(
    preset="standard",
    schema_sha256="5" * 64,
    policies=(
        Policy(
            policy_id="reads",
            effect=Effect.PERMIT,
            source="own.cedar",
            line=3,
            text=(
                '@id("reads")\n@reason("reading is harmless")\n'
                "permit (principal, action, resource);"
            ),
            principal=("*",),
            action=('=Action::"tool.execute"',),
            resource=('<Capability::"filesystem_read"',),
            reads=("risk",),
            annotations={"id": "reads", "reason": "reading is harmless"},
        ),
    ),
    members=Members(roles={"reviewer": ("operator:grace",)}),
)
NO_ENDING = content_sha256(b"")
