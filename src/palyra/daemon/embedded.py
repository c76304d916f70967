# SPDX-License-Identifier: Apache-2.0
"""The gate as a library: open a state directory, call tools through the boundary, close it.

.. code-block:: python

    async with Gate.open() as gate:
        result = await gate.call("palyra.echo", {"text": "hello"}, agent="demo")
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from palyra.core.canonical import canonicalize
from palyra.core.errors import Code, NotFoundError
from palyra.core.ids import CallId, RequestId, RunId, SessionId
from palyra.core.posture import Posture, PostureScope, PostureSetting
from palyra.core.proposal import CallRequest
from palyra.daemon.compose import Composition, Tools, compose, user_homes
from palyra.daemon.home import home_directory
from palyra.daemon.local_identity import local_agent, local_operator
from palyra.daemon.settings import load
from palyra.flow.sandbox.registration import inspect_folder

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from palyra.core.digest import PolicyDigest
    from palyra.core.pack import Pack
    from palyra.core.principal import Credential
    from palyra.core.result import CallResult
    from palyra.core.session import Run
    from palyra.core.workspace import Workspace


class EmbeddedGate:
    """The boundary within this process. Calls are the operator's, or those of a named agent."""

    def __init__(self, composition: Composition) -> None:
        self.composition = composition
        self._gate = composition.gate
        self._runs: dict[Credential, Run] = {}
        self._opening = asyncio.Lock()

    @classmethod
    def open(
        cls,
        home: str | Path | None = None,
        *,
        config: str | Path | None = None,
        tools: Tools = (),
        environ: Mapping[str, str] | None = None,
    ) -> Self:
        """Open the state directory, creating it on first use.

        Raises:
            PalyraError: configuration, store, key or journal are not in order; nothing runs then.
        """
        environ = os.environ if environ is None else environ
        folder = home_directory(environ, home)
        return cls(compose(folder, load(folder, config, environ).settings, tools=tools))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Let calls under way end and be recorded, then close the store."""
        await self.composition.close()

    async def call(  # noqa: PLR0913 - the options of one call
        self,
        tool: str,
        arguments: Mapping[str, Any] | bytes,
        *,
        agent: str | None,
        session_id: str | None = None,
        run_id: str | None = None,
        request_id: str | None = None,
        timeout_ms: int | None = None,
        wait: bool = True,
        dry_run: bool = False,
    ) -> CallResult:
        """Propose one call and return its result; a refusal is a result too.

        ``agent`` names the agent that asks; ``None`` says that the operator asks themselves, whose
        calls are not held to what agents must ask a human about. Bytes are taken as JSON text from
        outside and decoded strictly. Without ``run_id`` and ``session_id``, all calls of one caller
        share a run of this object's own.

        Raises:
            PalyraError: the call could not be put, or its record could not be made durable.
        """
        credential = local_agent(agent) if agent is not None else local_operator()
        raw = arguments if isinstance(arguments, bytes) else canonicalize(dict(arguments))
        if not dry_run:
            run_id = await self._run(credential, session_id=session_id, run_id=run_id)
        request = CallRequest(
            tool=tool,
            raw_arguments=raw,
            run_id=RunId(run_id or ""),
            request_id=RequestId(request_id) if request_id is not None else None,
            timeout_ms=timeout_ms,
        )
        if dry_run:
            return self._gate.dry_run(request, credential=credential)
        return await self._gate.submit(request, credential=credential, wait=wait)

    async def resume(self, call_id: str, *, agent: str | None) -> CallResult:
        """Go on with a call that waited for a human, or tell again what became of it."""
        credential = local_agent(agent) if agent is not None else local_operator()
        return await self._gate.resume(CallId(call_id), credential=credential)

    async def add_workspace(self, folder: str | Path, *, name: str | None = None) -> Workspace:
        """Register a folder below which file tools may act; an operator's own act."""
        workspace = inspect_folder(
            Path(folder), name=name, state=self.composition.home, homes=user_homes()
        )
        operator = local_operator()
        await self.composition.operations.add_workspace(workspace, credential=operator)
        return workspace

    async def remove_workspace(self, name: str) -> None:
        """Forget a workspace; its files stay."""
        await self.composition.operations.remove_workspace(name, credential=local_operator())

    def workspaces(self) -> tuple[Workspace, ...]:
        """Return the registered workspaces."""
        return self.composition.ledger.reads.workspaces()

    async def stage_policies(self, pack: Pack) -> None:
        """Keep a checked pack, so that it can be activated; an operator's own act."""
        await self.composition.operations.stage_pack(pack, credential=local_operator())

    async def activate_policies(self, digest: PolicyDigest, *, reason: str) -> None:
        """Put a staged pack into force; an operator's own act.

        Raises:
            NotFoundError: no such pack is staged.
        """
        await self.composition.operations.activate_pack(
            digest, credential=local_operator(), reason=reason
        )

    async def set_posture(
        self,
        tool: str,
        state: Posture,
        *,
        scope: PostureScope = PostureScope.GLOBAL,
        scope_id: str = "",
        reason: str,
        expires_at_ms: int | None = None,
    ) -> None:
        """Say what holds for a tool from now on; an operator's own act.

        Raises:
            NotFoundError: there is no such tool, workspace or session. A posture for something
                misspelt would restrict nothing.
            InputError: nobody can have this name.
        """
        if self.composition.catalogue.find(tool) is None:
            nearest = self.composition.catalogue.nearest(tool)
            raise NotFoundError(
                Code.TOOL_UNKNOWN, hint=f"did you mean {nearest}?" if nearest else ""
            )
        self._require_scope(scope, scope_id)
        operator = local_operator()
        setting = PostureSetting(
            tool=tool,
            scope=scope,
            scope_id=scope_id,
            state=state,
            reason=reason,
            set_by=operator.principal,
            by_administrator=False,  # who sets it, and since when, the operation itself fills in
            set_at_ms=0,
            expires_at_ms=expires_at_ms,
        )
        await self.composition.operations.set_posture(setting, credential=operator)

    async def clear_posture(
        self,
        tool: str,
        *,
        scope: PostureScope = PostureScope.GLOBAL,
        scope_id: str = "",
        reason: str = "",
    ) -> None:
        """Withdraw what was said of a tool; an operator's own act.

        Raises:
            NotFoundError: nothing was said.
        """
        await self.composition.operations.clear_posture(
            tool, scope, scope_id, credential=local_operator(), reason=reason
        )

    def postures(self) -> tuple[PostureSetting, ...]:
        """Return every posture that is set, expired or not."""
        return self.composition.ledger.postures()

    def _require_scope(self, scope: PostureScope, scope_id: str) -> None:
        match scope:
            case PostureScope.GLOBAL:
                if scope_id:
                    raise ValueError("a posture for everybody names nobody")
            case PostureScope.WORKSPACE:
                if scope_id not in {workspace.name for workspace in self.workspaces()}:
                    raise NotFoundError(Code.WORKSPACE_UNKNOWN)
            case PostureScope.AGENT:
                local_agent(scope_id)
            case PostureScope.SESSION:
                if self.composition.ledger.session(SessionId(scope_id)) is None:
                    raise NotFoundError(
                        Code.SESSION_UNKNOWN,
                        "there is no such session",
                        hint="'palyra journal tail' shows the latest sessions",
                    )

    async def _run(
        self, credential: Credential, *, session_id: str | None, run_id: str | None
    ) -> RunId:
        if run_id is not None:
            return RunId(run_id)
        if session_id is not None:
            opened = await self._gate.open_run(SessionId(session_id), credential=credential)
            return opened.run_id
        async with self._opening:  # calls at once must not get a budget each
            run = self._runs.get(credential)
            if run is None:
                run = self._runs[credential] = await self._gate.open_session(credential)
        return run.run_id
