"""Look-ups by time that take long: they are done in slices, one at a time for all replicas of a broker."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from actors.messages.replica import (
    MAX_TIMESTAMP,
    AppendRecords,
    FindOffset,
    OffsetFound,
    TransferLeadership,
    replica_address,
)
from actors.partition.replica import Replica
from actors.partition.time_lookups import TimeLookups
from actors.raft.exclusive_work import ExclusiveWork
from actors.runtime import Future, Payload
from log.partition.time_lookup import SLICE_LOOKS
from protocol.error_codes import ErrorCode
from protocol.records.batches import Record, build_batch
from tests.actors.partition.test_partitions import Brokers

COUNT = 5 * SLICE_LOOKS
LATE = 1000 + COUNT - 1
"""The time of the last record."""


def ask(brokers: Brokers, group: str, message: object) -> Future[Any]:
    """Ask the leader."""
    leader = leader_of(brokers, group)
    answer: Future[Any] = brokers.sim.nodes[leader].ref(replica_address(group, leader)).ask(message, block=False)
    return answer


def leader_of(brokers: Brokers, group: str) -> int:
    led = brokers.contexts[1].leadership.of(group)
    return 0 if led is None or led.broker is None else led.broker


def replica_of(brokers: Brokers, group: str) -> Replica:
    leader = leader_of(brokers, group)
    replica = brokers.sim.nodes[leader].actor(replica_address(group, leader))
    assert isinstance(replica, Replica)
    return replica


def filled(brokers_count: int = 1, partitions: int = 1) -> tuple[Brokers, list[str]]:
    brokers = Brokers(brokers_count)
    groups = list(brokers.create(partitions))
    brokers.until(lambda: all(leader_of(brokers, group) for group in groups))
    records = [Record(at, 1000 + at, None, b"", ()) for at in range(COUNT)]
    for group in groups:
        appended = ask(brokers, group, AppendRecords(-1, 5000, Payload(memoryview(build_batch(records)))))
        brokers.until(lambda appended=appended: appended.done)  # type: ignore[misc]
        assert appended.get().error == ErrorCode.NONE
    return brokers, groups


@pytest.mark.parametrize("timestamp", [LATE, MAX_TIMESTAMP])
def test_a_long_look_up_is_answered_when_it_is_done(timestamp: int) -> None:
    brokers, (group,) = filled()
    asked = FindOffset(timestamp, read_committed=False)
    at_once = replica_of(brokers, group).find_offset(FindOffset(1000, read_committed=False))
    assert at_once is not None, "a short one is answered at once"
    found = [ask(brokers, group, asked) for _ in range(3)]
    brokers.until(lambda: all(one.done for one in found))
    assert [one.get() for one in found] == [OffsetFound(ErrorCode.NONE, COUNT - 1, LATE, 1)] * 3


def test_all_replicas_of_a_broker_have_one_long_look_up_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    brokers, groups = filled(partitions=3)
    lookups = [replica_of(brokers, group)._reads.by_time for group in groups]
    seen: list[int] = []
    go_on = TimeLookups.go_on

    def noting(self: TimeLookups) -> None:
        go_on(self)
        seen.append(sum(one._slices is not None for one in lookups))

    monkeypatch.setattr(TimeLookups, "go_on", noting)
    asked = [ask(brokers, group, FindOffset(LATE, read_committed=False)) for group in groups * 2]
    brokers.until(lambda: all(one.done for one in asked))
    assert {one.get().offset for one in asked} == {COUNT - 1}
    assert len(seen) >= 6 * 4
    assert max(seen) == 1


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], None]]:
    """Slices that are due. They are not done until the test does them."""
    due: list[Callable[[], None]] = []

    def hold(self: Replica, message: object) -> None:
        due.append(lambda: self.node.tell_local(self.address, message))

    monkeypatch.setattr(Replica, "in_background", hold)
    return due


def test_a_leader_that_is_replaced_meanwhile_says_so(held: list[Callable[[], None]]) -> None:
    brokers, (group,) = filled(brokers_count=3)
    leader, replica = leader_of(brokers, group), replica_of(brokers, group)
    asked = [ask(brokers, group, FindOffset(LATE, read_committed=False)) for _ in range(2)]
    brokers.until(lambda: len(replica._reads.by_time._waiting) == 2)
    ask(brokers, group, TransferLeadership(next(one for one in brokers.numbers if one != leader)))
    brokers.until(lambda: not replica.leads)
    for _ in range(2):
        held.pop()()
        brokers.until(lambda: bool(held) or asked[1].done)
    assert [one.get().error for one in asked] == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2
    assert brokers.contexts[leader].lookups._under_way is None


def test_a_leader_that_leads_again_in_another_epoch_lets_the_client_ask_again(held: list[Callable[[], None]]) -> None:
    brokers, (group,) = filled()
    asked = ask(brokers, group, FindOffset(LATE, read_committed=False))
    brokers.until(lambda: bool(held))
    replica_of(brokers, group)._reads.by_time._term -= 1
    held.pop()()
    brokers.until(lambda: asked.done)
    assert asked.get().error == ErrorCode.OFFSET_NOT_AVAILABLE


def test_a_replica_that_ends_lets_others_begin(held: list[Callable[[], None]]) -> None:
    brokers, (first, second) = filled(partitions=2)
    lookups = brokers.contexts[1].lookups
    asked = []
    for group in (first, second):
        asked.append(ask(brokers, group, FindOffset(LATE, read_committed=False)))
        brokers.until(lambda group=group: group in (lookups._under_way, *lookups._waiting))  # type: ignore[misc]
    assert (lookups._under_way, list(lookups._waiting)) == (first, [second])
    held.clear()
    replica_of(brokers, first).stop()
    while not asked[1].done:
        brokers.until(lambda: bool(held) or asked[1].done)
        if held:
            held.pop()()
    assert asked[0].exception is not None
    assert asked[1].get().offset == COUNT - 1
    assert lookups._under_way is None


def test_groups_take_turns() -> None:
    places, begun = ExclusiveWork(), list[str]()
    assert places.begin("a", partial(begun.append, "a"))
    assert not places.begin("b", partial(begun.append, "b"))
    assert not places.begin("c", partial(begun.append, "c"))
    places.ended("b")
    assert begun == []
    places.ended("a")
    assert begun == ["c"]
    places.ended("c")
    assert places.begin("a", partial(begun.append, "a"))
