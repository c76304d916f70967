# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from scripts.check_changelog_fragments import find_violations, main

BAD_NAME = "the name must be <slug>.<added|changed|fixed|removed|security>.md"
BAD_TEXT = "the text must be one sentence that ends with a full stop"


@pytest.mark.parametrize("kind", ["added", "changed", "fixed", "removed", "security"])
def test_one_sentence_of_a_known_kind_passes(tmp_path: Path, kind: str) -> None:
    _write(
        tmp_path, f"journal-verify.{kind}.md", "`palyra journal verify` reads 1.5 times\nfaster.\n"
    )

    assert main(tmp_path) == 0


def test_the_readme_is_no_fragment(tmp_path: Path) -> None:
    _write(tmp_path, "README.md", "Two sentences. Both allowed.")

    assert find_violations(tmp_path) == []


def test_a_missing_folder_passes(tmp_path: Path) -> None:
    assert find_violations(tmp_path) == []


@pytest.mark.parametrize(
    "name",
    ["notes.txt", "journal.md", "journal.improved.md", "Journal.added.md", "two words.added.md"],
)
def test_another_name_fails(tmp_path: Path, name: str) -> None:
    _write(tmp_path, name, "The journal can be verified.")

    assert find_violations(tmp_path) == [f"changes/{name}: {BAD_NAME}"]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="no sentence"),
        pytest.param("The journal can be verified", id="no full stop"),
        pytest.param("The journal can be verified. It is fast.", id="two sentences"),
        pytest.param("The journal is verified.\n\nand more", id="text after the sentence"),
    ],
)
def test_anything_but_one_sentence_fails(
    tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _write(tmp_path, "journal.added.md", text)

    assert main(tmp_path) == 1
    assert capsys.readouterr().out == f"changes/journal.added.md: {BAD_TEXT}\n"


def _write(root: Path, name: str, text: str) -> None:
    folder = root / "changes"
    folder.mkdir()
    (folder / name).write_text(text, encoding="utf-8")
