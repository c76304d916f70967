# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from palyra.core.errors import Code, ConfigError
from palyra.daemon.settings import KEYS
from palyra.daemon.settings_sources import values_in_file, variables_in

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "palyra.toml"
    path.touch(mode=0o600)
    return path


def refusal(path: Path) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        values_in_file(path, keys=KEYS)
    return caught.value


@pytest.mark.parametrize(
    ("text", "values"),
    [
        pytest.param("", {}, id="an-empty-file"),
        pytest.param("[tool_call]\nmax_depth = 2", {"tool_call.max_depth": 2}, id="a-table"),
        pytest.param("tool_call.max_depth = 2", {"tool_call.max_depth": 2}, id="a-dotted-key"),
        pytest.param(
            "[store]\n[limits]\nproposal_burst = 'x'",
            {"limits.proposal_burst": "x"},
            id="values-are-not-judged-here",
        ),
    ],
)
def test_file_gives_the_values_it_sets(config: Path, text: str, values: dict[str, Any]) -> None:
    config.write_text(text, encoding="utf-8")
    assert values_in_file(config, keys=KEYS) == values


@pytest.mark.parametrize(
    ("text", "key", "meant"),
    [
        ("[tool_call]\nmax_depht = 2", "tool_call.max_depht", "tool_call.max_depth"),
        ("[toolcall]\nmax_depth = 2", "toolcall", "tool_call"),
        ("max_depth = 2", "max_depth", "tool_call.max_depth"),
        ("zzz = 2", "zzz", None),
        (
            '"tool_call.max_depth" = 2',
            '"tool_call.max_depth"',
            "tool_call.max_depth",
        ),
        ('"\\u202e" = 2', r"\u202e", None),
    ],
    ids=["misspelt", "misspelt-table", "without-its-table", "far-off", "quoted", "hostile"],
)
def test_unknown_key_in_a_file_is_refused(
    config: Path, text: str, key: str, meant: str | None
) -> None:
    config.write_text(text, encoding="utf-8")
    error = refusal(config)
    assert error.code is Code.CONFIG_UNKNOWN_KEY
    assert error.message.startswith(f"file {config}: unknown key {key}")
    assert error.details == {"key": key, "nearest": meant, "origin": f"file {config}"}
    if meant:
        assert error.message.endswith(f"the nearest known key is {meant}")


def test_value_where_a_table_belongs_is_refused(config: Path) -> None:
    config.write_text("tool_call = 2", encoding="utf-8")
    error = refusal(config)
    assert error.code is Code.CONFIG_INVALID
    assert error.message == f"file {config}: tool_call is not a table"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        pytest.param(b"a = \n", "is not TOML: line 1, column 5", id="broken"),
        pytest.param(b"[store]\n\nbusy", "is not TOML: line 3, at its end", id="cut-short"),
        pytest.param(b"a = 1\na = 2\n", "is not TOML: line 2, column 6", id="twice"),
        pytest.param(b"[store]\n# \xff\n", "is not UTF-8 in line 2", id="not-utf-8"),
        pytest.param(b"a = " + b"[" * 100_000, "too large or nests too deeply", id="too-deep"),
        pytest.param(b"a = " + b"9" * 5000, "too large or nests too deeply", id="a-long-number"),
        pytest.param(b"#" * (1 << 20) + b"#", "has more than 1048576 bytes", id="too-large"),
    ],
)
def test_file_that_is_not_toml_is_refused_with_its_line(
    config: Path, content: bytes, problem: str
) -> None:
    config.write_bytes(content)
    error = refusal(config)
    assert error.code is Code.CONFIG_UNREADABLE
    assert error.message.startswith(f"file {config} ")
    assert error.message.endswith(problem)


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_file_that_others_may_write_is_refused(config: Path, mode: int) -> None:
    config.chmod(mode)
    error = refusal(config)
    assert error.code is Code.CONFIG_UNREADABLE
    assert error.message == f"file {config} can be written by others (mode 0{mode:o})"
    assert error.hint == f"chmod go-w {config}"


def test_file_that_others_may_read_is_taken(config: Path) -> None:
    config.chmod(0o644)
    assert values_in_file(config, keys=KEYS) == {}


def test_file_of_somebody_else_is_refused(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    genuine = os.fstat

    def fstat_of_another(descriptor: int) -> os.stat_result:
        fields = list(genuine(descriptor))
        fields[4] = 4711
        return os.stat_result(fields)

    monkeypatch.setattr(os, "fstat", fstat_of_another)
    error = refusal(config)
    assert error.code is Code.CONFIG_UNREADABLE
    assert "belongs to uid 4711" in error.message


def test_missing_file_is_refused(tmp_path: Path) -> None:
    error = refusal(tmp_path / "none.toml")
    assert error.code is Code.CONFIG_UNREADABLE
    assert error.message.endswith("cannot be read: No such file or directory")


def test_folder_is_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path).code is Code.CONFIG_UNREADABLE


def test_pipe_is_refused_without_waiting_for_it(tmp_path: Path) -> None:
    pipe = tmp_path / "palyra.toml"
    os.mkfifo(pipe, 0o600)
    assert refusal(pipe).message == f"{pipe} is not a regular file"


def test_variables_of_ours_are_found() -> None:
    environ = {
        "PALYRA_TOOL_CALL__MAX_DEPTH": "2",
        "PALYRA_HOME": "/h",
        "PALYRA_CONFIG": "/c",
        "PALYRA_ANYTHING": "ignored",
        "OTHER__THING": "ignored",
    }
    assert variables_in(environ, keys=KEYS) == {
        "tool_call.max_depth": "PALYRA_TOOL_CALL__MAX_DEPTH"
    }


@pytest.mark.parametrize(
    ("variable", "meant"),
    [
        ("PALYRA_TOOL_CALL__MAX_DEPHT", "PALYRA_TOOL_CALL__MAX_DEPTH"),
        ("PALYRA_tool_call__max_depth", None),
        ("PALYRA_ZZZ__Y", None),
        ("PALYRA__", None),
    ],
)
def test_unknown_variable_is_refused(variable: str, meant: str | None) -> None:
    with pytest.raises(ConfigError) as caught:
        variables_in({variable: "2"}, keys=KEYS)
    assert caught.value.code is Code.CONFIG_UNKNOWN_KEY
    assert caught.value.message.startswith(f"environment: unknown key {variable}")
    assert caught.value.details["nearest"] == meant
