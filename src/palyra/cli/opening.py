# SPDX-License-Identifier: Apache-2.0
"""What commands work on: the configuration, the store for reading, or the gate itself."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from palyra.cli.frame import Frame
    from palyra.daemon.embedded import EmbeddedGate
    from palyra.daemon.settings import Loaded
    from palyra.store.sqlite.ledger import Archive

Told = TypeVar("Told")


def loaded_settings(frame: Frame) -> Loaded:
    """Return the configuration in force."""
    from palyra.daemon.settings import load

    return load(frame.home, frame.config_option, frame.environ)


@contextmanager
def opened_archive(frame: Frame) -> Iterator[Archive]:
    """Open the store for reading: needs no key, and changes nothing."""
    from palyra.store.sqlite.ledger import Archive

    busy_timeout_ms = loaded_settings(frame).settings.store.busy_timeout_ms
    archive = Archive(frame.home, busy_timeout_ms=busy_timeout_ms)
    try:
        yield archive
    finally:
        archive.close()


def through_gate(frame: Frame, act: Callable[[EmbeddedGate], Awaitable[Told]]) -> Told:
    """Open the gate, do one thing with it, and close it once all is recorded."""
    import asyncio
    import logging

    from palyra.daemon.embedded import EmbeddedGate

    if frame.is_verbose:
        logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    else:
        logging.getLogger().addHandler(logging.NullHandler())

    async def within() -> Told:
        gate = EmbeddedGate.open(
            frame.home_option, config=frame.config_option, environ=frame.environ
        )
        async with gate:
            return await act(gate)

    return asyncio.run(within())
