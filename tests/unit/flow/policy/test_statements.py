# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import subprocess
import sys
import time

import cedarpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palyra.flow.policy.statements import (
    DEEPEST,
    LONGEST_STATEMENT,
    MOST_OPEN_BRACKETS,
    place_of,
    split,
    statements_in,
)

PERMIT = "permit (principal, action, resource);"
POLICY = "permit (principal, action, resource) when { %s };"

PARSE_ON_A_SMALL_STACK = """
import sys, threading, cedarpy
from palyra.flow.policy.vocabulary import schema
threading.stack_size(2 << 20)
text = sys.stdin.read()
def parse():
    try:
        cedarpy.policies_to_pst(text)
        cedarpy.validate_policies(text, schema())
    except ValueError:
        pass
    print("alive")
thread = threading.Thread(target=parse)
thread.start()
thread.join()
"""


def test_each_policy_is_a_statement_with_the_line_of_its_first_token() -> None:
    text = f'// head\n\n@id("a")\n{PERMIT}\n\n  // why\n  {PERMIT} // after\n{PERMIT}\n// end\n'
    first, second, third = split(text)
    assert (first.line, first.column, first.first_line) == (3, 1, 1)
    assert first.text == f'// head\n\n@id("a")\n{PERMIT}'
    assert (second.line, second.column, second.first_line) == (7, 3, 6)
    assert second.text == f"// why\n  {PERMIT}"
    assert (third.line, third.text) == (
        8,
        PERMIT,
    )  # what stands after a policy is not about the next
    assert not any(statement.flaw for statement in (first, second, third))


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_every_kind_of_newline_counts_once(newline: str) -> None:
    _, second = split(newline.join((PERMIT, "", "// x", PERMIT)))
    assert (second.first_line, second.line) == (3, 4)


@pytest.mark.parametrize("literal", ['";"', '"// no comment;"', r'"\";"', r'"\\"', '"\n;"'])
def test_nothing_within_a_text_ends_a_statement(literal: str) -> None:
    text = f"{POLICY % f'{literal} == {literal}'}\n{PERMIT}"
    assert [statement.text for statement in split(text)] == [*text.split("\n" + PERMIT)[:1], PERMIT]
    assert len(cedarpy.PolicySet.from_str(text)) == 2


def test_neither_a_semicolon_nor_a_quote_in_a_comment_matters() -> None:
    assert len(split(f'// a; "b\n{PERMIT}')) == 1


def test_nothing_and_comments_alone_hold_no_statement() -> None:
    assert split("") == split(" \n// x") == split("\ufeff// x\n") == ()


def test_a_byte_order_mark_at_the_beginning_is_left_out() -> None:
    (statement,) = split("\ufeff" + PERMIT)
    assert (statement.text, statement.column, statement.flaw) == (PERMIT, 1, None)


def test_a_text_that_is_not_closed_is_a_flaw_where_it_opens() -> None:
    good, bad = split(f"{PERMIT}\n{POLICY % 'true'}".replace("true", 'x ==\n  "abc') + PERMIT)
    assert good.flaw is None
    assert bad.flaw is not None
    assert bad.flaw[:3] == ("a text is not closed", 3, 3)


def test_what_follows_the_last_semicolon_is_an_unfinished_policy() -> None:
    _, last = split(f"{PERMIT}\n// x\n  permit (principal")
    assert last.flaw is not None
    assert "not finished" in last.flaw.sentence
    assert (last.flaw.line, last.flaw.column) == (3, 3)


BREAKS = ["\r", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"]
"""What some editors or readers take for the end of a line."""


@pytest.mark.parametrize(
    "character", ["\0", "\x1b", "\u202e", "\u2066", "\u200b", "\ud800", "\x9b", *BREAKS]
)
def test_characters_that_mislead_a_reader_are_flaws_also_in_comments(character: str) -> None:
    (statement,) = split(f"// a\n// b{character}c\n{PERMIT}")
    assert statement.flaw is not None
    assert statement.flaw[:3] == (
        f"U+{ord(character):04X} may not stand in policies as it is",
        2,
        5,
    )


@pytest.mark.parametrize("character", BREAKS)
@pytest.mark.parametrize(
    ("text", "place"),
    [
        (f"{PERMIT} // x#forbid (principal, action, resource);\n{PERMIT}", (1, 43)),
        (f"{PERMIT} // x#forbid (principal, action, resource);", (1, 43)),
        (f"{PERMIT}\n// x#forbid (principal, action, resource);", (2, 5)),
        (f"{PERMIT}\n# \n{PERMIT}", (2, 1)),
        ("// x#", (1, 5)),
        (POLICY % '"#" == ""', (1, len(POLICY) - 3)),
    ],
    ids=["behind", "behind the last", "at the end", "between", "alone", "in a text"],
)
def test_what_only_looks_like_a_new_line_is_a_flaw_wherever_it_stands(
    text: str, place: tuple[int, int], character: str
) -> None:
    followed = text.replace("#", character)
    (flaw,) = [each.flaw for each in split(followed) if each.flaw is not None]
    assert "may not stand in policies" in flaw.sentence
    assert (flaw.line, flaw.column) == place


def test_a_return_before_a_new_line_is_none() -> None:
    crlf = f"// x\r\n{PERMIT} // y\r\n\r\n{PERMIT}\r\n// z\r\n"
    assert [each.flaw for each in split(crlf)] == [None, None]


@given(
    st.lists(
        st.sampled_from([*BREAKS, "\n", "\r\n", "\n", "\r\n", "// ", " ", "//", PERMIT, PERMIT]),
        max_size=12,
    )
)
def test_cedar_sees_the_same_policies_or_none(pieces: list[str]) -> None:
    text = "".join(pieces)
    statements = split(text)
    is_refused = any(each.flaw for each in statements)
    assert is_refused or len(cedarpy.PolicySet.from_str(text)) == len(statements)
    odd = text.replace("\r\n", "\n")
    assert is_refused or not any(each in odd for each in BREAKS)


@pytest.mark.invariant("I13")
def test_a_statement_has_a_greatest_length() -> None:
    rest = LONGEST_STATEMENT - len(POLICY % '""') + len('""')
    fits, too_long = split(POLICY % f'"{"a" * (rest - 2)}"' + "\n" + POLICY % f'"{"a" * rest}"')
    assert fits.flaw is None
    assert too_long.flaw is not None
    assert too_long.flaw.is_size
    assert len(too_long.text) <= LONGEST_STATEMENT


SHAPES = {
    "brackets": lambda n: "(" * n + "true" + ")" * n,
    "sets": lambda n: "[" * n + "]" * n,
    "records": lambda n: "{a:" * n + "1" + "}" * n,
    "calls": lambda n: "context.contains(" * n + "1" + ")" * n,
    "ands": lambda n: "true" + " && true" * n,
    "ors": lambda n: "true" + " || true" * n,
    "sums": lambda n: "1" + "+1" * n,
    "attributes": lambda n: "context" + ".a" * n,
    "indexes": lambda n: "context" + '["a"]' * n,
    "paths": lambda n: "context has a" + ".a" * n,
    "elses": lambda n: "if true then true else " * n + "true",
    "ifs": lambda n: "if " * n + "true" + " then true else true" * n,
    "both": lambda n: "(true && " * n + "true" + ")" * n,
    "methods": lambda n: "[1]" + ".contains(1)" * n,
    "clauses": lambda n: "true" + " } when { true" * n,
}


@pytest.mark.parametrize("shape", SHAPES)
def test_what_would_overflow_the_parser_s_stack_is_a_flaw(shape: str) -> None:
    for count in (200, 2_000):
        (statement,) = split(POLICY % SHAPES[shape](count))
        assert statement.flaw is not None
        assert statement.flaw.is_size


@pytest.mark.invariant("I13")
@pytest.mark.parametrize("shape", SHAPES)
def test_the_deepest_statement_without_a_flaw_fits_a_small_stack(shape: str) -> None:
    texts = (POLICY % SHAPES[shape](count) for count in range(DEEPEST, 0, -1))
    deepest = next(text for text in texts if split(text)[0].flaw is None)
    run = subprocess.run(
        [sys.executable, "-c", PARSE_ON_A_SMALL_STACK],
        input=deepest,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.stdout == "alive\n", run.returncode


def test_brackets_may_stand_in_each_other_only_so_far() -> None:
    most = MOST_OPEN_BRACKETS - 1  # the clause has one of its own
    fits, too_many = split(
        POLICY % ("(" * most + ")" * most) + POLICY % ("(" * (most + 1) + ")" * (most + 1))
    )
    assert fits.flaw is None
    assert too_many.flaw is not None
    assert "32 brackets" in too_many.flaw.sentence


def test_what_is_wide_is_not_deep() -> None:
    wide = " || ".join(f'(context.a.b == "{n}" && !context.c)' for n in range(90))
    listed = ", ".join(f'context.plan.tier + "{n}"' for n in range(900))
    assert split(POLICY % wide)[0].flaw is None
    assert split(POLICY % f"[{listed}].contains(1)")[0].flaw is None


@pytest.mark.parametrize("piece", ["(", '"', "\\", '"\\', "/", "\n", "\r", "// x\n"])
def test_cutting_takes_linear_time(piece: str) -> None:
    hostile = piece * 2_000_001
    started = time.monotonic()
    split(hostile)
    assert time.monotonic() - started < 10


def test_one_may_stop_early() -> None:
    assert next(statements_in(";" * 10_000_000)).text == ";"


def test_a_token_is_found_however_it_is_spaced_but_not_in_comments_or_texts() -> None:
    text = '// Action::"x"\n@a("foo")\npermit (principal,\n  action == Action ::\n "x", foo);'
    (statement,) = split("\n" + text)
    assert place_of('Action::"x"', statement) == (5, 13)
    assert place_of("foo", statement) == (6, 7)
    assert place_of("fo", statement) is None
    assert place_of("", statement) is None


def test_columns_on_a_statement_s_first_line_count_from_that_line() -> None:
    _, second = split(f"{PERMIT} forbid (principal);")
    assert place_of("forbid", second) == (1, len(PERMIT) + 2)


@given(st.text(alphabet='permit()@"\\;/ \n\r{}[]&|,.a\ufeff\0', max_size=60))
def test_any_text_is_cut_into_its_parts_without_loss(text: str) -> None:
    rest = text.removeprefix("\ufeff")
    for statement in split(text):
        position = rest.index(statement.text)
        skipped = rest[:position].strip()
        assert not skipped or skipped.startswith("//")
        rest = rest[position + len(statement.text) :]
    assert all(line.strip() == "" or line.strip().startswith("//") for line in rest.splitlines())
