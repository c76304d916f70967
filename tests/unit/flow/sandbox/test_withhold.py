# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palyra.flow.sandbox.withhold import WITHHELD, withheld
from tests.support.json_values import json_values

SECRET = "hush"


@pytest.mark.invariant("I11")
@pytest.mark.parametrize(
    ("value", "pointers", "told"),
    [
        pytest.param({"a": 1, "b": 2}, ("/a",), {"a": WITHHELD, "b": 2}, id="a-field"),
        pytest.param(
            {"a": {"b": [1, 2]}}, ("/a/b/1",), {"a": {"b": [1, WITHHELD]}}, id="an-item-within"
        ),
        pytest.param([{"k": 1}, {"k": 2}], ("/0/k",), [{"k": WITHHELD}, {"k": 2}], id="one-item"),
        pytest.param(
            [{"k": 1, "n": 1}, {"k": 2}],
            ("/*/k",),
            [{"k": WITHHELD, "n": 1}, {"k": WITHHELD}],
            id="every-item",
        ),
        pytest.param(
            {"x": {"k": 1}, "y": {"k": 2}},
            ("/*/k",),
            {"x": {"k": WITHHELD}, "y": {"k": WITHHELD}},
            id="every-field",
        ),
        pytest.param({"a": 1, "b": 2}, ("/a", "/b"), {"a": WITHHELD, "b": WITHHELD}, id="two"),
        pytest.param({"a": {"b": 1}}, ("/a/b", "/a"), {"a": WITHHELD}, id="one-within-another"),
        pytest.param({"a": {"b": 1}}, ("/a", "/a/b"), {"a": WITHHELD}, id="one-around-another"),
        pytest.param({"a": {"b": 1}}, ("",), WITHHELD, id="all-of-it"),
        pytest.param({"": 1, "a": 2}, ("/",), {"": WITHHELD, "a": 2}, id="the-empty-name"),
        pytest.param({"a/b": 1, "a": 2}, ("/a~1b",), {"a/b": WITHHELD, "a": 2}, id="a-slash"),
        pytest.param({"a~b": 1}, ("/a~0b",), {"a~b": WITHHELD}, id="a-tilde"),
        pytest.param(
            {"~1": 1, "/": 2}, ("/~01",), {"~1": WITHHELD, "/": 2}, id="a-tilde-and-a-one"
        ),
        pytest.param({"*": 1}, ("/*",), {"*": WITHHELD}, id="a-name-that-is-a-star"),
        pytest.param({"0": 1}, ("/0",), {"0": WITHHELD}, id="a-name-that-is-a-number"),
        pytest.param((1, 2), ("/1",), [1, WITHHELD], id="a-tuple"),
        pytest.param({"a": None}, ("/a",), {"a": WITHHELD}, id="nothing-is-a-value-too"),
    ],
)
def test_what_a_pointer_names_is_replaced(value: Any, pointers: Any, told: Any) -> None:  # noqa: ANN401
    assert withheld(value, pointers) == told


@pytest.mark.parametrize(
    ("value", "pointer"),
    [
        ({"a": 1}, "/b"),
        ({"a": 1}, "/a/b"),
        ({"a": 1}, "/A"),
        ([1], "/1"),
        ([1], "/-"),
        ([1], "/-1"),
        ([1], "/00"),
        ("text", "/0"),
        (None, "/a"),
        ({}, "/*"),
        ([], "/*/a"),
    ],
)
def test_a_pointer_that_leads_nowhere_withholds_nothing(value: Any, pointer: str) -> None:  # noqa: ANN401
    assert withheld(value, (pointer,)) == value


def test_the_output_itself_is_left_as_it_is() -> None:
    value = {"a": [{"b": SECRET}]}
    before = copy.deepcopy(value)
    assert withheld(value, ("/a/*/b",)) == {"a": [{"b": WITHHELD}]}
    assert value == before


@given(json_values())
def test_without_pointers_nothing_is_withheld(value: Any) -> None:  # noqa: ANN401
    assert withheld(value, ()) is value


def paths_to(value: object, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Return the way to every place in a document."""
    found = [path]
    if isinstance(value, dict):
        for name, item in value.items():
            found += paths_to(item, (*path, name))
    if isinstance(value, list):
        for place, item in enumerate(value):
            found += paths_to(item, (*path, str(place)))
    return found


def at(value: Any, path: tuple[str, ...]) -> Any:  # noqa: ANN401
    for step in path:
        value = value[int(step)] if isinstance(value, list) else value[step]
    return value


@pytest.mark.invariant("I11")
@given(json_values(), st.data())
def test_every_place_can_be_withheld_and_takes_no_other_with_it(
    value: Any,  # noqa: ANN401
    data: st.DataObject,
) -> None:
    path = data.draw(st.sampled_from(paths_to(value)))
    pointer = "".join(f"/{step.replace('~', '~0').replace('/', '~1')}" for step in path)
    told = withheld(value, (pointer,))
    assert at(told, path) == WITHHELD
    if "*" in path:
        return  # a name that is a star stands for every name
    for other in paths_to(value):
        if other[: len(path)] != path and path[: len(other)] != other:
            assert at(told, other) == at(value, other)
