# SPDX-License-Identifier: Apache-2.0
import subprocess
import sys

import click
import pytest

from palyra.cli.policy import COMMANDS, command
from tests.support.command_line import CommandLine


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_is_there_under_its_name(name: str) -> None:
    found = command.get_command(click.Context(command), name)
    assert found is not None
    assert found.name == name
    assert found.help


def test_help_lists_every_command(palyra: CommandLine) -> None:
    listed = palyra("policy", "--help").out
    assert all(f"\n  {name} " in listed for name in COMMANDS)
    assert "--verbose" not in listed


def test_a_misspelt_command_is_told(palyra: CommandLine) -> None:
    ran = palyra.json("policy", "stge")
    assert (ran.status, ran.document["error"]["hint"]) == (2, "did you mean stage?")


@pytest.mark.parametrize("noun", ["policy", "posture"])
def test_help_imports_nothing_heavy(noun: str) -> None:
    code = (
        f"import sys; from palyra.cli.main import main; status = main(['{noun}', '--help']);"
        "heavy = ('apsw', 'asyncio', 'cedarpy', 'cryptography', 'msgspec', 'rich');"
        "print([name for name in heavy if name in sys.modules], file=sys.stderr)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30
    )
    assert ran.stderr == "[]\n"
