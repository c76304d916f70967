# SPDX-License-Identifier: Apache-2.0
"""Fail when a Python file is longer than one sitting of reading."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("src", "tests", "bench", "scripts")
LIMIT_LINES = 500


def find_violations(root: Path) -> list[str]:
    """Name each file over the limit, with its length."""
    return [
        f"{path.relative_to(root)} has {lines} lines, more than {LIMIT_LINES}: split it"
        for folder in FOLDERS
        for path in sorted((root / folder).rglob("*.py"))
        if (lines := len(path.read_bytes().splitlines())) > LIMIT_LINES
    ]


def main(root: Path = ROOT) -> int:
    """Print the violations under `root` and return the exit code."""
    violations = find_violations(root)
    for violation in violations:
        print(violation)
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
