"""`transaction_coordinator/3@1`: the transactions of one partition of __transaction_state, where this broker leads it.

When the record of a prepared transaction is committed, a marker goes to every partition of the transaction: to its
leader, or, for offsets of groups, to the group coordinator, the only writer of that partition. The marker is sent again
until the partition has it, or its topic is deleted. A topic that this broker does not know need not be deleted: the
broker may not have heard of it yet. It is deleted if the broker still does not know it after it has applied all
committed metadata (SyncMetadata).

A marker that is answered TRANSACTION_COORDINATOR_FENCED usually means that another broker coordinates the transaction
now. If a majority confirms that this broker still leads the partition, no other broker can: a marker of an
administrator (WriteTxnMarkers) named a higher coordinator epoch. Then the marker is sent again with the highest leader
epoch of __transaction_state, which WriteTxnMarkers cannot exceed.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import Any

from attrs import evolve

from actors.coordination.coordinator import Coordinator
from actors.messages.controller import Outcome, ProducerIdsGiven, SyncMetadata
from actors.messages.coordinator import (
    GROUPS_TOPIC,
    TRANSACTIONS_TOPIC,
    EndTransaction,
    coordinator_address,
    partition_of,
)
from actors.messages.replica import AppendMarker, ConfirmLeadership, group_name, replica_address
from actors.raft.leadership import highest_epoch
from actors.runtime import Address, Future, handles
from log.machines.coordination import Effects
from log.machines.metadata.plans import TakeProducerIds
from log.machines.transaction.effects import Markers, TopicPartition, TransactionEffects
from log.machines.transaction.machine import TransactionMachine
from protocol.error_codes import ErrorCode
from protocol.late_attrs import frozen

MARKERS_AT_ONCE = 500
"""A transaction may have thousands of partitions: other work goes on after this many messages."""
ASK_SECONDS = 10.0
RETRY_SECONDS, RETRY_SECONDS_MAX = 0.02, 0.5
ASK_AFTER_SECONDS = 0.1
_OVER = frozenset({ErrorCode.NONE, ErrorCode.INVALID_PRODUCER_EPOCH})
"""The partition has the marker, or the transaction has ended there."""


@frozen(slots=True)
class _Send:
    """A marker on its way to one partition; also the message of a timer that sends it again."""

    life: int
    markers: Markers
    partition: TopicPartition
    pause: float = RETRY_SECONDS
    is_raised: bool = False
    """Does the marker name the highest leader epoch of __transaction_state instead of this coordinator's?"""


@frozen(slots=True)
class _SendMore:
    """To the coordinator itself: send the next markers."""


class TransactionCoordinator(Coordinator):
    """The coordinator of transactions; the machine is in log/machines/transaction/."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._unsent: deque[_Send] = deque()
        """Markers that were not sent yet, in the order of their decisions."""

    def machine(self, epoch: int) -> TransactionMachine:
        return TransactionMachine(
            self._context.transactions, epoch, self._offsets_partition, self._knows, self.record_bytes_max
        )

    def clock(self) -> float:
        """Calendar time: transactions last for minutes, and transactional ids for days."""
        return self._context.calendar.elapsed()

    def on_served(self, flight: list[Effects]) -> None:
        is_sending, wants_producer_ids = bool(self._unsent), False
        for effects in flight:
            assert isinstance(effects, TransactionEffects)
            for markers in effects.markers:
                self._unsent.extend([_Send(self._life, markers, partition) for partition in markers.partitions])
            wants_producer_ids |= effects.wants_producer_ids
        if not is_sending:
            self.send_more(_SendMore())
        if wants_producer_ids:
            self._take_producer_ids()

    # -- markers ---------------------------------------------------------------------------------------------------

    @handles(_SendMore)
    def send_more(self, _message: _SendMore) -> None:
        unsent = self._unsent
        for _ in range(min(len(unsent), MARKERS_AT_ONCE)):
            self.send_marker(unsent.popleft())  # it sends no marker of an earlier life
        if unsent:
            self.after(0.0, _SendMore())

    @handles(_Send)
    def send_marker(self, one: _Send) -> None:
        if one.life != self._life:
            return
        (name, number), markers = one.partition, one.markers
        topic = self._context.metadata.topic(name)
        if topic is None or not self._knows(one.partition):
            self._look_for(one)
            return
        led = self._context.leadership.of(group_name(name, number, topic.id))
        if led is None or led.broker is None:
            self._again(one)
            return
        epoch = max(markers.coordinator_epoch, self._highest_epoch()) if one.is_raised else markers.coordinator_epoch
        marker = AppendMarker(
            markers.producer_id, markers.producer_epoch, markers.commit, epoch, markers.transaction_version
        )
        address = replica_address(group_name(name, number, topic.id), led.broker)
        message: object = marker
        if name == GROUPS_TOPIC:
            address, message = coordinator_address(name, number, led.broker), EndTransaction(marker)
        self.ask(address, message, partial(self._marked, one, epoch), timeout=ASK_SECONDS)

    def _highest_epoch(self) -> int:
        return highest_epoch(self._context.metadata, self._context.leadership, TRANSACTIONS_TOPIC)

    def _knows(self, partition: TopicPartition) -> bool:
        topic = self._context.metadata.topic(partition[0])
        return topic is not None and 0 <= partition[1] < len(topic.partitions)

    def _look_for(self, one: _Send) -> None:
        """A partition that is not known here: it was deleted, or this broker has not heard of it yet."""
        if one.pause < ASK_AFTER_SECONDS:
            self._again(one)
            return

        def synced(future: Future[Any]) -> None:
            if one.life != self._life:
                return
            if Outcome.of(future).error == ErrorCode.NONE and not self._knows(one.partition):
                self._written(one)
            else:
                self._again(evolve(one, pause=RETRY_SECONDS))

        self.ask(Address("controller", "", self.node.broker), SyncMetadata(), synced, timeout=ASK_SECONDS)

    def _marked(self, one: _Send, epoch: int, future: Future[Any]) -> None:
        if one.life != self._life:
            return
        error = None if future.exception is not None else ErrorCode(future.get().error)
        if error in _OVER:
            self._written(one)
        elif error == ErrorCode.TRANSACTION_COORDINATOR_FENCED:
            self.ask(self._replica, ConfirmLeadership(self._epoch), partial(self._confirmed, one, epoch))
        else:
            self._again(one)

    def _confirmed(self, one: _Send, epoch: int, future: Future[Any]) -> None:
        """The marker was fenced. If this broker still leads, no other coordinator has fenced it."""
        if one.life != self._life:
            return
        if future.exception is not None or future.get().error != ErrorCode.NONE:
            self._again(one)  # until this coordinator hears of the new leader
            return
        if not one.is_raised:
            self.log.warning(
                "coordinator: %s still leads, and its marker for producer %d in %s-%d was fenced: another marker names "
                "a coordinator epoch above %d; sending it with the highest epoch of %s",
                self.address, one.markers.producer_id, *one.partition, epoch, TRANSACTIONS_TOPIC,
            )  # fmt: skip
        self._again(evolve(one, is_raised=True))

    def _again(self, one: _Send) -> None:
        if one.life == self._life:
            self.after(one.pause, evolve(one, pause=min(2 * one.pause, RETRY_SECONDS_MAX)))

    def _written(self, one: _Send) -> None:
        if one.life == self._life and isinstance(self._machine, TransactionMachine):
            self.act("markers", partial(self._machine.markers_written, one.markers, (one.partition,), self._moment))

    # -- producer ids ----------------------------------------------------------------------------------------------

    def _take_producer_ids(self) -> None:
        life = self._life

        def answered(future: Future[Any]) -> None:
            machine = self._machine
            if life != self._life or not isinstance(machine, TransactionMachine):
                return
            outcome = Outcome.of(future)
            if outcome.error == ErrorCode.NONE:
                ids = outcome.facts_as(ProducerIdsGiven).ids
                self.act("producer ids", partial(machine.give_producer_ids, ids, self._moment))
            else:
                self.act("missing producer ids", partial(machine.refuse_producer_ids, self._moment))

        self.ask(Address("controller", "", self.node.broker), TakeProducerIds(""), answered, timeout=ASK_SECONDS)

    def _offsets_partition(self, group: str) -> int:
        """The partition of a group's offsets. The topic was created before the request was routed here."""
        topic = self._context.metadata.topic(GROUPS_TOPIC)
        assert topic is not None, f"{GROUPS_TOPIC} is not created yet"
        return partition_of(group, len(topic.partitions))
