# SPDX-License-Identifier: Apache-2.0
"""Configuration keys: a settings type in, one key per value out, each with its meaning and range.

Everything known about a key is read off the field's annotation, so that the check, the error
message, the template and the documentation cannot disagree.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin

import msgspec

from palyra.core.errors import Code, ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

_INTEGER = re.compile(r"-?[0-9]{1,18}", re.ASCII)


def integer(meaning: str, *, least: int, most: int) -> msgspec.Meta:
    """Describe an integer setting: what it means, and its range, both ends included."""
    expected = f"an integer from {least} to {most}"
    return msgspec.Meta(description=meaning, ge=least, le=most, extra={"expected": expected})


def texts(meaning: str, *, of: str) -> msgspec.Meta:
    """Describe a setting that is a list of texts: what it means, and what each of them is."""
    return msgspec.Meta(description=meaning, extra={"expected": f"a list of {of}"})


def switch(meaning: str) -> msgspec.Meta:
    """Describe a setting that is on or off."""
    return msgspec.Meta(description=meaning, extra={"expected": "true or false"})


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """One value of the configuration."""

    name: str
    """Dotted, as in ``tool_call.max_depth``."""
    type: Any
    default: Any
    meaning: str
    expected: str

    @property
    def variable(self) -> str:
        """The environment variable that overrides this key."""
        return f"PALYRA_{self.name.upper().replace('.', '__')}"

    def read(self, value: object, *, origin: str) -> Any:  # noqa: ANN401
        """Return ``value`` if it is of this key's type and within its range.

        Raises:
            ConfigError: it is not. Nothing is rounded, truncated or guessed.
        """
        try:
            return msgspec.convert(value, self.type, strict=True)
        except (msgspec.ValidationError, RecursionError, UnicodeError) as error:
            raise ConfigError(
                Code.CONFIG_INVALID,
                f"{origin}: {self.name} is not {self.expected}",
                hint=f"set {self.name} to {self.expected}",
                details={"key": self.name, "expected": self.expected, "origin": origin},
            ) from error

    def parse(self, text: str) -> object:
        """Return what an environment variable's text spells; what spells nothing stays text."""
        if isinstance(self.default, tuple):
            return _list(text)
        if isinstance(self.default, bool):
            return {"true": True, "false": False}.get(text, text)
        return int(text) if _INTEGER.fullmatch(text) else text


def keys_of(settings: type[msgspec.Struct], *, section: str = "") -> Iterator[Key]:
    """Yield every key of a settings type, in the order of declaration."""
    for field in msgspec.structs.fields(settings):
        name = f"{section}{field.name}"
        if get_origin(field.type) is not Annotated:
            yield from keys_of(field.type, section=f"{name}.")
            continue
        meta = next(each for each in get_args(field.type) if isinstance(each, msgspec.Meta))
        yield Key(
            name=name,
            type=field.type,
            default=field.default,
            meaning=meta.description or "",
            expected=(meta.extra or {})["expected"],
        )


def _list(text: str) -> object:
    if not _is_unicode(text):
        return text
    if text.lstrip().startswith("["):
        try:
            return msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError):
            return text
    return [item.strip() for item in text.split(",")] if text.strip() else []


def _is_unicode(text: str) -> bool:
    """Say whether ``text`` holds no half of a surrogate, which stands for an undecodable byte."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
