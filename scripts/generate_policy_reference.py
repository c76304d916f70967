# SPDX-License-Identifier: Apache-2.0
"""Write `docs/reference/policy.md` from schema, annotations, presets and limits.

With `--check`, fail if it differs. A name in the code that has no description here is an error.
"""

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from palyra.core import facts, pack
from palyra.core.capability import SENSITIVE_CAPABILITIES, Capability
from palyra.core.decision import Verdict
from palyra.core.plan import Tier
from palyra.core.posture import Posture, PostureScope
from palyra.core.principal import Assurance
from palyra.core.risk import Risk
from palyra.daemon import policy_folder
from palyra.flow.policy import annotations, cases, members, statements
from palyra.flow.policy.compile import MOST_FAULTS
from palyra.flow.policy.presets import PRESETS, packaged_pack
from palyra.flow.policy.vocabulary import (
    actions,
    declared_actions,
    entity_types,
    schema_text,
)
from palyra.store.sqlite import rules as kept_rules
from palyra.tools.posture_presets import POSTURE_PRESETS
from scripts.generated_page import bring_up_to_date

PATH = Path(__file__).resolve().parents[1] / "docs" / "reference" / "policy.md"
_MULTILINE = re.MULTILINE | re.DOTALL

ENTITIES: Mapping[str, str] = {
    "Agent": "who proposes calls",
    "Approval": "one question to a human",
    "Attachment": "a file that came with a message",
    "Capability": "a power of tools: " + ", ".join(f"`{each}`" for each in Capability),
    "Channel": "where messages and calls come in",
    "Daemon": "Palyra itself",
    "Device": "a paired device",
    "Domain": "a domain of hosts",
    "Group": "a group of principals, from `members.toml`",
    "Host": "a machine on the network",
    "Job": "something scheduled",
    "Journal": "the log",
    "Memory": "what is remembered for an agent",
    "Operator": "a person",
    "PolicyPack": "a pack, by its digest",
    "Role": "`administrator`, or a role from `members.toml`",
    "Secret": "one secret",
    "SecretScope": "a scope of secrets",
    "Service": "a program that acts for itself",
    "Skill": "a signed package of tools",
    "Tool": "a tool, by its name",
    "ToolGroup": "a group of tools: `a.b.c` is in `a` and `a.b`; others from `members.toml`",
    "Workspace": "a registered folder",
}
"""What each type of entity stands for."""

ATTRIBUTES: Mapping[str, str] = {
    "allow_sensitive_tools": "`tool_call.allow_sensitive_tools` is on, it is waived, or approved",
    "approved": "a human has agreed",
    "assurance": "the mode: " + ", ".join(f"`{each}`" for each in Assurance),
    "budget": "calls that are left; 0 or less is used up",
    "budget.agent_hour": "of this agent in this hour",
    "budget.run": "of the run",
    "budget.session": "of the session",
    "capabilities": "the tool's powers; sensitive are "
    + ", ".join(f"`{each}`" for each in sorted(SENSITIVE_CAPABILITIES)),
    "channel": "the surface it came in by",
    "depth": "0 for a call that no tool made",
    "duration_ms": "how long it asks to run",
    "files": "there if the call is about files",
    "files.outside": "paths beyond the workspace, absolute",
    "files.protected": "paths with a protected name",
    "files.reads": "paths that are read",
    "files.reads_under": "the deepest folder that holds all of them",
    "files.workspace": "the workspace's name; paths are relative to it",
    "files.writes": "paths that are created, changed or removed",
    "files.writes_under": 'the deepest folder that holds all of them; `""` is the workspace',
    "initiated": "an operator makes this call themselves",
    "is_allowlisted_skill": "the skill is allowlisted",
    "is_allowlisted_tool": "the tool is in `tool_call.allowed_tools`",
    "is_channel_allowed": "`tool_call.allowed_channels` is empty or has it",
    "is_complete": "no fact was left out",
    "is_principal_allowed": "`tool_call.allowed_principals` is empty or has the caller",
    "is_sensitive_action": "the tool has a sensitive capability, or the action is sensitive",
    "lifts_ceiling": "it would lift what an administrator has disabled",
    "network": "there if the call names hosts",
    "network.hosts": "hosts",
    "network.methods": "HTTP methods",
    "network.ports": "ports",
    "plan": "how it would be confined",
    "plan.egress": "hosts it could reach; `*` for any",
    "plan.secrets": "secrets it could read; `*` for any",
    "plan.tier": ", ".join(f"`{each}`" for each in Tier),
    "plan.writes": "workspaces in which its changes last",
    "posture": ", ".join(f"`{each}`" for each in Posture),
    "process": "there if the call starts a program",
    "process.argv": "the arguments, the program first; a set, without order",
    "process.command": "the arguments as a shell would take them, for `like`",
    "process.executable": "the program's resolved path",
    "process.program": "its last component",
    "risk": ", ".join(f"`{each}`" for each in Risk),
    "run": "the run's id",
    "session": "the session's id",
    "size_bytes": "how much it writes or asks for",
    "time": "in UTC",
    "time.hour": "0 to 23",
    "time.minute": "0 to 59",
    "time.unix_ms": "milliseconds since 1970",
    "time.weekday": "Monday is 1",
    "tool_version": "the tool's version",
}
"""What each attribute of the context says, by its path."""

ANNOTATIONS: Mapping[str, tuple[str, str]] = {
    "id": (
        "required; names the policy",
        "1 to 128 letters, digits or `.` `_` `-`; `palyra.*` is kept",
    ),
    "reason": ("required; what people are told", "1 to 200 printable characters"),
    "code": ("the reason code", "only in packaged policies"),
    "tier": ("confined at least as well as this tier", "`b`, `c` or `a`"),
    "egress": (
        "the only hosts that may be reached",
        f"at most {annotations.MOST_ITEMS} hosts, separated by spaces; none for no network",
    ),
    "timeout_ms": ("stopped after this time", f"1 to {annotations.LONGEST_TIMEOUT_MS:,}"),
    "max_output_bytes": ("no more output", f"1 to {annotations.LARGEST_OUTPUT_BYTES:,}"),
    "quorum": (
        "how many operators must agree, where a human is asked",
        f"1 to {annotations.MOST_OPERATORS}",
    ),
    "redact": (
        "what is withheld from the output",
        f"at most {annotations.MOST_ITEMS} JSON pointers, separated by spaces",
    ),
}
"""What each annotation demands, and what it takes."""


def _kinds(kinds: Iterable[str]) -> str:
    return ", ".join(f"`{each}:NAME`" for each in kinds)


CASE_KEYS: Mapping[str, str] = {
    "name": "required; a sentence",
    "principal": f"required; who: {_kinds(cases.PRINCIPAL_KINDS)}",
    "roles": "roles they have, besides those of `members.toml`",
    "action": "`tool.execute`, if left out",
    "resource": f"required; on what: {_kinds(cases.RESOURCE_KINDS)}",
    "groups": f"what it is in: {_kinds(cases.GROUP_KINDS)}",
    "expect": ", ".join(f"`{each.wire}`" for each in Verdict),
    "code": "the expected [code](error-codes.md)",
    "policies": "exactly the policies that the answer rests on",
    "applies": "policies that apply, each asked alone",
    "does_not_apply": "policies that do not",
    "context": "attributes that are otherwise than assumed",
}
"""What each key of a case means."""

MEMBER_TABLES: Mapping[str, str] = {
    "roles": "a role and the principals that have it, as `kind:name`; no groups",
    "groups": "a group of principals, which may hold `group:NAME`",
    "tool_groups": "a group of tools by name, which may hold `tool_group:NAME`",
}
"""What each table of `members.toml` holds."""

LIMITS: tuple[tuple[str, int], ...] = (
    ("policies in a pack", pack.MOST_POLICIES),
    ("bytes of a pack, and of all files of the folder together", pack.LARGEST_PACK_BYTES),
    ("members in `members.toml`", pack.MOST_MEMBERS),
    ("bytes of `members.toml`", members.LARGEST_FILE_BYTES),
    ("roles and groups that one principal or tool is in", members.MOST_PARENTS),
    ("files that are read of the folder", policy_folder.MOST_FILES),
    ("characters of one policy", statements.LONGEST_STATEMENT),
    ("open brackets in one policy", statements.MOST_OPEN_BRACKETS),
    ("levels of an expression", statements.DEEPEST),
    ("faults that are told at once", MOST_FAULTS),
    ("bytes of a table of cases", cases.LARGEST_TABLE_BYTES),
    ("cases in a table", cases.MOST_CASES),
    ("items in each list of facts", facts.MOST_ITEMS),
    ("bytes of all facts of a call", facts.LARGEST_FACTS_BYTES),
    ("staged packs that were never in force", kept_rules.MOST_STAGED),
    ("postures", kept_rules.MOST_POSTURES),
)
"""What is bounded, and by how much."""


class Attribute(NamedTuple):
    """One attribute of the context."""

    path: str
    type_name: str
    is_required: bool


def render() -> str:
    """Return the page. Raises ``KeyError`` where the code has a name that is not described."""
    return "\n".join(
        (
            "# Policy",
            "",
            "<!-- Generated by scripts/generate_policy_reference.py. Do not edit. -->",
            "",
            "Every name that policies can use. [How a decision is made](../explanation/policy.md)",
            "says what they do together; `palyra policy show --schema` prints the schema itself.",
            "",
            *_entities(),
            *_actions(),
            *_context(),
            *_annotations(),
            *_packaged(),
            *_postures(),
            *_files(),
            *_limits(),
        )
    )


def attributes() -> tuple[Attribute, ...]:
    """Return every attribute of the context, and of the records within, by path."""
    records = {
        name: re.findall(r'"(\w+)"(\??): ([\w<>]+)', body)
        for name, body in re.findall(r"^type (\w+) = \{(.*?)\};", _plain_schema(), _MULTILINE)
    }

    def below(record: str, prefix: str, *, is_there: bool) -> Iterator[Attribute]:
        for name, mark, type_name in sorted(records[record]):
            is_required = is_there and not mark
            shown = "record" if type_name in records else type_name
            yield Attribute(prefix + name, shown, is_required)
            if type_name in records:
                yield from below(type_name, f"{prefix}{name}.", is_there=is_required)

    return tuple(below("Call", "", is_there=True))


def case_keys() -> tuple[str, ...]:
    """Return the keys that a case in a table can have."""
    return tuple(each for each in cases.Case.__struct_fields__ if each not in ("source", "number"))


def _resources() -> dict[str, str]:
    """Return for each action the types of resources that it applies to."""
    found = {}
    for names, types in re.findall(
        r"^action ([^;]*?) appliesTo \{[^}]*resource: \[(.*?)\]", _plain_schema(), _MULTILINE
    ):
        for name in re.findall(r'"([^"]+)"', names.partition(" in ")[0]):
            found[name] = types
    return found


def _plain_schema() -> str:
    """Return the schema without comments, each declaration on a line of its own."""
    text = re.sub(r"//[^\n]*", "", schema_text())
    return re.sub(r"\s+", " ", text).replace("; ", ";\n").strip()


def _entities() -> Iterator[str]:
    parents = {
        name: ", ".join(f"`{each}`" for each in above.split(", ")) if above else "-"
        for names, above in re.findall(
            r"^entity ([\w, ]+?)(?: in \[(.*?)\])?;", _plain_schema(), _MULTILINE
        )
        for name in names.split(", ")
    }
    resources = {name for types in _resources().values() for name in types.split(", ")}
    above = set(re.findall(r"\w+", " ".join(parents.values())))
    yield from _head("Entity types", ("type", "in", "stands as", "is"))
    for name in sorted(entity_types()):
        place = "resource" if name in resources else "group" if name in above else "-"
        place = "principal" if name in cases.PRINCIPAL_KINDS.values() else place
        yield _row(f"`{name}`", parents[name], place, ENTITIES[name])
    yield ""


def _actions() -> Iterator[str]:
    families, resources = actions(), _resources()
    yield from _head("Actions", ("action", "families", "on"))
    for name in sorted(declared_actions()):
        above = ", ".join(f"`{each}`" for each in families[name]) or "-"
        yield _row(
            f"`{name}`", above, ", ".join(f"`{each}`" for each in resources[name].split(", "))
        )
    yield ""
    yield 'A family stands for its actions: `action in Action::"management"`.'
    yield "Every action takes the same principals and the same context."
    yield ""


def _context() -> Iterator[str]:
    yield from _head("Context", ("attribute", "type", "always there", "says"))
    for path, type_name, is_required in attributes():
        record, _, within = path.partition(".")
        there = "yes" if is_required else f"with `{record}`" if within else "no"
        yield _row(f"`{path}`", f"`{type_name}`", there, ATTRIBUTES[path])
    yield ""
    yield "Test for what is not always there first: `context has files && ...`."
    yield ""


def _annotations() -> Iterator[str]:
    yield from _head("Annotations", ("annotation", "demands or tells", "takes"))
    for name in annotations.KNOWN:
        yield _row(f"`@{name}`", *ANNOTATIONS[name])
    yield ""
    yield "Where several policies demand the same thing, the strictest counts."
    yield ""


def _packaged() -> Iterator[str]:
    yield from _head("Presets", ("preset", "what it does", "policies"))
    for preset, meaning in PRESETS.items():
        yield _row(f"`{preset}`", meaning, str(len(packaged_pack(preset).policies)))
    yield ""
    yield from _head("Packaged policies", ("policy", "effect", "presets", "reason"))
    presets: dict[str, list[str]] = {}
    policies = {}
    for preset in PRESETS:
        for policy in packaged_pack(preset).policies:
            policies[policy.policy_id] = policy
            presets.setdefault(policy.policy_id, []).append(f"`{preset}`")
    for policy_id, policy in policies.items():
        within = ", ".join(presets[policy_id])
        yield _row(f"`{policy_id}`", policy.effect, within, policy.reason)
    yield ""
    yield "`palyra policy show --policy ID` prints the text of one that is in force."
    yield ""


def _postures() -> Iterator[str]:
    yield from _head("Presets of postures", ("preset", "what it does", "sets"))
    for name, preset in POSTURE_PRESETS.items():
        sets = ", ".join(f"`{tool}` {state}" for tool, state in preset.postures.items())
        yield _row(f"`{name}`", preset.description, sets)
    scopes = ", ".join(f"`{each}`" for each in PostureScope)
    yield ""
    yield f"A posture is set for one of {scopes}; the strictest that holds counts."
    yield ""


def _files() -> Iterator[str]:
    yield from _head("Files of a policies folder", ("file", "holds"))
    yield _row("`NAME.cedar`", "policies; `NAME` is letters, digits or `.` `_` `-`")
    yield _row("`NAME.toml`", "examples of the policies in `NAME.cedar`: tables `[[case]]`")
    yield _row(f"`{policy_folder.MEMBERS_NAME}`", "who is in which role or group")
    yield ""
    yield "Subfolders are not read; links are refused. In the state directory, folder and files"
    yield "must be the operator's own, writable by nobody else, and outside every workspace."
    yield ""
    yield "### A case"
    yield ""
    yield from _head("", ("key", "means"))
    for key in case_keys():
        yield _row(f"`{key}`", CASE_KEYS[key])
    yield ""
    yield "A case has `expect`, or at least one of `applies` and `does_not_apply`."
    yield "Beside a policy, what a case leaves out is neutral: every tool is allowlisted and has no"
    yield "capability, nobody has a role, no posture is set, it is Monday 10:00 UTC."
    yield "With `palyra policy test`, it is as configuration, catalogue and postures have it."
    yield ""
    yield f"### {policy_folder.MEMBERS_NAME}"
    yield ""
    yield from _head("", ("table", "holds"))
    for table in members.TABLES:
        yield _row(f"`[{table}]`", MEMBER_TABLES[table])
    yield ""


def _limits() -> Iterator[str]:
    yield from _head("Limits", ("what", "at most"))
    for what, most in LIMITS:
        yield _row(what, f"{most:,}")
    yield ""


def _head(title: str, columns: Iterable[str]) -> Iterator[str]:
    if title:
        yield f"## {title}"
        yield ""
    cells = tuple(columns)
    yield _row(*cells)
    yield "|" + "---|" * len(cells)


def _row(*cells: str) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def main(arguments: list[str], *, path: Path = PATH) -> int:
    """Write the page, or check that it is current."""
    return bring_up_to_date(
        render(), path=path, arguments=arguments, script="generate_policy_reference"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
