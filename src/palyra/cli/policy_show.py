# SPDX-License-Identifier: Apache-2.0
"""``palyra policy show``: the pack in force, since when, and what is not in force yet."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import click

from palyra.cli.clock_text import rfc3339
from palyra.cli.frame import Command, Frame
from palyra.cli.neutralise import line, well_formed
from palyra.cli.opening import opened_rules
from palyra.cli.output import Reply, Table
from palyra.cli.policy_reading import (
    journal_of,
    kept_digest,
    own_content,
    own_folder,
    rules_in_force,
    rules_of,
    short,
)
from palyra.cli.policy_text import counted, policy_document, policy_line

if TYPE_CHECKING:
    from palyra.core.pack import Pack, Policy
    from palyra.core.ports import RulesStore
    from palyra.daemon.policy_folder import FolderContent
    from palyra.flow.seal.activations import Activation

_MOST_SHOWN = 20
_NOT_YET = "not in force until 'palyra policy stage' and 'palyra policy activate'"


@click.command("show", cls=Command)
@click.option("--policy", "policy_id", metavar="ID", help="Show this policy with its text.")
@click.option("--digest", metavar="DIGEST", help="Show these staged policies, not those in force.")
@click.option("--actions", is_flag=True, help="List every action that policies can name.")
@click.option("--schema", is_flag=True, help="Print the Cedar schema.")
@click.pass_obj
def command(
    frame: Frame, *, policy_id: str | None, digest: str | None, actions: bool, schema: bool
) -> Reply:
    """Show the policies in force, who put them there, and whether the files say otherwise."""
    if (policy_id is not None or digest is not None) + actions + schema > 1:
        raise click.UsageError("--actions and --schema stand alone")
    if actions:
        return _actions()
    if schema:
        return _schema()
    with opened_rules(frame) as store:
        if digest is None:
            pack = rules_in_force(store).pack
        else:  # which can be looked at even where what is in force is unreadable
            pack = rules_of(store, kept_digest(store, digest)).pack
        if policy_id is not None:
            return _one(pack, policy_id)
        in_force = store.rules_in_force()
        is_in_force = in_force is not None and in_force.policy_digest == pack.digest
        return _pack(frame, store, pack, is_in_force=is_in_force)


def differing_files(content: FolderContent, pack: Pack) -> tuple[str, ...]:
    """Return the files of a folder whose policies or members are not those of a pack.

    Compares texts, so nothing has to be in order. Spaces and comments between policies do not
    count.
    """
    from palyra.core.pack import NOBODY
    from palyra.flow.policy.members import read_members
    from palyra.flow.policy.sources import PACKAGED
    from palyra.flow.policy.statements import statements_in

    ours: dict[str, list[str]] = {}
    for policy in pack.policies:
        if not policy.source.startswith(PACKAGED):
            ours.setdefault(policy.source, []).append(policy.text)
    theirs = {
        source.name: [statement.text for statement in statements_in(source.text)]
        for source in content.sources
    }
    names = [
        name for name in sorted({*ours, *theirs}) if ours.get(name, []) != theirs.get(name, [])
    ]
    members = (
        read_members(content.members_toml, "members.toml")
        if content.members_toml is not None
        else NOBODY
    )
    return (*names, *(("members.toml",) if members != pack.members else ()))


def _one(pack: Pack, policy_id: str) -> Reply:
    from palyra.core.errors import Code, NotFoundError
    from palyra.core.nearest import nearest

    by_id = {policy.policy_id: policy for policy in pack.policies}
    policy = by_id.get(policy_id)
    if policy is None:
        close = nearest(policy_id, by_id)
        raise NotFoundError(
            Code.POLICY_UNKNOWN,
            f"no policy of {short(pack.digest)} has this id",
            hint=f"did you mean {close}?" if close else "'palyra policy show' lists them",
        )
    # Indented, so that nothing in it can pass for a line of this reply.
    text = "\n".join(f"    {each}" for each in policy.text.splitlines())
    return Reply(
        document={
            "policy_digest": pack.digest,
            **policy_document(policy),
            "annotations": policy.annotations,
            "text": policy.text,
        },
        text=(f"{policy_line(policy)}\n{text}",),
    )


def _pack(frame: Frame, store: RulesStore, pack: Pack, *, is_in_force: bool) -> Reply:
    activation = _activation(store, pack)
    folder = _folder(frame, store, pack) if is_in_force else None
    staged = [
        {
            "policy_digest": kept.policy_digest,
            "staged_at_ms": kept.staged_at_ms,
            "was_active": kept.was_active,
        }
        for kept in store.packs()
    ]
    policies = counted(len(pack.policies), "policy", "policies")
    sources = Counter(policy.source for policy in pack.policies)
    others = [each for each in staged if each["policy_digest"] != pack.digest]
    lines = [
        f"policies {pack.digest}: preset {line(pack.preset)}, {policies}",
        _since(activation, is_in_force=is_in_force),
        *(f"  {count} from {line(source)}" for source, count in sources.items()),
    ]
    return Reply(
        document={
            "policy_digest": pack.digest,
            "is_in_force": is_in_force,
            "preset": pack.preset,
            "schema_sha256": pack.schema_sha256,
            "activated": activation,
            "sources": dict(sources),
            "policies": [policy_document(policy) for policy in pack.policies],
            "members": pack.members,
            "folder": folder,
            "packs": staged,
        },
        text=(
            "\n".join(lines),
            Table(
                columns=("POLICY", "EFFECT", "REASON"),
                rows=tuple(_row(policy) for policy in pack.policies),
            ),
            *_folder_words(folder),
            *_staged_words(others),
        ),
    )


def _row(policy: Policy) -> tuple[str, ...]:
    return (policy.policy_id, policy.effect, policy.reason)


def _activation(store: RulesStore, pack: Pack) -> Activation | None:
    from palyra.flow.seal.activations import last_activation

    journal = journal_of(store)
    return last_activation(pack.digest, journal=journal) if journal is not None else None


def _since(activation: Activation | None, *, is_in_force: bool) -> str:
    if activation is None:
        first = "  not yet recorded: the first start puts them into force"
        return first if is_in_force else "  never in force"
    held = "in force since" if is_in_force else "not in force, last activated"
    reason = f": {line(activation.reason)}" if activation.reason else ""
    return f"  {held} {rfc3339(activation.at_ms)}, by {line(activation.principal)}{reason}"


def _folder(frame: Frame, store: RulesStore, pack: Pack) -> dict[str, Any]:
    """Say whether the operator's files are what is in force."""
    from palyra.core.errors import ConfigError

    path = well_formed(str(own_folder(frame)))
    try:
        content = own_content(frame, store)
    except ConfigError as error:
        fault, hint = well_formed(error.message), well_formed(error.hint)
        return {"path": path, "fault": fault, "hint": hint, "differing": [], "notes": []}
    differing = differing_files(content, pack)
    return {"path": path, "fault": "", "hint": "", "differing": differing, "notes": content.notes}


def _folder_words(folder: dict[str, Any] | None) -> list[str]:
    if folder is None:
        return []
    if folder["fault"]:
        return [
            f"The folder of policies cannot be used: {line(folder['fault'])}",
            f"  hint: {line(folder['hint'])}",
        ]
    words = [f"Note: {line(note)}" for note in folder["notes"]]
    names = ", ".join(line(name) for name in folder["differing"][:_MOST_SHOWN])
    further = len(folder["differing"]) - _MOST_SHOWN
    more = f" and {further} more" if further > 0 else ""
    if names:
        words.insert(0, f"Changed in {line(folder['path'])}: {names}{more}; {_NOT_YET}.")
    return words


def _staged_words(others: list[dict[str, Any]]) -> list[str]:
    lines = [
        f"  {each['policy_digest']} staged {rfc3339(each['staged_at_ms'])}"
        f"{', was in force before' if each['was_active'] else ''}"
        for each in others[:_MOST_SHOWN]
    ]
    if len(others) > _MOST_SHOWN:
        lines.append(f"  and {len(others) - _MOST_SHOWN} more")
    return (
        ["\n".join(["Also kept, and ready for 'palyra policy activate DIGEST':", *lines])]
        if (lines)
        else []
    )


def _actions() -> Reply:
    from palyra.flow.policy.vocabulary import actions, declared_actions

    declared = sorted(declared_actions())
    families = actions()
    return Reply(
        document={
            "actions": [{"action": name, "families": families[name]} for name in declared],
            "families": sorted(set(families) - set(declared)),
        },
        text=(
            Table(
                columns=("ACTION", "FAMILIES"),
                rows=tuple((name, ", ".join(families[name]) or "-") for name in declared),
            ),
        ),
    )


def _schema() -> Reply:
    from palyra.flow.policy.vocabulary import schema_sha256, schema_text

    return Reply(
        document={"schema_sha256": schema_sha256(), "schema": schema_text()},
        text=(schema_text().rstrip("\n"),),
    )
