# SPDX-License-Identifier: Apache-2.0
"""Stage 1: a request in, a proposal or the reason why it is none out.

Decodes strictly, finds the tool by its exact name, checks the schema, resolves the workspace, and
fixes the canonical bytes and digests that every later stage refers to. Decides nothing.
"""

from __future__ import annotations

import logging
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import msgspec

from palyra.core.canonical import canonical_record, canonicalize
from palyra.core.capability import Capability
from palyra.core.digest import PlanDigest, call_digest, plan_digest
from palyra.core.errors import MEANINGS, Code, InputError, StoreError
from palyra.core.execution import Executor
from palyra.core.facts import NO_FACTS, Facts, bounded
from palyra.core.ids import CallId
from palyra.core.manifest import ToolManifest, is_tool_name
from palyra.core.plan import ANYWHERE, SandboxPlan
from palyra.core.proposal import CallRequest, Malformed, Proposal
from palyra.core.strict_json import JsonLimits, decode
from palyra.core.trace import trace_of
from palyra.core.workspace import Workspace
from palyra.flow.intake.redaction import committed, journaled, keyed_digest, veiled
from palyra.flow.intake.schema import ArgumentSchema

if TYPE_CHECKING:
    from collections.abc import Mapping

    from palyra.core.ports import CallStore, Catalogue, Clock, IdSource
    from palyra.core.session import Run

_log: Final = logging.getLogger(__name__)
_READ_BACK: Final = JsonLimits(max_bytes=1 << 26, max_depth=64)
_LONGEST_REQUEST_ID: Final = 128
_UNNAMEABLE: Final = "(not a tool name)"


class Parent(msgspec.Struct, frozen=True, kw_only=True):
    """The call that makes a nested call."""

    call_id: CallId
    depth: int


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """How the call would run: what its plan digest identifies."""

    executor: Executor
    timeout_ms: int
    max_output_bytes: int
    workspace: Workspace | None
    sandbox: SandboxPlan


class Receiver:
    """Makes proposals for one catalogue."""

    def __init__(
        self,
        *,
        catalogue: Catalogue,
        store: CallStore,
        clock: Clock,
        ids: IdSource,
        max_depth: int,
        execution_timeout_ms: int,
        commitment_key: bytes,
        channel: str,
    ) -> None:
        self._catalogue = catalogue
        self._store = store
        self._clock = clock
        self._ids = ids
        self._max_depth = max_depth
        self._execution_timeout_ms = execution_timeout_ms
        self._commitment_key = commitment_key
        self._channel = channel
        self._schemas: dict[str, ArgumentSchema] = {}

    def receive(
        self, request: CallRequest, *, run: Run, parent: Parent | None = None
    ) -> Proposal | Malformed:
        """Return the proposal that ``request`` makes, or why it makes none (I1)."""
        try:
            return self._propose(request, run=run, parent=parent)
        except _Unacceptable as unacceptable:
            problem = unacceptable
        except InputError as error:
            problem = _Unacceptable(error.code, error.message, hint=error.hint)
        except StoreError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, it is a refusal (I1)
            # A tool author's fact extraction, or a fault of ours: refused and recorded (I1).
            _log.error("the proposal could not be made: %s", trace_of(error))
            problem = _Unacceptable(Code.GATE_FAULT)
        return self._malformed(request, problem, run=run, parent=parent)

    def _propose(self, request: CallRequest, *, run: Run, parent: Parent | None) -> Proposal:
        depth = parent.depth + 1 if parent is not None else 0
        if depth > self._max_depth:
            raise _Unacceptable(
                Code.DEPTH_EXCEEDED, f"the call is nested {depth} deep, at most {self._max_depth}"
            )
        if request.request_id is not None and not _is_request_id(request.request_id):
            raise _Unacceptable(
                Code.INPUT_INVALID,
                f"a request id is 1 to {_LONGEST_REQUEST_ID} printable ASCII characters",
                path="/request_id",
            )
        manifest = self._manifest(request.tool)
        arguments = self._arguments(request.raw_arguments, manifest)
        canonical = canonicalize(arguments)
        if canonical != request.raw_arguments:
            # A large float may have become an integer that verifiers could not read back.
            decode(canonical, limits=_READ_BACK)
        workspace = self._workspace(arguments, manifest)
        timeout_ms = self._execution_timeout_ms
        if request.timeout_ms is not None:
            timeout_ms = max(1, min(timeout_ms, request.timeout_ms))
        sandbox = _sandbox_plan(manifest, workspace)
        plan = Plan(
            executor=manifest.executor,
            timeout_ms=timeout_ms,
            max_output_bytes=manifest.max_output_bytes,
            workspace=workspace,
            sandbox=sandbox,
        )
        secrets, key = manifest.secret_fields, self._commitment_key
        kept = journaled(arguments, secret_fields=secrets, key=key)
        identifying, seen = canonical, arguments
        if secrets:  # I11: a plain digest would help to guess them, and facts would tell them
            identifying = canonicalize(committed(arguments, secret_fields=secrets, key=key))
            seen = veiled(arguments, secret_fields=secrets, key=key)  # type: ignore[assignment]
        return Proposal(
            call_id=CallId(self._ids.ulid()),
            request_id=request.request_id,
            principal=run.principal,
            credential_id=run.credential_id,
            session_id=run.session_id,
            run_id=run.run_id,
            parent_call_id=parent.call_id if parent is not None else None,
            depth=depth,
            tool=manifest.name,
            tool_version=manifest.version,
            capabilities=tuple(sorted(manifest.capabilities)),
            is_sensitive=manifest.is_sensitive,
            executor=manifest.executor,
            arguments=msgspec.Raw(canonical),
            journaled_arguments=msgspec.Raw(canonical if kept is arguments else canonicalize(kept)),
            facts=_facts(manifest, seen),
            workspace=workspace,
            channel=self._channel,
            plan=sandbox,
            call_digest=call_digest(
                tool=manifest.name, version=manifest.version, canonical_arguments=identifying
            ),
            plan_digest=_digest_of(plan),
            timeout_ms=timeout_ms,
            proposed_at_ms=self._clock.now_ms(),
        )

    def _manifest(self, name: str) -> ToolManifest:
        if not is_tool_name(name):
            raise _Unacceptable(
                Code.INPUT_INVALID, "a tool name is lower-case words joined by dots", path="/tool"
            )
        manifest = self._catalogue.find(name)
        if manifest is None:
            nearest = self._catalogue.nearest(name)
            raise _Unacceptable(
                Code.TOOL_UNKNOWN,
                f"no tool is named {name}",
                hint=f"did you mean {nearest}?" if nearest else "",
                path="/tool",
            )
        return manifest

    def _arguments(self, raw: bytes, manifest: ToolManifest) -> Mapping[str, Any]:
        limits = JsonLimits(max_bytes=manifest.max_input_bytes, max_depth=manifest.max_depth)
        try:
            value = decode(raw, limits=limits)
        except InputError as error:
            if manifest.secret_fields:  # I11: its message may name a key from within a secret
                raise _Unacceptable(error.code) from error
            raise
        schema = self._schemas.get(manifest.name)
        if schema is None:
            schema = self._schemas[manifest.name] = ArgumentSchema.of_input(manifest)
        fault = schema.check(value)
        if fault is not None:
            where = fault.path or "the arguments"
            raise _Unacceptable(
                Code.INPUT_INVALID,
                f"{where}: {fault.problem}",
                hint=fault.hint,
                path=fault.path,
            )
        return value  # type: ignore[return-value]  # input schemas are of type object

    def _workspace(self, arguments: Mapping[str, Any], manifest: ToolManifest) -> Workspace | None:
        if manifest.executor is not Executor.WORKSPACE:
            return None
        registered = self._store.workspaces()
        name = arguments.get("workspace")
        if name is None:
            if len(registered) == 1:
                return registered[0]
            code = Code.WORKSPACE_AMBIGUOUS if registered else Code.WORKSPACE_UNKNOWN
            raise _Unacceptable(code, path="/workspace")
        for workspace in registered:
            if workspace.name == name:
                return workspace
        raise _Unacceptable(Code.WORKSPACE_UNKNOWN, path="/workspace")

    def _malformed(
        self, request: CallRequest, problem: _Unacceptable, *, run: Run, parent: Parent | None
    ) -> Malformed:
        tool = request.tool if is_tool_name(request.tool) else _UNNAMEABLE
        manifest = self._catalogue.find(tool)
        # There may be a secret anywhere in it, and a plain digest would help to guess it (I11).
        recognised = keyed_digest(
            "palyra.malformed.v1", request.raw_arguments, key=self._commitment_key
        )
        has_sound_id = request.request_id is not None and _is_request_id(request.request_id)
        return Malformed(
            call_id=CallId(self._ids.ulid()),
            request_id=request.request_id if has_sound_id else None,
            principal=run.principal,
            credential_id=run.credential_id,
            session_id=run.session_id,
            run_id=run.run_id,
            parent_call_id=parent.call_id if parent is not None else None,
            depth=parent.depth + 1 if parent is not None else 0,
            tool=tool,
            tool_version=manifest.version if manifest is not None else "",
            call_digest=call_digest(tool=tool, version="malformed", canonical_arguments=recognised),
            code=problem.code,
            reason=problem.reason,
            hint=problem.hint or MEANINGS[problem.code].hint,
            path=problem.path,
            proposed_at_ms=self._clock.now_ms(),
        )


class _Unacceptable(Exception):  # noqa: N818 - never leaves this module
    """Why a request is no proposal."""

    def __init__(self, code: Code, reason: str = "", *, hint: str = "", path: str = "") -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason or MEANINGS[code].sentence
        self.hint = hint
        self.path = path


def _facts(manifest: ToolManifest, arguments: Mapping[str, Any]) -> Facts:
    """Return the facts of a call, once it is sure that a verifier can read them back (I8)."""
    facts = manifest.extract_facts(arguments)
    if facts is NO_FACTS:
        return facts
    return bounded(msgspec.json.decode(msgspec.json.encode(facts), type=Facts))


def _sandbox_plan(manifest: ToolManifest, workspace: Workspace | None) -> SandboxPlan:
    """Return what a tool that runs in this process may reach: what it declares, unconfined."""
    powers = manifest.capabilities
    lasting = workspace is not None and Capability.FILESYSTEM_WRITE in powers
    return SandboxPlan(
        egress=(ANYWHERE,) if Capability.NETWORK in powers else (),
        writes=(workspace.name,) if workspace is not None and lasting else (),
        secrets=(ANYWHERE,) if Capability.SECRETS_READ in powers else (),
    )


@lru_cache(maxsize=1024)
def _digest_of(plan: Plan) -> PlanDigest:
    """Plans repeat from call to call; their digests are worth remembering."""
    return plan_digest(canonical_record(plan))


def _is_request_id(text: str) -> bool:
    return 0 < len(text) <= _LONGEST_REQUEST_ID and text.isascii() and text.isprintable()
