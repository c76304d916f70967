# SPDX-License-Identifier: Apache-2.0
import os
import time
from pathlib import Path
from typing import Any

import pytest

from palyra.core.errors import Code, ToolError
from palyra.flow.sandbox.beneath import open_root
from palyra.flow.sandbox.blocking import StopToken
from palyra.flow.sandbox.walking import (
    MAX_ANSWER_BYTES,
    MAX_SEARCHED_FILE_BYTES,
    Answer,
    Bounds,
    Query,
    list_folder,
    occurrences,
    search_folder,
    walk,
)
from tests.support.workspaces import workspace_at


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "a-b").write_text("needle")
    (tmp_path / "a" / "deep").mkdir(parents=True)
    (tmp_path / "a" / "deep" / "x.py").write_text("one\ntwo needle needle\n")
    (tmp_path / "a" / "binary").write_bytes(b"needle\0")
    (tmp_path / "a" / "latin").write_bytes(b"needle\xff")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "config").write_text("needle")
    (tmp_path / "link").symlink_to("a")
    (tmp_path / ".palyra-stage-01J").mkdir()
    (tmp_path / ".palyra-stage-01J" / "0").write_text("needle")
    os.mkfifo(tmp_path / "pipe")
    return tmp_path


def listed(root: Path, path: str = ".", **options: Any) -> Any:  # noqa: ANN401 - JSON
    given = {"is_recursive": False, "max_entries": 1000, **options}
    with open_root(workspace_at(root)) as opened:
        return list_folder(opened, path, stop=StopToken(), **given)


def found(root: Path, text: str = "needle", path: str = ".", **options: Any) -> Any:  # noqa: ANN401 - JSON
    given = {"ignores_case": False, "name_glob": None, "max_matches": 100, **options}
    with open_root(workspace_at(root)) as opened:
        return search_folder(opened, path, Query(text=text, **given), stop=StopToken())


def test_lists_a_folder_by_name_without_staging(root: Path) -> None:
    assert listed(root) == {
        "entries": [
            {"path": ".git", "type": "folder", "size_bytes": None},
            {"path": "a", "type": "folder", "size_bytes": None},
            {"path": "a-b", "type": "file", "size_bytes": 6},
            {"path": "link", "type": "symlink", "size_bytes": None},
            {"path": "pipe", "type": "other", "size_bytes": None},
        ],
        "truncated": False,
    }


def test_lists_everything_below_a_folder_with_paths_from_the_root(root: Path) -> None:
    paths = [entry["path"] for entry in listed(root, "a", is_recursive=True)["entries"]]
    assert paths == ["a/binary", "a/deep", "a/deep/x.py", "a/latin"]


def test_goes_into_no_link(root: Path) -> None:
    paths = [entry["path"] for entry in listed(root, is_recursive=True)["entries"]]
    assert "link" in paths
    assert not any(path.startswith("link/") for path in paths)
    with pytest.raises(ToolError) as caught:
        listed(root, "link")
    assert caught.value.code is Code.FS_SYMLINK


def test_a_cut_list_is_the_beginning_of_the_whole_one(root: Path) -> None:
    whole = listed(root, is_recursive=True)["entries"]
    for length in range(1, len(whole) + 1):
        cut = listed(root, is_recursive=True, max_entries=length)
        assert cut == {"entries": whole[:length], "truncated": length < len(whole)}


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("a-b", Code.FS_NOT_A_FOLDER),
        ("none", Code.FS_NOT_FOUND),
        ("..", Code.FS_OUTSIDE),
        (".palyra-stage-01J", Code.FS_PROTECTED),
    ],
)
def test_only_folders_below_are_listed(root: Path, path: str, code: Code) -> None:
    with pytest.raises(ToolError) as caught:
        listed(root, path)
    assert caught.value.code is code


def test_a_name_that_is_not_utf8_is_shown_but_cannot_be_opened(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"bad\xff")).write_text("needle")
    assert listed(tmp_path)["entries"] == [
        {"path": "bad\\xff", "type": "other", "size_bytes": None}
    ]
    assert found(tmp_path)["matches"] == []


def test_a_folder_deeper_than_a_path_can_be_is_left_out_and_told(tmp_path: Path) -> None:
    fd = os.open(tmp_path, os.O_RDONLY)
    for _ in range(20):
        os.mkdir("x" * 250, dir_fd=fd)
        deeper = os.open("x" * 250, os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = deeper
    os.close(fd)
    answer = listed(tmp_path, is_recursive=True)
    assert answer["truncated"]
    assert 15 <= len(answer["entries"]) < 20


@pytest.mark.invariant("I13")
def test_a_walk_looks_at_a_bounded_number_of_things(root: Path) -> None:
    bounds = Bounds(max_visited=3)
    with open_root(workspace_at(root)) as opened:
        list(walk(opened, (), bounds=bounds, stop=StopToken()))
    assert bounds.is_incomplete


@pytest.mark.invariant("I13")
def test_an_answer_is_bounded_in_bytes() -> None:
    answer = Answer(max_items=1000)
    assert answer.add("x" * (MAX_ANSWER_BYTES - 10))
    assert not answer.add("x" * 20)
    assert answer.is_full


def test_a_walk_stops_when_asked(root: Path) -> None:
    stop = StopToken()
    stop.stop()
    with open_root(workspace_at(root)) as opened, pytest.raises(ToolError) as caught:
        list(walk(opened, (), bounds=Bounds(), stop=stop))
    assert caught.value.code is Code.TOOL_CANCELLED


def test_finds_a_text_with_line_and_column(root: Path) -> None:
    assert found(root) == {
        "matches": [
            {"path": "a/deep/x.py", "line": 2, "column": 5, "text": "two needle needle"},
            {"path": "a/deep/x.py", "line": 2, "column": 12, "text": "two needle needle"},
            {"path": "a-b", "line": 1, "column": 1, "text": "needle"},
        ],
        "files_searched": 2,
        "files_skipped": 2,
        "truncated": False,
    }


def test_searches_only_files_whose_name_fits(root: Path) -> None:
    answer = found(root, name_glob="*.py")
    assert {match["path"] for match in answer["matches"]} == {"a/deep/x.py"}
    assert (answer["files_searched"], answer["files_skipped"]) == (1, 0)


def test_stops_at_the_asked_number_of_matches(root: Path) -> None:
    answer = found(root, max_matches=2)
    assert (len(answer["matches"]), answer["truncated"]) == (2, True)
    answer = found(root, max_matches=3)
    assert (len(answer["matches"]), answer["truncated"]) == (3, False)


def test_large_files_are_skipped(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b"needle" + b" " * MAX_SEARCHED_FILE_BYTES)
    assert found(tmp_path)["files_skipped"] == 1


def test_a_skipped_file_uses_up_nothing_of_the_search(tmp_path: Path) -> None:
    with (tmp_path / "a-huge").open("wb") as file:
        file.truncate(2**40)
    (tmp_path / "b").write_text("needle")
    assert found(tmp_path) == {
        "matches": [{"path": "b", "line": 1, "column": 1, "text": "needle"}],
        "files_searched": 1,
        "files_skipped": 1,
        "truncated": False,
    }


@pytest.mark.invariant("I13")
def test_the_bytes_of_a_search_are_bounded(tmp_path: Path) -> None:
    for number in range(12):
        with (tmp_path / f"{number:02}").open("wb") as file:
            file.truncate(MAX_SEARCHED_FILE_BYTES)
    answer = found(tmp_path)
    assert (answer["files_skipped"], answer["truncated"]) == (8, True)


def test_an_unreadable_file_is_skipped(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root reads everything")
    (tmp_path / "x").write_text("needle")
    (tmp_path / "x").chmod(0)
    assert found(tmp_path)["files_skipped"] == 1


def columns(content: str, text: str, *, ignores_case: bool = False) -> list[tuple[object, object]]:
    query = Query(text=text, ignores_case=ignores_case, name_glob=None, max_matches=9)
    return [(match["line"], match["column"]) for match in occurrences(content, query)]


def test_a_text_over_two_lines_is_found_where_it_begins() -> None:
    assert columns("x\nab\ncd", "b\nc") == [(2, 2)]


def test_a_pattern_is_a_literal_text() -> None:
    assert columns("a.c abc", "a.c") == [(1, 1)]


def test_case_may_be_ignored_and_columns_stay_true() -> None:
    assert columns("\u0130x NEEDLE", "needle", ignores_case=True) == [(1, 4)]
    assert columns("\u03a3\u0391\u03a3", "\u03c3\u03b1\u03c3", ignores_case=True) == [(1, 1)]
    assert columns("NEEDLE", "needle") == []


def test_a_long_line_is_shown_around_the_match() -> None:
    content = "x" * 5000 + "needle" + "y" * 5000 + "\r\n"
    query = Query(text="needle", ignores_case=False, name_glob=None, max_matches=9)
    (match,) = occurrences(content, query)
    assert match["text"] == "x" * 80 + "needle" + "y" * 314
    assert match["column"] == 5001


@pytest.mark.parametrize("ignores_case", [True, False])
def test_searching_takes_linear_time(ignores_case: bool) -> None:  # noqa: FBT001 - parametrised
    content = "a" * MAX_SEARCHED_FILE_BYTES
    hostile = Query(text="a" * 1023 + "b", ignores_case=ignores_case, name_glob=None, max_matches=9)
    many = Query(text="a" * 8192, ignores_case=ignores_case, name_glob=None, max_matches=9)
    started = time.monotonic()
    assert list(occurrences(content, hostile)) == []
    assert len(list(occurrences(content, many))) == 1024
    assert time.monotonic() - started < 5
