# SPDX-License-Identifier: Apache-2.0
"""A page that a script writes: brought up to date, or with `--check` compared with the old one."""

from pathlib import Path


def bring_up_to_date(page: str, *, path: Path, arguments: list[str], script: str) -> int:
    """Write ``page`` to ``path``, or say that it differs; return the script's exit code."""
    if "--check" in arguments:
        if path.is_file() and path.read_text(encoding="utf-8") == page:
            return 0
        print(f"{path.name} is not current: run python -m scripts.{script}")
        return 1
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page, encoding="utf-8")
    return 0
