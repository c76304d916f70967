# SPDX-License-Identifier: Apache-2.0
"""Text of Cedar policies in, one statement per policy out, each with its place.

Cedar's parser says what is wrong but not where, and it recurses without a bound of its own: a few
hundred brackets end the whole process. So the text is cut up here first, in linear time, and what
the parser must not see is marked with a flaw. Whether a statement is a policy, the parser says.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

LONGEST_STATEMENT: Final = 64 << 10
"""In characters. What a policy costs to check grows with it (I13)."""
MOST_OPEN_BRACKETS: Final = 32
DEEPEST: Final = 128
"""Levels of an expression. Both limits fit a stack of 2 MiB more than once."""

_CUT: Final = re.compile(
    r'(?P<comment>//[^\n\r]*)|(?P<text>"(?:[^"\\]++|\\.)*+")|(?P<quote>")|(?P<end>;)', re.DOTALL
)
_SPACE: Final = re.compile(r"\s*")
_NOTHING: Final = re.compile(r"(?:\s++|//[^\n\r]*+)*+")
_REST_OF_LINE: Final = re.compile(r"[ \t]*//[^\n\r]*")
_LEXEME: Final = re.compile(
    r'//[^\n\r]*|"(?:[^"\\]++|\\.)*+"|[A-Za-z_][A-Za-z0-9_]*|[0-9]+|::|&&|\|\||[=!<>]=|\S',
    re.DOTALL,
)
_NEWLINE: Final = re.compile(r"\r\n?|\n")
_UNWANTED: Final = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"  # control characters
    "\u2028\u2029"  # with some of those above, what looks like a new line but ends no comment
    "\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2069"  # what hides, or turns text around
    "\ud800-\udfff]"  # halves of characters
    "|\r(?!\n)"  # ends a comment, but does not look like it everywhere
)
_STRUCTURE: Final = re.compile(r"[(\[{.+\-*<>=!&|]|\b(?:if|in|is|has|like|when|unless)\b")
_FEW: Final = 48
_OPENING: Final = frozenset("([{")
_CLOSING: Final = frozenset(")]}")
_CLAUSES: Final = frozenset({"when", "unless"})
_TIGHT: Final = frozenset(
    {".", "+", "-", "*", "<", ">", "==", "!=", "<=", ">=", "!", "in", "is", "has", "like"}
)


class Flaw(NamedTuple):
    """Why the parser does not get to see a statement, and where in the file that shows."""

    sentence: str
    line: int
    column: int
    is_size: bool = False
    """Whether a limit was exceeded, rather than a rule of the language."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One policy's text, from the comments before it to its semicolon."""

    text: str
    first_line: int
    """Where the text begins, which may be a comment."""
    first_column: int
    line: int
    """Where its first token stands, annotations included."""
    column: int
    flaw: Flaw | None = None


class Lexeme(NamedTuple):
    """One token, and where it begins in its statement's text."""

    text: str
    offset: int


def split(text: str) -> tuple[Statement, ...]:
    """Return every statement of ``text``; a byte order mark at its beginning is left out."""
    return tuple(statements_in(text))


def statements_in(text: str) -> Iterator[Statement]:
    """Return the statements of ``text`` one by one, for those who stop early."""
    text = text.removeprefix("\ufeff")
    cursor = _Cursor(text)
    start = 0
    for match in _CUT.finditer(text):
        if match["quote"]:
            yield cursor.statement(start, len(text), unterminated_at=match.start())
            return
        if match["end"]:
            yield cursor.statement(start, match.end())
            trailing = _REST_OF_LINE.match(text, match.end())  # speaks of what stands before it
            start = trailing.end() if trailing else match.end()
    nothing = _NOTHING.match(text, start)
    if nothing is None or nothing.end() < len(text) or cursor.finds_unwanted():
        yield cursor.statement(start, len(text), is_unfinished=True)


def lexemes(text: str) -> Iterator[Lexeme]:
    """Return the tokens of a statement's text, without its comments."""
    for match in _LEXEME.finditer(text):
        if not match[0].startswith("//"):
            yield Lexeme(match[0], match.start())


def place_at(offset: int, statement: Statement) -> tuple[int, int]:
    """Return line and column of what stands at ``offset`` of the statement's text."""
    newlines = list(_NEWLINE.finditer(statement.text, 0, offset))
    if not newlines:
        return statement.first_line, statement.first_column + offset
    return statement.first_line + len(newlines), offset - newlines[-1].end() + 1


def place_of(token: str, statement: Statement) -> tuple[int, int] | None:
    """Return line and column of the first ``token``, however it is spaced, outside comments."""
    wanted = [lexeme.text for lexeme in lexemes(token)]
    if not wanted:
        return None
    present = list(lexemes(statement.text))
    texts = [lexeme.text for lexeme in present]
    for index, text in enumerate(texts):
        if text == wanted[0] and texts[index : index + len(wanted)] == wanted:
            return place_at(present[index].offset, statement)
    return None


class _Cursor:
    """Cuts statements out of one text, in ascending order, and keeps count of the lines."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._line = 1
        self._column = 1
        self._end = 0

    def finds_unwanted(self) -> bool:
        """Say whether there is an unwanted character behind the last statement."""
        return _UNWANTED.search(self._text, self._end) is not None

    def statement(
        self,
        start: int,
        end: int,
        *,
        unterminated_at: int | None = None,
        is_unfinished: bool = False,
    ) -> Statement:
        # What stands between statements, such as a comment behind the last, is looked at as well.
        unwanted = _UNWANTED.search(self._text, self._end, end)
        unwanted_place = self._place(unwanted.start()) if unwanted else (0, 0)
        self._end = end
        space = _SPACE.match(self._text, start, end)
        begin = space.end() if space else start
        self._line, self._column = self._place(begin)
        self._at = begin
        nothing = _NOTHING.match(self._text, begin, end)
        line, column = self._place(nothing.end() if nothing else begin)
        flaw: Flaw | None = None
        if end - begin > LONGEST_STATEMENT:
            sentence = f"a policy is longer than {LONGEST_STATEMENT} characters"
            flaw = Flaw(sentence, line, column, is_size=True)
        elif unterminated_at is not None:
            flaw = Flaw("a text is not closed", *self._place(unterminated_at))
        elif unwanted:
            sentence = f"U+{ord(unwanted[0]):04X} may not stand in policies as it is"
            flaw = Flaw(sentence, *unwanted_place)
        elif is_unfinished:
            flaw = Flaw("the last policy is not finished with ;", line, column)
        elif sentence := _too_deep(self._text[begin:end]):
            flaw = Flaw(sentence, line, column, is_size=True)
        return Statement(
            text=self._text[begin : min(end, begin + LONGEST_STATEMENT)],
            first_line=self._line,
            first_column=self._column,
            line=line,
            column=column,
            flaw=flaw,
        )

    def _place(self, position: int) -> tuple[int, int]:
        """Return line and column of a position that is not before the statement at hand."""
        text, since = self._text, self._at
        returns = text.count("\r", since, position) - text.count("\r\n", since, position)
        newlines = text.count("\n", since, position) + returns
        if not newlines:
            return self._line, self._column + position - since
        last = max(text.rfind("\n", since, position), text.rfind("\r", since, position))
        return self._line + newlines, position - last


@dataclass(slots=True)
class _Level:
    """How deep the expression between two brackets is: never less than the parser's tree."""

    ifs: int = 0
    ors: int = 0
    ands: int = 0
    most_ands: int = 0
    tight: int = 0
    most_tight: int = 0
    deepest: int = 0

    def depth(self) -> int:
        here = (
            self.ifs + self.ors + max(self.ands, self.most_ands) + max(self.tight, self.most_tight)
        )
        return max(here, self.deepest)

    def take(self, lexeme: str) -> None:
        match lexeme:
            case "&&":
                self._end_operand()
                self.ands += 1
            case "||":
                self._end_operand()
                self.most_ands, self.ands = max(self.ands, self.most_ands), 0
                self.ors += 1
            case ",":
                self.deepest = self.depth()
                self.ifs = self.ors = self.ands = self.most_ands = self.tight = self.most_tight = 0
            case "if":
                self.ifs += 1
            case _ if lexeme in _TIGHT:
                self.tight += 1
            case _:
                pass

    def _end_operand(self) -> None:
        self.most_tight, self.tight = max(self.tight, self.most_tight), 0


def _too_deep(text: str) -> str:
    """Say why the parser would recurse too far over ``text``, or nothing."""
    brackets = sum(text.count(bracket) for bracket in _OPENING)
    if brackets <= MOST_OPEN_BRACKETS and len(_STRUCTURE.findall(text)) <= _FEW:
        return ""  # as nearly all: cannot be deep whatever the order
    levels = [_Level()]
    for lexeme, _ in lexemes(text):
        if lexeme in _OPENING:
            levels[-1].tight += 1
            levels.append(_Level())
        elif lexeme in _CLOSING and len(levels) > 1:
            closed = levels.pop()
            levels[-1].tight += closed.depth()
        elif lexeme not in _CLAUSES:
            levels[-1].take(lexeme)
        elif len(levels) == 1:  # the clauses of a policy are joined as by &&
            levels[-1].take("&&")
        if len(levels) > MOST_OPEN_BRACKETS + 1:
            return f"more than {MOST_OPEN_BRACKETS} brackets stand in each other"
        if levels[-1].depth() > DEEPEST:
            return f"an expression is deeper than {DEEPEST} levels"
    return ""
