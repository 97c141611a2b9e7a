"""A transaction with very many partitions: its markers are sent in several turns, and by a leader alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from actors.coordination.transactions import MARKERS_AT_ONCE, TransactionCoordinator
from actors.messages.coordinator import TRANSACTIONS_TOPIC, LeadershipChanged
from actors.messages.replica import AppendMarker, group_name, replica_address
from actors.raft.leadership import Leadership
from actors.runtime import Address, Future
from actors.runtime.simulation import Simulation
from log.machines.transaction.effects import Markers, TransactionEffects
from tests.actors.lone_coordinator import LeadingReplica
from tests.actors.test_lost_topics import Context

MANY = 2 * MARKERS_AT_ONCE + 1


class Sends(TransactionCoordinator):
    """Notes which markers it sends, and in how many turns."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.sent: list[list[str]] = []

    def send_more(self, message: Any) -> None:
        self.sent.append([])
        super().send_more(message)

    def ask(
        self, address: Address, message: Any, then: Callable[[Future[Any]], None], *, timeout: float | None = None
    ) -> Future[Any]:
        if isinstance(message, AppendMarker):
            self.sent[-1].append(address.name)
        return super().ask(address, message, then, timeout=timeout)


class Broker:
    """Leads every partition of a large topic, and the coordinator's own."""

    def __init__(self) -> None:
        self.simulation = Simulation(seed=1)
        node = self.simulation.add_node(1)
        self.replica = group_name(TRANSACTIONS_TOPIC, 0, "")
        node.spawn(LeadingReplica, 0, 0, address=replica_address(self.replica, 1))
        context: Any = Context(large=MANY)
        context.leadership = Leadership()
        topic = context.metadata.topic("large")
        self.groups = [group_name("large", number, topic.id) for number in range(MANY)]
        for group in self.groups:
            context.leadership.announced(group, 1, 0, (1,))
        address = Address("transaction_coordinator", "0", 1)
        coordinator = node.spawn(Sends, TRANSACTIONS_TOPIC, 0, context, address=address)
        self.coordinator = cast("Any", coordinator._actor_weakref())
        self.simulation.run(seconds=0.1)
        self.coordinator.sent.clear()

    def end(self, *transactions: range) -> None:
        """Transactions with these partitions are prepared, all in one flight."""
        made = [
            Markers(f"t{at}", at, 0, True, 0, 2, tuple(("large", number) for number in partitions))
            for at, partitions in enumerate(transactions)
        ]
        self.coordinator.on_served([TransactionEffects(markers=[markers]) for markers in made])


@pytest.mark.parametrize(
    "transactions", [[range(MANY)], [range(MARKERS_AT_ONCE), range(MARKERS_AT_ONCE, MANY)]], ids=["one", "two"]
)
def test_so_many_markers_are_sent_in_a_turn_and_the_others_in_the_next_ones(transactions: list[range]) -> None:
    broker = Broker()
    broker.end(*transactions)
    assert [len(turn) for turn in broker.coordinator.sent] == [MARKERS_AT_ONCE]
    broker.simulation.run(seconds=0.01)
    assert [len(turn) for turn in broker.coordinator.sent] == [MARKERS_AT_ONCE, MARKERS_AT_ONCE, 1]
    assert [group for turn in broker.coordinator.sent for group in turn] == broker.groups


def test_markers_that_are_decided_on_meanwhile_are_sent_behind_those_that_wait() -> None:
    broker = Broker()
    broker.end(range(MANY - 1))
    broker.end(range(MANY - 1, MANY))
    broker.simulation.run(seconds=0.01)
    assert [len(turn) for turn in broker.coordinator.sent] == [MARKERS_AT_ONCE, MARKERS_AT_ONCE, 1]
    assert broker.coordinator.sent[-1] == broker.groups[-1:]


def test_a_coordinator_that_leads_no_more_sends_no_more_markers() -> None:
    broker = Broker()
    broker.end(range(MANY))
    broker.coordinator.leadership_changed(LeadershipChanged(broker.replica, -1))
    broker.simulation.run(seconds=0.01)
    assert sum(len(turn) for turn in broker.coordinator.sent) == MARKERS_AT_ONCE
