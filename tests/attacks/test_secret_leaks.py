# SPDX-License-Identifier: Apache-2.0
"""A secret is handed in or comes up in a failure: it is in no result, entry, error or log line."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import pytest

from palyra.core.canonical import canonicalize
from palyra.core.decision import Verdict
from palyra.core.digest import call_digest
from palyra.core.errors import PalyraError
from palyra.core.facts import Facts
from palyra.core.ids import CallId
from palyra.tools.function import FunctionTool, tool
from palyra.tools.secrets import Secret
from tests.support.scripted import ScriptedPolicy
from tests.support.simulator import (
    AGENT_CREDENTIAL,
    GateSimulator,
    failure_of,
    output_of,
    refusal_of,
    told,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

NEEDLE = "s3cr3t-n33dle"


class Login(msgspec.Struct):
    """A name and what proves it."""

    user: str
    password: Annotated[str, Secret()]


@tool(name="test.login")
async def login(
    user: str,
    password: Annotated[str, Secret()],
    others: list[Login] | None = None,
) -> str:
    """Use a password and give none back."""
    assert password
    assert others is None or all(other.password for other in others)
    return user


def raising(error: BaseException) -> FunctionTool[Any, Any]:
    @tool(name="test.raising")
    async def fails() -> None:
        """Raise what the test wants."""
        await asyncio.sleep(0)
        raise error

    return fails


class LoudError(Exception):
    """An exception whose every text form is the secret."""

    def __str__(self) -> str:
        return NEEDLE

    __repr__ = __str__


@pytest.mark.invariant("I11")
@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param({"user": "u", "password": NEEDLE}, id="a-field"),
        pytest.param(
            {"user": "u", "password": "x", "others": [{"user": "o", "password": NEEDLE}]},
            id="deep-down",
        ),
        pytest.param({"user": "u", "password": NEEDLE * 500}, id="a-long-one"),
    ],
)
async def test_a_secret_argument_reaches_the_tool_and_nothing_else(
    tmp_path: Path, arguments: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with GateSimulator(tmp_path / "home", tools=[login]) as simulator:
        result = await simulator.call("test.login", arguments)
        assert output_of(result) == "u"
        for place in (told(result), simulator.stored_bytes(), caplog.text.encode()):
            assert NEEDLE.encode() not in place


@pytest.mark.invariant("I11")
@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param({"user": 1, "password": NEEDLE}, id="another-field-is-wrong"),
        pytest.param({"user": "u", "password": [NEEDLE]}, id="the-secret-has-the-wrong-type"),
        pytest.param({"user": "u", "passwort": NEEDLE}, id="the-field-is-misspelt"),
        pytest.param({"user": "u", "password": NEEDLE, "more": NEEDLE}, id="a-field-too-many"),
    ],
)
async def test_a_refusal_does_not_repeat_the_secret(
    tmp_path: Path, arguments: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with GateSimulator(tmp_path / "home", tools=[login]) as simulator:
        result = await simulator.call("test.login", arguments)
        assert refusal_of(result) == ("denied", "input.invalid")
        for place in (told(result), simulator.stored_bytes(), caplog.text.encode()):
            assert NEEDLE.encode() not in place


@pytest.mark.invariant("I11")
async def test_a_short_secret_cannot_be_guessed_from_the_journal(tmp_path: Path) -> None:
    arguments = {"user": "u", "password": "1234"}
    seen = []
    for home in ("one", "other"):
        async with GateSimulator(tmp_path / home, tools=[login]) as simulator:
            result = await simulator.call("test.login", arguments)
            (decided,) = (each for each in simulator.journal() if each.kind == "call.decided")
            seen.append((decided.body["arguments"]["password"]["$commitment"], result.call_digest))
    guess = call_digest(
        tool="test.login",
        version=login.manifest.version,
        canonical_arguments=canonicalize(arguments),
    )
    assert guess not in {digest for _, digest in seen}
    assert len({text for pair in seen for text in pair}) == 4


@pytest.mark.invariant("I11")
async def test_what_could_not_be_read_cannot_be_guessed_from_its_digest(tmp_path: Path) -> None:
    raw = b'{"user":1,"password":"1234"}'
    async with GateSimulator(tmp_path / "home", tools=[login]) as simulator:
        result = await simulator.call("test.login", raw)
    guess = call_digest(tool="test.login", version="malformed", canonical_arguments=raw)
    assert refusal_of(result) == ("denied", "input.invalid")
    assert result.call_digest != guess


@pytest.mark.invariant("I11")
async def test_the_same_secret_is_recognised_and_another_is_not(tmp_path: Path) -> None:
    async with GateSimulator(tmp_path / "home", tools=[login]) as simulator:
        one, same, other = [
            (await simulator.call("test.login", {"user": "u", "password": each})).call_digest
            for each in ("1234", "1234", "1235")
        ]
    assert one == same != other


class Token(msgspec.Struct, array_like=True, tag="token"):
    """A name and what proves it, as an array that begins with its tag."""

    user: str
    token: Annotated[str, Secret()]


@tool(name="test.secrets")
async def secrets(
    token: Token | None = None,
    creds: Annotated[dict[str, str], Secret()] | None = None,
    named: dict[Annotated[str, Secret()], int] | None = None,
) -> bool:
    """Take secrets of several shapes."""
    return any((token, creds, named))


@pytest.mark.invariant("I11")
@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        pytest.param({"token": ["token", "u", NEEDLE]}, "", id="behind-a-tag"),
        pytest.param({"creds": {NEEDLE: "x"}}, "", id="a-name-within"),
        pytest.param({"creds": {NEEDLE: 1}}, "input.invalid", id="a-name-that-does-not-fit"),
        pytest.param({"named": {NEEDLE: 1}}, "", id="a-secret-name"),
        pytest.param({"named": {NEEDLE: "x"}}, "input.invalid", id="a-secret-name-of-no-integer"),
        pytest.param(
            b'{"creds":{"%b":"x","%b":"y"}}' % (NEEDLE.encode(), NEEDLE.encode()),
            "input.duplicate_key",
            id="a-name-twice",
        ),
    ],
)
async def test_secrets_of_any_shape_are_nowhere(
    tmp_path: Path, arguments: dict[str, Any] | bytes, code: str
) -> None:
    async with GateSimulator(tmp_path / "home", tools=[secrets]) as simulator:
        result = await simulator.call("test.secrets", arguments)
        if code:
            assert refusal_of(result) == ("denied", code)
        else:
            assert output_of(result) is True
        assert NEEDLE.encode() not in told(result) + simulator.stored_bytes()


@pytest.mark.invariant("I11")
async def test_a_pending_secret_is_out_of_the_journal_and_still_reaches_the_tool(
    tmp_path: Path,
) -> None:
    policy = ScriptedPolicy(Verdict.ASK)
    async with GateSimulator(tmp_path / "home", tools=[login], policy=policy) as simulator:
        arguments = {"user": "u", "password": NEEDLE}
        pending = await simulator.call("test.login", arguments, wait=False)
        assert NEEDLE.encode() not in told(pending) + simulator.journal_bytes()
        simulator.reviewer.approve()
        call_id = CallId(str(pending.call_id))
        result = await simulator.gate.resume(call_id, credential=AGENT_CREDENTIAL)
        assert output_of(result) == "u"
        assert NEEDLE.encode() not in told(result) + simulator.journal_bytes()
        (call,) = simulator.calls()
        assert (call.kept_proposal, NEEDLE.encode() in call.ending) == (None, False)


@pytest.mark.invariant("I11")
@pytest.mark.parametrize(
    "error",
    [
        pytest.param(ValueError(NEEDLE), id="an-error"),
        pytest.param(LoudError(NEEDLE), id="an-error-that-is-nothing-else"),
        pytest.param(ExceptionGroup(NEEDLE, [ValueError(NEEDLE)]), id="a-group"),
        pytest.param(SystemExit(NEEDLE), id="an-exit"),
        pytest.param(TimeoutError(NEEDLE), id="a-timeout-of-its-own"),
        pytest.param(OSError(5, NEEDLE, NEEDLE), id="an-error-of-the-system"),
    ],
)
async def test_what_a_tool_raises_is_told_by_its_type_alone(
    tmp_path: Path, error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with GateSimulator(tmp_path / "home", tools=[raising(error)]) as simulator:
        result = await simulator.call("test.raising")
        assert failure_of(result) == ("failed", "tool.failed")
        assert type(error).__name__.encode() in told(result)
        for place in (told(result), simulator.stored_bytes(), caplog.text.encode()):
            assert NEEDLE.encode() not in place
        assert simulator.verified().ok


@pytest.mark.invariant("I11")
async def test_an_output_that_does_not_fit_is_not_repeated(tmp_path: Path) -> None:
    @tool(name="test.leaking")
    async def leaking() -> int:
        """Return what was not declared."""
        return NEEDLE  # type: ignore[return-value]  # the author's mistake

    async with GateSimulator(tmp_path / "home", tools=[leaking]) as simulator:
        result = await simulator.call("test.leaking")
        assert failure_of(result) == ("failed", "tool.output_invalid")
        assert NEEDLE.encode() not in told(result) + simulator.stored_bytes()


@pytest.mark.invariant("I11")
async def test_a_conflict_does_not_repeat_the_secret(tmp_path: Path) -> None:
    async with GateSimulator(tmp_path / "home", tools=[login]) as simulator:
        await simulator.call("test.login", {"user": "u", "password": "x"}, request_id="r")
        arguments = {"user": "u", "password": NEEDLE}
        with pytest.raises(PalyraError) as caught:
            await simulator.call("test.login", arguments, request_id="r")
        error = caught.value
        assert NEEDLE not in f"{error!r} {error} {error.hint} {dict(error.details)}"
        assert NEEDLE.encode() not in simulator.stored_bytes()


@pytest.mark.invariant("I11")
async def test_a_tool_that_draws_facts_from_a_secret_shows_policy_only_a_commitment(
    tmp_path: Path,
) -> None:
    def careless(arguments: Mapping[str, Any]) -> Facts:
        return Facts(hosts=(arguments["password"],), argv=("login", arguments["password"]))

    @tool(name="test.careless", facts=careless)
    async def log_in(password: Annotated[str, Secret()]) -> str:
        """Log in somewhere."""
        return f"{len(password)}"

    async with GateSimulator(tmp_path / "home", tools=(log_in,)) as simulator:
        result = await simulator.call("test.careless", {"password": NEEDLE})
        assert output_of(result) == str(len(NEEDLE))
        (decided,) = simulator.bodies("call.decided")
        (host,) = decided["request"]["context"]["network"]["hosts"]
        assert host.startswith("commitment:")
        assert decided["facts"]["argv"] == ["login", host]
        assert NEEDLE.encode() not in simulator.stored_bytes()
        assert NEEDLE.encode() not in told(result)
