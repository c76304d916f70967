# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import typing

import msgspec
import pytest

from palyra.core import transitions
from palyra.core.events import Event
from palyra.core.transitions import Admission, Transition

TRANSITIONS: tuple[type[msgspec.Struct], ...] = typing.get_args(Transition)
ADMISSIONS: tuple[type[msgspec.Struct], ...] = typing.get_args(Admission)


@pytest.mark.invariant("I8")
@pytest.mark.parametrize("transition", TRANSITIONS, ids=lambda each: each.__name__)
def test_every_state_change_carries_its_events(transition: type[msgspec.Struct]) -> None:
    hints = typing.get_type_hints(transition)
    carried = typing.get_args(hints["events"])
    named = {
        each
        for part in carried
        if part is not Ellipsis
        for each in (typing.get_args(part) or (part,))
    }
    assert named
    assert all(issubclass(each, Event) for each in named)
    assert "events" not in transition.__struct_defaults__


@pytest.mark.invariant("I7")
@pytest.mark.parametrize("transition", TRANSITIONS, ids=lambda each: each.__name__)
def test_no_state_change_without_events(transition: type[msgspec.Struct]) -> None:
    (field,) = (each for each in msgspec.structs.fields(transition) if each.name == "events")
    assert field.required


@pytest.mark.parametrize("word", [*TRANSITIONS, *ADMISSIONS], ids=lambda each: each.__name__)
def test_words_are_frozen_and_explained(word: type[msgspec.Struct]) -> None:
    assert word.__struct_config__.frozen
    assert word.__doc__


def test_every_word_of_the_module_is_a_transition_or_an_admission() -> None:
    words = {
        each
        for each in vars(transitions).values()
        if isinstance(each, type)
        and issubclass(each, msgspec.Struct)
        and each.__module__ == transitions.__name__
    }
    assert words == {*TRANSITIONS, *ADMISSIONS}
