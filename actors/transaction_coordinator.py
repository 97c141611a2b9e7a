"""`transaction_coordinator/3@1`: the transactions of one partition of __transaction_state, where this broker leads it.

When a transaction is prepared for good (its record is committed), a marker goes to every partition that is in it: to
the replica that leads it, or, for offsets of groups, to the group coordinator, who is the only one to write there. Each
is asked again until it has the marker, or its topic is no more. That is not known because this broker does not know the
topic: it may not have heard of it yet. It is known when this broker still does not, once it has applied a question that
the controller answered.
"""

from __future__ import annotations

import uuid
from functools import partial
from typing import Any

import orjson

from actors.coordinator import Coordinator
from actors.coordinator_messages import GROUPS_TOPIC, EndTransaction, coordinator_address, partition_of
from actors.replica_messages import AppendMarker, group_name, replica_address
from actors.runtime import Address, Future, handles
from log.machines.coordination import Effects
from log.machines.plans import AlterConfigs, TakeProducerIds
from log.machines.transaction.effects import Markers, TopicPartition, TransactionEffects
from log.machines.transaction.machine import TransactionMachine
from protocol.error_codes import ErrorCode
from protocol.late_attrs import frozen

ASK_SECONDS = 10.0
RETRY_SECONDS, RETRY_SECONDS_MAX = 0.02, 0.5
ASK_AFTER_SECONDS = 0.1
_OVER = frozenset({ErrorCode.NONE, ErrorCode.INVALID_PRODUCER_EPOCH})
"""The marker is there, or what it was for is over."""


@frozen(slots=True)
class _SendAgain:
    life: int
    markers: Markers
    partition: TopicPartition
    pause: float
    question: str = ""
    """What the controller was asked, and has answered, since the partition was not known here."""


class TransactionCoordinator(Coordinator):
    """What transactions do is in log/machines/transaction/."""

    def machine(self, epoch: int) -> TransactionMachine:
        return TransactionMachine(
            self._services.transactions, epoch, self._offsets_partition, self._knows, self.record_bytes_max
        )

    def on_served(self, effects: Effects) -> None:
        assert isinstance(effects, TransactionEffects)
        for markers in effects.markers:
            for partition in markers.partitions:
                self._send(self._life, markers, partition, RETRY_SECONDS)
        if effects.wants_producer_ids:
            self._take_producer_ids()

    # -- markers ---------------------------------------------------------------------------------------------------

    @handles(_SendAgain)
    def send_again(self, message: _SendAgain) -> None:
        if message.life == self._life:
            self._send(message.life, message.markers, message.partition, message.pause, message.question)

    def _send(self, life: int, markers: Markers, partition: TopicPartition, pause: float, question: str = "") -> None:
        name, number = partition
        topic = self._services.metadata.topic(name)
        if topic is None or not self._knows(partition):
            self._look_for(life, markers, partition, pause, question)
            return
        led = self._services.leadership.of(group_name(name, number, topic.id))
        if led is None or led.broker is None:
            self._again(life, markers, partition, pause)
            return
        marker = AppendMarker(
            markers.producer_id, markers.producer_epoch, markers.commit, markers.coordinator_epoch,
            markers.transaction_version,
        )  # fmt: skip
        address = replica_address(group_name(name, number, topic.id), led.broker)
        message: object = marker
        if name == GROUPS_TOPIC:
            address, message = coordinator_address(name, number, led.broker), EndTransaction(marker)
        self.ask(address, message, partial(self._marked, life, markers, partition, pause), timeout=ASK_SECONDS)

    def _knows(self, partition: TopicPartition) -> bool:
        topic = self._services.metadata.topic(partition[0])
        return topic is not None and 0 <= partition[1] < len(topic.partitions)

    def _look_for(self, life: int, markers: Markers, partition: TopicPartition, pause: float, question: str) -> None:
        """A partition that is not known here: it is gone, or was made and this broker has not heard of it."""
        if question and self._services.metadata.answer_to(question) is not None:
            self._written(life, markers, partition)
            return
        if pause < (RETRY_SECONDS_MAX if question else ASK_AFTER_SECONDS):
            self._again(life, markers, partition, pause, question)
            return
        asked = AlterConfigs(self._question(), partition[0], (), validate_only=True)

        def answered(future: Future[Any]) -> None:
            told = orjson.loads(future.get().answer)["error"] if future.exception is None else ErrorCode.NOT_CONTROLLER
            is_answered = told not in (ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT)
            self._again(life, markers, partition, RETRY_SECONDS, asked.request_id if is_answered else "")

        self.ask(Address("controller", "", self.node.broker), asked, answered, timeout=ASK_SECONDS)

    def _question(self) -> str:
        return str(uuid.UUID(int=self._services.rng.getrandbits(128), version=4))

    def _marked(
        self, life: int, markers: Markers, partition: TopicPartition, pause: float, future: Future[Any]
    ) -> None:
        if future.exception is not None:
            self._again(life, markers, partition, pause)
            return
        error = ErrorCode(future.get().error)
        if error in _OVER:
            self._written(life, markers, partition)
        elif error != ErrorCode.TRANSACTION_COORDINATOR_FENCED:  # else another coordinator has taken over
            self._again(life, markers, partition, pause)

    def _again(self, life: int, markers: Markers, partition: TopicPartition, pause: float, question: str = "") -> None:
        if life == self._life:
            self.after(pause, _SendAgain(life, markers, partition, min(2 * pause, RETRY_SECONDS_MAX), question))

    def _written(self, life: int, markers: Markers, partition: TopicPartition) -> None:
        if life == self._life and isinstance(self._machine, TransactionMachine):
            self.act("markers", partial(self._machine.markers_written, markers, (partition,), self._moment))

    # -- producer ids ----------------------------------------------------------------------------------------------

    def _take_producer_ids(self) -> None:
        life = self._life

        def answered(future: Future[Any]) -> None:
            machine = self._machine
            if life != self._life or not isinstance(machine, TransactionMachine):
                return
            told = orjson.loads(future.get().answer) if future.exception is None else {"error": -1}
            if told["error"] == ErrorCode.NONE:
                ids = range(told["first"], told["first"] + told["count"])
                self.act("producer ids", partial(machine.give_producer_ids, ids, self._moment))
            else:
                self.act("missing producer ids", partial(machine.refuse_producer_ids, self._moment))

        self.ask(Address("controller", "", self.node.broker), TakeProducerIds(""), answered, timeout=ASK_SECONDS)

    def _offsets_partition(self, group: str) -> int:
        """Where a group's offsets are. Whoever routes requests has made the topic."""
        topic = self._services.metadata.topic(GROUPS_TOPIC)
        assert topic is not None, f"{GROUPS_TOPIC} is not made yet"
        return partition_of(group, len(topic.partitions))
