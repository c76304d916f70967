# SPDX-License-Identifier: Apache-2.0
"""``palyra tools``: the catalogue, and what policy would say to this caller."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from palyra.cli.frame import Frame, Group
from palyra.cli.opening import opened_engine
from palyra.cli.output import Reply, Table, pretty_json

if TYPE_CHECKING:
    from palyra.core.decision import Decision
    from palyra.core.manifest import ToolManifest
    from palyra.core.principal import Credential

_VERDICTS = {"allow": "allowed", "needs_approval": "asks a human", "deny": "denied"}


@click.group("tools", cls=Group)
def command() -> None:
    """Show which tools there are, what they take, and who may call them."""


@command.command("list")
@click.option("--agent", metavar="NAME", help="Tell the verdicts for this agent.")
@click.pass_obj
def list_tools(frame: Frame, *, agent: str | None) -> Reply:
    """List the tools with the verdict for this caller."""
    from palyra.daemon.verdicts import verdict_on
    from palyra.tools.built_in import built_in_catalogue

    caller = _caller(agent)
    with opened_engine(frame) as engine:
        told = [
            (manifest, verdict_on(manifest, caller=caller, engine=engine))
            for manifest in built_in_catalogue()
        ]
    return Reply(
        document={
            "caller": str(caller.principal),
            "tools": [_summary(manifest, decision) for manifest, decision in told],
        },
        text=(
            Table(
                columns=("TOOL", "VERDICT", "CAPABILITIES", "DESCRIPTION"),
                rows=tuple(
                    (
                        manifest.name,
                        _VERDICTS[decision.verdict.wire],
                        ", ".join(sorted(manifest.capabilities)) or "-",
                        manifest.description,
                    )
                    for manifest, decision in told
                ),
            ),
            f"Verdicts are for {caller.principal}; arguments and budgets may change them.",
        ),
    )


@command.command("show")
@click.argument("tool")
@click.option("--agent", metavar="NAME", help="Tell the verdict for this agent.")
@click.pass_obj
def show_tool(frame: Frame, *, tool: str, agent: str | None) -> Reply:
    """Show one tool: what it may do, what it takes, and the verdict with its reason."""
    import msgspec

    from palyra.core.errors import Code, NotFoundError
    from palyra.daemon.verdicts import verdict_on
    from palyra.tools.built_in import built_in_catalogue

    catalogue = built_in_catalogue()
    manifest = catalogue.find(tool)
    if manifest is None:
        nearest = catalogue.nearest(tool)
        raise NotFoundError(
            Code.TOOL_UNKNOWN, hint=f"did you mean {nearest}?" if nearest is not None else ""
        )
    caller = _caller(agent)
    with opened_engine(frame) as engine:
        decision = verdict_on(manifest, caller=caller, engine=engine)
    lines = [
        f"{manifest.name} {manifest.version}: {manifest.description}",
        f"  for {caller.principal}: {_VERDICTS[decision.verdict.wire]}, {decision.reason}",
        f"  code: {decision.code}",
        *([f"  hint: {decision.hint}"] if decision.hint else []),
        f"  policies: {', '.join(decision.policies) or 'none'}",
        f"  capabilities: {', '.join(sorted(manifest.capabilities)) or 'none'}",
        f"  sensitive: {'yes' if manifest.is_sensitive else 'no'}",
        f"  input: at most {manifest.max_input_bytes} bytes, {manifest.max_depth} levels deep",
        f"  output: at most {manifest.max_output_bytes} bytes",
        "  input schema:",
    ]
    return Reply(
        document={
            "caller": str(caller.principal),
            **_summary(manifest, decision),
            "hint": decision.hint,
            "policies": decision.policies,
            "executor": manifest.executor,
            "max_input_bytes": manifest.max_input_bytes,
            "max_output_bytes": manifest.max_output_bytes,
            "max_depth": manifest.max_depth,
            "secret_fields": manifest.secret_fields,
            "input_schema": manifest.input_schema,
            "output_schema": manifest.output_schema,
        },
        text=("\n".join(lines), pretty_json(msgspec.json.encode(manifest.input_schema))),
    )


def _caller(agent: str | None) -> Credential:
    from palyra.daemon.local_identity import local_agent, local_operator

    return local_agent(agent) if agent is not None else local_operator()


def _summary(manifest: ToolManifest, decision: Decision) -> dict[str, Any]:
    return {
        "name": manifest.name,
        "version": manifest.version,
        "description": manifest.description,
        "capabilities": sorted(manifest.capabilities),
        "sensitive": manifest.is_sensitive,
        "verdict": decision.verdict.wire,
        "code": decision.code,
        "reason": decision.reason,
    }
