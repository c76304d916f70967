# SPDX-License-Identifier: Apache-2.0
"""Fail unless each file in `changes/` is a well-named changelog fragment of one sentence."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*\.(added|changed|fixed|removed|security)\.md")
SENTENCE_END = re.compile(r"[.!?](?=\s|$)")


def find_violations(root: Path) -> list[str]:
    """Say for each file in `changes/` what keeps it from being a fragment."""
    fragments = sorted(path for path in (root / "changes").glob("*") if path.name != "README.md")
    return [
        f"changes/{path.name}: {fault}"
        for path in fragments
        if (fault := _fault_of(path)) is not None
    ]


def _fault_of(path: Path) -> str | None:
    if not NAME.fullmatch(path.name):
        return "the name must be <slug>.<added|changed|fixed|removed|security>.md"
    text = path.read_text(encoding="utf-8").strip()
    ends = [match.end() for match in SENTENCE_END.finditer(text)]
    if ends != [len(text)]:
        return "the text must be one sentence that ends with a full stop"
    return None


def main(root: Path = ROOT) -> int:
    """Print the violations under `root` and return the exit code."""
    violations = find_violations(root)
    for violation in violations:
        print(violation)
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
