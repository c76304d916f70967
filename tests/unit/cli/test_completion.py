# SPDX-License-Identifier: Apache-2.0
import os
import subprocess
import sys

import pytest

from tests.support.command_line import CommandLine


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts(palyra: CommandLine, shell: str) -> None:
    script = palyra("completion", shell).out
    assert f"_PALYRA_COMPLETE={shell}_complete" in script
    assert palyra.json("completion", shell).document == {
        "shell": shell,
        "script": script.rstrip("\n"),
    }


def test_an_unknown_shell(palyra: CommandLine) -> None:
    assert palyra("completion", "tcsh").status == 2


def test_the_program_completes() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", "from palyra.cli.main import main; main([])"],
        env={
            **os.environ,
            "_PALYRA_COMPLETE": "bash_complete",
            "COMP_WORDS": "palyra journal ",
            "COMP_CWORD": "2",
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert ran.stdout.split() == ["plain,export", "plain,show", "plain,tail", "plain,verify"]
