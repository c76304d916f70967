# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import hmac
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


def created_key(folder: Path) -> SigningKey:
    key = SigningKey.generate()
    key.save(folder)
    return key


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
    created = created_key(folder)
    loaded = SigningKey.load(folder)
    assert loaded is not None
    assert (loaded.key_id, loaded.public_key) == (created.key_id, created.public_key)
    assert loaded.sign(b"message") == created.sign(b"message")


def test_a_signature_is_the_public_keys(folder: Path) -> None:
    key: Signer = created_key(folder)
    Ed25519PublicKey.from_public_bytes(key.public_key).verify(key.sign(b"message"), b"message")


def test_the_public_half_is_beside_it(folder: Path) -> None:
    key = created_key(folder)
    beside = PublicKey.from_pem((folder / PUBLIC_KEY_NAME).read_bytes())
    assert beside.key_id == key.key_id == key_id_of(key.public_key)
    assert key.key_id == content_sha256(key.public_key)


@pytest.mark.invariant("I10")
@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_only_its_owner_can_read_it(folder: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        created_key(folder)
    finally:
        os.umask(before)
    assert (folder / KEY_NAME).stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o777 == 0o700


def test_there_are_no_other_files(folder: Path) -> None:
    created_key(folder)
    assert sorted(path.name for path in folder.iterdir()) == [KEY_NAME, PUBLIC_KEY_NAME]


def test_no_key_is_no_key(folder: Path) -> None:
    assert SigningKey.load(folder) is None
    folder.mkdir()
    assert SigningKey.load(folder) is None


def test_a_key_is_never_replaced(folder: Path) -> None:
    created_key(folder)
    before = (folder / KEY_NAME).read_bytes()
    with pytest.raises(IntegrityError) as refused:
        created_key(folder)
    assert refused.value.code is Code.KEY_UNREADABLE
    assert (folder / KEY_NAME).read_bytes() == before


@pytest.mark.parametrize("left", [".journal.key.new", ".journal.pub.new", PUBLIC_KEY_NAME])
def test_what_a_crash_left_of_an_earlier_attempt_is_no_hindrance(folder: Path, left: str) -> None:
    folder.mkdir()
    (folder / left).write_bytes(b"half a k")
    assert SigningKey.load(folder) is None
    key = created_key(folder)
    assert PublicKey.from_pem((folder / PUBLIC_KEY_NAME).read_bytes()).key_id == key.key_id
    assert sorted(path.name for path in folder.iterdir()) == [KEY_NAME, PUBLIC_KEY_NAME]


@pytest.mark.invariant("I10")
@pytest.mark.parametrize("mode", [0o604, 0o640, 0o620, 0o602, 0o610, 0o666, 0o777])
def test_a_key_that_others_may_touch_is_exposed(folder: Path, mode: int) -> None:
    created_key(folder)
    (folder / KEY_NAME).chmod(mode)
    assert refusal(folder) is Code.KEY_EXPOSED


def test_a_key_that_may_only_be_read_is_good(folder: Path) -> None:
    created_key(folder)
    (folder / KEY_NAME).chmod(0o400)
    assert SigningKey.load(folder) is not None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_somebody_elses_key_is_exposed(folder: Path) -> None:
    created_key(folder)
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
    created_key(folder)
    change(folder / KEY_NAME)
    assert refusal(folder) is Code.KEY_UNREADABLE


def test_a_key_that_may_not_be_read_is_unreadable() -> None:
    with as_ordinary_user() as home:
        created_key(home / "keys")
        (home / "keys" / KEY_NAME).chmod(0o000)
        assert refusal(home / "keys") is Code.KEY_UNREADABLE


def test_a_folder_that_cannot_be_written_gets_no_key() -> None:
    with as_ordinary_user() as home:
        home.chmod(0o500)
        with pytest.raises(IntegrityError) as refused:
            created_key(home / "keys")
        home.chmod(0o700)
    assert refused.value.code is Code.KEY_UNREADABLE


def test_a_derived_key_is_hkdf_of_the_signing_key_and_the_label() -> None:
    secret = bytes(range(32))
    key = SigningKey(Ed25519PrivateKey.from_private_bytes(secret))
    extracted = hmac.digest(bytes(32), secret, "sha256")
    assert key.derive("a.v1") == hmac.digest(extracted, b"a.v1\x01", "sha256")


@pytest.mark.invariant("I11")
def test_derived_keys_last_and_differ_by_label_and_by_key(folder: Path) -> None:
    key, loaded = created_key(folder), SigningKey.load(folder)
    assert loaded is not None
    assert key.derive("a") == loaded.derive("a")
    assert len({key.derive("a"), key.derive("b"), SigningKey.generate().derive("a")}) == 3


@pytest.mark.invariant("I11")
def test_the_private_key_does_not_show(folder: Path) -> None:
    key = created_key(folder)
    secret = (folder / KEY_NAME).read_text().splitlines()[1]
    assert secret not in repr(key)
    assert "PRIVATE" not in repr(key)
