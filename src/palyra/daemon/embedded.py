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
from palyra.core.ids import CallId, RequestId, RunId, SessionId
from palyra.core.proposal import CallRequest
from palyra.daemon.compose import Composition, Tools, compose, user_homes
from palyra.daemon.home import home_directory
from palyra.daemon.local_identity import local_agent, local_operator
from palyra.daemon.settings import load
from palyra.flow.sandbox.registration import inspect_folder

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

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
        operator = local_operator().principal
        await self.composition.scribe.workspace_added(workspace, principal=operator)
        return workspace

    async def remove_workspace(self, name: str) -> None:
        """Forget a workspace; its files stay."""
        operator = local_operator().principal
        await self.composition.scribe.workspace_removed(name, principal=operator)

    def workspaces(self) -> tuple[Workspace, ...]:
        """Return the registered workspaces."""
        return self.composition.ledger.reads.workspaces()

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
