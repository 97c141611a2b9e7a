"""Appends with acks=all: what each waits for, what a commit answers, and what is answered when its time is up."""

from __future__ import annotations

import math
from typing import Any

import pytest

from actors.messages.replica import AppendResult
from actors.partition import append_queue
from actors.partition.append_queue import AppendQueue, WaitingAppend
from actors.runtime import Future
from protocol.error_codes import ErrorCode

ALL_HOLD_IT = 1 << 30


class Leader:
    """A leader whose high watermark, holders and in-sync replicas are what the test says."""

    def __init__(self) -> None:
        self.leads = True
        self.high_watermark = 0
        self.held = ALL_HOLD_IT
        """Up to this end, enough voters hold the log."""
        self.too_few_in_sync = False
        self.superseded = False

    def is_committed(self, end: int) -> bool:
        return self.leads and end <= self.high_watermark

    def is_held(self, end: int) -> bool:
        return end <= self.held


@pytest.fixture
def leader() -> Leader:
    return Leader()


@pytest.fixture
def queue(leader: Leader) -> AppendQueue:
    return AppendQueue(leader, lambda: leader.superseded)


def waiting(end: int, deadline: float = math.inf) -> WaitingAppend:
    reply: Future[AppendResult] = Future()
    return WaitingAppend(end, end - 1, 1, -1, reply, deadline, None)


def ends(decided: list[tuple[WaitingAppend, ErrorCode]]) -> list[tuple[int, str]]:
    return [(append.end, error.name) for append, error in decided]


def test_a_commit_answers_what_it_covers_in_the_order_of_the_log(leader: Leader, queue: AppendQueue) -> None:
    for end in (1, 2, 3):
        queue.put(waiting(end))
    answered = []
    for watermark in (0, 2, 2, 3):
        leader.high_watermark = watermark
        answered.append((queue.may_be_decided, ends(queue.take_decided())))
    assert answered == [(False, []), (True, [(1, "NONE"), (2, "NONE")]), (False, []), (True, [(3, "NONE")])]


def test_what_is_committed_waits_until_enough_replicas_hold_it(leader: Leader, queue: AppendQueue) -> None:
    for end in (1, 2):
        queue.put(waiting(end))
    leader.high_watermark, leader.held = 2, 0
    assert queue.may_be_decided
    assert queue.take_decided() == []
    leader.held = 1
    assert ends(queue.take_decided()) == [(1, "NONE")]
    assert queue.verdict(2) is None


def test_what_is_committed_while_too_few_are_in_sync_is_refused(leader: Leader, queue: AppendQueue) -> None:
    queue.put(waiting(1))
    leader.too_few_in_sync = True
    assert queue.verdict(1) is None, "it is not decided before it is committed"
    leader.high_watermark, leader.held = 1, 0
    assert ends(queue.take_decided()) == [(1, "NOT_ENOUGH_REPLICAS_AFTER_APPEND")]


def test_a_leader_of_an_earlier_generation_acknowledges_nothing(leader: Leader, queue: AppendQueue) -> None:
    leader.high_watermark, leader.superseded = 1, True
    assert queue.verdict(1) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_replica_that_does_not_lead_decides_nothing(leader: Leader, queue: AppendQueue) -> None:
    queue.put(waiting(1))
    leader.leads, leader.high_watermark = False, 1
    assert not queue.may_be_decided
    assert queue.take_decided() == []


@pytest.mark.parametrize(
    ("facts", "error"),
    [
        ({}, "REQUEST_TIMED_OUT"),
        ({"too_few_in_sync": True}, "NOT_ENOUGH_REPLICAS_AFTER_APPEND"),
        ({"high_watermark": 2, "held": 0}, "REQUEST_TIMED_OUT"),
        ({"high_watermark": 2}, "NONE"),
        ({"high_watermark": 2, "superseded": True}, "NOT_LEADER_OR_FOLLOWER"),
    ],
)
def test_an_append_whose_time_is_up_is_answered_with_what_is_known_then(
    leader: Leader, queue: AppendQueue, facts: dict[str, Any], error: str
) -> None:
    for end, deadline in ((1, 9.0), (2, 5.0), (3, 7.0)):
        queue.put(waiting(end, deadline))
    assert queue.next_deadline == 5.0
    assert queue.take_overdue(4.9) == []
    for name, value in facts.items():
        setattr(leader, name, value)
    assert ends(queue.take_overdue(5.0)) == [(2, error)], "the others have time left"
    assert queue.next_deadline == 7.0


def test_a_full_queue_that_is_emptied_has_room(queue: AppendQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(append_queue, "WAITING_MAX", 2)
    was_full = []
    for end in (1, 2):
        was_full.append(queue.is_full)
        queue.put(waiting(end, deadline=1.0))
    was_full.append(queue.is_full)
    assert [append.end for append in queue.take_all()] == [1, 2]
    was_full.append(queue.is_full)
    assert was_full == [False, False, True, False]
    assert queue.next_deadline == math.inf
