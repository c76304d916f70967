# SPDX-License-Identifier: Apache-2.0
import msgspec
import pytest

from palyra.core.pack import Members, Pack
from palyra.daemon.preset_change import operators_sources, with_preset
from palyra.daemon.staging import InvalidPoliciesError
from palyra.flow.policy.compile import compile_pack
from palyra.flow.policy.presets import packaged_pack, packaged_sources
from palyra.flow.policy.sources import Source

MINE = Source(
    "mine.cedar",
    """// A file
//
// with comments.

@id("mine.one") @reason("one")
permit (principal, action, resource); @id("mine.two") @reason("two") forbid (
  principal, action, resource
) when { context.channel == "//;\\"" }; // trailing


// About three.
@id("mine.three")
@reason("three")
forbid (principal, action, resource);\r\n\r
@id("mine.four") @reason("four") forbid (principal, action, resource);
""",
)
OTHER = Source(
    "other.cedar", '@id("other.one") @reason("o") forbid (principal, action, resource);\n'
)
MEMBERS = Members(roles={"approver": ("operator:ada",)})


def pack_of(*sources: Source, preset: str = "ask") -> Pack:
    pack = compile_pack((*packaged_sources(preset), *sources), preset=preset, members=MEMBERS)
    assert isinstance(pack, Pack), pack
    return pack


@pytest.mark.parametrize("preset", ["ask", "boxed"])
def test_the_same_preset_makes_the_same_pack(preset: str) -> None:
    pack = pack_of(MINE, OTHER, preset=preset)
    assert with_preset(pack, preset) == pack


def test_another_preset_keeps_what_operators_wrote_line_by_line() -> None:
    pack = pack_of(MINE, OTHER)
    assert with_preset(pack, "boxed") == pack_of(MINE, OTHER, preset="boxed")
    assert with_preset(with_preset(pack, "boxed"), "ask").digest == pack.digest


def test_a_pack_without_operators_policies_is_the_preset() -> None:
    assert operators_sources(packaged_pack("ask")) == ()
    assert with_preset(packaged_pack("ask"), "boxed") == packaged_pack("boxed")


def test_packaged_policies_of_another_version_become_current() -> None:
    pack = pack_of(OTHER)
    old = msgspec.structs.replace(pack.policies[0], text=pack.policies[0].text + " ")
    aged = msgspec.structs.replace(pack, policies=(old, *pack.policies[2:]))
    assert with_preset(aged, "ask") == pack


def test_a_policy_that_no_longer_fits_is_a_fault() -> None:
    pack = pack_of(OTHER)
    last = msgspec.structs.replace(
        pack.policies[-1],
        text='@id("other.one") @reason("o") forbid (principal, action == Action::"no", resource);',
    )
    with pytest.raises(InvalidPoliciesError, match=r"other\.cedar:1:"):
        with_preset(msgspec.structs.replace(pack, policies=(*pack.policies[:-1], last)), "boxed")


def test_there_is_no_such_preset() -> None:
    with pytest.raises(KeyError):
        with_preset(packaged_pack(), "none")
