# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import msgspec
import pytest

from palyra.core.canonical import canonical_record
from palyra.core.plan import ANYWHERE, SandboxPlan, Tier


def test_a_plan_confines_nothing_and_reaches_nothing_by_itself() -> None:
    assert SandboxPlan() == SandboxPlan(tier=Tier.NONE, egress=(), writes=(), secrets=())


def test_a_plan_is_written_in_full_as_its_digest_covers_it() -> None:
    plan = SandboxPlan(tier=Tier.B, egress=(ANYWHERE,), writes=("site",))
    written = b'{"egress":["*"],"secrets":[],"tier":"b","writes":["site"]}'
    assert canonical_record(plan) == written
    assert msgspec.json.decode(written, type=SandboxPlan) == plan


def test_plans_can_be_remembered_by_value() -> None:
    assert len({SandboxPlan(egress=("a",)), SandboxPlan(egress=("a",)), SandboxPlan()}) == 2


def test_a_tier_that_is_none_is_not_read() -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(b'{"tier":"d"}', type=SandboxPlan)


@pytest.mark.invariant("I4")
def test_a_plan_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        SandboxPlan().tier = Tier.A  # type: ignore[misc]
