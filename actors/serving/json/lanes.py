"""The records of one connection on their way to the leaders of their partitions.

There is a lane for each partition, and in a lane one batch at a time is under way. The next one is sent when it is
answered, so a batch that has to be sent again is never overtaken. Every batch has the connection's producer id and the
lane's next sequence, by which a leader recognises a batch that it has already: it answers with its offset. What happens
if a batch is given up (its time is over):

- it was certainly not written: the next batch gets its sequence;
- it may have been written: the lane goes on with a new producer id, under which every sequence is valid.

A client that wants to send again over another connection brings its own producer id and sequences.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from actors.messages.replica import AppendRecords, group_name, replica_address
from actors.runtime import Payload
from actors.serving.json.at_leader import AtLeader
from actors.serving.question import PAUSE_SECONDS_MAX
from protocol.error_codes import ErrorCode
from protocol.late_attrs import define
from protocol.records.batches import build_batch
from protocol.records.compression import Codec
from protocol.records.record import Record

if TYPE_CHECKING:
    from actors.serving.connection import Connection
    from log.machines.metadata.metadata import Topic
    from log.slices import Slices

LANES_MAX = 10_000
_SEQUENCES = 1 << 31

Written = Callable[[int, str, int], None]
"""written(error, message, base offset)"""
Taken = Callable[[int | None], None]


@define(slots=True, eq=False)
class Batch:
    """Records for one partition. `producer` and `sequence` are the client's own, if it has any."""

    records: list[Record]
    acks: int
    codec: Codec
    deadline: float
    written: Written
    producer: int | None = None
    sequence: int = 0


class Lanes:
    """The lanes of one connection."""

    __slots__ = ("_connection", "_lanes", "_producer_id", "_takers", "_turns")

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._lanes: dict[tuple[str, int], _Lane] = {}
        self._producer_id: int | None = None
        self._takers: list[Taken] = []
        self._turns = int(connection.address.name)  # so that connections do not all begin with the same partition

    def next_partition(self, topic: Topic) -> int:
        """The partition of records that name none: another one each time, if possible one with a leader."""
        there = len(topic.partitions)
        for _ in range(there):
            self._turns += 1
            led = self._connection.serving.led(topic, self._turns % there)
            if led is not None and led.broker is not None:
                break
        return self._turns % there

    def put(self, topic: Topic, number: int, batch: Batch) -> None:
        """Write this after everything that was put there before."""
        lane = self._lanes.get((topic.id, number))
        if lane is None:
            if len(self._lanes) >= LANES_MAX:  # those that begin again need an id under which nothing is known of them
                self._lanes = {key: lane for key, lane in self._lanes.items() if lane.is_busy}
                self._producer_id = None
            lane = self._lanes[topic.id, number] = _Lane(self._connection, self, topic, number)
        lane.put(batch)

    def take_producer_id(self, then: Taken) -> None:
        """The producer id of the connection, or None if no controller gives one now."""
        if self._producer_id is not None:
            then(self._producer_id)
            return
        self._takers.append(then)
        if len(self._takers) == 1:
            self._connection.serving.take_producer_id(self._connection.controller, self._taken)

    def give_up_producer_id(self, producer_id: int) -> None:
        """The next lane that asks gets another id; a lane that has this one may keep it."""
        if self._producer_id == producer_id:
            self._producer_id = None

    def _taken(self, producer_id: int | None) -> None:
        self._producer_id = producer_id
        takers, self._takers = self._takers, []
        self._connection.in_slices(_give(producer_id, takers))


def _give(producer_id: int | None, takers: list[Taken]) -> Slices[None]:
    """Each of the lanes that wait, perhaps thousands, sends its first batch with this id."""
    for then in takers:
        yield None
        then(producer_id)


class _Lane:
    """The lane of one partition."""

    __slots__ = ("_batches", "_connection", "_lanes", "_number", "_producer_id", "_sequence", "_topic", "is_busy")

    def __init__(self, connection: Connection, lanes: Lanes, topic: Topic, number: int) -> None:
        self._connection = connection
        self._lanes = lanes
        self._topic, self._number = topic, number
        self._batches: deque[Batch] = deque()
        self._producer_id: int | None = None
        self._sequence = 0
        """Invariant: no leader has a batch of this producer id from here on."""
        self.is_busy = False
        """Is the first batch under way?"""

    def put(self, batch: Batch) -> None:
        self._batches.append(batch)
        self._go_on()

    def _go_on(self) -> None:
        while self._batches and not self.is_busy:
            self.is_busy = True
            batch = self._batches[0]
            if batch.acks == 0:
                self._send_and_forget(batch)
            else:
                self._write(batch)

    def _write(self, batch: Batch) -> None:
        if batch.producer is not None:
            self._send(batch, batch.producer, batch.sequence)
        elif self._producer_id is not None:
            self._send(batch, self._producer_id, self._sequence)
        else:
            self._lanes.take_producer_id(self._producer_id_taken)

    def _producer_id_taken(self, producer_id: int | None) -> None:
        connection, batch = self._connection, self._batches[0]
        self._producer_id, self._sequence = producer_id, 0
        if producer_id is not None:
            self._write(batch)
        elif connection.now + PAUSE_SECONDS_MAX < batch.deadline:
            connection.later(PAUSE_SECONDS_MAX, lambda: self._write(batch))
        else:
            self._written(ErrorCode.COORDINATOR_NOT_AVAILABLE, "no controller gives a producer id", -1)
            self._go_on()

    def _send(self, batch: Batch, producer_id: int, sequence: int) -> None:
        # As bytes: a replica here stamps what it is given, and what is sent again must not be what an earlier leader
        # may still be sending to its followers.
        data = bytes(
            build_batch(
                batch.records, codec=batch.codec, producer_id=producer_id, producer_epoch=0, base_sequence=sequence
            )
        )

        def append(milliseconds: int) -> AppendRecords:
            return AppendRecords(batch.acks, milliseconds, Payload(memoryview(data)))

        AtLeader(self._connection, self._topic, self._number, batch.deadline, append, self._answered)

    def _answered(self, asked: AtLeader) -> None:
        batch = self._batches[0]
        if batch.producer is None:
            if asked.error == ErrorCode.NONE:
                self._sequence = (self._sequence + len(batch.records)) % _SEQUENCES
            elif asked.error in (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.INVALID_PRODUCER_EPOCH):
                # An earlier batch, which its leader alone had acknowledged (acks 1), died with it.
                self._retire_producer_id()
                self._write(batch)
                return
            elif asked.in_doubt:
                self._retire_producer_id()
        base = asked.result.base_offset if asked.error == ErrorCode.NONE else -1
        self._written(asked.error, asked.message, base)
        self._go_on()

    def _retire_producer_id(self) -> None:
        assert self._producer_id is not None
        self._lanes.give_up_producer_id(self._producer_id)
        self._producer_id = None

    def _send_and_forget(self, batch: Batch) -> None:
        """acks 0: at most once, and no answer has the outcome."""
        topic, number = self._topic, self._number
        led = self._connection.serving.led(topic, number)
        if led is None or led.broker is None:
            self._written(ErrorCode.LEADER_NOT_AVAILABLE, f"nobody leads {topic.name}-{number}", -1)
            return
        data = build_batch(batch.records, codec=batch.codec)
        append = AppendRecords(0, 0, Payload(memoryview(data)))
        leader = replica_address(group_name(topic.name, number, topic.id), led.broker)
        self._connection.ask(leader, append, lambda _answer: None)
        self._written(ErrorCode.NONE, "", -1)

    def _written(self, error: int, message: str, base_offset: int) -> None:
        batch = self._batches.popleft()
        self.is_busy = False
        batch.written(error, message, base_offset)
