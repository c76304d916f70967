# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from scripts.check_module_size import FOLDERS, LIMIT_LINES, find_violations, main


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_file_at_the_limit_passes(tmp_path: Path, folder: str) -> None:
    _write(tmp_path / folder / "long.py", lines=LIMIT_LINES)

    assert main(tmp_path) == 0


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_file_one_line_over_the_limit_fails(
    tmp_path: Path, folder: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _write(tmp_path / folder / "deep" / "long.py", lines=LIMIT_LINES + 1)

    assert main(tmp_path) == 1
    assert capsys.readouterr().out == (
        f"{folder}/deep/long.py has 501 lines, more than 500: split it\n"
    )


def test_only_python_files_are_measured(tmp_path: Path) -> None:
    _write(tmp_path / "src" / "table.json", lines=LIMIT_LINES + 1)

    assert find_violations(tmp_path) == []


def _write(path: Path, *, lines: int) -> None:
    path.parent.mkdir(parents=True)
    path.write_text("pass\n" * lines, encoding="utf-8")
