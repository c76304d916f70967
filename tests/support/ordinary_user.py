# SPDX-License-Identifier: Apache-2.0
"""Permission bits do not bind root, so a test about them becomes somebody else for its time."""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_NOBODY = 65534


@contextmanager
def as_ordinary_user() -> Iterator[Path]:
    """Yield a folder of an ordinary user, as whom the process acts meanwhile."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if os.geteuid() != 0:
            yield folder
            return
        os.chown(folder, _NOBODY, _NOBODY)
        os.seteuid(_NOBODY)
        try:
            yield folder
        finally:
            os.seteuid(0)
