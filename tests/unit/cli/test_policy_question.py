# SPDX-License-Identifier: Apache-2.0
from typing import Any

import click
import msgspec
import pytest

from palyra.cli.policy_question import Circumstances, asked_case, circumstances
from palyra.core.errors import InputError, NotFoundError
from palyra.core.execution import Executor
from palyra.core.manifest import ToolManifest
from palyra.core.policy_request import EntityUid
from palyra.core.posture import Posture, PostureScope, PostureSetting
from palyra.core.principal import Principal, PrincipalKind
from palyra.daemon.clock import SystemClock
from palyra.daemon.compose import cedar_policy
from palyra.daemon.local_identity import local_agent, local_operator
from palyra.daemon.rules_reading import PackagedRules
from palyra.daemon.settings import Settings, ToolCallConfig
from palyra.daemon.verdicts import verdict_on
from palyra.flow.policy.cases import Case, inquiry_for
from palyra.flow.policy.presets import packaged_pack
from palyra.flow.policy.rules import Rules
from palyra.tools.built_in import BUILT_IN_TOOLS
from palyra.tools.catalogue import Catalogue

OPERATOR = Principal(kind=PrincipalKind.OPERATOR, name="ada")
RESTRICTED = Settings(
    tool_call=ToolCallConfig(
        allowed_tools=("palyra.echo", "palyra.fs.write"),
        allowed_principals=("agent:demo",),
        allow_sensitive_tools=True,
    )
)


def here(settings: Settings = Settings(), **changes: Any) -> Circumstances:  # noqa: ANN401, B008
    return circumstances(settings, PackagedRules())._replace(**changes)


def asked(where: Circumstances, **options: str | None) -> Case:
    said: dict[str, Any] = {
        "principal": "agent:demo",
        "action": "tool.execute",
        "resource": "tool:palyra.fs.write",
        "context": None,
        **options,
    }
    return asked_case(**said, here=where)


def posture(scope: PostureScope, scope_id: str, state: Posture, **changes: Any) -> PostureSetting:  # noqa: ANN401
    setting = PostureSetting(
        tool="palyra.fs.write",
        scope=scope,
        scope_id=scope_id,
        state=state,
        reason="x",
        set_by=OPERATOR,
        by_administrator=True,
        set_at_ms=0,
    )
    return msgspec.structs.replace(setting, **changes)


@pytest.mark.parametrize("settings", [Settings(), RESTRICTED], ids=["usual", "restricted"])
@pytest.mark.parametrize("agent", ["demo", "eve", None])
@pytest.mark.parametrize("tool", [manifest.name for manifest in BUILT_IN_TOOLS])
def test_the_answer_is_that_of_the_gate(tool: str, agent: str | None, settings: Settings) -> None:
    where = here(settings)
    caller = local_agent(agent) if agent is not None else local_operator()
    manifest = where.catalogue.find(tool)
    assert manifest is not None
    engine = cedar_policy(PackagedRules(), settings, clock=SystemClock())
    expected = verdict_on(manifest, caller=caller, engine=engine)
    case = asked(
        where, principal=f"agent:{agent}" if agent is not None else None, resource=f"tool:{tool}"
    )
    said = Rules(packaged_pack()).judge(inquiry_for(case, assumed=where.assumed), afresh=True)
    assert (said.verdict, said.code, said.policies) == (
        expected.verdict,
        expected.code,
        expected.policies,
    )


def test_whoever_owns_the_home_is_an_administrator() -> None:
    assert asked(here(), principal=None).roles == ("administrator",)
    name = local_operator().principal.name
    assert asked(here(), principal=f"user:{name}").roles == ("administrator",)
    assert asked(here(), principal="user:somebody-else").roles == ()
    assert asked(here(), principal=f"agent:{name}").roles == ()


@pytest.mark.parametrize(
    ("setting", "context", "expected"),
    [
        (posture(PostureScope.GLOBAL, "", Posture.DISABLED), None, "disabled"),
        (posture(PostureScope.AGENT, "demo", Posture.DISABLED), None, "disabled"),
        (posture(PostureScope.AGENT, "eve", Posture.DISABLED), None, "always_allow"),
        (posture(PostureScope.SESSION, "s", Posture.DISABLED), '{"session":"s"}', "disabled"),
        (posture(PostureScope.SESSION, "s", Posture.DISABLED), None, "always_allow"),
        (
            posture(PostureScope.WORKSPACE, "w", Posture.ASK_EACH_TIME),
            '{"files":{"workspace":"w"}}',
            "ask_each_time",
        ),
        (posture(PostureScope.WORKSPACE, "w", Posture.DISABLED), '{"files":{}}', "always_allow"),
        (posture(PostureScope.GLOBAL, "", Posture.DISABLED, expires_at_ms=1), None, "always_allow"),
        (
            posture(PostureScope.GLOBAL, "", Posture.DISABLED, tool="palyra.echo"),
            None,
            "always_allow",
        ),
        (
            posture(PostureScope.GLOBAL, "", Posture.DISABLED),
            '{"posture":"ask_each_time"}',
            "ask_each_time",
        ),
    ],
)
def test_postures_count_as_they_would_for_a_call(
    setting: PostureSetting, context: str | None, expected: str
) -> None:
    case = asked(here(postures=(setting,)), context=context)
    assert case.context["posture"] == expected


def test_what_is_no_call_has_no_posture() -> None:
    case = asked(here(), action="policy.stage", resource="policy_pack:x")
    assert case.context == {}


def test_a_tool_may_be_sensitive_by_its_own_word() -> None:
    manifest = ToolManifest(
        name="my.tool",
        version="2.0.0",
        description="x",
        input_schema={},
        output_schema={},
        executor=Executor.BUILTIN,
        declared_sensitive=True,
    )
    case = asked(here(catalogue=Catalogue((manifest,))), resource="tool:my.tool")
    assert case.context["is_sensitive_action"] is True
    assert case.context["tool_version"] == "2.0.0"


def test_a_tool_that_is_misspelt_is_refused() -> None:
    with pytest.raises(NotFoundError) as caught:
        asked(here(), resource="tool:palyra.fs.writ")
    assert caught.value.hint == "did you mean tool:palyra.fs.write?"
    with pytest.raises(NotFoundError) as caught:
        asked(here(), resource="tool:zzz")
    assert "--context" in caught.value.hint
    case = asked(here(), resource="tool:zzz", context='{"capabilities":["network"]}')
    assert case.resource == EntityUid("Tool", "zzz")


@pytest.mark.parametrize(
    "options",
    [
        {"context": "nope"},
        {"context": "[]"},
        {"context": '{"a":1,"a":2}'},
        {"context": '{"chanel":"x"}'},
        {"context": '{"zzzzzz":"x"}'},
        {"action": "tool.exekute"},
        {"action": "management"},
        {"action": "zzz"},
    ],
)
def test_a_question_that_cannot_be_asked_is_a_wrong_command_line(options: dict[str, str]) -> None:
    with pytest.raises(click.UsageError):
        asked(here(), **options)


@pytest.mark.parametrize("options", [{"principal": "ada"}, {"resource": "agent:x"}])
def test_things_are_named_with_their_kind(options: dict[str, str]) -> None:
    with pytest.raises(InputError):
        asked(here(), **options)
