"""Markers for partitions that a transaction coordinator's broker does not know: not yet, or no more."""

from __future__ import annotations

import random
from typing import Any, cast

import pytest

from actors.coordination.transactions import TransactionCoordinator, _Send
from actors.messages.controller import OperationAnswer, SyncMetadata
from actors.messages.coordinator import TRANSACTIONS_TOPIC
from actors.messages.replica import group_name, replica_address
from actors.raft.calendar import Calendar
from actors.runtime import Actor, Address, handles
from actors.runtime.simulation import Simulation
from log.machines.metadata.plans import Plan
from log.machines.transaction.config import TransactionConfig
from log.machines.transaction.effects import Markers, TopicPartition
from protocol.error_codes import ErrorCode
from tests.actors.lone_coordinator import LeadingReplica
from tests.log.machines.group.coordinator import new_world

MARKERS = Markers("t", 7, 0, commit=True, coordinator_epoch=0, transaction_version=2, partitions=(("late", 1),))


class Controller(Actor):
    """Answers, or has nobody to ask."""

    def __init__(self, error: ErrorCode) -> None:
        super().__init__()
        self.error = error
        self.asked = 0

    @handles(SyncMetadata)
    def answer(self, _message: SyncMetadata) -> OperationAnswer | None:
        self.asked += 1
        return OperationAnswer(Plan(self.error).answer, 0)


class Watched(TransactionCoordinator):
    """Tells which partitions it is done with."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.done: list[TopicPartition] = []

    def _written(self, one: _Send) -> None:
        self.done.append(one.partition)


class Context:
    """What a coordinator looks at of its broker."""

    def __init__(self, **topics: int) -> None:
        self.metadata = new_world(**topics).metadata
        self.transactions = TransactionConfig()
        self.calendar = Calendar(lambda: 0.0, lambda: 1_700_000_000.0, pytest.fail)
        self.rng = random.Random(1)


class Broker:
    """A coordinator that has a marker to write, and what it asks."""

    def __init__(self, error: ErrorCode, **topics: int) -> None:
        self.simulation = Simulation(seed=1)
        node = self.simulation.add_node(1)
        node.spawn(LeadingReplica, 0, 0, address=replica_address(group_name(TRANSACTIONS_TOPIC, 0, ""), 1))
        controller = node.spawn(Controller, error, address=Address("controller", "", 1))
        self.context = Context(**topics)
        address = Address("transaction_coordinator", "0", 1)
        coordinator = node.spawn(Watched, TRANSACTIONS_TOPIC, 0, cast("Any", self.context), address=address)
        self.controller, self.coordinator = (cast("Any", one._actor_weakref()) for one in (controller, coordinator))
        self.simulation.run(seconds=0.1)
        assert self.coordinator.done == []
        self.coordinator.send_marker(_Send(self.coordinator._life, MARKERS, MARKERS.partitions[0]))
        self.simulation.run(seconds=5.0)


@pytest.mark.parametrize("topics", [{}, {"late": 1}], ids=["no topic", "too few partitions"])
def test_a_topic_is_gone_that_is_not_there_once_everything_committed_is_applied(topics: dict[str, int]) -> None:
    broker = Broker(ErrorCode.NONE, **topics)
    assert broker.coordinator.done == [("late", 1)]
    assert broker.controller.asked == 1


def test_without_a_controller_nothing_is_given_up() -> None:
    broker = Broker(ErrorCode.NOT_CONTROLLER)
    broker.simulation.run(seconds=60.0)
    assert broker.coordinator.done == []
    assert broker.controller.asked > 5, "it is asked again"
