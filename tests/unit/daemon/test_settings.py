# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import subprocess
import sys
import tomllib
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from palyra.core.errors import Code, ConfigError
from palyra.core.principal import Principal, PrincipalKind
from palyra.core.session import BudgetLimits
from palyra.core.snapshot import ToolCallPolicySnapshot
from palyra.daemon.settings import (
    BUILT_IN_TOOLS,
    KEYS,
    LimitsConfig,
    Settings,
    StoreConfig,
    ToolCallConfig,
    budget_limits,
    load,
    render_default_toml,
    snapshot,
)

if TYPE_CHECKING:
    from pathlib import Path


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    path.chmod(0o600)
    return path


def test_defaults(tmp_path: Path) -> None:
    loaded = load(tmp_path, None, {})
    assert loaded.settings == Settings(
        tool_call=ToolCallConfig(
            allowed_tools=(
                "palyra.echo",
                "palyra.sleep",
                "palyra.fs.read",
                "palyra.fs.list",
                "palyra.fs.search",
                "palyra.fs.write",
                "palyra.fs.apply_patch",
            ),
            allowed_principals=(),
            allowed_channels=(),
            allow_sensitive_tools=False,
            max_calls_per_run=32,
            max_calls_per_session=1024,
            max_calls_per_agent_hour=4096,
            max_depth=4,
            execution_timeout_ms=30_000,
        ),
        limits=LimitsConfig(proposals_per_second=50, proposal_burst=200),
        store=StoreConfig(busy_timeout_ms=5000),
    )
    assert loaded.origins == dict.fromkeys(KEYS, "default")


def test_environment_overrides_the_file_and_the_file_the_defaults(tmp_path: Path) -> None:
    path = write(tmp_path / "palyra.toml", "[tool_call]\nmax_depth = 1\nmax_calls_per_run = 2\n")
    loaded = load(tmp_path, None, {"PALYRA_TOOL_CALL__MAX_DEPTH": "3"})
    assert loaded.settings.tool_call.max_depth == 3
    assert loaded.settings.tool_call.max_calls_per_run == 2
    assert loaded.settings.tool_call.max_calls_per_session == 1024
    assert loaded.origins["tool_call.max_depth"] == "environment PALYRA_TOOL_CALL__MAX_DEPTH"
    assert loaded.origins["tool_call.max_calls_per_run"] == f"file {path}"
    assert loaded.origins["tool_call.max_calls_per_session"] == "default"


def test_every_key_can_be_set_by_file_and_by_environment(tmp_path: Path) -> None:
    uncommented = render_default_toml().replace("\n# allowed", "\nallowed")
    lines = (line.removeprefix("# ") if " = " in line else line for line in uncommented.split("\n"))
    path = write(tmp_path / "palyra.toml", "\n".join(lines))
    loaded = load(tmp_path, None, {})
    assert loaded.settings == Settings()
    assert loaded.origins == dict.fromkeys(KEYS, f"file {path}")
    environ = {key.variable: msgspec.json.encode(key.default).decode() for key in KEYS.values()}
    loaded = load(tmp_path, None, environ)
    assert loaded.settings == Settings()
    assert set(loaded.origins.values()) == {f"environment {name}" for name in environ}


def test_named_file_is_read_instead_of_the_usual_one(tmp_path: Path) -> None:
    write(tmp_path / "palyra.toml", "[tool_call]\nmax_depth = 1\n")
    by_variable = write(tmp_path / "variable.toml", "[tool_call]\nmax_depth = 2\n")
    by_option = write(tmp_path / "option.toml", "[tool_call]\nmax_depth = 3\n")
    environ = {"PALYRA_CONFIG": str(by_variable)}
    assert load(tmp_path, None, environ).settings.tool_call.max_depth == 2
    assert load(tmp_path, by_option, environ).settings.tool_call.max_depth == 3


@pytest.mark.invariant("I1")
def test_named_file_must_exist(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, tmp_path / "none.toml", {})
    assert caught.value.code is Code.CONFIG_UNREADABLE


@pytest.mark.invariant("I1")
def test_dangling_link_is_not_a_missing_file(tmp_path: Path) -> None:
    (tmp_path / "palyra.toml").symlink_to(tmp_path / "gone.toml")
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, None, {})
    assert caught.value.code is Code.CONFIG_UNREADABLE


@pytest.mark.invariant("I1")
@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("tool_call.allowed_tools = 'palyra.echo'", "tool_call.allowed_tools"),
        ("tool_call.allowed_tools = ['*']", "tool_call.allowed_tools"),
        ("tool_call.allowed_tools = ['palyra.*']", "tool_call.allowed_tools"),
        ('tool_call.allowed_tools = ["palyra.echo\\n"]', "tool_call.allowed_tools"),
        (f"tool_call.allowed_tools = ['a.{'b' * 127}']", "tool_call.allowed_tools"),
        ("tool_call.allowed_principals = ['ada']", "tool_call.allowed_principals"),
        ("tool_call.allowed_principals = ['agent:']", "tool_call.allowed_principals"),
        ("tool_call.allowed_principals = ['agent:*']", "tool_call.allowed_principals"),
        ("tool_call.allowed_principals = ['robot:ada']", "tool_call.allowed_principals"),
        ("tool_call.allowed_principals = ['Agent:ada']", "tool_call.allowed_principals"),
        ('tool_call.allowed_principals = ["agent:ada\\n"]', "tool_call.allowed_principals"),
        (
            f"tool_call.allowed_principals = ['agent:{'a' * 65}']",
            "tool_call.allowed_principals",
        ),
        ("tool_call.allowed_principals = 'agent:ada'", "tool_call.allowed_principals"),
        ("tool_call.allowed_channels = ['']", "tool_call.allowed_channels"),
        ("tool_call.allowed_channels = ['*']", "tool_call.allowed_channels"),
        ("tool_call.allowed_channels = ['HTTP']", "tool_call.allowed_channels"),
        ('tool_call.allowed_channels = ["http\\n"]', "tool_call.allowed_channels"),
        ("tool_call.allowed_channels = true", "tool_call.allowed_channels"),
        ("tool_call.allow_sensitive_tools = 1", "tool_call.allow_sensitive_tools"),
        ("tool_call.allow_sensitive_tools = 'true'", "tool_call.allow_sensitive_tools"),
        ("tool_call.allow_sensitive_tools = []", "tool_call.allow_sensitive_tools"),
        ("tool_call.max_calls_per_run = 0", "tool_call.max_calls_per_run"),
        ("tool_call.max_calls_per_run = '32'", "tool_call.max_calls_per_run"),
        ("tool_call.execution_timeout_ms = 0", "tool_call.execution_timeout_ms"),
        ("tool_call.execution_timeout_ms = 600001", "tool_call.execution_timeout_ms"),
        ("tool_call.execution_timeout_ms = 1e3", "tool_call.execution_timeout_ms"),
        ("tool_call.max_depth = true", "tool_call.max_depth"),
        ("tool_call.max_depth = 2020-01-01", "tool_call.max_depth"),
        ("limits.proposal_burst = -1", "limits.proposal_burst"),
        ("store.busy_timeout_ms.a = 1", "store.busy_timeout_ms"),
    ],
)
def test_wrong_value_names_key_expectation_and_file(tmp_path: Path, text: str, key: str) -> None:
    path = write(tmp_path / "palyra.toml", text)
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, None, {})
    assert caught.value.code is Code.CONFIG_INVALID
    assert caught.value.message == f"file {path}: {key} is not {KEYS[key].expected}"


def test_wrong_value_names_its_variable(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, None, {"PALYRA_TOOL_CALL__MAX_DEPTH": "many"})
    assert caught.value.code is Code.CONFIG_INVALID
    assert caught.value.message == (
        "environment PALYRA_TOOL_CALL__MAX_DEPTH: "
        "tool_call.max_depth is not an integer from 0 to 16"
    )


def test_who_may_call_by_which_surface_is_read_from_the_file(tmp_path: Path) -> None:
    write(
        tmp_path / "palyra.toml",
        "[tool_call]\n"
        "allowed_principals = ['agent:ada', 'operator:g.hopper@navy', 'service:cron-1']\n"
        "allowed_channels = ['embedded', 'http']\n"
        "allow_sensitive_tools = true\n",
    )
    config = load(tmp_path, None, {}).settings.tool_call
    assert config.allowed_principals == ("agent:ada", "operator:g.hopper@navy", "service:cron-1")
    assert config.allowed_channels == ("embedded", "http")
    assert config.allow_sensitive_tools is True


def test_who_may_call_by_which_surface_is_read_from_the_environment(tmp_path: Path) -> None:
    write(tmp_path / "palyra.toml", "[tool_call]\nallow_sensitive_tools = false\n")
    environ = {
        "PALYRA_TOOL_CALL__ALLOWED_PRINCIPALS": "agent:ada, service:cron",
        "PALYRA_TOOL_CALL__ALLOWED_CHANNELS": '["http"]',
        "PALYRA_TOOL_CALL__ALLOW_SENSITIVE_TOOLS": "true",
    }
    config = load(tmp_path, None, environ).settings.tool_call
    assert config.allowed_principals == ("agent:ada", "service:cron")
    assert config.allowed_channels == ("http",)
    assert config.allow_sensitive_tools is True
    environ["PALYRA_TOOL_CALL__ALLOW_SENSITIVE_TOOLS"] = "false"
    assert load(tmp_path, None, environ).settings.tool_call.allow_sensitive_tools is False


@pytest.mark.invariant("I1")
@pytest.mark.parametrize("text", ["True", "TRUE", "1", "yes", "on", "", " true", "null"])
def test_a_switch_is_true_or_false_and_never_guessed(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, None, {"PALYRA_TOOL_CALL__ALLOW_SENSITIVE_TOOLS": text})
    assert caught.value.message == (
        "environment PALYRA_TOOL_CALL__ALLOW_SENSITIVE_TOOLS: "
        "tool_call.allow_sensitive_tools is not true or false"
    )


def test_every_principal_can_be_allowed(tmp_path: Path) -> None:
    for kind in PrincipalKind:
        for name in ("a", "A.b_c@d-e", "0" * 64):
            principal = str(Principal(kind=kind, name=name))
            environ = {"PALYRA_TOOL_CALL__ALLOWED_PRINCIPALS": principal}
            assert load(tmp_path, None, environ).settings.tool_call.allowed_principals == (
                principal,
            )


def test_nothing_can_be_allowed(tmp_path: Path) -> None:
    loaded = load(tmp_path, None, {"PALYRA_TOOL_CALL__ALLOWED_TOOLS": ""})
    assert loaded.settings.tool_call.allowed_tools == ()


def test_snapshot_holds_what_can_change_a_decision() -> None:
    assert snapshot(Settings()) == ToolCallPolicySnapshot(
        allowed_tools=tuple(sorted(BUILT_IN_TOOLS)),
        allowed_principals=(),
        allowed_channels=(),
        allow_sensitive_tools=False,
        max_calls_per_run=32,
        max_calls_per_session=1024,
        max_calls_per_agent_hour=4096,
        max_depth=4,
        execution_timeout_ms=30_000,
    )


def test_snapshot_does_not_depend_on_spelling() -> None:
    one, two = (
        snapshot(
            Settings(
                tool_call=ToolCallConfig(
                    allowed_tools=tuple(f"{each}.x" for each in each_way),
                    allowed_principals=tuple(f"agent:{each}" for each in each_way),
                    allowed_channels=each_way,
                )
            )
        )
        for each_way in [("a", "b"), ("b", "a", "a")]
    )
    assert one == two
    assert one.digest == two.digest


@pytest.mark.parametrize(
    "changes",
    [
        {"allowed_principals": ("agent:ada",)},
        {"allowed_channels": ("http",)},
        {"allow_sensitive_tools": True},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_snapshot_takes_over_what_is_configured(changes: dict[str, Any]) -> None:
    taken = snapshot(Settings(tool_call=ToolCallConfig(**changes)))
    assert taken == msgspec.structs.replace(snapshot(Settings()), **changes)


def test_budget_limits() -> None:
    config = ToolCallConfig(
        max_calls_per_run=1, max_calls_per_session=2, max_calls_per_agent_hour=3
    )
    assert budget_limits(Settings(tool_call=config)) == BudgetLimits(
        max_calls_per_run=1, max_calls_per_session=2, max_calls_per_agent_hour=3
    )


def test_template_explains_every_key_and_sets_none() -> None:
    template = render_default_toml()
    assert tomllib.loads(template) == {"tool_call": {}, "limits": {}, "store": {}}
    for key in KEYS.values():
        assert (
            f"# {key.meaning} Takes {key.expected}.\n# {key.name.rpartition('.')[2]} =" in template
        )


def test_import_is_light() -> None:
    heavy = "{'asyncio', 'click', 'cryptography', 'apsw', 'jsonschema_rs', 'tomllib', 'difflib'}"
    program = (
        "import sys, palyra.daemon.settings, palyra.daemon.home;"
        f"print(sorted({heavy} & set(sys.modules)))"
    )
    answer = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env={}
    )
    assert answer.stdout.strip() == "[]"
