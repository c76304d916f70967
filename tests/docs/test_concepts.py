# SPDX-License-Identifier: Apache-2.0
"""The table of concepts names only places that exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
CONCEPTS = ROOT / "docs" / "reference" / "concepts.md"


def _rows() -> list[list[str]]:
    rows = [
        [cell.strip() for cell in line.strip().strip("|").split("|")]
        for line in CONCEPTS.read_text().splitlines()
        if line.startswith("|")
    ]
    return [row for row in rows if row[0] != "concept" and not set(row[0]) <= {"-"}]


def test_every_row_names_a_place_or_says_not_yet() -> None:
    silent = [row[0] for row in _rows() if "`src/" not in row[2] and "not yet" not in row[2]]
    assert silent == []


def test_every_named_path_exists() -> None:
    paths = {path for row in _rows() for path in re.findall(r"`(src/[^`]+)`", row[2])}
    assert [path for path in sorted(paths) if not (ROOT / path).is_file()] == []
    assert len(paths) > 20


def test_every_link_between_documents_leads_somewhere() -> None:
    documents = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    broken = [
        f"{document.relative_to(ROOT)}: {target}"
        for document in documents
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", document.read_text())
        if not (document.parent / target).exists()
    ]
    assert broken == []
