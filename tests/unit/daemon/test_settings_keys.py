# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Annotated

import msgspec
import pytest

from palyra.core.errors import Code, ConfigError
from palyra.daemon.settings_keys import Key, integer, keys_of, switch, texts


class Inner(msgspec.Struct, frozen=True, kw_only=True):
    names: Annotated[tuple[str, ...], texts("Who.", of="names")] = ("ada",)


class Outer(msgspec.Struct, frozen=True, kw_only=True):
    size: Annotated[int, integer("How many.", least=1, most=9)] = 3
    inner: Inner = Inner()
    is_open: Annotated[bool, switch("Whether.")] = False


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    outer: Outer = Outer()


KEYS = {key.name: key for key in keys_of(Settings)}
SIZE = KEYS["outer.size"]
NAMES = KEYS["outer.inner.names"]
OPEN = KEYS["outer.is_open"]


def test_keys_are_read_off_the_annotations() -> None:
    assert list(KEYS) == ["outer.size", "outer.inner.names", "outer.is_open"]
    assert (OPEN.default, OPEN.meaning, OPEN.expected) == (False, "Whether.", "true or false")
    assert (SIZE.default, SIZE.meaning, SIZE.expected) == (3, "How many.", "an integer from 1 to 9")
    assert (NAMES.default, NAMES.meaning, NAMES.expected) == (("ada",), "Who.", "a list of names")


def test_variable_nests_by_two_underscores() -> None:
    assert NAMES.variable == "PALYRA_OUTER__INNER__NAMES"


@pytest.mark.parametrize(
    ("key", "value", "result"),
    [
        (SIZE, 1, 1),
        (SIZE, 9, 9),
        (NAMES, ["a", "b"], ("a", "b")),
        (NAMES, [], ()),
        (OPEN, True, True),
        (OPEN, False, False),
    ],
)
def test_value_within_its_range_is_read(key: Key, value: object, result: object) -> None:
    assert key.read(value, origin="test") == result


@pytest.mark.parametrize("value", [0, 10, -1, 10**30, "3", 3.0, True, None, [3], {"a": 3}])
def test_value_beyond_its_range_is_refused_and_never_guessed(value: object) -> None:
    with pytest.raises(ConfigError) as caught:
        SIZE.read(value, origin="file /f")
    assert caught.value.code is Code.CONFIG_INVALID
    assert caught.value.message == "file /f: outer.size is not an integer from 1 to 9"
    assert caught.value.details == {
        "key": "outer.size",
        "expected": "an integer from 1 to 9",
        "origin": "file /f",
    }


@pytest.mark.parametrize("value", ["a", {"a": "b"}, [1], [None], 1])
def test_list_of_anything_else_is_refused(value: object) -> None:
    with pytest.raises(ConfigError, match=r"outer\.inner\.names is not a list of names"):
        NAMES.read(value, origin="test")


@pytest.mark.parametrize("value", [0, 1, "true", "false", None, [], [True], {}])
def test_switch_is_not_guessed(value: object) -> None:
    with pytest.raises(ConfigError, match=r"outer\.is_open is not true or false"):
        OPEN.read(value, origin="test")


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        (SIZE, "3", 3),
        (SIZE, "-3", -3),
        (SIZE, " 3", " 3"),
        (SIZE, "3.0", "3.0"),
        (SIZE, "\u0663", "\u0663"),
        (SIZE, "1_000", "1_000"),
        (SIZE, "9" * 5000, "9" * 5000),
        (SIZE, "", ""),
        (OPEN, "true", True),
        (OPEN, "false", False),
        (OPEN, "True", "True"),
        (OPEN, "1", "1"),
        (OPEN, "", ""),
        (NAMES, "a", ["a"]),
        (NAMES, "a, b", ["a", "b"]),
        (NAMES, "a,,b", ["a", "", "b"]),
        (NAMES, "", []),
        (NAMES, "  ", []),
        (NAMES, '["a", "b"]', ["a", "b"]),
        (NAMES, "[]", []),
        (NAMES, "[broken", "[broken"),
        (NAMES, "[" * 5000, "[" * 5000),
        (NAMES, '["\udcff"]', '["\udcff"]'),
        (NAMES, "a,\udcff", "a,\udcff"),
    ],
)
def test_text_of_a_variable(key: Key, text: str, value: object) -> None:
    assert key.parse(text) == value


@pytest.mark.parametrize("key", [SIZE, NAMES, OPEN], ids=lambda key: key.name)
@pytest.mark.parametrize(
    "text",
    ["[" * 5000, "[" * 5000 + "]" * 5000, '["\udcff"]', "\udcff", '["\\ud800"]'],
    ids=["open-brackets", "nested-lists", "a-byte-in-a-list", "a-byte", "half-a-surrogate"],
)
def test_no_text_of_a_variable_is_more_than_a_wrong_value(key: Key, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        key.read(key.parse(text), origin="test")
    assert caught.value.code is Code.CONFIG_INVALID
