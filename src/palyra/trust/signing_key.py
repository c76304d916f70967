# SPDX-License-Identifier: Apache-2.0
"""The journal's Ed25519 key: created on first run, readable by its owner alone, never replaced."""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING, Final, Self

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from palyra.core.digest import content_sha256
from palyra.core.errors import Code, IntegrityError
from palyra.core.ids import KeyId

if TYPE_CHECKING:
    from pathlib import Path

KEY_NAME: Final = "journal.key"
PUBLIC_KEY_NAME: Final = "journal.pub"
_MOST_BYTES: Final = 4096
_DERIVED_BYTES: Final = 32


class SigningKey:
    """A signer whose key stays in this object and in its file."""

    def __init__(self, private: Ed25519PrivateKey) -> None:
        self._private = private
        self.public_key: bytes = private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        self.key_id = key_id_of(self.public_key)

    @classmethod
    def generate(cls) -> Self:
        """Make a new key, in memory alone."""
        return cls(Ed25519PrivateKey.generate())

    def save(self, folder: Path) -> None:
        """Write a new key durably, with its public half beside it.

        The key comes last and whole, so that a crash leaves either everything or no key. The
        caller holds the lock under which the state directory is set up.
        """
        pem = self._private.private_bytes(  # the one place where it leaves memory
            Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
        )
        public = self._private.public_key().public_bytes(
            Encoding.PEM, PublicFormat.SubjectPublicKeyInfo
        )
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            if os.path.lexists(folder / KEY_NAME):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
            _write_whole(folder / PUBLIC_KEY_NAME, public, mode=0o644)
            _write_whole(folder / KEY_NAME, pem, mode=0o600)
        except OSError as error:
            raise IntegrityError(
                Code.KEY_UNREADABLE, f"the signing key cannot be written: {error.strerror}"
            ) from error

    @classmethod
    def load(cls, folder: Path) -> Self | None:
        """Return the key, or ``None`` if there is none.

        Raises:
            IntegrityError: others can read or write it, or it is not an Ed25519 key.
        """
        path = folder / KEY_NAME
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise IntegrityError(Code.KEY_UNREADABLE, f"{path}: {error.strerror}") from error
        try:
            _require_private(descriptor, path=path)
            pem = os.read(descriptor, _MOST_BYTES)
        finally:
            os.close(descriptor)
        try:
            private = load_pem_private_key(pem, password=None)
        except (ValueError, TypeError) as error:
            raise IntegrityError(Code.KEY_UNREADABLE, f"{path} is not a PEM key") from error
        if not isinstance(private, Ed25519PrivateKey):
            raise IntegrityError(Code.KEY_UNREADABLE, f"{path} is not an Ed25519 key")
        return cls(private)

    def sign(self, message: bytes) -> bytes:
        """Return the Ed25519 signature of ``message``."""
        return self._private.sign(message)

    def derive(self, label: str) -> bytes:
        """Return the 32-byte key that belongs to ``label``: always the same, and of no other use.

        It says nothing about the signing key, nor about the keys of other labels.
        """
        derivation = HKDF(algorithm=SHA256(), length=_DERIVED_BYTES, salt=None, info=label.encode())
        return derivation.derive(self._private.private_bytes_raw())


def key_id_of(public_key: bytes) -> KeyId:
    """Identify a raw Ed25519 public key."""
    return KeyId(content_sha256(public_key))


def _require_private(descriptor: int, *, path: Path) -> None:
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise IntegrityError(Code.KEY_UNREADABLE, f"{path} is not a regular file")
    if status.st_mode & 0o077 or status.st_uid != os.geteuid():
        mode = stat.S_IMODE(status.st_mode)
        raise IntegrityError(
            Code.KEY_EXPOSED,
            f"{path} is not this user's alone (uid {status.st_uid}, mode {mode:04o})",
        )


def _write_whole(path: Path, content: bytes, *, mode: int) -> None:
    """Write a file aside and move it into place once it is on disk."""
    aside = path.with_name(f".{path.name}.new")
    aside.unlink(missing_ok=True)  # what a crash left of an earlier attempt
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(aside, flags, mode)
    try:
        os.write(descriptor, content)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    aside.rename(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
