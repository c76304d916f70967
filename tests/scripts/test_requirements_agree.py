# SPDX-License-Identifier: Apache-2.0
"""pyproject.toml, the requirement lists and their locks name the same packages."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
REQUIREMENTS = ROOT / "requirements"
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


@pytest.mark.parametrize(
    ("listed", "declared"),
    [
        ("run.in", PROJECT["dependencies"]),
        ("dev.in", PROJECT["optional-dependencies"]["dev"]),
    ],
)
def test_the_list_is_what_the_project_declares(listed: str, declared: list[str]) -> None:
    lines = (REQUIREMENTS / listed).read_text("utf-8").splitlines()

    assert [line for line in lines if not line.startswith(("#", "-"))] == declared


def test_the_development_lock_holds_the_run_time_lock() -> None:
    assert _pins("run.lock") <= _pins("dev.lock")


@pytest.mark.parametrize("lock", ["run.lock", "dev.lock"])
def test_a_lock_names_no_address(lock: str) -> None:
    assert re.findall(r"\S*(?:://|--\S*index|--find-links|@ )\S*", _text(lock)) == []


def _pins(lock: str) -> set[str]:
    return set(re.findall(r"^[\w.-]+==[^\s\\]+", _text(lock), flags=re.MULTILINE))


def _text(lock: str) -> str:
    return (REQUIREMENTS / lock).read_text("utf-8")
