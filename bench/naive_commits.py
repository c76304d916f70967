# SPDX-License-Identifier: Apache-2.0
"""The reference for everything durable: one SQLite transaction per record, as one would begin.

Standard ``sqlite3``, write-ahead log, ``synchronous=FULL``, one row of 400 bytes per commit.
"""

from __future__ import annotations

import os
import sqlite3
import time
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

ROW_BYTES = 400
WARM_UP_COMMITS = 2000

WARMED_UP = " (reference warmed up)"
EMPTY_NOTE = (
    "Both sides start each round from new, empty stores. A SQLite database commits faster once its"
    " write-ahead log has reached its size and is overwritten in place; Palyra makes that room when"
    " it creates a store, the reference meets it on the way. The figure with the reference warmed"
    " up shows the difference."
)
WARMED_UP_NOTE = f"As the figure without this addition, with {WARM_UP_COMMITS:,} commits before."


class NaiveStore:
    """A new database of one table."""

    def __init__(self, folder: Path) -> None:
        self._connection = sqlite3.connect(folder / "naive.db", isolation_level=None)
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.execute("PRAGMA synchronous=FULL")
        self._connection.execute("CREATE TABLE entries (id INTEGER PRIMARY KEY, body BLOB)")
        self._row = (os.urandom(ROW_BYTES),)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._connection.close()

    def commit(self) -> None:
        """Make one row durable."""
        self._connection.execute("INSERT INTO entries (body) VALUES (?)", self._row)

    def warm_up(self) -> None:
        """Commit until the write-ahead log is no longer growing."""
        for _ in range(WARM_UP_COMMITS):
            self.commit()

    async def seconds(self, commits: int) -> float:
        """Return how long it takes to make so many rows durable, one by one."""
        began = time.perf_counter()
        for _ in range(commits):
            self.commit()
        return time.perf_counter() - began
