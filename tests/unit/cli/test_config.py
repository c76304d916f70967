# SPDX-License-Identifier: Apache-2.0
import stat
from pathlib import Path

import pytest

from palyra.daemon.settings import KEYS
from tests.support.command_line import CommandLine


def test_show_has_every_key_and_its_origin(
    palyra: CommandLine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "palyra.toml"
    file.write_text("[tool_call]\nmax_depth = 2\n")
    file.chmod(0o600)
    monkeypatch.setenv("PALYRA_STORE__BUSY_TIMEOUT_MS", "7")
    document = palyra.json("config", "show", "--config", str(file)).document
    assert document["home"] == str(palyra.home)
    assert list(document["values"]) == list(KEYS)
    assert document["values"]["tool_call.max_depth"] == {"value": 2, "origin": f"file {file}"}
    assert document["values"]["store.busy_timeout_ms"] == {
        "value": 7,
        "origin": "environment PALYRA_STORE__BUSY_TIMEOUT_MS",
    }
    assert document["values"]["limits.proposal_burst"]["origin"] == "default"


def test_show_for_people_creates_nothing(palyra: CommandLine) -> None:
    lines = palyra("config", "show").out.splitlines()
    assert lines[0] == f"home: {palyra.home}"
    assert lines[1].split() == ["KEY", "VALUE", "ORIGIN"]
    assert len(lines) == len(KEYS) + 2
    assert not palyra.home.exists()


def test_check(palyra: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    assert palyra("config", "check").out == f"ok, {len(KEYS)} keys, 0 of them set\n"
    monkeypatch.setenv("PALYRA_TOOL_CALL__ALLOWED_TOOLS", "palyra.echo,my.tool")
    ran = palyra.json("config", "check")
    assert ran.document["set"] == ["tool_call.allowed_tools"]
    assert ran.document["unknown_tools"] == ["my.tool"]
    assert "my.tool" in ran.err


@pytest.mark.parametrize("verb", ["show", "check"])
def test_a_wrong_configuration(
    palyra: CommandLine, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    monkeypatch.setenv("PALYRA_TOOL_CALL__MAX_DEPHT", "1")
    ran = palyra.json("config", verb)
    assert (ran.status, ran.document["error"]["code"]) == (2, "config.unknown_key")


def test_init_writes_a_private_file_that_changes_nothing(palyra: CommandLine) -> None:
    before = palyra.json("config", "show").document
    ran = palyra.json("config", "init")
    path = palyra.home / "palyra.toml"
    assert ran.document == {"file": str(path)}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert palyra.json("config", "show").document == before


def test_init_replaces_only_when_forced(palyra: CommandLine) -> None:
    palyra("config", "init")
    path = palyra.home / "palyra.toml"
    path.write_text("# mine\n")
    again = palyra.json("config", "init")
    assert (again.status, again.document["error"]["code"]) == (7, "config.exists")
    assert path.read_text() == "# mine\n"
    assert palyra("config", "init", "--force").out == f"wrote {path}\n"
    assert "max_depth" in path.read_text()
    assert {each.name for each in palyra.home.iterdir()} == {"palyra.toml", "policies"}


def test_init_writes_where_it_is_told(palyra: CommandLine, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    assert palyra("config", "init", "--config", str(path)).status == 0
    assert path.exists()
    assert not palyra.home.exists()


def test_init_where_nothing_can_be_written(palyra: CommandLine) -> None:
    ran = palyra.json("config", "init", "--config", "/nowhere/mine.toml")
    assert (ran.status, ran.document["error"]["code"]) == (2, "config.unreadable")


def test_a_home_that_is_no_text_is_shown_escaped(
    palyra: CommandLine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    home = f"{tmp_path}/\udcff"
    monkeypatch.setenv("PALYRA_HOME", home)
    file = f"{tmp_path}/\\udcff/palyra.toml"
    assert palyra.json("config", "init").document == {"file": file}
    assert palyra.json("config", "check").status == 0
    Path(home, "palyra.toml").write_text("[tool_call]\nmax_depth = 2\n")
    document = palyra.json("config", "show").document
    assert document["home"] == f"{tmp_path}/\\udcff"
    assert document["values"]["tool_call.max_depth"]["origin"] == f"file {file}"


@pytest.mark.parametrize(
    "text", ["[" * 5000, '["\udcff"]', "a,\udcff"], ids=["nested", "a-byte-in-a-list", "a-byte"]
)
def test_a_list_that_cannot_be_read_is_a_wrong_value(
    palyra: CommandLine, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv("PALYRA_TOOL_CALL__ALLOWED_TOOLS", text)
    ran = palyra.json("config", "show")
    assert (ran.status, ran.document["error"]["code"]) == (2, "config.invalid")
