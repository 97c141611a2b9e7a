"""What the connections of one broker share: the cluster as this broker knows it, and the way to its replicas."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import pykka
from attrs import field

from actors.messages.controller import Outcome, ProducerIdsGiven
from actors.messages.replica import AppendResult, group_name
from actors.runtime import LAUNCHER_ID, Address, Future, Payload
from actors.serving.fetch_sessions import FetchSessions
from actors.serving.seldom import Seldom
from log.machines.metadata.plans import CreateTopic, TakeProducerIds
from log.machines.metadata.topic_ids import id_text
from protocol.error_codes import ErrorCode
from protocol.errors import ProtocolError
from protocol.late_attrs import define
from protocol.records.batches import read_header

if TYPE_CHECKING:
    from actors.cluster_file.facts import ClusterFacts
    from actors.control.client import ControllerClient
    from actors.raft.context import BrokerContext
    from actors.raft.leadership import Led
    from actors.runtime import Node
    from log.machines.metadata.metadata import Metadata, Topic

MAKE_SECONDS = 10.0
SESSION_SECONDS = 9.0  # broker.session.timeout.ms
EVERY_CLIENT = "*"
_ADDRESSES_MAX = 100_000
_MAKING_MAX = 1000


@define(slots=True)
class Serving:
    """One per broker, and read by all of its connections: on one thread, so nothing changes within a turn."""

    node: Node
    context: BrokerContext
    facts: ClusterFacts
    sessions: FetchSessions
    traced: frozenset[str] = frozenset()
    """Clients whose every request is logged; EVERY_CLIENT stands for all."""
    _addresses: dict[tuple[str, int], Address] = field(factory=dict)
    _making: set[str] = field(factory=set)
    _producer_ids: deque[int] = field(factory=deque)
    _seen_at: dict[int, float] = field(factory=dict)
    """When each broker was last seen alive by a request for the brokers."""
    _since: float = field(init=False)
    says: Seldom = field(init=False)
    """For lines about what clients do."""

    def __attrs_post_init__(self) -> None:
        self._since = self.node.scheduler.clock.now()
        self.says = Seldom(self.node.log, self.node.scheduler.clock)

    @property
    def metadata(self) -> Metadata:
        return self.context.metadata

    @property
    def broker(self) -> int:
        return self.node.broker

    @property
    def controller(self) -> Address:
        """This broker's controller, which passes on what only the leader of the metadata can do."""
        return Address("controller", "", self.node.broker)

    def alive(self, broker: int) -> bool:
        return broker == self.node.broker or (broker in self.node.links and broker != LAUNCHER_ID)

    def listed(self, broker: int) -> bool:
        """Do responses list this broker? One that is gone is listed for a while, as in Kafka until its session ends:
        librdkafka drops a broker that is not listed, and may wait for it for ever all the same."""
        now = self.node.scheduler.clock.now()
        if self.alive(broker):
            self._seen_at[broker] = now
            return True
        last = max(self._since, self._seen_at.get(broker, 0.0), self.context.heard.get(broker, 0.0))
        return now - last < SESSION_SECONDS

    def note_refused(self, replica: Address, batches: Payload, answer: Future[AppendResult]) -> None:
        """If the replica did not take these batches, have it refuse the producer's next ones (refusals.py).

        It takes none while its mailbox is full, and while it is restarted. This is called at the moment of the failure,
        because the next batches may be delivered in the same turn.
        """
        if answer.exception is None:
            return
        try:
            header = read_header(batches)
        except ProtocolError:
            return  # it is rejected when it comes again
        self.context.refusals.note(replica.name, header, self.node.scheduler.clock.now())

    def replica(self, topic: Topic, partition: int) -> Address:
        """The replica of a partition on this broker."""
        address = self._addresses.get((topic.id, partition))
        if address is None:
            if len(self._addresses) >= _ADDRESSES_MAX:
                self._addresses.clear()
            address = Address("replica", group_name(topic.name, partition, topic.id), self.node.broker)
            self._addresses[topic.id, partition] = address
        return address

    def led(self, topic: Topic, partition: int) -> Led | None:
        """The leader of a partition, as far as this broker knows."""
        return self.context.leadership.of(group_name(topic.name, partition, topic.id))

    def make_topic(self, name: str) -> None:
        """Have a topic created that a client has named and that does not exist. No request waits for it."""
        if name in self._making or len(self._making) >= _MAKING_MAX:
            return

        def done(future: Future[Any]) -> None:
            self._making.discard(name)
            self.log_made(name, Outcome.of(future))

        try:
            controller = self.node.ref(self.controller)
        except pykka.ActorDeadError:
            return  # this broker is about to end: the client asks another one
        self._making.add(name)
        asked: Future[Any] = controller.ask(CreateTopic("", name), block=False, timeout=MAKE_SECONDS)
        asked.add_callback(done)  # not by way of the client's connection, which may be gone by then

    def log_made(self, name: str, outcome: Outcome) -> None:
        """Log that a topic was made because a client used its name, if it was. The metadata says how it ended."""
        if outcome.error == ErrorCode.NONE:
            self.node.log.info("topics: %s is made, since a client asked for it (auto.create.topics.enable)", name)

    def take_producer_id(self, controller: ControllerClient, then: Callable[[int | None], None]) -> None:
        """An id that no other producer has, or None if no controller can be asked for more."""
        if self._producer_ids:
            then(self._producer_ids.popleft())
            return

        def answered(outcome: Outcome) -> None:
            if outcome.error == ErrorCode.NONE:
                self._producer_ids.extend(outcome.facts_as(ProducerIdsGiven).ids)
            then(self._producer_ids.popleft() if self._producer_ids else None)

        controller.ask(TakeProducerIds(""), MAKE_SECONDS, answered)

    def topic_by(self, name: str, topic_id: bytes) -> Topic | None:
        """Find a topic by its id where there is one, as newer versions of some requests have it, else by name."""
        return self.metadata.topics.get(id_text(topic_id)) if any(topic_id) else self.metadata.topic(name)


def traced_clients(named: Iterable[str]) -> frozenset[str]:
    """The clients that were named; all clients where everything is logged."""
    return frozenset(named) | ({EVERY_CLIENT} if logging.getLogger("barnabas").isEnabledFor(logging.DEBUG) else set())
