# SPDX-License-Identifier: Apache-2.0
from collections.abc import Sequence
from pathlib import Path

import click
import pytest

from palyra.cli.frame import Command, Frame, Group, claims_json
from palyra.cli.output import Output


@pytest.mark.parametrize(
    ("arguments", "is_claimed"),
    [
        pytest.param(["--json", "call"], True, id="before-the-command"),
        pytest.param(["call", "--json", "--bogus"], True, id="beside-nonsense"),
        pytest.param(["call", "--", "--json"], False, id="after-the-end-of-options"),
        pytest.param(["call"], False, id="not-at-all"),
    ],
)
def test_json_is_recognised_whatever_the_rest(arguments: list[str], *, is_claimed: bool) -> None:
    assert claims_json(arguments) is is_claimed


@click.group("noun", cls=Group)
def noun() -> None:
    """Stand for any noun."""


@noun.command("verb")
def verb() -> None:
    """Stand for any verb."""


def run(arguments: Sequence[str]) -> Frame:
    frame = Frame(output=Output(as_json=False), environ={"HOME": "/home/user"})
    noun.main(list(arguments), prog_name="noun", standalone_mode=False, obj=frame)
    return frame


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["--home", "/h", "--config", "c", "-v", "--no-color", "verb"], id="before"),
        pytest.param(["verb", "--home", "/h", "--config", "c", "-v", "--no-color"], id="after"),
        pytest.param(["--home", "/h", "-v", "verb", "--config", "c", "--no-color"], id="around"),
    ],
)
def test_global_options_stand_anywhere(arguments: list[str]) -> None:
    frame = run(arguments)
    assert (frame.home_option, frame.config_option) == ("/h", "c")
    assert frame.is_verbose
    assert frame.output.no_color


def test_the_later_option_counts() -> None:
    assert run(["--home", "/a", "verb", "--home", "/b"]).home == Path("/b")


def test_without_options_the_environment_counts() -> None:
    frame = run(["verb"])
    assert frame.home == Path("/home/user/.local/state/palyra")
    assert not frame.is_verbose
    assert not frame.output.no_color


def test_only_the_root_lists_the_global_options(capsys: pytest.CaptureFixture[str]) -> None:
    noun.main(
        ["verb", "--help"],
        prog_name="noun",
        standalone_mode=False,
        obj=Frame(output=Output(as_json=False), environ={}),
    )
    told = capsys.readouterr().out
    assert "--home" not in told
    assert "global options" in told


def test_commands_take_the_global_options_by_their_class() -> None:
    assert noun.command_class is Command
    assert {option for each in verb.params for option in each.opts} >= {"--json", "--home", "-v"}
