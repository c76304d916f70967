# SPDX-License-Identifier: Apache-2.0
"""What README and documents show is what happens."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.console_blocks import comparable, files_in, run, steps_in

ROOT = Path(__file__).parents[2]
DOCUMENTS = [
    document
    for document in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    if steps_in(document.read_text())
]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_commands_of_a_document_print_what_it_says(document: Path, tmp_path: Path) -> None:
    text = document.read_text()
    (tmp_path / "you").mkdir()
    for name, content in files_in(text).items():
        (tmp_path / "you" / name).write_text(content)
    steps = steps_in(text)
    happened = run(steps, folder=tmp_path)
    assert [comparable(step, folder=tmp_path) for step in happened] == [
        comparable(step, folder=tmp_path) for step in steps
    ]


def test_the_documents_that_show_commands_are_found() -> None:
    names = {document.name for document in DOCUMENTS}
    assert {"README.md", "first-calls.md", "verify-offline.md", "add-a-tool.md"} <= names


def test_the_library_example_of_the_readme_prints_what_it_says(tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text()
    example, printed = re.findall(r"```python\n(.*?)```\n\nprints `([^`]+)`", readme, re.DOTALL)[0]
    done = subprocess.run(
        [sys.executable, "-c", example],
        env={"HOME": str(tmp_path), "PALYRA_HOME": str(tmp_path / "state")},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.strip() == printed
