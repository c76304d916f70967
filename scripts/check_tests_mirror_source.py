# SPDX-License-Identifier: Apache-2.0
"""Fail unless every module has its unit test and every unit test its module.

`src/palyra/core/digest.py` belongs with `tests/unit/core/test_digest.py`. There are no exceptions.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
UNTESTED_NAMES = frozenset({"__init__.py", "__main__.py"})


def find_violations(root: Path) -> list[str]:
    """Name each module without a test, then each test without a module."""
    source, tests = root / "src" / "palyra", root / "tests" / "unit"
    modules = {
        path.relative_to(source) for path in source.rglob("*.py") if path.name not in UNTESTED_NAMES
    }
    tested = {
        path.relative_to(tests).with_name(path.name.removeprefix("test_"))
        for path in tests.rglob("test_*.py")
    }
    return [
        *(f"src/palyra/{module} has no {_test_of(module)}" for module in sorted(modules - tested)),
        *(f"{_test_of(module)} has no src/palyra/{module}" for module in sorted(tested - modules)),
    ]


def _test_of(module: Path) -> Path:
    return Path("tests", "unit", module.with_name(f"test_{module.name}"))


def main(root: Path = ROOT) -> int:
    """Print the violations under `root` and return the exit code."""
    violations = find_violations(root)
    for violation in violations:
        print(violation)
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
