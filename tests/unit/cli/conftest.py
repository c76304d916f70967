# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from tests.support.command_line import CommandLine


@pytest.fixture(autouse=True)
def palyra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> CommandLine:
    """Run no command of a test on the home of whoever runs the tests."""
    return CommandLine(tmp_path, monkeypatch=monkeypatch, capsys=capsys)
