# SPDX-License-Identifier: Apache-2.0
import base64
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from palyra.core.digest import content_sha256
from palyra.core.errors import Code, ToolError
from palyra.flow.sandbox.beneath import (
    Resolver,
    Symlinks,
    open_root,
    resolve_by_kernel,
    resolve_by_walk,
)
from palyra.flow.sandbox.reading import read_part, read_whole, readable_components, text_of
from tests.support.workspaces import workspace_at


def part(root: Path, path: str = "x", **options: Any) -> Any:  # noqa: ANN401 - JSON
    given_options = {"offset_bytes": 0, "limit_bytes": 1 << 20, "encoding": "utf-8", **options}
    with open_root(workspace_at(root)) as opened:
        return read_part(opened, path, **given_options)


def test_a_whole_file_comes_with_its_digest(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"caf\xc3\xa9\r\n")
    assert part(tmp_path) == {
        "path": "x",
        "encoding": "utf-8",
        "content": "caf\u00e9\r\n",
        "size_bytes": 7,
        "sha256": content_sha256(b"caf\xc3\xa9\r\n"),
        "truncated": False,
    }


def test_a_part_has_no_digest_and_says_that_it_is_one(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"0123456789")
    assert part(tmp_path, offset_bytes=2, limit_bytes=4) == {
        "path": "x",
        "encoding": "utf-8",
        "content": "2345",
        "size_bytes": 10,
        "sha256": None,
        "truncated": True,
    }


def test_the_last_part_is_not_truncated(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"0123456789")
    last = part(tmp_path, offset_bytes=6, limit_bytes=4)
    beyond = part(tmp_path, offset_bytes=60, limit_bytes=4)
    assert (last["content"], last["truncated"], last["sha256"]) == ("6789", False, None)
    assert (beyond["content"], beyond["truncated"]) == ("", False)


def test_bytes_come_as_base64(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(bytes(range(256)))
    answer = part(tmp_path, encoding="base64", offset_bytes=250, limit_bytes=4)
    assert base64.b64decode(answer["content"]) == bytes([250, 251, 252, 253])


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(alphabet="a\u00e9\u20ac\U0001f600", max_size=40), limit=st.integers(4, 9))
def test_parts_never_cut_a_character_and_lose_none(tmp_path: Path, text: str, limit: int) -> None:
    (tmp_path / "x").write_text(text)
    parts, offset = [], 0
    while True:
        answer = part(tmp_path, offset_bytes=offset, limit_bytes=limit)
        parts.append(answer["content"])
        offset += len(answer["content"].encode())
        if not answer["truncated"]:
            break
    assert "".join(parts) == text


def test_a_part_that_begins_within_a_character_begins_with_it(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("a\U0001f600b")
    for offset in (1, 2, 3, 4):
        assert part(tmp_path, offset_bytes=offset)["content"] == "\U0001f600b"
    assert part(tmp_path, offset_bytes=5)["content"] == "b"


@pytest.mark.parametrize(
    ("content", "offset"), [(b"\xff\xfe", 0), (b"\x80" * 9, 5), (b"a\xc3", 0), (b"\xed\xa0\x80", 0)]
)
def test_what_is_not_text_is_refused_as_text(tmp_path: Path, content: bytes, offset: int) -> None:
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(ToolError) as caught:
        part(tmp_path, offset_bytes=offset)
    assert caught.value.code is Code.FS_NOT_TEXT


def test_a_whole_file_is_bounded(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"12345")
    with open_root(workspace_at(tmp_path)) as root:
        assert read_whole(root, ("x",), symlinks=Symlinks.NONE, limit_bytes=5).content == b"12345"
        with pytest.raises(ToolError) as caught:
            read_whole(root, ("x",), symlinks=Symlinks.NONE, limit_bytes=4)
    assert caught.value.code is Code.FS_TOO_LARGE


@pytest.mark.invariant("I2")
@pytest.mark.parametrize("resolver", [resolve_by_kernel, resolve_by_walk])
@pytest.mark.parametrize("path", ["link", "folder/x", "sub/up/x", "sub/chain"])
def test_no_link_is_followed_not_even_one_that_stays_within(
    tmp_path: Path, path: str, resolver: Resolver
) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "x").write_text("inside")
    (tmp_path / "link").symlink_to("x")
    (tmp_path / "folder").symlink_to(".")
    (tmp_path / "sub" / "up").symlink_to("..")
    (tmp_path / "sub" / "chain").symlink_to("../link")
    assert (tmp_path / path).read_text() == "inside"  # what following the link reads
    with (
        open_root(workspace_at(tmp_path), resolver=resolver) as root,
        pytest.raises(ToolError) as caught,
    ):
        read_part(root, path, offset_bytes=0, limit_bytes=100, encoding="utf-8")
    assert caught.value.code is Code.FS_SYMLINK
    assert caught.value.message == f"'{path}' goes through a symbolic link"
    assert caught.value.hint == "name the real path"


def test_staging_folders_are_not_read() -> None:
    with pytest.raises(ToolError) as caught:
        readable_components(".Palyra-Stage-01J/0")
    assert caught.value.code is Code.FS_PROTECTED


def test_a_refusal_of_content_does_not_quote_it() -> None:
    with pytest.raises(ToolError) as caught:
        text_of(b"secret\xff", "x")
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None
