# SPDX-License-Identifier: Apache-2.0
from palyra.flow.policy.annotations import KNOWN
from palyra.flow.policy.cases import read_cases
from palyra.flow.policy.members import TABLES
from palyra.flow.policy.presets import PRESETS, packaged_pack
from palyra.flow.policy.vocabulary import context_attributes, declared_actions, entity_types
from scripts import generate_policy_reference as script


def test_the_page_is_current() -> None:
    assert script.main(["--check"]) == 0


def test_every_name_that_policies_can_use_has_a_row() -> None:
    page = script.render()
    names = [*entity_types(), *declared_actions(), *context_attributes(), *PRESETS]
    names += [f"@{name}" for name in KNOWN]
    names += [policy.policy_id for each in PRESETS for policy in packaged_pack(each).policies]
    names += [f"[{table}]" for table in TABLES]
    assert [name for name in names if f"\n| `{name}` |" not in page] == []


def test_nothing_is_described_that_does_not_exist() -> None:
    assert set(script.ATTRIBUTES) == context_attributes()
    assert set(script.ENTITIES) == entity_types()
    assert set(script.ANNOTATIONS) == set(KNOWN)
    assert set(script.MEMBER_TABLES) == set(TABLES)
    assert set(script.CASE_KEYS) == set(script.case_keys())


def test_only_what_the_schema_marks_may_be_missing() -> None:
    optional = {each.path for each in script.attributes() if not each.is_required}
    assert {path.partition(".")[0] for path in optional} == {"files", "network", "process"}
    assert "files.writes_under" in optional


def test_a_case_can_have_every_key_that_is_described() -> None:
    table = "[[case]]\n" + "".join(f"{key} = 1\n" for key in script.case_keys())
    read = read_cases(table.encode(), "some.toml")
    assert read.faults
    assert [fault for fault in read.faults if "no such key" in fault.message] == []
