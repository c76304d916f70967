# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from palyra.core.errors import Code, InputError
from palyra.core.pack import MOST_POLICIES
from palyra.daemon import staging
from palyra.daemon.policy_folder import FolderContent
from palyra.daemon.staging import InvalidPoliciesError, check, report
from palyra.flow.policy.presets import packaged_pack
from palyra.flow.policy.sources import Source
from palyra.store.sqlite.ledger import Archive
from tests.support.simulator import GateSimulator

if TYPE_CHECKING:
    from pathlib import Path

QUIET = """@id("own.quiet")
@reason("no echo today")
forbid (principal, action, resource == Tool::"palyra.echo");
"""
EXAMPLES = b"""
[[case]]
name = "echo is quiet"
principal = "agent:ada"
resource = "tool:palyra.echo"
expect = "deny"
applies = ["own.quiet"]

[[case]]
name = "sleep is not"
principal = "agent:ada"
resource = "tool:palyra.sleep"
expect = "allow"
does_not_apply = ["own.quiet"]
"""


def folder(text: str = QUIET, **more: Any) -> FolderContent:  # noqa: ANN401 - its other fields
    return FolderContent(sources=(Source("own.cedar", text),), **more)


def test_a_folder_becomes_a_pack_on_top_of_the_preset() -> None:
    checked = check(folder(cases=(("own.toml", EXAMPLES),)), preset="ask")
    own = [policy for policy in checked.pack.policies if policy.source == "own.cedar"]
    assert [(policy.policy_id, policy.line) for policy in own] == [("own.quiet", 1)]
    assert len(checked.pack.policies) == len(packaged_pack().policies) + 1
    assert len(checked.outcomes) == 2
    assert checked.unexampled == ()


def test_an_empty_folder_is_the_preset_itself() -> None:
    for preset in ("ask", "boxed"):
        assert check(FolderContent(), preset=preset).pack == packaged_pack(preset)


def test_a_policy_without_examples_is_named() -> None:
    assert check(folder(), preset="ask").unexampled == ("own.quiet",)


def test_a_policy_about_a_tool_that_does_not_come_with_palyra_is_noted() -> None:
    text = QUIET.replace('"palyra.echo"', '"palyra.ecko"')
    assert check(folder(text), preset="ask").notes == (
        "policy own.quiet is about palyra.ecko, no built-in tool; did you mean palyra.echo?",
    )
    assert check(folder(), preset="ask").notes == ()


def test_the_packaged_examples_are_run_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    table = EXAMPLES.replace(b"own.quiet", b"palyra.read-only")
    monkeypatch.setattr(staging, "packaged_tables", lambda _: (("palyra/base.toml", table),))
    with pytest.raises(InputError) as failed:
        check(FolderContent(), preset="ask")
    assert failed.value.code is Code.POLICY_EXAMPLE


def test_every_fault_has_its_place() -> None:
    text = QUIET.replace('resource == Tool::"palyra.echo"', 'resource == Tol::"palyra.echo"')
    with pytest.raises(InvalidPoliciesError) as invalid:
        check(folder(text), preset="ask")
    error = invalid.value
    assert error.code is Code.POLICY_INVALID
    assert error.message.startswith("own.cedar:3:")
    assert "Tool" in error.message
    assert error.details["faults"] == [str(fault) for fault in error.faults]


def test_an_example_that_comes_out_otherwise_keeps_the_pack_out() -> None:
    wrong = EXAMPLES.replace(b'expect = "allow"', b'expect = "deny"')
    with pytest.raises(InputError) as failed:
        check(folder(cases=(("own.toml", wrong),)), preset="ask")
    assert failed.value.code is Code.POLICY_EXAMPLE
    assert "sleep is not" in failed.value.message


@pytest.mark.parametrize(
    "more",
    [
        {"members_toml": b"[rolls]\nx = []"},
        {"members_toml": b'[roles]\nx = ["agent"]'},
        {"cases": (("own.toml", b"[[case]]\nnam = 1"),)},
        {"cases": (("own.toml", b"\xff"),)},
    ],
)
def test_members_and_tables_are_checked_as_well(more: dict[str, Any]) -> None:
    with pytest.raises(InvalidPoliciesError) as invalid:
        check(folder(**more), preset="ask")
    assert invalid.value.code is Code.POLICY_INVALID


@pytest.mark.invariant("I13")
def test_more_policies_than_a_pack_may_hold_are_refused_by_that_number() -> None:
    one = '@id("p{0}") @reason("r") permit (principal == Agent::"a{0}", action, resource);'
    text = "\n".join(one.format(number) for number in range(MOST_POLICIES))
    with pytest.raises(InvalidPoliciesError) as invalid:
        check(folder(text), preset="ask")
    assert invalid.value.code is Code.POLICY_TOO_LARGE
    assert str(MOST_POLICIES) in invalid.value.message


async def test_a_report_tells_what_would_change_for_past_calls(tmp_path: Path) -> None:
    home, told = tmp_path / "home", list[str]()
    async with GateSimulator(home) as simulator:
        await simulator.call()
        await simulator.call("palyra.sleep", {"duration_ms": 0})
    archive = Archive(home, busy_timeout_ms=1000)
    try:
        changes = report(
            check(folder(), preset="ask", progress=told.append),
            in_force=packaged_pack(),
            reader=archive,
            progress=told.append,
        )
    finally:
        archive.close()
    assert [change.after.policy_id for change in changes.differences.added if change.after] == [
        "own.quiet"
    ]
    assert (changes.replayed.examined, changes.replayed.narrowing) == (2, 1)
    assert told
