# SPDX-License-Identifier: Apache-2.0
"""The one table of statuses: a stable code or a call's result in, an exit code out.

Also says which refusals are the caller's own mistake, so that every surface reports those as errors
and all others as results.
"""

from __future__ import annotations

from enum import IntEnum
from types import MappingProxyType
from typing import TYPE_CHECKING

from palyra.core.errors import Code

if TYPE_CHECKING:
    from collections.abc import Mapping

    from palyra.core.result import CallResult


class Exit(IntEnum):
    """How a command ends, as shells see it."""

    DONE = 0
    INTERNAL = 1
    WRONG = 2
    NOT_PERMITTED = 3
    UNREACHABLE = 4
    UNSUPPORTED = 5
    DENIED = 6
    CONFLICT = 7
    NOT_FOUND = 8
    FAILED = 9
    PROBLEM_FOUND = 10


EXIT_MEANINGS: Mapping[Exit, str] = MappingProxyType(
    {
        Exit.DONE: "done; also a call that waits for a human, with --no-wait",
        Exit.INTERNAL: "internal fault",
        Exit.WRONG: "the command line, the input or the configuration is wrong",
        Exit.NOT_PERMITTED: "not authenticated, or not permitted to ask",
        Exit.UNREACHABLE: "the daemon or a store cannot be reached",
        Exit.UNSUPPORTED: "not supported on this host",
        Exit.DENIED: "the call was denied (policy, operator or timeout), also with --dry-run",
        Exit.CONFLICT: "the state forbids it",
        Exit.NOT_FOUND: "not found",
        Exit.FAILED: "the tool ran and failed",
        Exit.PROBLEM_FOUND: "a check found a problem",
    }
)

_CODES: Mapping[Exit, tuple[Code, ...]] = {
    Exit.DONE: (
        Code.TOOL_ALLOWLISTED,
        Code.OPERATOR_INITIATED,
        Code.POLICY_PERMITTED,
        Code.POLICY_WAIVED,
    ),
    Exit.INTERNAL: (Code.INTERNAL,),
    Exit.WRONG: (
        Code.INPUT_INVALID,
        Code.INPUT_NOT_JSON,
        Code.INPUT_DUPLICATE_KEY,
        Code.INPUT_NUMBER,
        Code.INPUT_SURROGATE,
        Code.INPUT_TOO_LARGE,
        Code.INPUT_TOO_DEEP,
        Code.INPUT_NOT_CANONICAL,
        Code.PRINCIPAL_INVALID,
        Code.TOOL_MANIFEST,
        Code.USAGE,
        Code.CONFIG_UNKNOWN_KEY,
        Code.CONFIG_INVALID,
        Code.CONFIG_UNREADABLE,
        Code.WORKSPACE_AMBIGUOUS,
        Code.WORKSPACE_REFUSED,
        Code.POLICY_INVALID,
        Code.POLICY_TOO_LARGE,
        Code.POLICY_SOURCE,
        Code.HOME_UNSAFE,
        Code.KEY_EXPOSED,
        Code.KEY_UNREADABLE,
    ),
    Exit.NOT_PERMITTED: (Code.RATE_LIMITED, Code.ACTION_DENIED),
    Exit.UNREACHABLE: (
        Code.STORE_UNREACHABLE,
        Code.STORE_BUSY,
        Code.STORE_FULL,
        Code.STORE_READ_ONLY,
        Code.STORE_CORRUPT,
        Code.STORE_VERSION,
        Code.STORE_OUTCOME_LOST,
    ),
    Exit.DENIED: (
        Code.TOOL_SENSITIVE,
        Code.TOOL_NOT_ALLOWLISTED,
        Code.POLICY_FAULT,
        Code.POLICY_STRICTER,
        Code.POLICY_CHANGED,
        Code.POLICY_ASKS,
        Code.POLICY_FORBIDDEN,
        Code.POLICY_NO_PERMIT,
        Code.POLICY_REQUEST_INVALID,
        Code.POLICY_ACTION_UNKNOWN,
        Code.PRINCIPAL_NOT_ALLOWED,
        Code.CHANNEL_NOT_ALLOWED,
        Code.TOOL_DISABLED,
        Code.TOOL_POSTURE_ASKS,
        Code.FACTS_INCOMPLETE,
        Code.SKILL_NOT_ALLOWLISTED,
        Code.OBLIGATION_UNMET,
        Code.APPROVAL_NO_OPERATOR,
        Code.APPROVAL_DENIED,
        Code.APPROVAL_FAULT,
        Code.BUDGET_EXHAUSTED,
        Code.DEPTH_EXCEEDED,
        Code.GATE_FAULT,
    ),
    Exit.CONFLICT: (
        Code.PERMIT_MISMATCH,
        Code.PERMIT_EXPIRED,
        Code.GATE_CLOSED,
        Code.CONFIG_EXISTS,
        Code.CALL_UNDER_WAY,
        Code.REQUEST_CONFLICT,
        Code.STATE_CONFLICT,
        Code.WORKSPACE_MOVED,
        Code.WORKSPACE_EXISTS,
    ),
    Exit.NOT_FOUND: (
        Code.TOOL_UNKNOWN,
        Code.SESSION_UNKNOWN,
        Code.RUN_UNKNOWN,
        Code.CALL_UNKNOWN,
        Code.ENTRY_UNKNOWN,
        Code.ATTESTATION_UNKNOWN,
        Code.WORKSPACE_UNKNOWN,
        Code.POLICY_UNKNOWN,
        Code.POSTURE_UNKNOWN,
    ),
    Exit.FAILED: (
        Code.TOOL_FAILED,
        Code.TOOL_TIMED_OUT,
        Code.TOOL_CANCELLED,
        Code.TOOL_OUTPUT_INVALID,
        Code.TOOL_INTERRUPTED,
        Code.FS_OUTSIDE,
        Code.FS_PROTECTED,
        Code.FS_NOT_FOUND,
        Code.FS_NOT_A_FILE,
        Code.FS_NOT_A_FOLDER,
        Code.FS_EXISTS,
        Code.FS_CHANGED,
        Code.FS_SYMLINK,
        Code.FS_TOO_LARGE,
        Code.FS_NOT_TEXT,
        Code.FS_IO,
        Code.PATCH_MALFORMED,
        Code.PATCH_UNSUPPORTED,
        Code.PATCH_MISMATCH,
    ),
    Exit.PROBLEM_FOUND: (
        Code.JOURNAL_BROKEN,
        Code.JOURNAL_ROLLED_BACK,
        Code.JOURNAL_HEAD_MISSING,
        Code.KEY_MISSING,
        Code.KEY_REPLACED,
        Code.ATTESTATION_INVALID,
        Code.POLICY_EXAMPLE,
    ),
}

EXITS: Mapping[Code, Exit] = MappingProxyType(
    {code: status for status, codes in _CODES.items() for code in codes}
)
"""How a command ends when it fails with a code. Every code has a row; a test compares the two."""

_CALLERS_MISTAKES = frozenset({"input", "workspace"})
_UNDER_WAY_OR_DONE = frozenset({"succeeded", "pending"})


def exit_of_result(result: CallResult) -> Exit:
    """Return how a command ends that tells this result."""
    if is_callers_mistake(result):
        return Exit.WRONG
    if result.state == "denied":
        return Exit.DENIED
    if result.state == "dry_run":
        return Exit.DENIED if result.decision.verdict == "deny" else Exit.DONE
    return Exit.DONE if result.state in _UNDER_WAY_OR_DONE else Exit.FAILED


def is_callers_mistake(result: CallResult) -> bool:
    """Say whether the call was refused because the input, not the wish, was wrong."""
    decision = result.decision
    return decision.verdict == "deny" and decision.code.partition(".")[0] in _CALLERS_MISTAKES
