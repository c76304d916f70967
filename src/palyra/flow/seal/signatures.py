# SPDX-License-Identifier: Apache-2.0
"""Checks of Ed25519 signatures over heads and statements; needs only the public key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from palyra.core.attestation import STATEMENT_TYPE, Attestation, signed_bytes
from palyra.core.digest import content_sha256
from palyra.core.errors import Code, InputError
from palyra.core.ids import KeyId

if TYPE_CHECKING:
    from palyra.core.chain import SignedHead


_KEY_HINT = "name the public key of the journal, a PEM file: keys/journal.pub"


class PublicKey:
    """The public half of a journal's key."""

    def __init__(self, raw: bytes) -> None:
        try:
            self._key = Ed25519PublicKey.from_public_bytes(raw)
        except ValueError as error:
            raise InputError(Code.KEY_UNREADABLE, "this is not an Ed25519 public key") from error
        self.key_id = KeyId(content_sha256(raw))

    @classmethod
    def from_pem(cls, pem: bytes) -> Self:
        """Read a PEM file such as ``keys/journal.pub``."""
        try:
            key = load_pem_public_key(pem)
        except ValueError as error:
            raise InputError(
                Code.KEY_UNREADABLE, "the key is not a PEM public key", hint=_KEY_HINT
            ) from error
        if not isinstance(key, Ed25519PublicKey):
            raise InputError(
                Code.KEY_UNREADABLE, "the key is not an Ed25519 public key", hint=_KEY_HINT
            )
        return cls(key.public_bytes_raw())

    def signed(self, message: bytes, signature: str) -> bool:
        """Say whether ``signature`` (lower-case hex) is this key's over ``message``."""
        try:
            raw = bytes.fromhex(signature)
            self._key.verify(raw, message)
        except (InvalidSignature, ValueError):
            return False
        return raw.hex() == signature  # one spelling only: any other was changed by somebody

    def signed_head(self, signed: SignedHead) -> bool:
        """Say whether this key signed the head."""
        return signed.key_id == self.key_id and self.signed(
            signed.head.signed_bytes, signed.signature
        )

    def signed_attestation(self, attestation: Attestation) -> bool:
        """Say whether this key signed the statement."""
        message = signed_bytes(STATEMENT_TYPE, attestation.payload)
        return attestation.key_id == self.key_id and self.signed(message, attestation.signature)
