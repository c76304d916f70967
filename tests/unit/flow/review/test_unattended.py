# SPDX-License-Identifier: Apache-2.0
import pytest

from palyra.core.approval import Pending, Rejection
from palyra.core.errors import MEANINGS, Code
from palyra.flow.review.unattended import Unattended
from tests.support.samples import APPROVAL_ID, ASK, PROPOSAL

NO = Rejection(code=Code.APPROVAL_NO_OPERATOR, reason=MEANINGS[Code.APPROVAL_NO_OPERATOR].sentence)


@pytest.mark.invariant("I1")
async def test_every_question_is_a_no() -> None:
    assert await Unattended().ask(PROPOSAL, ASK) == NO


async def test_a_question_that_another_reviewer_left_is_a_no() -> None:
    answer = await Unattended().wait(APPROVAL_ID)
    assert answer == Rejection(code=NO.code, reason=NO.reason, approval_id=APPROVAL_ID)


async def test_nothing_is_ever_left_to_announce() -> None:
    with pytest.raises(RuntimeError, match=str(APPROVAL_ID)):
        await Unattended().announce(Pending(approval_id=APPROVAL_ID))
