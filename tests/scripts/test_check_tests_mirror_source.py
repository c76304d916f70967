# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from scripts.check_tests_mirror_source import find_violations, main


@pytest.fixture
def mirrored(tmp_path: Path) -> Path:
    for name in (
        "src/palyra/__init__.py",
        "src/palyra/__main__.py",
        "src/palyra/core/__init__.py",
        "src/palyra/core/digest.py",
        "tests/unit/conftest.py",
        "tests/unit/core/test_digest.py",
    ):
        _touch(tmp_path / name)
    return tmp_path


def test_a_mirrored_tree_passes(mirrored: Path) -> None:
    assert find_violations(mirrored) == []
    assert main(mirrored) == 0


def test_a_module_without_a_test_fails(mirrored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _touch(mirrored / "src/palyra/flow/gate.py")

    assert main(mirrored) == 1
    assert capsys.readouterr().out == (
        "src/palyra/flow/gate.py has no tests/unit/flow/test_gate.py\n"
    )


def test_a_test_without_a_module_fails(mirrored: Path) -> None:
    _touch(mirrored / "tests/unit/core/test_gone.py")

    assert find_violations(mirrored) == [
        "tests/unit/core/test_gone.py has no src/palyra/core/gone.py"
    ]


def test_a_test_in_another_folder_than_its_module_fails_twice(mirrored: Path) -> None:
    (mirrored / "tests/unit/core/test_digest.py").rename(mirrored / "tests/unit/test_digest.py")

    assert find_violations(mirrored) == [
        "src/palyra/core/digest.py has no tests/unit/core/test_digest.py",
        "tests/unit/test_digest.py has no src/palyra/digest.py",
    ]


def _touch(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
