# SPDX-License-Identifier: Apache-2.0
import subprocess
import sys
from pathlib import Path

import click
import pytest

from palyra import __version__
from palyra.cli.main import NOUNS, ROOT
from palyra.cli.output import Output, Reply, Stream
from tests.support.command_line import CommandLine

HEAVY = ("apsw", "asyncio", "cryptography", "jsonschema_rs", "msgspec", "rich")


@pytest.mark.parametrize("name", sorted(NOUNS))
def test_every_noun_is_a_command_of_its_name(name: str) -> None:
    command = ROOT.get_command(click.Context(ROOT), name)
    assert command is not None
    assert command.name == name
    assert command.help


def test_help_lists_every_noun(palyra: CommandLine) -> None:
    ran = palyra("--help")
    assert ran.status == 0
    assert all(f"\n  {name} " in ran.out for name in NOUNS)
    assert palyra.json("--help").document == {"help": ran.out.rstrip("\n")}


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from palyra.cli.main import main; status = main(['--help']);"
        f"print([name for name in {HEAVY} if name in sys.modules], file=sys.stderr)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30
    )
    assert ran.stderr == "[]\n"


def test_version(palyra: CommandLine) -> None:
    assert palyra("--version").out == f"palyra {__version__}\n"
    assert palyra.json("--version").document == {"version": __version__}


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param((), id="no-command"),
        pytest.param(("cal",), id="an-unknown-command"),
        pytest.param(("journal", "tial"), id="an-unknown-subcommand"),
        pytest.param(("--bogus",), id="an-unknown-option"),
        pytest.param(("journal", "show", "x"), id="a-wrong-value"),
        pytest.param(("call", "palyra.echo", "\udcff"), id="bytes-that-are-no-text"),
    ],
)
def test_usage_errors_are_one_document_and_exit_code_two(
    palyra: CommandLine, arguments: tuple[str, ...]
) -> None:
    ran = palyra.json(*arguments)
    assert ran.status == 2
    assert ran.document["error"]["code"] == "usage.invalid"
    assert ran.err == ""
    spoken = palyra(*arguments)
    assert (spoken.status, spoken.out) == (2, "")
    assert spoken.err


def fail(*_: object, **__: object) -> None:
    raise KeyError("value")


def test_an_internal_fault_shows_its_trace_only_when_asked(
    palyra: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ROOT, "invoke", fail)
    quiet = palyra("tools", "list")
    assert (quiet.status, quiet.out) == (1, "")
    assert quiet.err.startswith("palyra: an internal fault: KeyError\n")
    assert "Traceback" not in quiet.err
    loud = palyra.json("-v", "tools", "list")
    assert loud.document["error"]["code"] == "internal.fault"
    assert "Traceback" in loud.err


def interrupt(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def test_an_interrupt_ends_cleanly(palyra: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ROOT, "invoke", interrupt)
    ran = palyra("tools", "list")
    assert (ran.status, ran.out) == (130, "")
    assert ran.err.strip() == "palyra: interrupted"


def test_an_interrupt_while_printing_ends_cleanly(
    palyra: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Output, "tell", interrupt)
    assert palyra("tools", "list").status == 130


def test_a_fault_while_streaming_is_no_second_document(
    palyra: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def chunks() -> object:
        yield b'{"a":'
        fail()

    monkeypatch.setattr(ROOT, "invoke", lambda _: Stream(chunks=chunks()))  # type: ignore[arg-type]
    ran = palyra.json("tools", "list")
    assert (ran.status, ran.out) == (1, '{"a":')
    assert "internal.fault" in ran.err


def test_python_m_palyra_is_palyra(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "palyra", "nope"],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
        env={"PALYRA_HOME": str(tmp_path)},
    )
    assert ran.returncode == 2
    assert ran.stderr.startswith("palyra: no such command 'nope'\n")


def test_a_document_that_has_no_json_form_is_an_error_document(
    palyra: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ROOT, "invoke", lambda _: Reply(document={"a": "\udcff"}, text=()))
    ran = palyra.json("tools", "list")
    assert ran.status == 1
    assert ran.document["error"]["code"] == "internal.fault"


def test_closed_standard_input_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "key").touch()
    ran = subprocess.run(
        ["/bin/sh", "-c", '"$0" -m palyra attest verify - --key key --json <&-', sys.executable],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
        cwd=tmp_path,
        env={"PALYRA_HOME": str(tmp_path)},
    )
    assert (ran.returncode, ran.stderr) == (2, "")
    assert '"usage.invalid"' in ran.stdout
