# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import random
import subprocess
import sys
from typing import TYPE_CHECKING

import msgspec
import pytest

from palyra.core.chain import Head, SignedHead
from palyra.core.errors import Code, StoreError
from palyra.core.ids import LogId
from palyra.store.head_file import HeadFile, read_kept_head
from palyra.store.sqlite.appender import is_own_head
from tests.support.ordinary_user import as_ordinary_user
from tests.support.store import KEY

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SLOT_BYTES = 1024


def head(index: int) -> SignedHead:
    unsigned = Head(
        log_id=LogId("log"), first=index, index=index, link=f"{index:064x}", recorded_at_ms=index
    )
    signature = KEY.sign(unsigned.signed_bytes).hex()
    return SignedHead(head=unsigned, key_id=KEY.key_id, signature=signature)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.head"


@pytest.fixture
def head_file(path: Path) -> Iterator[HeadFile]:
    file = HeadFile.open(path)
    yield file
    file.close()


def test_a_new_file_has_its_full_size_and_holds_nothing(head_file: HeadFile, path: Path) -> None:
    assert head_file.read() is None
    assert read_kept_head(path) is None
    assert path.stat().st_size == 2 * SLOT_BYTES
    assert path.stat().st_mode & 0o777 == 0o600


def test_the_newest_head_is_read_back(head_file: HeadFile, path: Path) -> None:
    for index in (0, 3, 4, 9):
        head_file.keep(head(index))
        head_file.sync()
        assert head_file.read() == head(index)
        assert read_kept_head(path) == head(index)
    assert path.stat().st_size == 2 * SLOT_BYTES


@pytest.mark.invariant("I8")
@pytest.mark.parametrize("older", [0, 1, 8, 9])
def test_an_older_head_never_replaces_a_newer_one(head_file: HeadFile, older: int) -> None:
    head_file.keep(head(7))
    head_file.keep(head(9))
    head_file.keep(head(older))
    assert head_file.read() == head(9)


@pytest.mark.parametrize("torn_at", [0, 10, 20, 21, 300, 500])
@pytest.mark.parametrize("kept", [4, 5])
def test_a_torn_slot_leaves_the_other_one_whole(path: Path, torn_at: int, kept: int) -> None:
    file = HeadFile.open(path)
    for index in range(kept + 1):
        file.keep(head(index))
    content = bytearray(path.read_bytes())
    newest = content.index(f'"index":{kept},'.encode()) // SLOT_BYTES * SLOT_BYTES
    content[newest + torn_at : newest + SLOT_BYTES] = b" " * (SLOT_BYTES - torn_at)
    path.write_bytes(content)
    assert file.read() == head(kept - 1)
    file.keep(head(kept + 1))
    assert file.read() == head(kept + 1)
    file.close()


@pytest.mark.invariant("I8")
def test_any_changed_byte_is_not_taken_for_a_head(path: Path) -> None:
    file = HeadFile.open(path)
    file.keep(head(1))
    genuine = path.read_bytes()
    for position in range(SLOT_BYTES):
        changed = bytearray(genuine)
        changed[position] ^= 1 << position % 8
        path.write_bytes(changed)
        found = file.read()
        assert found is None or not is_own_head(found, KEY), position
    file.close()


def test_random_bytes_are_no_head(path: Path) -> None:
    chance = random.Random(7)  # noqa: S311 - repeatable
    for _ in range(200):
        path.write_bytes(chance.randbytes(chance.randrange(3 * SLOT_BYTES)))
        assert read_kept_head(path) is None


def test_a_missing_file_is_no_head_and_is_not_created(path: Path) -> None:
    assert read_kept_head(path) is None
    assert not path.exists()


def test_a_link_is_not_followed(path: Path, tmp_path: Path) -> None:
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError) as opened:
        HeadFile.open(path)
    with pytest.raises(StoreError) as read:
        read_kept_head(path)
    assert (opened.value.code, read.value.code) == (Code.STORE_READ_ONLY, Code.STORE_UNREACHABLE)
    assert not (tmp_path / "elsewhere").exists()


def test_a_head_that_cannot_be_written_is_a_fault(path: Path) -> None:
    HeadFile.open(path).close()
    descriptor = path.open("rb")
    file = HeadFile(descriptor.fileno(), path=path)
    with pytest.raises(StoreError) as fault:
        file.keep(head(1))
    descriptor.close()
    assert fault.value.code is Code.STORE_FULL


def test_a_file_that_may_not_be_written_is_refused_but_can_be_read() -> None:
    with as_ordinary_user() as folder:
        path = folder / "journal.head"
        file = HeadFile.open(path)
        file.keep(head(1))
        file.close()
        path.chmod(0o400)
        with pytest.raises(StoreError) as fault:
            HeadFile.open(path)
        assert read_kept_head(path) == head(1)
    assert fault.value.code is Code.STORE_READ_ONLY


WRITER = """
import sys
from pathlib import Path
from palyra.store.head_file import HeadFile
from tests.unit.store.test_head_file import head
file = HeadFile.open(Path(sys.argv[1]))
for index in range(int(sys.argv[2]), 400, 2):
    file.keep(head(index))
"""


@pytest.mark.invariant("I8")
def test_two_processes_leave_the_newest_head(path: Path) -> None:
    command = [sys.executable, "-c", WRITER, str(path)]
    with subprocess.Popen([*command, "1"]) as one, subprocess.Popen([*command, "2"]) as other:
        seen = 0
        while one.poll() is None or other.poll() is None:
            found = read_kept_head(path)
            assert found is not None or seen == 0
            if found is not None:
                assert found.head.index >= seen
                assert found == head(found.head.index)
                seen = found.head.index
    assert (one.returncode, other.returncode) == (0, 0)
    assert read_kept_head(path) == head(399)


def test_a_slot_has_room_for_the_longest_head(head_file: HeadFile) -> None:
    longest = msgspec.structs.replace(
        head(1).head, log_id=LogId("Z" * 26), first=2**53, index=2**53, recorded_at_ms=2**53
    )
    signed = SignedHead(head=longest, key_id=KEY.key_id, signature="f" * 128)
    head_file.keep(signed)
    assert head_file.read() == signed


@pytest.mark.invariant("I8")
@pytest.mark.parametrize(
    "forged", [b"9" * 20 + b" ", b"9" * 20 + b' {"head":{}}'], ids=["digits", "json"]
)
def test_a_slot_that_is_no_genuine_head_never_keeps_a_head_away(path: Path, forged: bytes) -> None:
    file = HeadFile.open(path)
    file.keep(head(1))
    file.close()
    content = path.read_bytes()
    path.write_bytes(content[:1024] + forged.ljust(1024))
    file = HeadFile.open(path)
    file.keep(head(2))
    assert file.read() == head(2)
    file.close()


@pytest.mark.invariant("I8")
def test_a_head_of_somebody_else_never_keeps_a_head_away(path: Path) -> None:
    foreign = HeadFile.open(path)
    foreign.keep(head(99))
    foreign.close()
    file = HeadFile.open(path, is_genuine=lambda signed: signed.head.index != 99)
    file.keep(head(1))
    file.keep(head(2))
    slots = path.read_bytes()
    assert b'"index":99' not in slots
    file.close()
