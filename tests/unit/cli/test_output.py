# SPDX-License-Identifier: Apache-2.0
import io
import json
import os
import sys

import pytest

from palyra.cli.output import Output, Reply, Stream, Table, aligned, json_text, pretty_json

TABLE = Table(columns=("NAME", "VALUE"), rows=(("a", "1"), ("longer", "\x1b[31m")))


class Terminal(io.TextIOWrapper):
    """A stream that claims to be a terminal."""

    def __init__(self) -> None:
        self.bytes = io.BytesIO()
        super().__init__(self.bytes, encoding="utf-8")

    def isatty(self) -> bool:
        return True

    def text(self) -> str:
        self.flush()
        return self.bytes.getvalue().decode()


def attached(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    stream = Terminal()
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    return stream


def test_people_get_text(capsys: pytest.CaptureFixture[str]) -> None:
    reply = Reply(document={"a": 1}, text=("first", TABLE), status=6)
    assert Output(as_json=False).tell(reply) == 6
    captured = capsys.readouterr()
    assert captured.out == "first\nNAME    VALUE\na       1\nlonger  \\u001b[31m\n"
    assert captured.err == ""


def test_programs_get_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    reply = Reply(document={"a": "\x1b\u202e"}, text=("first",), is_error=True)
    assert Output(as_json=True).tell(reply) == 0
    captured = capsys.readouterr()
    assert captured.out == '{"a":"\\u001b\\u202e"}\n'
    assert captured.err == ""


def test_errors_go_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    Output(as_json=False).tell(Reply(document={}, text=("wrong",), is_error=True))
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "wrong\n")


def test_a_stream_is_printed_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    chunks = (b'{"a":', '"\u202e"}\n'.encode())
    assert Output(as_json=True).tell(Stream(chunks=chunks)) == 0
    assert capsys.readouterr().out == '{"a":"\u202e"}\n'


@pytest.mark.invariant("I12")
def test_a_stream_to_a_terminal_is_neutralised(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = attached(monkeypatch)
    Output(as_json=True).tell(Stream(chunks=('{"a":"\u202e"}\n'.encode(),)))
    assert terminal.text() == '{"a":"\\u202e"}\n'


@pytest.mark.invariant("I12")
def test_text_to_a_terminal_is_neutralised_but_for_our_own_colour(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = attached(monkeypatch)
    Output(as_json=False).tell(Reply(document={}, text=("denied \x1b[32mok",), tone="bad"))
    assert terminal.text() == "\x1b[31m\x1b[1mdenied\x1b[0m \\u001b[32mok\n"


@pytest.mark.invariant("I12")
def test_a_drawn_table_is_neutralised(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = attached(monkeypatch)
    Output(as_json=False).tell(Reply(document={}, text=(TABLE,)))
    assert "\\u001b[31m" in terminal.text()
    assert "\x1b[31m" not in terminal.text()


@pytest.mark.parametrize("means", ["option", "environment"])
def test_no_colours_if_none_are_wanted(means: str, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = attached(monkeypatch)
    output = Output(as_json=False)
    if means == "option":
        output.no_color = True
    else:
        monkeypatch.setenv("NO_COLOR", "1")
    output.tell(Reply(document={}, text=("denied",), tone="bad"))
    assert terminal.text() == "denied\n"


def test_only_a_terminal_sees_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = attached(monkeypatch)
    Output(as_json=True).progress("1 of 2")
    assert terminal.text() == "\r\x1b[K1 of 2"
    monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(silent := io.BytesIO()))
    Output(as_json=True).progress("2 of 2")
    assert silent.getvalue() == b""


def test_closed_streams_swallow_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)
    output = Output(as_json=False)
    assert output.tell(Reply(document={}, text=("text", TABLE), status=9)) == 9
    assert output.tell(Stream(chunks=(b"x",))) == 0
    output.note("note")
    output.progress("progress")


def test_a_reader_that_goes_away_changes_no_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w", encoding="utf-8") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        assert Output(as_json=False).tell(Reply(document={}, text=("x",), status=9)) == 9


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_no_encoding_fails(encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(out := io.BytesIO(), encoding=encoding))
    Output(as_json=False).tell(Reply(document={}, text=("€",)))
    assert out.getvalue() == (b"\\u20ac\n" if encoding != "utf-8" else "€\n".encode())


def test_documents_are_utf_8_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(out := io.BytesIO(), encoding="latin-1"))
    Output(as_json=True).tell(Reply(document={"é": "€"}, text=()))
    assert json.loads(out.getvalue()) == {"é": "€"}


def test_json_texts() -> None:
    assert json_text({"b": [1], "a": None}) == '{"b":[1],"a":null}'
    assert pretty_json(b'{"a":[1],"b":"\xe2\x82\xac"}') == '{\n  "a": [\n    1\n  ],\n  "b": "€"\n}'


def test_an_empty_table_is_its_head() -> None:
    assert aligned(Table(columns=("A", "B"), rows=())) == ["A  B"]
