# SPDX-License-Identifier: Apache-2.0
"""The triggers that keep the journal append-only: lifted for an attack, and put back after it.

Whoever can write the database can do both, so a verifier must not depend on finding them gone.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from palyra.store.sqlite.schema import STEPS

if TYPE_CHECKING:
    from collections.abc import Iterator

    import apsw

_NAMES = ("journal_is_append_only_update", "journal_is_append_only_delete")


def lift(connection: apsw.Connection) -> None:
    """Take the triggers away."""
    for name in _NAMES:
        connection.execute(f"DROP TRIGGER IF EXISTS {name}")


def put_back(connection: apsw.Connection) -> None:
    """Make the triggers anew, exactly as they were."""
    for name in _NAMES:
        begin = STEPS[0].index(f"CREATE TRIGGER {name}")
        end = STEPS[0].index("END;", begin) + len("END;")
        connection.execute(STEPS[0][begin:end])


@contextmanager
def lifted(connection: apsw.Connection) -> Iterator[None]:
    """Lift the triggers for a while."""
    lift(connection)
    yield
    put_back(connection)
