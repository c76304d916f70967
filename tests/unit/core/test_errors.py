# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re

import pytest

from palyra.core import errors
from palyra.core.errors import MEANINGS, Code, InputError, PalyraError

LEAVES = [
    leaf
    for leaf in vars(errors).values()
    if isinstance(leaf, type) and issubclass(leaf, PalyraError) and leaf is not PalyraError
]


def test_every_code_has_a_meaning_and_every_meaning_a_code() -> None:
    assert set(MEANINGS) == set(Code)


def test_codes_are_stable_dotted_names() -> None:
    assert all(re.fullmatch(r"[a-z]+\.[a-z_]+", code) for code in Code)
    assert len({code.value for code in Code}) == len(list(Code))


@pytest.mark.parametrize("code", Code)
def test_sentences_start_small_and_have_no_full_stop(code: Code) -> None:
    meaning = MEANINGS[code]
    assert meaning.sentence
    assert meaning.hint
    assert not meaning.sentence.endswith(".")
    assert not meaning.hint.endswith(".")
    first = meaning.sentence.split()[0]
    assert first.islower() or first == "Palyra"
    assert (meaning.sentence + meaning.hint).isprintable()


def test_error_takes_sentence_and_hint_from_its_code() -> None:
    error = InputError(Code.INPUT_TOO_LARGE)
    assert (error.message, error.hint) == MEANINGS[Code.INPUT_TOO_LARGE]
    assert error.details == {}


def test_error_can_say_more() -> None:
    details = {"bytes": 3}
    error = InputError(Code.INPUT_TOO_LARGE, "three bytes", hint="send two", details=details)
    details["bytes"] = 4
    assert (error.code, error.message, error.hint, error.details) == (
        Code.INPUT_TOO_LARGE,
        "three bytes",
        "send two",
        {"bytes": 3},
    )
    with pytest.raises(TypeError):
        error.details["bytes"] = 5  # type: ignore[index]


@pytest.mark.parametrize("leaf", LEAVES, ids=lambda leaf: leaf.__name__)
def test_every_fault_has_the_one_root_and_a_docstring(leaf: type[PalyraError]) -> None:
    assert leaf.__bases__ == (PalyraError,)
    assert leaf.__name__.endswith("Error")
    assert leaf.__doc__


def test_there_are_about_a_dozen_faults() -> None:
    assert len(LEAVES) <= 12
