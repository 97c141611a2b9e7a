"""The barrier between a controller's answers and what a broker has applied, and the controller's read index."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from actors.control import metadata_waits
from actors.control.metadata_waits import AppliedWaits
from actors.messages.controller import (
    AwaitApplied,
    AwaitCaughtUp,
    ConfirmMetadata,
    OperationAnswer,
    Outcome,
    PartitionsCreated,
    SyncMetadata,
    TopicCreated,
)
from actors.runtime import Address, Future
from log.machines.metadata.metadata import Metadata
from log.machines.metadata.plans import CreateTopic, Plan
from protocol.error_codes import ErrorCode
from tests.actors.partition.test_partitions import Brokers


def test_waits_end_in_the_order_of_their_offsets_once_these_are_applied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata_waits, "WAITS_MAX", 3)
    metadata, done = Metadata(), list[int]()
    waits = AppliedWaits(metadata)
    assert [waits.add(offset, partial(done.append, offset)) for offset in (7, 3, 0, 5)] == [True] * 4
    assert done == [0], "that much is applied already"
    assert not waits.add(9, lambda: done.append(9)), "too many wait"
    for applied, ended in ((2, [0]), (5, [0, 3, 5]), (6, [0, 3, 5]), (8, [0, 3, 5, 7])):
        metadata.applied = applied
        waits.go_on()
        assert done == ended
    assert len(waits) == 0


def test_an_outcome_has_what_was_answered() -> None:
    facts = {"topic_id": "id", "partitions": 3, "replication_factor": 2}
    answer = OperationAnswer(Plan(warnings=["few"], facts=facts).answer, 12)
    outcome = answer.outcome
    assert outcome == Outcome(ErrorCode.NONE, "", ("few",), 12, facts)
    assert outcome.facts_as(TopicCreated) == TopicCreated("id", 3, 2)
    assert outcome.facts_as(PartitionsCreated) == PartitionsCreated("id", 3, 0)
    assert outcome.error_message is None


class Cluster:
    """Three simulated brokers and their controllers."""

    def __init__(self) -> None:
        self.brokers = Brokers(3)
        self.brokers.until(lambda: bool(self.leader()))
        self.brokers.sim.run(seconds=1.0)

    def leader(self) -> int:
        actors = {broker: self.controller(broker) for broker in (1, 2, 3)}
        return next((broker for broker, one in actors.items() if hasattr(one, "_member") and one.leads), 0)

    def controller(self, broker: int) -> Any:
        return self.brokers.sim.nodes[broker].ref(Address("controller", "", broker))._actor_weakref()

    def begin(self, broker: int, message: object) -> Future[Any]:
        ref = self.brokers.sim.nodes[broker].ref(Address("controller", "", broker))
        future: Future[Any] = ref.ask(message, block=False)
        return future

    def ask(self, broker: int, message: object) -> Any:
        future = self.begin(broker, message)
        self.brokers.until(lambda: future.done)
        return future.get()

    @property
    def follower(self) -> int:
        return 1 + self.leader() % 3


@pytest.fixture(scope="module")
def cluster() -> Cluster:
    return Cluster()


def test_a_broker_has_applied_an_operation_once_its_offset_is_awaited(cluster: Cluster) -> None:
    for number in range(5):
        outcome = cluster.ask(cluster.follower, CreateTopic(f"id {number}", f"awaited-{number}", 1, 3)).outcome
        assert outcome.error == ErrorCode.NONE
        assert cluster.ask(cluster.follower, AwaitApplied(outcome.offset)) is True
        assert cluster.controller(cluster.follower).metadata.topic(f"awaited-{number}") is not None


def test_an_offset_that_nobody_has_written_yet_is_awaited(cluster: Cluster) -> None:
    end = cluster.controller(cluster.follower).metadata.applied
    future = cluster.begin(cluster.follower, AwaitApplied(end + 1))
    cluster.brokers.sim.run(seconds=0.5)
    assert not future.done
    cluster.ask(cluster.leader(), CreateTopic("late", "written-later", 1, 3))
    cluster.brokers.until(lambda: future.done)


def test_a_repeated_operation_is_answered_with_an_offset_that_covers_it(cluster: Cluster) -> None:
    first = cluster.ask(cluster.follower, CreateTopic("twice", "twice", 1, 3)).outcome
    again = cluster.ask(cluster.leader(), CreateTopic("twice", "twice", 1, 3)).outcome
    assert again.facts == first.facts
    assert again.offset >= first.offset


def test_a_synchronised_broker_knows_what_another_was_answered(cluster: Cluster) -> None:
    before = cluster.controller(cluster.leader())._member.log.end_offset
    assert cluster.ask(cluster.follower, SyncMetadata()).outcome.error == ErrorCode.NONE
    assert cluster.controller(cluster.leader())._member.log.end_offset == before, "a question writes nothing"
    for number in range(5):
        assert cluster.ask(cluster.leader(), CreateTopic(f"sync {number}", f"sync-{number}", 1, 3)).outcome.error == 0
        assert cluster.ask(cluster.follower, SyncMetadata()).outcome.error == ErrorCode.NONE
        assert cluster.controller(cluster.follower).metadata.topic(f"sync-{number}") is not None


def test_a_broker_that_has_replayed_everything_says_so_at_once(cluster: Cluster) -> None:
    assert cluster.ask(cluster.follower, AwaitCaughtUp()) is None


def test_a_controller_that_is_cut_off_confirms_nothing() -> None:
    """Its metadata may be old: a later leader may have written since."""
    cluster = Cluster()
    deposed = cluster.leader()
    others = [broker for broker in (1, 2, 3) if broker != deposed]
    for other in others:
        cluster.brokers.sim.cut(deposed, other)
    future = cluster.begin(deposed, ConfirmMetadata())
    cluster.brokers.until(lambda: future.done)
    assert future.get().outcome.error == ErrorCode.NOT_CONTROLLER
