# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from scripts.generated_page import bring_up_to_date


def test_what_is_written_is_current(tmp_path: Path) -> None:
    path = tmp_path / "reference" / "page.md"
    assert bring_up_to_date("text", path=path, arguments=[], script="some") == 0
    assert bring_up_to_date("text", path=path, arguments=["--check"], script="some") == 0


def test_an_old_or_missing_page_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "page.md"
    assert bring_up_to_date("text", path=path, arguments=["--check"], script="some") == 1
    path.write_text("old", encoding="utf-8")
    assert bring_up_to_date("text", path=path, arguments=["--check"], script="some") == 1
    assert capsys.readouterr().out.count("page.md is not current") == 2
