# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest

from palyra.core.execution import Executor
from palyra.core.facts import NO_FACTS, Facts
from palyra.core.manifest import ToolManifest
from palyra.flow.intake.schema import ArgumentSchema
from palyra.tools.basic import BASIC_TOOLS, ECHO, SLEEP


@pytest.mark.parametrize("manifest", BASIC_TOOLS, ids=lambda manifest: manifest.name)
def test_basic_tools_touch_nothing(manifest: ToolManifest) -> None:
    assert manifest.executor is Executor.BUILTIN
    assert manifest.capabilities == frozenset()
    assert not manifest.is_sensitive


@pytest.mark.parametrize(
    ("manifest", "arguments", "path"),
    [
        pytest.param(ECHO, {"text": "x" * 4096}, None, id="the-longest-echo"),
        pytest.param(ECHO, {"text": ""}, None, id="the-shortest-echo"),
        pytest.param(ECHO, {"text": "x" * 4097}, "/text", id="too-long-an-echo"),
        pytest.param(ECHO, {"text": 1}, "/text", id="an-echo-of-a-number"),
        pytest.param(ECHO, {}, "", id="an-echo-of-nothing"),
        pytest.param(ECHO, {"text": "a", "loud": True}, "/loud", id="an-unknown-field"),
        pytest.param(SLEEP, {"duration_ms": 0}, None, id="the-shortest-sleep"),
        pytest.param(SLEEP, {"duration_ms": 5000}, None, id="the-longest-sleep"),
        pytest.param(SLEEP, {"duration_ms": 5001}, "/duration_ms", id="too-long-a-sleep"),
        pytest.param(SLEEP, {"duration_ms": -1}, "/duration_ms", id="a-sleep-backwards"),
        pytest.param(SLEEP, {"duration_ms": 1.5}, "/duration_ms", id="a-broken-sleep"),
        pytest.param(SLEEP, {"duration_ms": True}, "/duration_ms", id="a-true-sleep"),
    ],
)
def test_input(manifest: ToolManifest, arguments: dict[str, Any], path: str | None) -> None:
    fault = ArgumentSchema.of_input(manifest).check(arguments)
    assert (fault.path if fault else None) == path


def test_output() -> None:
    assert ArgumentSchema.of_output(ECHO).check({"echo": "a"}) is None
    assert ArgumentSchema.of_output(ECHO).check({"text": "a"}) is not None
    assert ArgumentSchema.of_output(SLEEP).check({"slept_ms": 12}) is None
    assert ArgumentSchema.of_output(SLEEP).check({"slept_ms": -1}) is not None


def test_echo_has_no_facts() -> None:
    assert ECHO.extract_facts({"text": "a"}) is NO_FACTS


@pytest.mark.parametrize("duration", [7, 7.0])
def test_sleep_says_how_long(duration: float) -> None:
    facts = SLEEP.extract_facts({"duration_ms": duration})
    assert facts == Facts(duration_ms=7)
    assert type(facts.duration_ms) is int
