# SPDX-License-Identifier: Apache-2.0
"""Every fault raised on purpose, and the one table of stable codes.

A refusal (policy says no) is a value and carries one of these codes; a fault is an exception and
carries one too. Control flow reads codes, never messages. Messages are lower case, name the thing
at fault, and never contain the values of untrusted input.
"""

from __future__ import annotations

from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping


class Code(StrEnum):
    """Stable dotted names. Once published, a code never changes its meaning."""

    TOOL_ALLOWLISTED = "tool.allowlisted"
    OPERATOR_INITIATED = "operator.initiated"
    TOOL_SENSITIVE = "tool.sensitive"
    TOOL_NOT_ALLOWLISTED = "tool.not_allowlisted"
    TOOL_UNKNOWN = "tool.unknown"
    TOOL_FAILED = "tool.failed"
    TOOL_TIMED_OUT = "tool.timed_out"
    TOOL_CANCELLED = "tool.cancelled"
    TOOL_OUTPUT_INVALID = "tool.output_invalid"
    TOOL_INTERRUPTED = "tool.interrupted"
    POLICY_FAULT = "policy.fault"
    POLICY_STRICTER = "policy.stricter"
    POLICY_CHANGED = "policy.changed"
    POLICY_PERMITTED = "policy.permitted"
    POLICY_WAIVED = "policy.waived"
    POLICY_ASKS = "policy.asks"
    POLICY_FORBIDDEN = "policy.forbidden"
    POLICY_NO_PERMIT = "policy.no_permit"
    POLICY_REQUEST_INVALID = "policy.request_invalid"
    POLICY_ACTION_UNKNOWN = "policy.action_unknown"
    POLICY_INVALID = "policy.invalid"
    POLICY_TOO_LARGE = "policy.too_large"
    POLICY_SOURCE = "policy.source_refused"
    POLICY_UNKNOWN = "policy.unknown"
    POLICY_EXAMPLE = "policy.example_failed"
    PRINCIPAL_NOT_ALLOWED = "principal.not_allowed"
    CHANNEL_NOT_ALLOWED = "channel.not_allowed"
    TOOL_DISABLED = "tool.disabled"
    TOOL_POSTURE_ASKS = "tool.posture_asks"
    FACTS_INCOMPLETE = "facts.incomplete"
    SKILL_NOT_ALLOWLISTED = "skill.not_allowlisted"
    OBLIGATION_UNMET = "obligation.unmet"
    ACTION_DENIED = "action.denied"
    POSTURE_UNKNOWN = "posture.unknown"
    PERMIT_MISMATCH = "permit.mismatch"
    PERMIT_EXPIRED = "permit.expired"
    APPROVAL_NO_OPERATOR = "approval.no_operator"
    APPROVAL_DENIED = "approval.denied"
    APPROVAL_FAULT = "approval.fault"
    BUDGET_EXHAUSTED = "budget.exhausted"
    DEPTH_EXCEEDED = "depth.exceeded"
    RATE_LIMITED = "rate.limited"
    GATE_FAULT = "gate.fault"
    GATE_CLOSED = "gate.closed"

    INPUT_INVALID = "input.invalid"
    INPUT_NOT_JSON = "input.not_json"
    INPUT_DUPLICATE_KEY = "input.duplicate_key"
    INPUT_NUMBER = "input.number_out_of_range"
    INPUT_SURROGATE = "input.lone_surrogate"
    INPUT_TOO_LARGE = "input.too_large"
    INPUT_TOO_DEEP = "input.too_deep"
    INPUT_NOT_CANONICAL = "input.not_canonical"
    PRINCIPAL_INVALID = "principal.invalid"
    TOOL_MANIFEST = "tool.manifest_invalid"
    USAGE = "usage.invalid"

    CONFIG_UNKNOWN_KEY = "config.unknown_key"
    CONFIG_INVALID = "config.invalid"
    CONFIG_UNREADABLE = "config.unreadable"
    CONFIG_EXISTS = "config.exists"

    SESSION_UNKNOWN = "session.unknown"
    RUN_UNKNOWN = "run.unknown"
    CALL_UNKNOWN = "call.unknown"
    ENTRY_UNKNOWN = "entry.unknown"
    ATTESTATION_UNKNOWN = "attestation.unknown"
    CALL_UNDER_WAY = "call.under_way"
    REQUEST_CONFLICT = "request.conflict"
    STATE_CONFLICT = "state.conflict"

    WORKSPACE_UNKNOWN = "workspace.unknown"
    WORKSPACE_AMBIGUOUS = "workspace.ambiguous"
    WORKSPACE_REFUSED = "workspace.refused"
    WORKSPACE_MOVED = "workspace.moved"
    WORKSPACE_EXISTS = "workspace.exists"

    FS_OUTSIDE = "fs.outside_workspace"
    FS_PROTECTED = "fs.protected_name"
    FS_NOT_FOUND = "fs.not_found"
    FS_NOT_A_FILE = "fs.not_a_file"
    FS_NOT_A_FOLDER = "fs.not_a_folder"
    FS_EXISTS = "fs.exists"
    FS_CHANGED = "fs.changed"
    FS_SYMLINK = "fs.symlink"
    FS_TOO_LARGE = "fs.too_large"
    FS_NOT_TEXT = "fs.not_text"
    FS_IO = "fs.io"
    PATCH_MALFORMED = "patch.malformed"
    PATCH_UNSUPPORTED = "patch.unsupported"
    PATCH_MISMATCH = "patch.mismatch"

    STORE_UNREACHABLE = "store.unreachable"
    STORE_BUSY = "store.busy"
    STORE_FULL = "store.full"
    STORE_READ_ONLY = "store.read_only"
    STORE_CORRUPT = "store.corrupt"
    STORE_VERSION = "store.version"
    STORE_OUTCOME_LOST = "store.outcome_unrecorded"
    JOURNAL_BROKEN = "journal.broken"
    JOURNAL_ROLLED_BACK = "journal.rolled_back"
    JOURNAL_HEAD_MISSING = "journal.head_missing"
    KEY_MISSING = "key.missing"
    KEY_REPLACED = "key.replaced"
    KEY_EXPOSED = "key.exposed"
    KEY_UNREADABLE = "key.unreadable"
    ATTESTATION_INVALID = "attestation.invalid"
    HOME_UNSAFE = "home.unsafe"
    INTERNAL = "internal.fault"


class Meaning(NamedTuple):
    """What a code says, and what a person can do about it."""

    sentence: str
    hint: str


_JSON_HINT = "send one JSON document that any strict parser reads the same way"
_EXPLAIN_HINT = "'palyra policy explain CALL_ID' tells what would change the answer"
_VERIFY_HINT = "run 'palyra journal verify'; restore the state directory from a backup you trust"
_STORE_HINT = "nothing was executed; free the store or its disk, then try again"

MEANINGS: Mapping[Code, Meaning] = MappingProxyType(
    {
        Code.TOOL_ALLOWLISTED: Meaning("the tool is allowlisted", "nothing to do"),
        Code.OPERATOR_INITIATED: Meaning(
            "an operator started this call themselves", "nothing to do"
        ),
        Code.TOOL_SENSITIVE: Meaning(
            "the call is sensitive, so a human must agree",
            "an operator can run it themselves: 'palyra call' without --agent",
        ),
        Code.TOOL_NOT_ALLOWLISTED: Meaning(
            "the tool is not in tool_call.allowed_tools",
            "an operator can add it to tool_call.allowed_tools in palyra.toml",
        ),
        Code.TOOL_UNKNOWN: Meaning(
            "no tool has this name", "'palyra tools list' shows the catalogue"
        ),
        Code.TOOL_FAILED: Meaning("the tool ran and failed", "see the outcome's error"),
        Code.TOOL_TIMED_OUT: Meaning(
            "the tool did not end within its time",
            "ask for less work, or raise tool_call.execution_timeout_ms",
        ),
        Code.TOOL_CANCELLED: Meaning(
            "the caller cancelled the call", "submit it again if it is still wanted"
        ),
        Code.TOOL_OUTPUT_INVALID: Meaning(
            "the tool's output is not what its manifest declares",
            "report this to the author of the tool",
        ),
        Code.TOOL_INTERRUPTED: Meaning(
            "Palyra stopped between launch and outcome; effects may have happened",
            "inspect what the tool touches before you run it again",
        ),
        Code.POLICY_FAULT: Meaning(
            "the policy failed to evaluate, and what cannot be decided is refused",
            "run 'palyra policy validate'; 'palyra policy explain CALL_ID' shows what failed",
        ),
        Code.POLICY_CHANGED: Meaning(
            "the rules changed between the decision and the launch", "submit the call again"
        ),
        Code.POLICY_PERMITTED: Meaning("a policy permits it", "nothing to do"),
        Code.POLICY_WAIVED: Meaning(
            "a policy lets this sensitive call run without a question", "nothing to do"
        ),
        Code.POLICY_ASKS: Meaning("a policy wants a human to agree", _EXPLAIN_HINT),
        Code.POLICY_FORBIDDEN: Meaning("a policy forbids it", _EXPLAIN_HINT),
        Code.POLICY_NO_PERMIT: Meaning("no policy permits it", _EXPLAIN_HINT),
        Code.POLICY_REQUEST_INVALID: Meaning(
            "the call does not fit what policy can look at, so it is refused",
            "send ordinary text and numbers within 64 bits",
        ),
        Code.POLICY_ACTION_UNKNOWN: Meaning(
            "there is no such action", "'palyra policy show --actions' lists every action"
        ),
        Code.POLICY_INVALID: Meaning(
            "the policies are not in order; those in force stay in force",
            "correct the policies, then 'palyra policy validate'",
        ),
        Code.POLICY_TOO_LARGE: Meaning(
            "there are more or larger policies than one pack may hold", "use fewer policies"
        ),
        Code.POLICY_SOURCE: Meaning(
            "this file cannot be a source of policies",
            "keep policies as plain files of your own, out of every workspace",
        ),
        Code.POLICY_UNKNOWN: Meaning(
            "no such policies are staged", "'palyra policy stage' stages them and names the digest"
        ),
        Code.POLICY_EXAMPLE: Meaning(
            "an example of the policies came out otherwise", "correct the policy or the example"
        ),
        Code.PRINCIPAL_NOT_ALLOWED: Meaning(
            "this caller may not call tools",
            "an operator can add it to tool_call.allowed_principals in palyra.toml",
        ),
        Code.CHANNEL_NOT_ALLOWED: Meaning(
            "tools may not be called this way",
            "an operator can add the channel to tool_call.allowed_channels in palyra.toml",
        ),
        Code.TOOL_DISABLED: Meaning(
            "an operator has disabled the tool", "'palyra posture list' shows who, and why"
        ),
        Code.TOOL_POSTURE_ASKS: Meaning(
            "an operator wants to be asked each time", "'palyra posture list' shows who, and why"
        ),
        Code.FACTS_INCOMPLETE: Meaning(
            "the call touches more than policy can look at",
            "split it into smaller calls",
        ),
        Code.SKILL_NOT_ALLOWLISTED: Meaning(
            "the skill is not allowlisted", "an operator can allow the skill"
        ),
        Code.OBLIGATION_UNMET: Meaning(
            "policy demands something of the run that cannot be given", _EXPLAIN_HINT
        ),
        Code.ACTION_DENIED: Meaning(
            "policy does not permit this to you", "ask an administrator; it is on record"
        ),
        Code.POSTURE_UNKNOWN: Meaning(
            "no such posture is set", "'palyra posture list' shows what is set"
        ),
        Code.POLICY_STRICTER: Meaning(
            "the policy became stricter between the decision and the launch",
            "submit the call again",
        ),
        Code.PERMIT_MISMATCH: Meaning(
            "what would run is not what was decided", "submit the call again"
        ),
        Code.PERMIT_EXPIRED: Meaning(
            "the approval expired before the launch", "ask for a new approval"
        ),
        Code.APPROVAL_NO_OPERATOR: Meaning(
            "the call needs a human, and no operator can be asked here",
            "an operator can run it themselves: 'palyra call' without --agent",
        ),
        Code.APPROVAL_DENIED: Meaning("an operator said no", "do something else"),
        Code.APPROVAL_FAULT: Meaning(
            "the question could not be asked, and an unasked question is a no",
            "try again once the approval service answers",
        ),
        Code.BUDGET_EXHAUSTED: Meaning(
            "the run, the session or the agent has used up its calls",
            "open a new run or session, or wait for the next hour",
        ),
        Code.DEPTH_EXCEEDED: Meaning(
            "a tool called a tool called a tool, beyond tool_call.max_depth",
            "flatten the nested calls",
        ),
        Code.RATE_LIMITED: Meaning(
            "this caller proposes faster than it may", "wait a moment, then try again"
        ),
        Code.GATE_FAULT: Meaning(
            "something unexpected happened, so the call was refused",
            "see the log with -v, and report it",
        ),
        Code.GATE_CLOSED: Meaning("the gate is closed", "open it again"),
        Code.INPUT_INVALID: Meaning(
            "the arguments do not fit the tool's schema",
            "'palyra tools show TOOL' prints the schema",
        ),
        Code.INPUT_NOT_JSON: Meaning("the input is not JSON", _JSON_HINT),
        Code.INPUT_DUPLICATE_KEY: Meaning("an object names the same key twice", _JSON_HINT),
        Code.INPUT_NUMBER: Meaning(
            "a number is not finite or beyond plus or minus 2^53 - 1",
            "send large numbers as strings",
        ),
        Code.INPUT_SURROGATE: Meaning("a string holds half of a surrogate pair", _JSON_HINT),
        Code.INPUT_TOO_LARGE: Meaning("the input is larger than allowed", "send less"),
        Code.INPUT_TOO_DEEP: Meaning("the input is nested deeper than allowed", "flatten it"),
        Code.INPUT_NOT_CANONICAL: Meaning(
            "the value has no canonical JSON form", "use only JSON types"
        ),
        Code.PRINCIPAL_INVALID: Meaning(
            "the caller's name is not valid", "use letters, digits, dots, dashes"
        ),
        Code.TOOL_MANIFEST: Meaning("a tool's manifest is not valid", "correct the manifest"),
        Code.USAGE: Meaning("the command line is wrong", "add --help to see what it takes"),
        Code.CONFIG_UNKNOWN_KEY: Meaning(
            "a configuration key is unknown", "'palyra config show' lists every key"
        ),
        Code.CONFIG_INVALID: Meaning(
            "a configuration value is wrong", "'palyra config show' lists every key"
        ),
        Code.CONFIG_UNREADABLE: Meaning(
            "the configuration file cannot be read", "check the file and its permissions"
        ),
        Code.CONFIG_EXISTS: Meaning(
            "a configuration file exists already", "edit it, or pass --force to replace it"
        ),
        Code.SESSION_UNKNOWN: Meaning(
            "this caller has no such session", "leave --session out to open a new one"
        ),
        Code.RUN_UNKNOWN: Meaning(
            "this caller has no such run", "leave --run out to open a new one"
        ),
        Code.CALL_UNKNOWN: Meaning(
            "there is no such call", "'palyra journal tail' shows the latest calls"
        ),
        Code.ENTRY_UNKNOWN: Meaning(
            "the journal has no such entry", "'palyra journal tail' shows the latest entries"
        ),
        Code.ATTESTATION_UNKNOWN: Meaning(
            "there is no such attestation", "'palyra journal tail' shows the latest calls"
        ),
        Code.CALL_UNDER_WAY: Meaning("the call is still running", "ask again once it has ended"),
        Code.REQUEST_CONFLICT: Meaning(
            "this request id was used for another call", "use a new request id"
        ),
        Code.STATE_CONFLICT: Meaning(
            "somebody else changed the state first", "look at it again, then retry"
        ),
        Code.WORKSPACE_UNKNOWN: Meaning(
            "no such workspace is registered", "'palyra workspaces add DIR' registers one"
        ),
        Code.WORKSPACE_AMBIGUOUS: Meaning(
            "the call names no workspace and there is not exactly one",
            'name one in the arguments: {"workspace": NAME}',
        ),
        Code.WORKSPACE_REFUSED: Meaning(
            "this folder cannot be a workspace", "choose a project folder of its own"
        ),
        Code.WORKSPACE_MOVED: Meaning(
            "the workspace's folder is not the one that was registered",
            "remove the workspace and add it again",
        ),
        Code.WORKSPACE_EXISTS: Meaning(
            "a workspace of this name exists", "choose another name with --name"
        ),
        Code.FS_OUTSIDE: Meaning(
            "the path leads outside the workspace", "use a path below the workspace"
        ),
        Code.FS_PROTECTED: Meaning(
            "the path is a protected name", "an operator must change this file by hand"
        ),
        Code.FS_NOT_FOUND: Meaning("there is no such file", "list the folder first"),
        Code.FS_NOT_A_FILE: Meaning("this is not a regular file", "name a regular file"),
        Code.FS_NOT_A_FOLDER: Meaning("this is not a folder", "name a folder"),
        Code.FS_EXISTS: Meaning("the file exists already", "allow overwriting explicitly"),
        Code.FS_CHANGED: Meaning(
            "the file is not what the caller expected", "read it again, then retry"
        ),
        Code.FS_SYMLINK: Meaning("the path goes through a symbolic link", "name the real path"),
        Code.FS_TOO_LARGE: Meaning("the file is larger than allowed", "ask for a part of it"),
        Code.FS_NOT_TEXT: Meaning("the file is not UTF-8 text", "read it as base64"),
        Code.FS_IO: Meaning("the operating system refused", "see the message"),
        Code.PATCH_MALFORMED: Meaning("the patch is not a unified diff", "send a unified diff"),
        Code.PATCH_UNSUPPORTED: Meaning(
            "the patch asks for something patches may not do here",
            "send plain text changes, additions and deletions",
        ),
        Code.PATCH_MISMATCH: Meaning(
            "the patch does not fit the file", "read the file again and make a new patch"
        ),
        Code.STORE_UNREACHABLE: Meaning("the store cannot be opened", _STORE_HINT),
        Code.STORE_BUSY: Meaning("the store is held by another process", _STORE_HINT),
        Code.STORE_FULL: Meaning("the disk of the store is full", _STORE_HINT),
        Code.STORE_READ_ONLY: Meaning("the store cannot be written", _STORE_HINT),
        Code.STORE_CORRUPT: Meaning("the store is damaged", _VERIFY_HINT),
        Code.STORE_VERSION: Meaning(
            "the store was written by a newer Palyra", "use that version, or another home"
        ),
        Code.STORE_OUTCOME_LOST: Meaning(
            "the tool ran but its outcome could not be recorded",
            "it will show as interrupted; inspect what it touched before you run it again",
        ),
        Code.JOURNAL_BROKEN: Meaning("the journal does not verify", _VERIFY_HINT),
        Code.JOURNAL_ROLLED_BACK: Meaning(
            "the journal is shorter than, or differs from, the head that was kept", _VERIFY_HINT
        ),
        Code.JOURNAL_HEAD_MISSING: Meaning(
            "the kept head is missing although the journal has entries", _VERIFY_HINT
        ),
        Code.KEY_MISSING: Meaning(
            "the signing key is missing although the journal has entries",
            "restore keys/journal.key from a backup, or start with a new home",
        ),
        Code.KEY_REPLACED: Meaning(
            "the signing key is not the one that opened this journal",
            "restore keys/journal.key from a backup, or start with a new home",
        ),
        Code.KEY_EXPOSED: Meaning(
            "others can read or write the signing key",
            "treat the key as stolen: start with a new home, keep the old one as evidence",
        ),
        Code.KEY_UNREADABLE: Meaning(
            "the signing key cannot be read", "restore keys/journal.key from a backup"
        ),
        Code.ATTESTATION_INVALID: Meaning("the attestation does not verify", "do not rely on it"),
        Code.HOME_UNSAFE: Meaning(
            "the state directory is not safe to use",
            "make it yours alone (mode 0700), outside every workspace",
        ),
        Code.INTERNAL: Meaning("an internal fault", "report it, with the log of -v"),
    }
)
"""Every code has exactly one row; a test compares the two."""


class PalyraError(Exception):
    """The one root: a stable code, a message naming the thing at fault, a hint, and evidence."""

    def __init__(
        self,
        code: Code,
        message: str = "",
        *,
        hint: str = "",
        details: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(message or MEANINGS[code].sentence)
        self.code = code
        self.hint = hint or MEANINGS[code].hint
        self.details: Mapping[str, object] = MappingProxyType(dict(details or {}))

    @property
    def message(self) -> str:
        """What failed, without the code and the hint."""
        return str(self)


class InputError(PalyraError):
    """What the caller sent is not acceptable; nothing was done with it."""


class ConfigError(PalyraError):
    """The configuration is unreadable or contradictory; nothing runs on a guess (I1)."""


class NotPermittedError(PalyraError):
    """This caller may not ask for that, or not now."""


class NotFoundError(PalyraError):
    """The named thing does not exist for this caller."""


class StateConflictError(PalyraError):
    """The state forbids it: a compare-and-set lost, or an id was used for something else (I5)."""


class StoreError(PalyraError):
    """The store cannot be read or written. Nothing is executed on an unrecorded intent (I7)."""


class IntegrityError(PalyraError):
    """Journal, head, key or attestation do not agree. Never repaired silently (I8)."""


class ToolError(PalyraError):
    """A tool ran and failed in a way its caller should see."""
