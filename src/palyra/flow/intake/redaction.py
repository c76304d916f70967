# SPDX-License-Identifier: Apache-2.0
"""Arguments in, what the journal keeps of them out: no secret value, no long text (I11, I13).

Three things stand in for a value. ``{"$commitment": hex}`` is a keyed digest of a secret one;
``{"$elided": {"sha256", "bytes"}}`` is the plain digest and length of a long text, or of the whole
redacted document where that is still too large. A caller's own key of either name gains another
dollar sign (``$commitment`` becomes ``$$commitment``, and that ``$$$commitment``), so that no
argument can pass for one of ours, and none is lost.
"""

from __future__ import annotations

import hmac
import re
from typing import TYPE_CHECKING, Any

from palyra.core.canonical import canonicalize
from palyra.core.digest import content_sha256, framed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from palyra.core.canonical import JsonValue

LONGEST_TEXT_CHARACTERS = 1024
LARGEST_DOCUMENT_BYTES = 16 * 1024

_OURS = re.compile(r"\$+(commitment|elided)")
_ANY = "*"

Trail = tuple[str, ...]
"""The steps of a secret's JSON pointer that are still to go; none left: the secret is here."""


def journaled(arguments: JsonValue, *, secret_fields: Sequence[str], key: bytes) -> JsonValue:
    """Return ``arguments`` as the journal keeps them: the very same object if nothing is hidden.

    ``secret_fields`` are JSON pointers in which ``*`` stands for every item or key; what they
    name is replaced as a whole. ``key`` must be unknown to readers of the journal, or short
    secrets could be guessed from their commitments. Under one key, the same secret always has
    the same commitment, wherever it stands.

    Raises:
        InputError: ``arguments`` are not JSON.
    """
    if not secret_fields:
        document = canonicalize(arguments)
        if len(document) <= LONGEST_TEXT_CHARACTERS and b"$" not in document:
            return arguments
    kept = _redact(arguments, trails_of(secret_fields), key)
    document = canonicalize(kept)
    if len(document) > LARGEST_DOCUMENT_BYTES:
        # Of the redacted document: a plain digest of the secrets would help to guess them.
        return _elided(document)
    return arguments if kept == arguments else kept


def committed(arguments: JsonValue, *, secret_fields: Sequence[str], key: bytes) -> JsonValue:
    """Return ``arguments`` with a commitment for every secret, and all else as it is."""
    return _replaced(arguments, trails_of(secret_fields), lambda value: _commitment(value, key))


def veiled(arguments: JsonValue, *, secret_fields: Sequence[str], key: bytes) -> JsonValue:
    """Return ``arguments`` with a text in place of every secret, for facts to be drawn from.

    Facts are shown to policy and journaled: no secret may get into them (I11).
    """
    return _replaced(arguments, trails_of(secret_fields), lambda value: _veil(value, key))


def has_secrets(arguments: JsonValue, *, secret_fields: Sequence[str]) -> bool:
    """Say whether any secret field is present in ``arguments``."""
    return any(_leads_somewhere(arguments, trail) for trail in trails_of(secret_fields))


def keyed_digest(domain: str, content: bytes, *, key: bytes) -> bytes:
    """Return the HMAC-SHA256 of ``content``, framed: to whoever lacks the key, it tells nothing."""
    return hmac.digest(key, framed(domain, content), "sha256")


def secret_depth(steps: Sequence[str | int], *, trails: tuple[Trail, ...]) -> int | None:
    """Return how many of ``steps`` lead to the first secret on the way, if there is one."""
    for depth, step in enumerate(steps):
        if () in trails:
            return depth
        trails = _below(trails, str(step))
    return len(steps) if () in trails else None


def trails_of(secret_fields: Sequence[str]) -> tuple[Trail, ...]:
    """Take JSON pointers apart, once."""
    return tuple(
        tuple(step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:])
        for pointer in secret_fields
    )


def _replaced(
    value: Any,  # noqa: ANN401 - JSON
    trails: tuple[Trail, ...],
    replace: Callable[[JsonValue], JsonValue],
) -> JsonValue:
    # Keys need no escape here: whether a place is secret depends on the way to it alone.
    if () in trails:
        return replace(value)
    if isinstance(value, dict):
        return {
            name: _replaced(item, _below(trails, name), replace) for name, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [
            _replaced(item, _below(trails, str(index)), replace) for index, item in enumerate(value)
        ]
    return value  # type: ignore[no-any-return]  # what is left is a scalar


def _commitment(value: JsonValue, key: bytes) -> JsonValue:
    return {"$commitment": _committing(value, key)}


def _veil(value: JsonValue, key: bytes) -> JsonValue:
    return f"commitment:{_committing(value, key)}"


def _committing(value: JsonValue, key: bytes) -> str:
    return keyed_digest("palyra.commitment.v1", canonicalize(value), key=key).hex()


def _redact(value: Any, trails: tuple[Trail, ...], key: bytes) -> JsonValue:  # noqa: ANN401
    if () in trails:
        return _commitment(value, key)
    if isinstance(value, dict):
        return {
            _escaped(name): _redact(item, _below(trails, name), key) for name, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [_redact(item, _below(trails, str(index)), key) for index, item in enumerate(value)]
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
