"""A connection's membership in a group, without a coordinator: what it asks, and what it makes of the answers."""

from __future__ import annotations

import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, TypeVar, cast

import pytest

from actors.serving.json import membership
from actors.serving.json.handlers import groups
from actors.serving.json.membership import GroupMembership
from log.machines.metadata.topic_ids import id_bytes
from protocol.error_codes import ErrorCode
from protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)

TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
T = TypeVar("T")


class Coordinated:
    """A membership whose requests end here."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[tuple[Any, Callable[[Any, ErrorCode], None]]] = []
        self.later: list[Callable[[], None]] = []
        monkeypatch.setattr(
            membership, "ask_coordinator", lambda *asked, client_id: self.asked.append((asked[4], asked[-1]))
        )
        topics = {TOPIC_ID: SimpleNamespace(name="orders")}
        serving = SimpleNamespace(
            context=SimpleNamespace(rng=random.Random(1)), metadata=SimpleNamespace(topics=topics)
        )
        self.connection = SimpleNamespace(
            now=0.0, serving=serving, later=lambda _seconds, then: self.later.append(then)
        )
        self.membership = GroupMembership(cast("Any", self.connection), "g", ("orders",), 300.0, lambda: None)

    def heartbeat(self) -> tuple[ConsumerGroupHeartbeatRequest, Callable[[Any, ErrorCode], None]]:
        """The next one, and how to answer it."""
        return self.next(ConsumerGroupHeartbeatRequest)

    def next(self, kind: type[T]) -> tuple[T, Callable[[Any, ErrorCode], None]]:
        """The next request of this kind, and how to answer it."""
        while not any(isinstance(request, kind) for request, _ in self.asked):
            self.later.pop(0)()
        at = next(at for at, (one, _) in enumerate(self.asked) if isinstance(one, kind))
        return self.asked.pop(at)

    def join(self, *numbers: int) -> None:
        _, answer = self.heartbeat()
        answer(assigned(*numbers), ErrorCode.NONE)

    def commit(self, **offsets: int) -> list[dict[tuple[str, int], ErrorCode]]:
        """Of topics whose first partition it is. Where the outcome will be."""
        outcomes: list[dict[tuple[str, int], ErrorCode]] = []
        self.membership.commit({(name, 0): offset for name, offset in offsets.items()}, outcomes.append)
        return outcomes


def assigned(*numbers: int) -> ConsumerGroupHeartbeatResponse:
    partitions = [TopicPartitions(topic_id=id_bytes(TOPIC_ID), partitions=list(numbers))]
    return ConsumerGroupHeartbeatResponse(
        member_epoch=6, heartbeat_interval_ms=5000, assignment=Assignment(topic_partitions=partitions)
    )


def test_a_member_that_missed_an_answer_says_all_so_that_it_is_told_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was assigned with the lost answer belongs to it already, and nobody else would read it."""
    coordinated = Coordinated(monkeypatch)
    _, answer = coordinated.heartbeat()
    answer(assigned(0), ErrorCode.NONE)
    _, lost = coordinated.heartbeat()
    lost(None, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    request, answer = coordinated.heartbeat()
    assert request.member_epoch == 6
    assert request.rebalance_timeout_ms > 0
    assert request.subscribed_topic_names == ["orders"]
    assert request.topic_partitions is not None
    assert [one.partitions for one in request.topic_partitions] == [[0]]
    answer(assigned(0, 1), ErrorCode.NONE)
    assert sorted(number for _, number in coordinated.membership.owned) == [0, 1]


def test_a_member_that_was_fenced_gives_everything_up_and_joins_again(monkeypatch: pytest.MonkeyPatch) -> None:
    coordinated = Coordinated(monkeypatch)
    coordinated.join(0)
    _, answer = coordinated.heartbeat()
    answer(None, ErrorCode.FENCED_MEMBER_EPOCH)
    assert not coordinated.membership.owned
    request, answer = coordinated.heartbeat()
    assert (request.member_epoch, request.topic_partitions) == (0, [])
    answer(assigned(1), ErrorCode.NONE)
    assert [number for _, number in coordinated.membership.owned] == [1]


def test_a_member_that_is_refused_for_good_says_why_and_asks_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    coordinated = Coordinated(monkeypatch)
    _, answer = coordinated.heartbeat()
    refused = ConsumerGroupHeartbeatResponse(error_code=ErrorCode.GROUP_MAX_SIZE_REACHED, error_message="it is full")
    answer(refused, ErrorCode.GROUP_MAX_SIZE_REACHED)
    assert coordinated.membership.error == (ErrorCode.GROUP_MAX_SIZE_REACHED, "it is full")
    coordinated.membership._beat()
    assert (coordinated.asked, coordinated.later) == ([], [])


def test_a_connection_that_does_not_poll_leaves_its_group(monkeypatch: pytest.MonkeyPatch) -> None:
    coordinated = Coordinated(monkeypatch)
    coordinated.join(0)
    _, answer = coordinated.heartbeat()
    coordinated.connection.now = 301.0
    answer(assigned(0), ErrorCode.NONE)
    request, _ = coordinated.heartbeat()
    assert request.member_epoch == -1
    assert coordinated.membership.error is not None
    assert "has not polled for 300 s" in coordinated.membership.error[1]
    assert not coordinated.membership.owned


def test_positions_that_could_not_be_found_are_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    coordinated = Coordinated(monkeypatch)
    coordinated.join(0)
    _, answer = coordinated.next(OffsetFetchRequest)
    answer(None, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    _, answer = coordinated.next(OffsetFetchRequest)
    partition = OffsetFetchResponsePartitions(partition_index=0, committed_offset=7)
    topic = OffsetFetchResponseTopics(name="orders", partitions=[partition])
    answer(OffsetFetchResponse(groups=[OffsetFetchResponseGroup(group_id="g", topics=[topic])]), ErrorCode.NONE)
    (owned,) = coordinated.membership.owned.values()
    assert owned.position == 7


def test_a_commit_of_what_is_not_assigned_asks_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    coordinated = Coordinated(monkeypatch)
    coordinated.join()
    assert coordinated.commit(orders=5) == [{("orders", 0): ErrorCode.STALE_MEMBER_EPOCH}]


def test_a_commit_that_nobody_answers_is_told_with_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    coordinated = Coordinated(monkeypatch)
    coordinated.join(0)
    outcomes = coordinated.commit(orders=5, bills=1)
    _, answer = coordinated.next(OffsetCommitRequest)
    answer(None, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert outcomes == [
        {("orders", 0): ErrorCode.COORDINATOR_NOT_AVAILABLE, ("bills", 0): ErrorCode.STALE_MEMBER_EPOCH}
    ]


def test_a_commit_that_came_before_the_members_newer_epoch_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    coordinated = Coordinated(monkeypatch)
    coordinated.join(0)
    outcomes = coordinated.commit(orders=5)
    for error in (ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.NONE):
        assert outcomes == []
        _, answer = coordinated.next(OffsetCommitRequest)
        partition = OffsetCommitResponsePartition(partition_index=0, error_code=error)
        answer(OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="orders", partitions=[partition])]), error)
    assert outcomes == [{("orders", 0): ErrorCode.NONE}]


def test_a_connection_that_was_taken_out_of_its_group_commits_nothing() -> None:
    told: list[tuple[object, ...]] = []
    gone = (ErrorCode.UNKNOWN_MEMBER_ID, "it was taken out of its group")
    reader = SimpleNamespace(membership=SimpleNamespace(error=gone))
    call: Any = SimpleNamespace(connection=SimpleNamespace(group=reader), refuse=lambda *said: told.append(said))
    groups._commit(call, {("orders", 0): 5})
    assert told == [gone]


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ErrorCode.GROUP_ID_NOT_FOUND, "there is no group 'g'"),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, "the coordinator of 'g' cannot be asked"),
    ],
)
def test_rebalances_that_are_not_told_are_refused_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, error: ErrorCode, said: str
) -> None:
    told: list[tuple[object, ...]] = []
    monkeypatch.setattr(groups, "AtCoordinator", lambda *asked: asked[-1](None, error))
    call: Any = SimpleNamespace(connection=SimpleNamespace(now=0.0), refuse=lambda *said: told.append(said))
    groups._rebalances(call, "g", 1000)
    assert told == [(error, said)]
