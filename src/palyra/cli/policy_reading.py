# SPDX-License-Identifier: Apache-2.0
"""What the commands about policies read: the store in, the rules meant out; paths in, texts out."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from palyra.cli.callers_file import read_file
from palyra.cli.opening import known_home

if TYPE_CHECKING:
    from palyra.cli.frame import Frame
    from palyra.core.digest import PolicyDigest
    from palyra.core.ports import JournalReader, RulesStore
    from palyra.daemon.policy_folder import FolderContent
    from palyra.flow.policy.rules import Rules

_DIGEST = re.compile(r"[0-9a-f]{8,64}", re.ASCII)
_MEMBERS_NAME = "members.toml"
_WAY_OUT = (
    "'palyra policy stage' checks the folder of policies anew and names a digest; "
    "'palyra policy activate DIGEST' puts it into force"
)


def rules_in_force(store: RulesStore) -> Rules:
    """Return the rules in force.

    Raises:
        IntegrityError: they cannot be loaded; its hint is the way out.
    """
    from palyra.core.errors import Code, IntegrityError

    in_force = store.rules_in_force()
    if in_force is None:
        raise IntegrityError(Code.STORE_CORRUPT, "no policies are in force", hint=_WAY_OUT)
    try:
        return rules_of(store, in_force.policy_digest)
    except IntegrityError as error:
        raise IntegrityError(
            error.code,
            f"the policies in force cannot be read, so no call is allowed: {error.message}",
            hint=_WAY_OUT,
            details=error.details,
        ) from error


def rules_of(store: RulesStore, digest: PolicyDigest) -> Rules:
    """Return the rules of a pack that must be kept.

    Raises:
        IntegrityError: it is not, or cannot be loaded.
    """
    from palyra.core.errors import Code, IntegrityError
    from palyra.flow.policy.engine import load_rules

    kept = store.pack(digest)
    if kept is None:
        raise IntegrityError(Code.STORE_CORRUPT, f"policies {short(digest)} are not kept")
    return load_rules(kept.body, digest)


def kept_digest(store: RulesStore, text: str) -> PolicyDigest:
    """Return the digest of the one kept pack that ``text`` names, whole or by its first digits.

    Raises:
        click.UsageError: it is no digest, or the first digits of several.
        NotFoundError: no pack has such a digest.
    """
    from palyra.core.errors import Code, NotFoundError

    digits = text.strip().lower()
    if not _DIGEST.fullmatch(digits):
        raise click.UsageError("a digest is 64 hexadecimal digits, or the first 8 or more of them")
    found = [pack.policy_digest for pack in store.packs() if pack.policy_digest.startswith(digits)]
    if not found:
        raise NotFoundError(
            Code.POLICY_UNKNOWN,
            f"no policies {digits} are staged",
            hint="'palyra policy show' lists what is staged, 'palyra policy stage' stages",
        )
    if len(found) > 1:
        raise click.UsageError(f"{len(found)} staged policies begin with {digits}: name more of it")
    return found[0]


def journal_of(store: RulesStore) -> JournalReader | None:
    """Return the journal beside the rules; ``None`` before the first start."""
    from palyra.store.sqlite.ledger import Archive

    return store if isinstance(store, Archive) else None


def own_folder(frame: Frame) -> Path:
    """Return where the operator's policies are."""
    from palyra.daemon.home import POLICIES_NAME

    return known_home(frame) / POLICIES_NAME


def own_content(frame: Frame, store: RulesStore) -> FolderContent:
    """Return what the operator's folder holds, if it may come into force.

    Raises:
        ConfigError: others can reach it.
    """
    from palyra.daemon.policy_folder import read_folder

    journal = journal_of(store)
    return read_folder(
        own_folder(frame),
        state=known_home(frame),
        workspaces=journal.workspaces() if journal is not None else (),
    )


def content_at(paths: tuple[str, ...]) -> FolderContent:
    """Return what files and folders hold, only to be looked at.

    Policies have the names of their files alone, so that they are the same pack wherever they lie.
    How a path was typed is kept beside them.

    Raises:
        ConfigError, click.UsageError: one of them cannot be read.
    """
    from palyra.daemon.policy_folder import FolderContent
    from palyra.flow.policy.sources import Source

    parts = [_folder(path) if Path(path).is_dir() else _file(path) for path in paths]
    members = [part.members_toml for part in parts if part.members_toml is not None]
    if len(members) > 1:
        raise click.UsageError(f"there is more than one {_MEMBERS_NAME}")
    typed: dict[str, str] = {}
    sources = []
    for part in parts:
        for source in part.sources:
            path = part.typed[source.name]
            # Two files of one name are told apart by their paths: they never lie in one folder.
            name = source.name if source.name not in typed else _apart(path)
            typed[name] = path
            sources.append(Source(name, source.text))
        if part.members_toml is not None:
            typed[_MEMBERS_NAME] = part.typed[_MEMBERS_NAME]
    return FolderContent(
        sources=tuple(sources),
        members_toml=members[0] if members else None,
        cases=tuple(table for part in parts for table in part.cases),
        notes=tuple(note for part in parts for note in part.notes),
        typed=typed,
    )


def content_in(folder: str) -> FolderContent:
    """Return what a folder holds, only to be looked at.

    Raises:
        ConfigError, click.UsageError: it is none, or cannot be read.
    """
    if not Path(folder).is_dir():
        raise click.UsageError(f"--policies: {folder} is not a folder")
    return content_at((folder,))


def short(digest: str) -> str:
    """Return enough of a digest for people to tell it from others."""
    return digest[:12]


def since_ms(duration_ms: int) -> int:
    """Return the time that was so long ago."""
    from palyra.daemon.clock import SystemClock

    return max(0, SystemClock().now_ms() - duration_ms)


def _folder(path: str) -> FolderContent:
    import msgspec

    from palyra.daemon.policy_folder import read_folder

    content = read_folder(Path(path), state=None, workspaces=(), is_trusted=False)
    folder = path.rstrip("/")
    names = (_MEMBERS_NAME, *(source.name for source in content.sources))
    return msgspec.structs.replace(
        content,
        cases=tuple((f"{folder}/{name}", table) for name, table in content.cases),
        typed={name: f"{folder}/{name}" for name in names},
    )


def _file(path: str) -> FolderContent:
    from palyra.daemon.policy_folder import FolderContent
    from palyra.flow.policy.sources import Source

    name = Path(path).name
    if not name.endswith((".cedar", ".toml")):
        raise click.UsageError(f"{path} is neither a folder nor a file named *.cedar or *.toml")
    content = read_file(path)
    if name == _MEMBERS_NAME:
        return FolderContent(members_toml=content, typed={name: path})
    if name.endswith(".toml"):
        return FolderContent(cases=((path, content),))
    try:
        return FolderContent(sources=(Source(name, content.decode()),), typed={name: path})
    except UnicodeDecodeError:
        raise click.UsageError(f"file {path} is not UTF-8 text") from None


def _apart(path: str) -> str:
    """Return a path as the name of a source; the names of packaged ones are nobody else's."""
    from palyra.flow.policy.sources import PACKAGED

    return f"./{path}" if path.startswith(PACKAGED) else path
