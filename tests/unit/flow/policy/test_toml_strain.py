# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palyra.flow.policy.toml_strain import MOST_KEY_PARTS, MOST_OPEN_BRACKETS, toml_strain


def test_texts_and_comments_may_hold_what_they_like() -> None:
    dots, brackets = ".a" * 99, "[{" * 99
    inner = f"{dots}{brackets}"
    texts = [f'"{inner}\\""', f"'{inner}'", f'"""\n{inner}""\\""""""', f"'''\n{inner}'''''"]
    text = "".join(f"a{n}.b = [{each}] # {inner}\n" for n, each in enumerate(texts))
    assert len(tomllib.loads(text)) == len(texts)
    assert toml_strain(text) == ""
    nested = "a = " + "[" * MOST_OPEN_BRACKETS + "]" * MOST_OPEN_BRACKETS
    assert toml_strain(nested) == ""
    assert toml_strain("a" + ".a" * (MOST_KEY_PARTS - 1) + "=1") == ""


_PIECES = st.sampled_from(
    ['"', "'", '"""', "'''", "\\", "#", "\n", "a", "=", ".", "\r\n", "[", "]", "x='1'\n", 'y="2"\n']
)


@pytest.mark.invariant("I13")
@given(before=st.lists(_PIECES, max_size=14).map("".join), after=st.sampled_from(["", "'", '"']))
def test_nothing_hides_a_long_key_that_toml_s_reader_would_see(before: str, after: str) -> None:
    text = f"{before}\nk.k.k.k.k.k.k.k=1\n{after}"
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    is_key = "'k': {'k': {'k'" in str(document)
    assert bool(toml_strain(text)) is is_key
