# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import msgspec
import pytest
from hypothesis import given

from palyra.core.canonical import canonical_record
from palyra.core.policy_request import EntityUid, PolicyRequest
from tests.support.json_values import TEXTS
from tests.support.samples import REQUEST


def test_an_entity_is_shown_by_type_and_id() -> None:
    assert str(EntityUid("Agent", "ada")) == 'Agent::"ada"'


def test_entities_have_an_order_that_does_not_depend_on_luck() -> None:
    entities = [EntityUid("Tool", "b"), EntityUid("Agent", "z"), EntityUid("Tool", "a")]
    assert [str(each) for each in sorted(entities)] == [
        'Agent::"z"',
        'Tool::"a"',
        'Tool::"b"',
    ]


@pytest.mark.invariant("I2")
@given(TEXTS, TEXTS)
def test_an_id_is_data_whatever_it_spells(one: str, other: str) -> None:
    for uid in (EntityUid("Tool", one), EntityUid("Tool", f'{other}"); permit')):
        assert msgspec.json.decode(canonical_record(uid), type=EntityUid) == uid
    same = EntityUid("Tool", one) == EntityUid("Tool", other)
    assert (str(EntityUid("Tool", one)) == str(EntityUid("Tool", other))) is same


def test_a_request_is_written_as_it_is_documented() -> None:
    assert canonical_record(REQUEST) == (
        b'{"action":"tool.execute","context":{"approved":false,"depth":0},'
        b'"groups":[{"id":"palyra","type":"ToolGroup"}],'
        b'"principal":{"id":"ada","type":"Agent"},'
        b'"resource":{"id":"palyra.echo","type":"Tool"},"roles":["reader"]}'
    )


def test_a_request_survives_being_kept_to_the_byte() -> None:
    kept = msgspec.json.decode(canonical_record(REQUEST), type=PolicyRequest)
    assert canonical_record(kept) == canonical_record(REQUEST)
    assert bytes(kept.context) == bytes(REQUEST.context)


@pytest.mark.invariant("I4")
def test_a_request_cannot_be_changed_after_it_was_decided() -> None:
    with pytest.raises(AttributeError):
        REQUEST.action = "other"  # type: ignore[misc]
