"""A producer's batches against a broker that numbers records as Kafka's do, without sockets."""

from __future__ import annotations

import heapq
import threading
from collections import deque
from collections.abc import Callable
from itertools import count
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.error_codes import ErrorCode
from protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from protocol.records.batches import check_batches, records
from protocol.records.record import Record
from tools.client.errors import ClientError, ConnectionLost, KafkaError, TimedOut
from tools.client.metadata import TopicPartition, View
from tools.client.network.broker import Patience
from tools.client.network.cluster import Cluster
from tools.client.network.connection import Ask
from tools.client.network.loop import Timer
from tools.client.writing.batch import Batch
from tools.client.writing.partition_queue import PartitionQueue
from tools.client.writing.sender import Sender, Sending

WHERE = TopicPartition("orders", 0)
TOPIC_ID = b"i" * 16
DELIVERY = 30.0


class VirtualLoop:
    """A loop whose time passes when a test says so."""

    def __init__(self) -> None:
        self.time = 0.0
        self._numbers = count()
        self._timers: list[tuple[float, int, Timer]] = []
        self.ends: list[Callable[[ClientError], object]] = []

    def now(self) -> float:
        return self.time

    def after(self, seconds: float, call: Callable[[], object]) -> Timer:
        timer = Timer(self.time + max(seconds, 0.0), call)
        heapq.heappush(self._timers, (timer.when, next(self._numbers), timer))
        return timer

    def at_end(self, call: Callable[[ClientError], object]) -> None:
        self.ends.append(call)

    def pass_time(self, seconds: float) -> None:
        until = self.time + seconds
        while self._timers and self._timers[0][0] <= until:
            when, _, timer = heapq.heappop(self._timers)
            self.time = max(self.time, when)
            if timer.call is not None:
                timer.call()
        self.time = until


class NumberingBroker:
    """Takes a batch if its sequence follows, recognises the last five, and refuses anything else."""

    def __init__(self) -> None:
        self.log: list[bytes] = []
        self.refuses: set[bytes] = set()
        self._epoch = -1
        self._next_sequence = 0
        self._last: deque[tuple[int, int, int]] = deque(maxlen=5)

    def forget_producer(self) -> None:
        """Like a broker whose producer state expired."""
        self._epoch, self._next_sequence = -1, 0
        self._last.clear()

    def append(self, data: Any) -> tuple[ErrorCode, int]:
        (header,) = check_batches(data).headers
        values = [record.value or b"" for record in records(data, limit=1 << 20)]
        if header.producer_epoch < self._epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH, -1
        for sequence, size, offset in self._last:
            if header.producer_epoch == self._epoch and (sequence, size) == (header.base_sequence, len(values)):
                return ErrorCode.NONE, offset
        expected = 0 if header.producer_epoch > self._epoch else self._next_sequence
        if header.base_sequence != expected:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
        if self.refuses.intersection(values):
            return ErrorCode.INVALID_RECORD, -1
        if header.producer_epoch > self._epoch:
            self._last.clear()
        self._epoch, self._next_sequence = header.producer_epoch, header.base_sequence + len(values)
        offset = len(self.log)
        self._last.append((header.base_sequence, len(values), offset))
        self.log += values
        return ErrorCode.NONE, offset


class World:
    """A sender, the cluster as it sees it, and one connection to the broker, on which requests wait in order."""

    def __init__(self) -> None:
        self.loop = VirtualLoop()
        self.broker = NumberingBroker()
        self.waiting: deque[Ask] = deque()
        self.view = View().updated(
            MetadataResponse(
                brokers=[MetadataResponseBroker(node_id=1, host="there", port=9092)],
                topics=[
                    MetadataResponseTopic(
                        name=WHERE.topic,
                        topic_id=TOPIC_ID,
                        partitions=[MetadataResponsePartition(partition_index=0, leader_id=1, leader_epoch=1)],
                    )
                ],
            )
        )
        self.patience = Patience()
        self.error: ClientError | None = None
        self.refreshes = 0
        self.changed = threading.Condition(threading.Lock())
        self.sender = Sender(cast(Cluster, self), Sending(linger=0.0, delivery=DELIVERY), self.changed)
        self.queue = PartitionQueue(WHERE)
        self.batches: list[Batch] = []
        self.values: list[list[bytes]] = []
        self._numbers = count()

    # what a sender wants of a cluster

    def listen(self, call: Callable[[], object]) -> None:
        pass

    def way(self, broker: int) -> World:
        assert broker == 1
        return self

    def anybody(self) -> World:
        return self

    def refresh(self) -> None:
        self.refreshes += 1

    def want(self, topics: list[str]) -> None:
        pass

    def ask(self, ask: Ask) -> None:
        self.waiting.append(ask)

    # what a test does

    def send(self, size: int) -> Batch:
        values = [b"%d" % next(self._numbers) for _ in range(size)]
        batch = Batch(WHERE, self.loop.now() + DELIVERY, self.changed)
        batch.records = [Record(at, 0, None, value) for at, value in enumerate(values)]
        batch.count, batch.size, batch.is_open = size, size, False
        batch.encode(Sending().codec)
        self.sender.incomplete[batch] = None
        self.queue.add(batch)
        self.batches.append(batch)
        self.values.append(values)
        self.sender.opened(self.queue, batch)
        self.sender.sealed(self.queue)
        return batch

    def answer(self, error: ErrorCode | None = None) -> None:
        """The broker does the first request that waits, or answers with an error without doing it."""
        ask = self.waiting.popleft()
        ask.then(self._done(ask, error))

    def _done(self, ask: Ask, error: ErrorCode | None) -> object:
        if isinstance(ask.message, InitProducerIdRequest):
            return InitProducerIdResponse(error_code=error or 0, producer_id=7, producer_epoch=0)
        assert isinstance(ask.message, ProduceRequest)
        (topic,) = ask.message.topic_data
        (partition,) = topic.partition_data
        code, offset = (error, -1) if error is not None else self.broker.append(partition.records)
        told = PartitionProduceResponse(index=0, error_code=code, base_offset=offset)
        return ProduceResponse(responses=[TopicProduceResponse(topic_id=TOPIC_ID, partition_responses=[told])])

    def break_connection(self, done: int) -> None:
        """All that waits is lost; of so many the answer alone."""
        lost, self.waiting = list(self.waiting), deque()
        for ask in lost[:done]:
            self._done(ask, None)
        for ask in lost:
            ask.then(ConnectionLost("cut"))

    def settle(self) -> None:
        """From now on all goes well."""
        for _ in range(1000):
            while self.waiting:
                self.answer()
            if all(batch.is_done for batch in self.batches):
                return
            self.loop.pass_time(0.3)
        raise AssertionError("it does not end")


@pytest.fixture
def world() -> World:
    world = World()
    world.send(1)
    world.settle()
    return world


def test_id_is_asked_for_once_and_first() -> None:
    world = World()
    world.send(1)
    world.send(2)
    assert [type(ask.message) for ask in world.waiting] == [InitProducerIdRequest]
    world.settle()
    assert world.broker.log == [b"0", b"1", b"2"]


def test_at_most_five_requests_are_under_way(world: World) -> None:
    for _ in range(9):
        world.send(1)
    assert len(world.waiting) == 5
    world.answer()
    assert len(world.waiting) == 5


def test_batch_whose_answer_was_lost_is_not_there_twice(world: World) -> None:
    for _ in range(3):
        world.send(2)
    world.break_connection(done=2)
    assert world.refreshes
    world.settle()
    assert world.broker.log == [b"%d" % number for number in range(7)]
    assert [batch.base_offset for batch in world.batches] == [0, 1, 3, 5]


def test_refused_batch_takes_no_other_with_it(world: World) -> None:
    world.broker.refuses = {b"2"}
    for _ in range(4):
        world.send(1)
    world.settle()
    assert world.broker.log == [b"0", b"1", b"3", b"4"]
    failed = [batch for batch in world.batches if batch.error is not None]
    assert [batch.order for batch in failed] == [2]
    error = failed[0].error
    assert isinstance(error, KafkaError)
    assert error.name == "INVALID_RECORD"


def test_broker_that_forgot_the_producer_is_sent_the_rest_under_the_next_epoch(world: World) -> None:
    world.broker.forget_producer()
    for _ in range(7):
        world.send(1)
    world.settle()
    assert world.broker.log == [b"%d" % number for number in range(8)]
    assert world.queue.identity.epoch == 1


def test_batch_expires_when_its_time_is_over(world: World) -> None:
    batch = world.send(1)
    while not batch.is_done:
        if world.waiting:
            world.answer(ErrorCode.NOT_ENOUGH_REPLICAS)
        world.loop.pass_time(1.0)
    assert isinstance(batch.error, TimedOut)
    assert "NOT_ENOUGH_REPLICAS" in str(batch.error)  # by an answer or by the clock
    assert world.sender.buffered == 0 or not world.sender.incomplete
    world.send(1)
    world.settle()
    assert world.broker.log == [b"0", b"2"]


def test_fatal_error_fails_everything(world: World) -> None:
    some = [world.send(1) for _ in range(3)]
    world.answer(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    assert all(batch.error is not None for batch in some)
    assert isinstance(world.sender.fatal, KafkaError)


_STEPS = st.one_of(
    st.tuples(st.just("send"), st.integers(1, 3)),
    st.tuples(st.just("answer"), st.sampled_from([None, None, ErrorCode.NOT_ENOUGH_REPLICAS])),
    st.tuples(st.just("answer"), st.sampled_from([None, ErrorCode.NOT_LEADER_OR_FOLLOWER])),
    st.tuples(st.just("cut"), st.integers(0, 5)),
    st.tuples(st.just("time"), st.floats(0.01, 2.0)),
    st.tuples(st.just("refuse"), st.just(0)),
)


@given(st.lists(_STEPS, max_size=40))
@settings(max_examples=150)
def test_whatever_happens_records_are_there_once_and_in_order(steps: list[tuple[str, Any]]) -> None:
    world = World()
    for step, value in steps:
        if step == "send":
            world.send(value)
        elif step == "answer" and world.waiting:
            world.answer(value)
        elif step == "cut":
            world.break_connection(done=value)
        elif step == "time":
            world.loop.pass_time(value)
        elif step == "refuse" and world.values:
            world.broker.refuses.add(world.values[-1][0])
    world.settle()
    expected: list[bytes] = []
    for batch, values in zip(world.batches, world.values, strict=True):
        if batch.error is None:
            assert batch.base_offset == len(expected)
            expected += values
        elif isinstance(batch.error, TimedOut):  # then the outcome is unknown
            at = len(expected)
            expected += values if world.broker.log[at : at + len(values)] == values else []
        else:
            assert world.broker.refuses.intersection(values)
    assert world.broker.log == expected
