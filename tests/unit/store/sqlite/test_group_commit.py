# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import pytest

from palyra.core.errors import Code, PalyraError, StateConflictError, StoreError
from palyra.core.ports import Recorded
from palyra.core.transitions import Note, Transition
from palyra.store.sqlite import group_commit
from palyra.store.sqlite.group_commit import LARGEST_COMMIT, GroupCommit
from tests.support.store import note

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

RECORDED = Recorded(admission=None, prove=None)


class Writer:
    """Keeps the batches it is given; refuses or fails what a test tells it to."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.refused: dict[int, PalyraError] = {}
        self.fault: BaseException | None = None

    def commit(self, transitions: Sequence[Transition]) -> list[Recorded | PalyraError]:
        numbers = [number_of(transition) for transition in transitions]
        self.batches.append(numbers)
        if self.fault is not None:
            raise self.fault
        return [self.refused.get(number, RECORDED) for number in numbers]


def number_of(transition: Transition) -> int:
    assert isinstance(transition, Note)
    return transition.events[0].count  # type: ignore[attr-defined,no-any-return]  # as note() made it


async def produce(group: GroupCommit, *numbers: int) -> list[Recorded | BaseException]:
    producers = (group.record(note(number)) for number in numbers)
    return await asyncio.gather(*producers, return_exceptions=True)


async def test_many_producers_share_one_commit() -> None:
    writer = Writer()
    results = await produce(GroupCommit(writer.commit), *range(100))
    assert results == [RECORDED] * 100
    assert writer.batches == [list(range(100))]


async def test_a_producer_that_comes_later_has_a_commit_of_its_own() -> None:
    writer = Writer()
    group = GroupCommit(writer.commit)
    await produce(group, 1, 2)
    await produce(group, 3)
    assert writer.batches == [[1, 2], [3]]


@pytest.mark.invariant("I13")
async def test_a_commit_has_a_bound_and_order_is_kept() -> None:
    writer = Writer()
    await produce(GroupCommit(writer.commit), *range(2 * LARGEST_COMMIT + 1))
    assert [len(batch) for batch in writer.batches] == [LARGEST_COMMIT, LARGEST_COMMIT, 1]
    assert sum(writer.batches, []) == list(range(2 * LARGEST_COMMIT + 1))  # noqa: RUF017 - three


@pytest.mark.invariant("I5")
async def test_a_refused_transition_leaves_the_others_standing() -> None:
    writer = Writer()
    refusal = StateConflictError(Code.STATE_CONFLICT)
    writer.refused[2] = refusal
    assert await produce(GroupCommit(writer.commit), 1, 2, 3) == [RECORDED, refusal, RECORDED]


@pytest.mark.invariant("I7")
async def test_the_record_of_a_cancelled_producer_stands() -> None:
    writer = Writer()
    group = GroupCommit(writer.commit)
    producers = [asyncio.create_task(group.record(note(number))) for number in (1, 2, 3)]
    await asyncio.sleep(0)
    producers[0].cancel()
    results = await asyncio.gather(*producers, return_exceptions=True)
    assert isinstance(results[0], asyncio.CancelledError)
    assert results[1:] == [RECORDED, RECORDED]
    assert writer.batches == [[1, 2, 3]]


@pytest.mark.invariant("I13")
async def test_the_queue_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_commit, "LONGEST_QUEUE", 3)
    writer = Writer()
    results = await produce(GroupCommit(writer.commit), 1, 2, 3, 4)
    assert results[:3] == [RECORDED] * 3
    assert isinstance(results[3], StoreError)
    assert results[3].code is Code.STORE_BUSY
    assert writer.batches == [[1, 2, 3]]


@pytest.mark.parametrize("fault", [RuntimeError("boom"), MemoryError()], ids=repr)
async def test_a_writer_that_fails_leaves_nobody_waiting(
    fault: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    writer = Writer()
    group = GroupCommit(writer.commit)
    writer.fault = fault
    async with asyncio.timeout(5):
        with caplog.at_level(logging.CRITICAL, logger="asyncio"):
            results = await produce(group, 1, 2)
    assert [error.code for error in results if isinstance(error, StoreError)] == [
        Code.STORE_UNREACHABLE,
        Code.STORE_UNREACHABLE,
    ]
    writer.fault = None
    assert await produce(group, 3) == [RECORDED]


async def test_after_a_failed_commit_the_rest_of_the_queue_is_committed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    writer = Writer()
    writer.fault = RuntimeError("boom")

    def commit(transitions: Sequence[Transition]) -> list[Recorded | PalyraError]:
        try:
            return writer.commit(transitions)
        finally:
            writer.fault = None

    with caplog.at_level(logging.CRITICAL, logger="asyncio"):
        results = await produce(GroupCommit(commit), *range(LARGEST_COMMIT + 2))
    failed = [isinstance(result, StoreError) for result in results]
    assert failed == [True] * LARGEST_COMMIT + [False] * 2


class TestAlone:
    """A producer that is known to be alone does not wait for others to join."""

    @staticmethod
    def alone(writer: Writer, is_alone: Callable[[], bool] = lambda: True) -> GroupCommit:
        group = GroupCommit(writer.commit)
        group.is_alone = is_alone
        return group

    async def test_it_commits_at_once(self) -> None:
        writer = Writer()
        recording = self.alone(writer).record(note(1))
        with pytest.raises(StopIteration) as returned:
            recording.send(None)
        assert returned.value.value == RECORDED
        assert writer.batches == [[1]]

    async def test_its_refusal_is_raised(self) -> None:
        writer = Writer()
        writer.refused[1] = StateConflictError(Code.STATE_CONFLICT)
        with pytest.raises(StateConflictError):
            await self.alone(writer).record(note(1))

    async def test_it_does_not_overtake_those_who_wait(self) -> None:
        writer = Writer()
        answers = iter([False, True])
        await produce(self.alone(writer, lambda: next(answers)), 1, 2)
        assert writer.batches == [[1, 2]]
