# SPDX-License-Identifier: Apache-2.0
"""``palyra posture``: what an operator says of single tools, apart from the policies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import click

from palyra.cli.clock_text import rfc3339
from palyra.cli.duration import LIFETIME
from palyra.cli.frame import Frame, Group
from palyra.cli.neutralise import line
from palyra.cli.opening import opened_rules, through_gate
from palyra.cli.output import Reply, Table
from palyra.cli.reason import REASON

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from palyra.core.posture import Posture, PostureScope, PostureSetting
    from palyra.daemon.embedded import EmbeddedGate

STATES = ("always_allow", "ask_each_time", "disabled")
SCOPES = ("global", "workspace", "agent", "session")
"""Written out, because importing them takes longer than reading the command line."""
_MOST_SHOWN = 10


def _scoped(function: Callable[..., Reply]) -> Callable[..., Reply]:
    function = click.option(
        "--for", "scope_id", metavar="NAME", help="The workspace, agent or session it holds for."
    )(function)
    return click.option(
        "--scope",
        type=click.Choice(SCOPES),
        default="global",
        help="For whom; global, if left out.",
    )(function)


@click.group("posture", cls=Group)
def command() -> None:
    """Disable single tools, or be asked about them each time.

    A posture only makes things stricter: of all that are set for a call the strictest counts, and
    what policy forbids or asks about, no posture allows.
    """


@command.command("list")
@click.option("--tool", metavar="TOOL", help="Only of this tool.")
@click.pass_obj
def list_postures(frame: Frame, *, tool: str | None) -> Reply:
    """List every posture that is set: by whom, why and until when."""
    with opened_rules(frame) as store:
        settings = [each for each in store.postures() if tool in (None, each.tool)]
    if tool is not None and not settings:
        _require_tool(tool)
    now_ms = _now_ms()
    rows = tuple(_row(setting, now_ms=now_ms) for setting in settings)
    table = Table(columns=("TOOL", "POSTURE", "FOR", "UNTIL", "SET BY", "SINCE", "WHY"), rows=rows)
    return Reply(
        document={"postures": [_document(setting, now_ms=now_ms) for setting in settings]},
        text=(table if rows else "No posture is set: policies alone decide.",),
    )


@command.command("set")
@click.argument("tool")
@click.argument("state", type=click.Choice(STATES))
@_scoped
@click.option("--reason", type=REASON, required=True, help="Why, for the record.")
@click.option("--expires", type=LIFETIME, help="Let it end by itself after so long: 30m, 2h, 7d.")
@click.pass_obj
def set_posture(
    frame: Frame,
    *,
    tool: str,
    state: str,
    scope: str,
    scope_id: str | None,
    reason: str,
    expires: int | None,
) -> Reply:
    """Say that TOOL is 'disabled', asked about each time, or no longer either (always_allow)."""
    where = _where(scope, scope_id)
    expires_at_ms = _now_ms() + expires if expires is not None else None

    async def act(gate: EmbeddedGate) -> _Change:
        return await _set(
            gate, tool, state, where=where, reason=reason, expires_at_ms=expires_at_ms
        )

    change = through_gate(frame, act)
    until = f", until {rfc3339(expires_at_ms)}" if expires_at_ms is not None else ""
    return Reply(
        document={**change.document, "expires_at_ms": expires_at_ms},
        text=(f"{change.words}{until}",),
    )


@command.command("clear")
@click.argument("tool")
@_scoped
@click.option("--reason", type=REASON, help="Why, for the record.")
@click.pass_obj
def clear_posture(
    frame: Frame, *, tool: str, scope: str, scope_id: str | None, reason: str | None
) -> Reply:
    """Withdraw what is set for TOOL and exactly this scope."""
    where = _where(scope, scope_id)

    async def act(gate: EmbeddedGate) -> _Change:
        before = _before(gate, tool, where)
        if not before:
            _not_set(tool, where, gate.postures())
        scope, scope_id = where.typed
        await gate.clear_posture(tool, scope=scope, scope_id=scope_id, reason=reason or "")
        return _Change(tool=tool, where=where, before=before, after="")

    change = through_gate(frame, act)
    return Reply(document=change.document, text=(change.words,))


@command.command("preset")
@click.argument("name", required=False)
@_scoped
@click.option("--reason", type=REASON, help="Why, for the record; the preset, if left out.")
@click.pass_obj
def preset(
    frame: Frame, *, name: str | None, scope: str, scope_id: str | None, reason: str | None
) -> Reply:
    """List the presets of postures, or set all postures of NAME, one after the other."""
    from palyra.tools.posture_presets import POSTURE_PRESETS

    if name is None:
        return _presets()
    chosen = POSTURE_PRESETS.get(name)
    if chosen is None:
        raise click.UsageError(f"there is no such preset; there are {', '.join(POSTURE_PRESETS)}")
    where = _where(scope, scope_id)
    changes: list[_Change] = []

    async def act(gate: EmbeddedGate) -> None:
        for tool, state in chosen.postures.items():
            changes.append(
                await _set(gate, tool, state.value, where=where, reason=reason or f"preset {name}")
            )

    try:
        through_gate(frame, act)
    except Exception:
        for change in changes:  # the reply is the fault; what was done before it was done
            frame.output.note(change.words)
        raise
    return Reply(
        document={"preset": name, "set": [change.document for change in changes]},
        text=("\n".join(change.words for change in changes),),
    )


class _Where(NamedTuple):
    """For whom a posture holds."""

    scope: str
    scope_id: str

    @property
    def typed(self) -> tuple[PostureScope, str]:
        from palyra.core.posture import PostureScope

        return PostureScope(self.scope), self.scope_id

    @property
    def words(self) -> str:
        return f"{self.scope} {line(self.scope_id)}" if self.scope_id else "everybody"

    @property
    def options(self) -> str:
        """What to type for it."""
        return (
            f"--scope {self.scope} --for {line(self.scope_id)}" if self.scope_id else "no --scope"
        )


class _Change(NamedTuple):
    """What was said of a tool, and what is said now; empty where nothing is."""

    tool: str
    where: _Where
    before: str
    after: str

    @property
    def document(self) -> dict[str, Any]:
        return {
            "tool": self.tool,
            "scope": self.where.scope,
            "scope_id": self.where.scope_id,
            "before": self.before,
            "after": self.after,
        }

    @property
    def words(self) -> str:
        now, was = self.after or "no posture", self.before or "no posture"
        return f"{line(self.tool)} for {self.where.words}: {now}, was {was}"


async def _set(
    gate: EmbeddedGate,
    tool: str,
    state: str,
    *,
    where: _Where,
    reason: str,
    expires_at_ms: int | None = None,
) -> _Change:
    from palyra.core.posture import Posture

    before = _before(gate, tool, where)
    scope, scope_id = where.typed
    await gate.set_posture(
        tool,
        Posture(state),
        scope=scope,
        scope_id=scope_id,
        reason=reason,
        expires_at_ms=expires_at_ms,
    )
    return _Change(tool=tool, where=where, before=before, after=state)


def _before(gate: EmbeddedGate, tool: str, where: _Where) -> str:
    wanted = (tool, where.scope, where.scope_id)
    for setting in gate.postures():
        if (setting.tool, setting.scope.value, setting.scope_id) == wanted:
            return setting.state.value
    return ""


def _not_set(tool: str, where: _Where, settings: tuple[PostureSetting, ...]) -> None:
    """Tell for whom the tool's postures are set, if there are any."""
    from palyra.core.errors import Code, NotFoundError

    found = [_Where(each.scope.value, each.scope_id) for each in settings if each.tool == tool]
    if not found:
        return  # that it has none at all, the gate says
    shown = ", ".join(f"{each.words} ({each.options})" for each in found[:_MOST_SHOWN])
    more = f" and {len(found) - _MOST_SHOWN} more" if len(found) > _MOST_SHOWN else ""
    raise NotFoundError(
        Code.POSTURE_UNKNOWN,
        f"no posture of {tool} is set for {where.words}",
        hint=f"it has one for {shown}{more}",
    )


def _where(scope: str, scope_id: str | None) -> _Where:
    if scope == "global" and scope_id is not None:
        raise click.UsageError("--for needs --scope workspace, agent or session")
    if scope != "global" and not scope_id:
        raise click.UsageError(f"--scope {scope} needs --for NAME")
    return _Where(scope, scope_id or "")


def _presets() -> Reply:
    from palyra.tools.posture_presets import POSTURE_PRESETS

    return Reply(
        document={
            "presets": [
                {"preset": name, "description": preset.description, "postures": preset.postures}
                for name, preset in POSTURE_PRESETS.items()
            ]
        },
        text=(
            Table(
                columns=("PRESET", "DESCRIPTION", "SETS"),
                rows=tuple(
                    (name, preset.description, _sets(preset.postures))
                    for name, preset in POSTURE_PRESETS.items()
                ),
            ),
        ),
    )


def _sets(postures: Mapping[str, Posture]) -> str:
    states = sorted({state.value for state in postures.values()})
    return "; ".join(
        f"{state}: {', '.join(tool for tool, its in postures.items() if its.value == state)}"
        for state in states
    )


def _require_tool(name: str) -> None:
    from palyra.core.errors import Code, NotFoundError
    from palyra.tools.built_in import built_in_catalogue

    catalogue = built_in_catalogue()
    if catalogue.find(name) is None:
        nearest = catalogue.nearest(name)
        raise NotFoundError(Code.TOOL_UNKNOWN, hint=f"did you mean {nearest}?" if nearest else "")


def _row(setting: PostureSetting, *, now_ms: int) -> tuple[str, ...]:
    where = _Where(setting.scope.value, setting.scope_id).words
    return (
        setting.tool,
        setting.state.value,
        where,
        _until(setting, now_ms=now_ms),
        f"{setting.set_by}{' (administrator)' if setting.by_administrator else ''}",
        rfc3339(setting.set_at_ms),
        setting.reason,
    )


def _until(setting: PostureSetting, *, now_ms: int) -> str:
    if setting.expires_at_ms is None:
        return "-"
    expired = "" if setting.holds_at(now_ms) else "EXPIRED "
    return f"{expired}{rfc3339(setting.expires_at_ms)}"


def _document(setting: PostureSetting, *, now_ms: int) -> dict[str, Any]:
    import msgspec

    return {
        **{name: getattr(setting, name) for name in msgspec.structs.asdict(setting)},
        "set_by": str(setting.set_by),
        "is_expired": not setting.holds_at(now_ms),
    }


def _now_ms() -> int:
    from palyra.daemon.clock import SystemClock

    return SystemClock().now_ms()
