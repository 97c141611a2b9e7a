"""Connections and metadata against a broker that answers by script: versions, timeouts, reconnects, leaders, epochs."""

from __future__ import annotations

import socket
import threading
from typing import Any

import pytest

from protocol.apis import API_VERSIONS, FETCH, INIT_PRODUCER_ID, LIST_OFFSETS, METADATA, PRODUCE
from protocol.error_codes import ErrorCode
from protocol.messages.fetch import EpochEndOffset, FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from protocol.messages.init_producer_id import InitProducerIdResponse
from protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from protocol.messages.produce import PartitionProduceResponse, ProduceRequest, ProduceResponse, TopicProduceResponse
from protocol.records.batches import build_batch, read_header
from protocol.records.record import Record
from protocol.schema.declaration import Versions
from tests.actors.waiting import wait_until
from tests.tools.client.scripted_broker import HANG_UP, SILENCE, ScriptedBroker
from tools.client.consumer import Consumer, Corrupt
from tools.client.errors import ClientClosed, KafkaError, LogTruncated, NotSupported, RequestTimedOut, TimedOut
from tools.client.network.broker import Patience
from tools.client.network.cluster import Cluster
from tools.client.producer import Producer

HASTY = Patience(connect=5.0, request=5.0, retry=0.001, retry_max=0.01)
WHERE = ("orders", 0)


def named(_: Any, __: int) -> InitProducerIdResponse:
    return InitProducerIdResponse(producer_id=7, producer_epoch=0)


def produced(*told: PartitionProduceResponse | object) -> Any:
    """Answers produce requests with these, one after the other, then always with the last."""
    left = list(told)

    def answer(request: ProduceRequest, _: int) -> object:
        one = left.pop(0) if len(left) > 1 else left[0]
        if not isinstance(one, PartitionProduceResponse):
            return one
        topic = request.topic_data[0]
        return ProduceResponse(
            responses=[TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=[one])]
        )

    return answer


def test_highest_common_version_is_spoken() -> None:
    answers = {PRODUCE: produced(PartitionProduceResponse(base_offset=5)), INIT_PRODUCER_ID: named}
    old = {METADATA: Versions(0, 9), PRODUCE: Versions(3, 8), INIT_PRODUCER_ID: Versions(0, 1)}
    for versions, expected in ((None, (13, 13)), (old, (9, 8))):
        with ScriptedBroker(answers, {"orders": 1}, versions) as broker, Producer(broker.bootstrap) as producer:
            assert producer.send("orders", b"x").result(10.0).offset == 5
            assert broker.versions_asked(METADATA) == {expected[0]}
            assert broker.versions_asked(PRODUCE) == {expected[1]}


@pytest.mark.parametrize("highest", [0, 2, 3])
def test_older_api_versions_are_agreed_on(highest: int) -> None:
    with ScriptedBroker({}, {"orders": 1}, {API_VERSIONS: Versions(0, highest)}) as broker:
        cluster = Cluster(broker.bootstrap)
        try:
            assert len(cluster.topic("orders", 10.0).partitions) == 1
        finally:
            cluster.close()


def test_api_that_is_not_served_is_told() -> None:
    with ScriptedBroker({}, {"orders": 1}) as broker:
        cluster = Cluster(broker.bootstrap)
        try:
            with pytest.raises(NotSupported, match=r"ListOffsets: 127\.0\.0\.1:\d+ does not speak it"):
                cluster.call(LIST_OFFSETS, ListOffsetsRequest(), seconds=5.0)
        finally:
            cluster.close()


def test_silent_broker_is_given_up() -> None:
    with ScriptedBroker({LIST_OFFSETS: lambda *_: SILENCE}, {"orders": 1}) as broker:
        cluster = Cluster(broker.bootstrap)
        try:
            with pytest.raises(RequestTimedOut, match="did not answer in time"):
                cluster.call(LIST_OFFSETS, ListOffsetsRequest(), seconds=0.05)
            assert cluster.topic("orders", 10.0).name == "orders"  # over the next connection
        finally:
            cluster.close()


def test_broker_that_hangs_up_is_called_again() -> None:
    answers = {
        PRODUCE: produced(HANG_UP, HANG_UP, PartitionProduceResponse(base_offset=5)),
        INIT_PRODUCER_ID: named,
    }
    with ScriptedBroker(answers, {"orders": 1}) as broker, Producer(broker.bootstrap, patience=HASTY) as producer:
        assert producer.send("orders", b"x").result(10.0).offset == 5
        sequences = [
            read_header(request.topic_data[0].partition_data[0].records).base_sequence
            for request in broker.requests(PRODUCE)
        ]
        assert sequences == [0, 0, 0]


def test_stranger_is_recognised() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        cluster = Cluster(f"127.0.0.1:{listener.getsockname()[1]}", patience=HASTY)
        try:
            cluster.loop.soon(cluster.refresh)
            stranger, _ = listener.accept()
            with stranger:
                stranger.recv(1000)
                stranger.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                wait_until(lambda: cluster.error, lambda: "nothing was noticed")
                assert "does not speak Kafka's protocol" in str(cluster.error)
        finally:
            cluster.close()


def test_any_of_the_bootstrap_list_will_do() -> None:
    with ScriptedBroker({}, {"orders": 1}) as broker:
        cluster = Cluster(f"127.0.0.1:1,{broker.bootstrap}", patience=HASTY)
        try:
            assert cluster.topic("orders", 10.0).name == "orders"
        finally:
            cluster.close()


def test_closing_answers_who_waits() -> None:
    with ScriptedBroker({LIST_OFFSETS: lambda *_: SILENCE}, {"orders": 1}) as broker:
        consumer = Consumer(broker.bootstrap)
        consumer.assign({WHERE: -1})
        consumer.close()
        with pytest.raises(ClientClosed):
            consumer.position(WHERE)


@pytest.mark.parametrize(
    "error",
    [ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.REQUEST_TIMED_OUT],
)
def test_retriable_errors_of_a_partition_are_retried(error: ErrorCode) -> None:
    failed, done = PartitionProduceResponse(error_code=error), PartitionProduceResponse(base_offset=3)
    answers = {PRODUCE: produced(failed, failed, done), INIT_PRODUCER_ID: named}
    with ScriptedBroker(answers, {"orders": 1}) as broker, Producer(broker.bootstrap, patience=HASTY) as producer:
        assert producer.send("orders", b"x").result(10.0).offset == 3


def test_refusal_is_told_with_kafkas_name_and_the_brokers_words() -> None:
    refused = PartitionProduceResponse(error_code=ErrorCode.INVALID_RECORD, error_message="no key")
    answers = {PRODUCE: produced(refused), INIT_PRODUCER_ID: named}
    with ScriptedBroker(answers, {"orders": 1}) as broker, Producer(broker.bootstrap) as producer:
        delivery = producer.send("orders", b"x")
        with pytest.raises(KafkaError, match="orders-0: INVALID_RECORD: no key"):
            delivery.result(10.0)


def test_fatal_error_ends_the_producer() -> None:
    fatal = PartitionProduceResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    answers = {PRODUCE: produced(fatal), INIT_PRODUCER_ID: named}
    with ScriptedBroker(answers, {"orders": 1}) as broker, Producer(broker.bootstrap) as producer:
        for _ in range(2):
            with pytest.raises(KafkaError, match="CLUSTER_AUTHORIZATION_FAILED"):
                producer.send("orders", b"x").result(10.0)


def test_record_that_nobody_takes_is_late_in_the_end() -> None:
    failed = PartitionProduceResponse(error_code=ErrorCode.NOT_ENOUGH_REPLICAS)
    answers = {PRODUCE: produced(failed), INIT_PRODUCER_ID: named}
    with (
        ScriptedBroker(answers, {"orders": 1}) as broker,
        Producer(broker.bootstrap, patience=HASTY, delivery=0.1) as producer,
    ):
        delivery = producer.send("orders", b"x")
        with pytest.raises(TimedOut, match="NOT_ENOUGH_REPLICAS"):
            delivery.result(10.0)


# -- consumers ---------------------------------------------------------------------------------------------------------


def fetched(*told: PartitionData) -> Any:
    """Answers fetches with these, one after the other; then with nothing."""
    left = list(told)

    def answer(request: FetchRequest, version: int) -> FetchResponse:
        data = left.pop(0) if left else PartitionData(records=b"", high_watermark=100)
        topic = FetchableTopicResponse(topic="orders", topic_id=b"orders".ljust(16, b"\0"), partitions=[data])
        return FetchResponse(responses=[topic], session_id=77)

    return answer


def offsets_told(offset: int, *errors: ErrorCode) -> Any:
    """Answers questions for an offset with these errors, one after the other, then with this one."""
    left = list(errors)

    def answer(request: ListOffsetsRequest, version: int) -> ListOffsetsResponse:
        told = ListOffsetsPartitionResponse(error_code=left.pop(0) if left else ErrorCode.NONE, offset=offset)
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="orders", partitions=[told])])

    return answer


def some(offset: int, *values: bytes, epoch: int = 1) -> PartitionData:
    records = [Record(offset + at, 0, None, value) for at, value in enumerate(values)]
    data = build_batch(records, base_offset=offset, leader_epoch=epoch)
    return PartitionData(records=bytes(data), high_watermark=100)


def test_last_epoch_is_told_and_a_cut_log_is_noticed() -> None:
    cut = PartitionData(records=b"", diverging_epoch=EpochEndOffset(epoch=1, end_offset=1))
    with ScriptedBroker({FETCH: fetched(some(0, b"a", b"b", epoch=3), cut)}, {"orders": 1}) as broker:
        with Consumer(broker.bootstrap) as consumer:
            consumer.assign({WHERE: 0})
            assert len(consumer.poll(10.0)) == 1
            with pytest.raises(LogTruncated, match="orders-0: the log was cut at offset 1"):
                consumer.poll(10.0)
        asked = [one.partitions[0] for request in broker.requests(FETCH) for one in request.topics]
        assert [one.last_fetched_epoch for one in asked[:2]] == [-1, 3]


def test_cut_log_is_read_on_from_the_cut_if_that_is_wanted() -> None:
    cut = PartitionData(records=b"", diverging_epoch=EpochEndOffset(epoch=1, end_offset=1))
    script = fetched(some(0, b"a", b"b"), cut, some(1, b"c", epoch=4))
    is_read = threading.Event()

    def answer(request: FetchRequest, version: int) -> FetchResponse:
        if len(broker.requests(FETCH)) > 1:
            assert is_read.wait(60.0)
        response: FetchResponse = script(request, version)
        return response

    with (
        ScriptedBroker({FETCH: answer}, {"orders": 1}) as broker,
        Consumer(broker.bootstrap, auto_offset_reset="earliest") as consumer,
    ):
        consumer.assign({WHERE: 0})
        values: list[tuple[int, bytes | None]] = []
        while len(values) < 3:
            for records in consumer.poll(1.0).values():
                values += [(record.offset, record.value) for record in records]
                is_read.set()
    assert values == [(0, b"a"), (1, b"b"), (1, b"c")]


def test_a_cut_does_not_skip_what_was_fetched_and_not_yet_read() -> None:
    cut = PartitionData(records=b"", diverging_epoch=EpochEndOffset(epoch=1, end_offset=2))
    script = fetched(some(0, b"a", b"b", b"lost"), cut, some(0, b"a", b"b", b"c"))
    with (
        ScriptedBroker({FETCH: script}, {"orders": 1}) as broker,
        Consumer(broker.bootstrap, auto_offset_reset="earliest") as consumer,
    ):
        consumer.assign({WHERE: 0})
        wait_until(lambda: len(broker.requests(FETCH)) > 3, lambda: "the cut log is not asked for records")
        (records,) = consumer.poll(10.0).values()
    assert [(record.offset, record.value) for record in records] == [(0, b"a"), (1, b"b"), (2, b"c")]


def test_an_offset_out_of_range_does_not_skip_what_was_fetched_and_not_yet_read(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Retention, say, has deleted what comes next; with `latest`, what was fetched would never be seen."""
    gone = PartitionData(error_code=ErrorCode.OFFSET_OUT_OF_RANGE, records=b"")
    script = fetched(some(0, b"a", b"b"), gone, some(10, b"k"))
    with (
        ScriptedBroker({FETCH: script, LIST_OFFSETS: offsets_told(10)}, {"orders": 1}) as broker,
        Consumer(broker.bootstrap, auto_offset_reset="latest") as consumer,
    ):
        consumer.assign({WHERE: 0})
        wait_until(lambda: "has no offset 2" in caplog.text, lambda: "nothing is fetched ahead")
        values: list[tuple[int, bytes | None]] = []
        while len(values) < 3:
            (records,) = consumer.poll(10.0).values()
            values += [(record.offset, record.value) for record in records]
    assert values == [(0, b"a"), (1, b"b"), (10, b"k")]


def test_errors_of_fetches_pass() -> None:
    errors = [
        PartitionData(error_code=code, records=b"")
        for code in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.OFFSET_NOT_AVAILABLE)
    ]
    with (
        ScriptedBroker({FETCH: fetched(*errors, some(0, b"a"))}, {"orders": 1}) as broker,
        Consumer(broker.bootstrap, patience=HASTY) as consumer,
    ):
        consumer.assign({WHERE: 0})
        (records,) = consumer.poll(10.0).values()
        assert [record.value for record in records] == [b"a"]


def test_damaged_batch_is_told_after_what_was_good_and_can_be_gone_around() -> None:
    good, last = some(0, b"a", b"b"), some(3, b"c")
    damaged = bytearray(some(2, b"bad").records or b"")
    damaged[-2] ^= 1
    log = {0: bytes(good.records or b"") + bytes(damaged), 2: bytes(damaged), 3: bytes(last.records or b"")}

    def answer(request: FetchRequest, version: int) -> FetchResponse:
        (wanted,) = request.topics
        data = PartitionData(records=log.get(wanted.partitions[0].fetch_offset, b""), high_watermark=4)
        return FetchResponse(responses=[FetchableTopicResponse(topic_id=wanted.topic_id, partitions=[data])])

    with ScriptedBroker({FETCH: answer}, {"orders": 1}) as broker, Consumer(broker.bootstrap) as consumer:
        consumer.assign({WHERE: 0})
        assert next_values(consumer) == [b"a", b"b"]
        for _ in range(2):
            with pytest.raises(Corrupt, match=r"orders-0 at offset 2: .* CRC"):
                consumer.poll(10.0)
            assert consumer.position(WHERE) == 2
        consumer.seek(WHERE, 0)
        assert len(consumer.poll_batches(10.0)) == 1
        with pytest.raises(Corrupt, match="CRC"):
            consumer.poll_batches(10.0)
        consumer.seek(WHERE, 3)
        assert next_values(consumer) == [b"c"]


def next_values(consumer: Consumer) -> list[bytes | None]:
    (records,) = consumer.poll(10.0).values()
    return [record.value for record in records]


def test_offsets_of_a_leader_that_moved_are_asked_again() -> None:
    moved = offsets_told(42, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    with (
        ScriptedBroker({LIST_OFFSETS: moved, FETCH: fetched()}, {"orders": 1}) as broker,
        Consumer(broker.bootstrap, patience=HASTY) as consumer,
    ):
        consumer.assign({WHERE: -1})
        assert consumer.position(WHERE, 10.0) == 42


def test_client_that_breaks_tells_everybody(caplog: pytest.LogCaptureFixture) -> None:
    def bug() -> None:
        raise ZeroDivisionError("a bug")

    answers = {PRODUCE: lambda *_: SILENCE, INIT_PRODUCER_ID: named}
    with ScriptedBroker(answers, {"orders": 1}) as broker:
        producer = Producer(broker.bootstrap)
        delivery = producer.send("orders", b"x")
        producer._cluster.loop.soon(bug)
        with pytest.raises(ClientClosed, match="the client broke: a bug"):
            delivery.result(10.0)
        with pytest.raises(ClientClosed, match="the client broke: a bug"):
            producer.send("orders", b"x")
        producer.close()
    assert "a client's loop failed" in caplog.text
