# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import msgspec
import pytest

from palyra.core.approval import Approval, Grant, Pending, Rejection, Scope
from palyra.core.errors import Code
from tests.support.samples import APPROVAL, APPROVAL_ID, GRANT, OPERATOR


def test_scopes_the_contract_names() -> None:
    assert [scope.value for scope in Scope] == ["once", "session", "timeboxed"]


@pytest.mark.parametrize("answer", [APPROVAL, GRANT], ids=["approval", "grant"])
def test_answers_survive_being_kept(answer: Approval | Grant) -> None:
    assert msgspec.json.decode(msgspec.json.encode(answer), type=type(answer)) == answer


@pytest.mark.invariant("I5")
def test_decided_answers_never_change() -> None:
    with pytest.raises(AttributeError):
        APPROVAL.expires_at_ms += 1  # type: ignore[misc]
    with pytest.raises(AttributeError):
        GRANT.expires_at_ms += 1  # type: ignore[misc]


def test_rejection_may_come_from_nobody() -> None:
    rejection = Rejection(code=Code.APPROVAL_NO_OPERATOR, reason="nobody is here")
    assert (rejection.approval_id, rejection.decided_by) == (None, None)
    assert rejection != Rejection(
        code=Code.APPROVAL_DENIED, reason="no", approval_id=APPROVAL_ID, decided_by=OPERATOR
    )


def test_pending_names_its_question() -> None:
    assert Pending(approval_id=APPROVAL_ID).approval_id == APPROVAL_ID
