# SPDX-License-Identifier: Apache-2.0
import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palyra.cli.neutralise import block, line, well_formed


@pytest.mark.invariant("I12")
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("plain text, 100 %", "plain text, 100 %", id="plain"),
        pytest.param("Grüße, 漢字, 🙂", "Grüße, 漢字, 🙂", id="other-scripts"),
        pytest.param("\x1b[2Jgone", "\\u001b[2Jgone", id="a-terminal-escape"),
        pytest.param("\x9b2J", "\\u009b2J", id="an-eight-bit-escape"),
        pytest.param("\x7f", "\\u007f", id="delete"),
        pytest.param("ok\rdenied", "ok\\u000ddenied", id="a-carriage-return"),
        pytest.param("a\nb", "a\\u000ab", id="a-line-break"),
        pytest.param("a\u2028b", "a\\u2028b", id="a-line-separator"),
        pytest.param("txt.\u202eexe", "txt.\\u202eexe", id="right-to-left-override"),
        pytest.param("\u2066x\u2069", "\\u2066x\\u2069", id="bidi-isolates"),
        pytest.param("pay\u200bpal", "pay\\u200bpal", id="a-zero-width-space"),
        pytest.param("\ufeff", "\\ufeff", id="a-byte-order-mark"),
        pytest.param("a\u00adb", "a\\u00adb", id="a-soft-hyphen"),
        pytest.param("a\u3164b", "a\\u3164b", id="a-filler"),
        pytest.param("a\ufe0fb", "a\\ufe0fb", id="a-variation-selector"),
        pytest.param("\U000e0041", "\\udb40\\udc41", id="a-tag"),
        pytest.param("\U000e0100", "\\udb40\\udd00", id="a-supplementary-selector"),
        pytest.param("a\u00a0b", "a\\u00a0b", id="a-space-that-is-none"),
        pytest.param("\u115f\u1160\uffa0", "\\u115f\\u1160\\uffa0", id="other-fillers"),
        pytest.param("\u2800", "\\u2800", id="a-braille-blank"),
        pytest.param("\U0001d159", "\\ud834\\udd59", id="a-null-notehead"),
        pytest.param("\U00016fe4", "\\ud81b\\udfe4", id="a-khitan-filler"),
        pytest.param("\U00013441", "\\ud80d\\udc41", id="an-egyptian-blank"),
        pytest.param("a \u05d0 b", "a \u05d0 b", id="right-to-left-letters-stay"),
        pytest.param("\udcff", "\\udcff", id="an-undecodable-byte"),
    ],
)
def test_line(text: str, shown: str) -> None:
    assert line(text) == shown


@pytest.mark.invariant("I12")
def test_block_keeps_line_breaks_only() -> None:
    assert block("a\x1b\n\tb\r\n") == "a\\u001b\n\\u0009b\\u000d\n"


@pytest.mark.invariant("I12")
def test_no_character_that_hides_or_moves_anything_is_left() -> None:
    everything = "".join(map(chr, range(sys.maxunicode + 1)))
    assert line(everything).isprintable()


@given(st.text())
def test_json_means_the_same_afterwards(text: str) -> None:
    written = json.dumps(text, ensure_ascii=False)
    assert json.loads(line(written)) == text


def test_text_that_has_a_unicode_form() -> None:
    assert well_formed("a\udcff\u00e9") == "a\\udcff\u00e9"
