# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from palyra.core.digest import content_sha256
from palyra.core.errors import Code, IntegrityError
from palyra.flow.seal.signatures import PublicKey
from palyra.trust.signing_key import KEY_NAME, PUBLIC_KEY_NAME, SigningKey, key_id_of
from tests.support.ordinary_user import as_ordinary_user

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from palyra.core.ports import Signer


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "keys"


def refusal(folder: Path) -> Code:
    with pytest.raises(IntegrityError) as refused:
        SigningKey.load(folder)
    assert str(folder / KEY_NAME) in refused.value.message
    return refused.value.code


def private_pem(private: Ed25519PrivateKey | X25519PrivateKey, *, password: bytes = b"") -> bytes:
    protection = BestAvailableEncryption(password) if password else NoEncryption()
    return private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, protection)


def test_a_created_key_is_loaded_again(folder: Path) -> None:
    created = SigningKey.create(folder)
    loaded = SigningKey.load(folder)
    assert loaded is not None
    assert (loaded.key_id, loaded.public_key) == (created.key_id, created.public_key)
    assert loaded.sign(b"message") == created.sign(b"message")


def test_a_signature_is_the_public_keys(folder: Path) -> None:
    key: Signer = SigningKey.create(folder)
    Ed25519PublicKey.from_public_bytes(key.public_key).verify(key.sign(b"message"), b"message")


def test_the_public_half_is_beside_it(folder: Path) -> None:
    key = SigningKey.create(folder)
    beside = PublicKey.from_pem((folder / PUBLIC_KEY_NAME).read_bytes())
    assert beside.key_id == key.key_id == key_id_of(key.public_key)
    assert key.key_id == content_sha256(key.public_key)


@pytest.mark.invariant("I10")
@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_only_its_owner_can_read_it(folder: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        SigningKey.create(folder)
    finally:
        os.umask(before)
    assert (folder / KEY_NAME).stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o777 == 0o700


def test_there_are_no_other_files(folder: Path) -> None:
    SigningKey.create(folder)
    assert sorted(path.name for path in folder.iterdir()) == [KEY_NAME, PUBLIC_KEY_NAME]


def test_no_key_is_no_key(folder: Path) -> None:
    assert SigningKey.load(folder) is None
    folder.mkdir()
    assert SigningKey.load(folder) is None


def test_a_key_is_never_replaced(folder: Path) -> None:
    SigningKey.create(folder)
    before = (folder / KEY_NAME).read_bytes()
    with pytest.raises(IntegrityError) as refused:
        SigningKey.create(folder)
    assert refused.value.code is Code.KEY_UNREADABLE
    assert (folder / KEY_NAME).read_bytes() == before


@pytest.mark.parametrize("left", [".journal.key.new", ".journal.pub.new", PUBLIC_KEY_NAME])
def test_what_a_crash_left_of_an_earlier_attempt_is_no_hindrance(folder: Path, left: str) -> None:
    folder.mkdir()
    (folder / left).write_bytes(b"half a k")
    assert SigningKey.load(folder) is None
    key = SigningKey.create(folder)
    assert PublicKey.from_pem((folder / PUBLIC_KEY_NAME).read_bytes()).key_id == key.key_id
    assert sorted(path.name for path in folder.iterdir()) == [KEY_NAME, PUBLIC_KEY_NAME]


@pytest.mark.invariant("I10")
@pytest.mark.parametrize("mode", [0o604, 0o640, 0o620, 0o602, 0o610, 0o666, 0o777])
def test_a_key_that_others_may_touch_is_exposed(folder: Path, mode: int) -> None:
    SigningKey.create(folder)
    (folder / KEY_NAME).chmod(mode)
    assert refusal(folder) is Code.KEY_EXPOSED


def test_a_key_that_may_only_be_read_is_good(folder: Path) -> None:
    SigningKey.create(folder)
    (folder / KEY_NAME).chmod(0o400)
    assert SigningKey.load(folder) is not None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_somebody_elses_key_is_exposed(folder: Path) -> None:
    SigningKey.create(folder)
    os.chown(folder / KEY_NAME, 12345, 12345)
    assert refusal(folder) is Code.KEY_EXPOSED


def a_link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to(path.with_name("elsewhere"))


def a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path, 0o600)


def a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir(mode=0o700)


def holding(content: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(content)


@pytest.mark.parametrize(
    "change",
    [
        a_link,
        a_pipe,
        a_folder,
        pytest.param(holding(b""), id="nothing"),
        pytest.param(holding(b"not a key"), id="noise"),
        pytest.param(holding(private_pem(X25519PrivateKey.generate())), id="a-key-of-another-kind"),
        pytest.param(
            holding(private_pem(Ed25519PrivateKey.generate(), password=b"secret")),
            id="a-key-with-a-password",
        ),
        pytest.param(holding(private_pem(Ed25519PrivateKey.generate())[:60]), id="half-a-key"),
    ],
)
def test_what_is_not_a_plain_key_file_is_unreadable(
    folder: Path, change: Callable[[Path], object]
) -> None:
    SigningKey.create(folder)
    change(folder / KEY_NAME)
    assert refusal(folder) is Code.KEY_UNREADABLE


def test_a_key_that_may_not_be_read_is_unreadable() -> None:
    with as_ordinary_user() as home:
        SigningKey.create(home / "keys")
        (home / "keys" / KEY_NAME).chmod(0o000)
        assert refusal(home / "keys") is Code.KEY_UNREADABLE


def test_a_folder_that_cannot_be_written_gets_no_key() -> None:
    with as_ordinary_user() as home:
        home.chmod(0o500)
        with pytest.raises(IntegrityError) as refused:
            SigningKey.create(home / "keys")
        home.chmod(0o700)
    assert refused.value.code is Code.KEY_UNREADABLE


@pytest.mark.invariant("I11")
def test_the_private_key_does_not_show(folder: Path) -> None:
    key = SigningKey.create(folder)
    secret = (folder / KEY_NAME).read_text().splitlines()[1]
    assert secret not in repr(key)
    assert "PRIVATE" not in repr(key)
