# SPDX-License-Identifier: Apache-2.0
"""Arguments in, what the journal keeps of them out: no secret value, no long text (I11, I13).

Three things stand in for a value. ``{"$commitment": hex}`` is a salted digest of a secret one;
``{"$elided": {"sha256", "bytes"}}`` is the plain digest and length of a long text, or of the whole
redacted document where that is still too large. A caller's own key of either name gains another
dollar sign (``$commitment`` becomes ``$$commitment``, and that ``$$$commitment``), so that no
argument can pass for one of ours, and none is lost.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from palyra.core.canonical import canonicalize
from palyra.core.digest import content_sha256, framed_sha256

if TYPE_CHECKING:
    from collections.abc import Sequence

    from palyra.core.canonical import JsonValue

LONGEST_TEXT_CHARACTERS = 1024
LARGEST_DOCUMENT_BYTES = 16 * 1024

_OURS = re.compile(r"\$+(commitment|elided)")
_ANY = "*"

Trail = tuple[str, ...]
"""The steps of a secret's JSON pointer that are still to go; none left: the secret is here."""


def journaled(arguments: JsonValue, *, secret_fields: Sequence[str], salt: bytes) -> JsonValue:
    """Return ``arguments`` as the journal keeps them: the very same object if nothing is hidden.

    ``secret_fields`` are JSON pointers in which ``*`` stands for every item or key; what they
    name is replaced as a whole. ``salt`` must be random and unknown to readers of the journal,
    or short secrets could be guessed from their commitments.

    Raises:
        InputError: ``arguments`` are not JSON.
    """
    if not secret_fields:
        document = canonicalize(arguments)
        if len(document) <= LONGEST_TEXT_CHARACTERS and b"$" not in document:
            return arguments
    kept = _redact(arguments, _trails(secret_fields), salt)
    document = canonicalize(kept)
    if len(document) > LARGEST_DOCUMENT_BYTES:
        # Of the redacted document: a plain digest of the secrets would help to guess them.
        return _elided(document)
    return arguments if kept == arguments else kept


def has_secrets(arguments: JsonValue, *, secret_fields: Sequence[str]) -> bool:
    """Say whether any secret field is present in ``arguments``."""
    return any(_leads_somewhere(arguments, trail) for trail in _trails(secret_fields))


def _trails(secret_fields: Sequence[str]) -> tuple[Trail, ...]:
    return tuple(
        tuple(step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:])
        for pointer in secret_fields
    )


def _redact(value: Any, trails: tuple[Trail, ...], salt: bytes) -> JsonValue:  # noqa: ANN401
    if () in trails:
        commitment = framed_sha256("palyra.commitment.v1", salt, canonicalize(value))
        return {"$commitment": commitment.hex()}
    if isinstance(value, dict):
        return {
            _escaped(key): _redact(item, _below(trails, key), salt) for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [_redact(item, _below(trails, str(index)), salt) for index, item in enumerate(value)]
    if isinstance(value, str) and len(value) > LONGEST_TEXT_CHARACTERS:
        return _elided(value.encode("utf-8", "surrogatepass"))
    return value  # type: ignore[no-any-return]  # what is left is a scalar


def _below(trails: tuple[Trail, ...], step: str) -> tuple[Trail, ...]:
    return tuple(trail[1:] for trail in trails if trail[0] in {step, _ANY})


def _leads_somewhere(value: Any, trail: Trail) -> bool:  # noqa: ANN401
    if not trail:
        return True
    if isinstance(value, dict):
        members = value.items()
    elif isinstance(value, list | tuple):
        members = {str(index): item for index, item in enumerate(value)}.items()
    else:
        return False
    return any(
        _leads_somewhere(item, trail[1:]) for key, item in members if trail[0] in {key, _ANY}
    )


def _escaped(key: str) -> str:
    return f"${key}" if _OURS.fullmatch(key) else key


def _elided(content: bytes) -> JsonValue:
    return {"$elided": {"sha256": content_sha256(content), "bytes": len(content)}}
