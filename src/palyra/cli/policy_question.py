# SPDX-License-Identifier: Apache-2.0
"""A request that nobody made in, the question that the gate would ask policy about it out.

Everything that the request does not say comes from where the gate takes it: the configuration, the
catalogue, the postures that are set, and who the local operator is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import click

if TYPE_CHECKING:
    from collections.abc import Mapping

    from palyra.core.policy_request import EntityUid
    from palyra.core.ports import RulesStore
    from palyra.core.posture import Posture, PostureSetting
    from palyra.daemon.settings import Settings
    from palyra.flow.policy.assumed import Assumed
    from palyra.flow.policy.cases import Case
    from palyra.tools.catalogue import Catalogue

_CALLS = ("tool.execute", "tool.preview")
_LARGEST_CONTEXT_BYTES = 1 << 20


class Circumstances(NamedTuple):
    """What holds here and now, besides the policies."""

    assumed: Assumed
    catalogue: Catalogue
    postures: tuple[PostureSetting, ...]
    operator: EntityUid
    """Who has the role of an administrator by owning the state directory."""

    def of(self, case: Case) -> Case:
        """Return a request with what the gate would add: roles, the tool's own, its posture."""
        import msgspec

        is_operator = case.principal == self.operator
        roles = dict.fromkeys((*case.roles, *(("administrator",) if is_operator else ())))
        added: dict[str, Any] = {}
        if case.action in _CALLS and case.resource.type == "Tool":
            added["posture"] = self._posture(case).value
            manifest = self.catalogue.find(case.resource.id)
            if manifest is not None:
                added["tool_version"] = manifest.version
            if manifest is not None and manifest.declared_sensitive:
                added["is_sensitive_action"] = True
        return msgspec.structs.replace(case, roles=tuple(roles), context={**added, **case.context})

    def _posture(self, case: Case) -> Posture:
        from palyra.core.posture import strictest

        concerned = _scopes(case.principal, case.context)
        return strictest(
            (
                setting
                for setting in self.postures
                if setting.tool == case.resource.id
                and (setting.scope.value, setting.scope_id) in concerned
            ),
            now_ms=self.assumed.now_ms,
        )


def circumstances(settings: Settings, store: RulesStore) -> Circumstances:
    """Return what holds here and now."""
    from palyra.daemon.clock import SystemClock
    from palyra.daemon.compose import CHANNEL
    from palyra.daemon.local_identity import ASSURANCE, local_operator
    from palyra.daemon.settings import budget_limits
    from palyra.flow.policy.assumed import Assumed
    from palyra.flow.policy.inquiry import uid_of
    from palyra.tools.built_in import built_in_catalogue

    config = settings.tool_call
    catalogue = built_in_catalogue()

    def capabilities_of(tool: str) -> tuple[str, ...] | None:
        manifest = catalogue.find(tool)
        return tuple(sorted(manifest.capabilities)) if manifest is not None else None

    return Circumstances(
        assumed=Assumed(
            capabilities_of=capabilities_of,
            allowed_tools=frozenset(config.allowed_tools),
            allow_sensitive_tools=config.allow_sensitive_tools,
            allowed_principals=frozenset(config.allowed_principals),
            allowed_channels=frozenset(config.allowed_channels),
            channel=CHANNEL,
            assurance=ASSURANCE.value,
            budget=budget_limits(settings),
            now_ms=SystemClock().now_ms(),
        ),
        catalogue=catalogue,
        postures=store.postures(),
        operator=uid_of(local_operator().principal),
    )


def asked_case(
    *, principal: str | None, action: str, resource: str, context: str | None, here: Circumstances
) -> Case:
    """Return the request that the options of a command describe.

    Raises:
        InputError: a thing is not written as ``kind:name``.
        NotFoundError: there is no such tool, and nothing is said of its powers.
        click.UsageError: there is no such action, or the context is not one.
    """
    from palyra.flow.policy.cases import PRINCIPAL_KINDS, RESOURCE_KINDS, Case, entity
    from palyra.flow.policy.vocabulary import declared_actions, nearest_action

    if action not in declared_actions():
        close = nearest_action(action)
        hint = f"did you mean {close}?" if close else "'palyra policy show --actions' lists them"
        raise click.UsageError(f"there is no such action; {hint}")
    case = Case(
        name="asked",
        principal=here.operator if principal is None else entity(principal, PRINCIPAL_KINDS),
        action=action,
        resource=entity(resource, RESOURCE_KINDS),
        context=_context(context) if context is not None else {},
    )
    _require_tool(case, here.catalogue)
    return here.of(case)


def _scopes(principal: EntityUid, context: Mapping[str, Any]) -> set[tuple[str, object]]:
    """Return for whom a posture can be set that concerns such a call."""
    scopes: set[tuple[str, object]] = {("global", "")}
    if principal.type == "Agent":
        scopes.add(("agent", principal.id))
    files, session = context.get("files"), context.get("session")
    if isinstance(files, dict) and isinstance(files.get("workspace"), str):
        scopes.add(("workspace", files["workspace"]))
    if isinstance(session, str) and session:
        scopes.add(("session", session))
    return scopes


def _require_tool(case: Case, catalogue: Catalogue) -> None:
    """Refuse a tool that is misspelt: an answer about it would mean nothing."""
    from palyra.core.errors import Code, NotFoundError

    is_known = case.resource.type != "Tool" or catalogue.find(case.resource.id) is not None
    if is_known or "capabilities" in case.context:
        return
    close = catalogue.nearest(case.resource.id)
    raise NotFoundError(
        Code.TOOL_UNKNOWN,
        hint=f"did you mean tool:{close}?"
        if close
        else """say what a tool of your own can do: --context '{"capabilities": []}'""",
    )


def _context(text: str) -> dict[str, Any]:
    from palyra.core.errors import InputError
    from palyra.core.nearest import nearest
    from palyra.core.strict_json import JsonLimits, decode
    from palyra.flow.policy.vocabulary import context_attributes

    try:
        context = decode(text.encode(), limits=JsonLimits(max_bytes=_LARGEST_CONTEXT_BYTES))
    except InputError as error:
        raise click.UsageError(f"--context: {error.message}") from error
    if not isinstance(context, dict):
        raise click.UsageError("--context is not a JSON object")
    known = {path for path in context_attributes() if "." not in path}
    for name in context:
        if name not in known:
            close = nearest(name, known)
            hint = f"did you mean {close}?" if close else "'palyra policy show --schema' has them"
            raise click.UsageError(f"--context: there is no such attribute; {hint}")
    return context
