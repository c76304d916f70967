# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import inspect

import pytest

from palyra.core import ports

PORTS = [
    each
    for each in vars(ports).values()
    if inspect.isclass(each) and each.__module__ == ports.__name__
]
PROTOCOLS = [port for port in PORTS if getattr(port, "_is_protocol", False)]
METHODS = [
    pytest.param(member, id=f"{protocol.__name__}.{name}")
    for protocol in PROTOCOLS
    for name, member in vars(protocol).items()
    if (inspect.isfunction(member) or isinstance(member, property))
    and (not name.startswith("_") or name == "__call__")
]


@pytest.mark.parametrize("port", PORTS, ids=lambda port: port.__name__)
def test_every_port_says_what_it_is(port: type) -> None:
    assert inspect.getdoc(port)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_says_what_it_does(method: object) -> None:
    assert inspect.getdoc(method)


def test_there_are_ports() -> None:
    assert {"Clock", "Recorder", "CallStore", "ToolExecutor"} <= {
        protocol.__name__ for protocol in PROTOCOLS
    }


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda port: port.__name__)
def test_port_cannot_stand_in_for_its_adapter(protocol: type) -> None:
    with pytest.raises(TypeError, match="Protocols cannot be instantiated"):
        protocol()
