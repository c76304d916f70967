# SPDX-License-Identifier: Apache-2.0
"""What commands work on: the configuration, the store for reading, or the gate itself."""

from __future__ import annotations

import errno
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path

    from palyra.cli.frame import Frame
    from palyra.core.ports import RulesStore
    from palyra.daemon.embedded import EmbeddedGate
    from palyra.daemon.settings import Loaded
    from palyra.flow.policy.engine import CedarPolicy
    from palyra.store.sqlite.ledger import Archive

Told = TypeVar("Told")

_SHOWN_CHARACTERS = 120
_OTHER_HOME = "name another state directory: --home DIR, or PALYRA_HOME"


def known_home(frame: Frame) -> Path:
    """Return the state directory, existing or not, if there can be one of that name.

    Raises:
        ConfigError: there cannot.
    """
    from palyra.core.errors import Code, ConfigError
    from palyra.daemon.settings import CONFIG_NAME

    try:
        home = frame.home
    except OSError as error:
        raise ConfigError(
            Code.HOME_UNSAFE,
            f"the state directory is relative to the current directory: {error.strerror}",
            hint=_OTHER_HOME,
        ) from error
    try:
        (home / CONFIG_NAME).lstat()
    except ValueError as error:
        raise ConfigError(Code.HOME_UNSAFE, f"{home} is not a path", hint=_OTHER_HOME) from error
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            shown = f"{str(home)[:_SHOWN_CHARACTERS]}..."
            raise ConfigError(
                Code.HOME_UNSAFE, f"the name of {shown} is too long", hint=_OTHER_HOME
            ) from error
    return home


def loaded_settings(frame: Frame) -> Loaded:
    """Return the configuration in force."""
    from palyra.daemon.settings import load

    return load(known_home(frame), frame.config_option, frame.environ)


@contextmanager
def opened_archive(frame: Frame) -> Iterator[Archive]:
    """Open the store for reading: needs no key, and changes nothing."""
    from palyra.store.sqlite.ledger import Archive

    busy_timeout_ms = loaded_settings(frame).settings.store.busy_timeout_ms
    archive = Archive(_store_home(frame), busy_timeout_ms=busy_timeout_ms)
    try:
        yield archive
    finally:
        archive.close()


@contextmanager
def opened_engine(frame: Frame) -> Iterator[CedarPolicy]:
    """Open the policy engine for looking only: nothing is created or recorded."""
    from palyra.daemon.rules_reading import reading_engine

    with reading_engine(_store_home(frame), loaded_settings(frame).settings) as engine:
        yield engine


@contextmanager
def opened_rules(frame: Frame) -> Iterator[RulesStore]:
    """Open policies and postures for looking only; before the first start, those it would set."""
    from palyra.store.sqlite.ledger import DATABASE_NAME

    if (_store_home(frame) / DATABASE_NAME).exists():
        with opened_archive(frame) as archive:
            if archive.rules_in_force() is not None:
                yield archive
                return
    from palyra.daemon.rules_reading import PackagedRules  # which takes in the whole gate

    yield PackagedRules()


def through_gate(frame: Frame, act: Callable[[EmbeddedGate], Awaitable[Told]]) -> Told:
    """Open the gate, do one thing with it, and close it once all is recorded."""
    import asyncio
    import logging

    from palyra.daemon.embedded import EmbeddedGate

    _store_home(frame)
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


def _store_home(frame: Frame) -> Path:
    """Return the state directory, if its name is one that the store can open."""
    from palyra.core.errors import Code, ConfigError

    home = known_home(frame)
    try:
        str(home).encode()
    except UnicodeEncodeError as error:
        raise ConfigError(
            Code.HOME_UNSAFE, f"the name of {home} is not UTF-8", hint=_OTHER_HOME
        ) from error
    return home
