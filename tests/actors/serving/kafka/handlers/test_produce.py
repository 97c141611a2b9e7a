"""Produce over the wire: where records go, and what is answered where they do not."""

from __future__ import annotations

import errno
import threading
from typing import Any

import pytest
from pykka._envelope import Envelope

from actors.harness import Cluster
from actors.messages.replica import AppendRecords
from actors.partition import admissions
from actors.runtime import MailboxFull
from actors.runtime.mailbox import Mailbox
from log.disk.filesystem import DiskFile
from log.partition import admission
from protocol.apis import PRODUCE
from protocol.error_codes import ErrorCode
from protocol.messages.metadata import MetadataResponseTopic
from protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from protocol.records.batches import (
    HEADER,
    BatchHeader,
    Record,
    RecordBatches,
    build_batch,
    read_header,
    recompress,
    stamp_producer,
)
from protocol.records.compression import Codec
from tests.actors.serving.kafka.handlers.wire_client import WireClient
from tests.actors.waiting import wait_until

TIME = 1_700_000_000_000


@pytest.fixture
def topic(cluster: Cluster, client: WireClient, name: str) -> MetadataResponseTopic:
    cluster.admin.create_topic(name, 2, 3)
    return client.until_led(name)


def batch(*values: bytes, **options: object) -> bytes:
    made = [Record(at, TIME, b"k", value) for at, value in enumerate(values or (b"v",))]
    return bytes(build_batch(made, **options))  # type: ignore[arg-type]


def claiming(count: int) -> bytes:
    """A batch that says that it holds so many records and holds one, with a checksum that is right."""
    data = bytearray(batch())
    HEADER.pack_into(data, 0, *read_header(data)._replace(record_count=count, last_offset_delta=count - 1))
    stamp_producer(data, 0, read_header(data), -1, -1, -1)  # makes the checksum
    return bytes(data)


def leader_of(clients: dict[int, WireClient], topic: MetadataResponseTopic, partition: int = 0) -> WireClient:
    return clients[topic.partitions[partition].leader_id]


def request(
    topic: MetadataResponseTopic, records: bytes | None, *, acks: int = -1, version: int = 13, partition: int = 0
) -> ProduceRequest:
    data = TopicProduceData(partition_data=[PartitionProduceData(index=partition, records=records)])
    if version >= 13:
        data.topic_id = topic.topic_id
    else:
        data.name = topic.name or ""
    return ProduceRequest(acks=acks, timeout_ms=10_000, topic_data=[data])


def produce(
    client: WireClient, topic: MetadataResponseTopic, records: bytes | None, *, acks: int = -1, version: int = 13,
    partition: int = 0,
) -> PartitionProduceResponse:  # fmt: skip
    asked = request(topic, records, acks=acks, version=version, partition=partition)
    answer: PartitionProduceResponse = client.ask(asked, version).responses[0].partition_responses[0]
    return answer


@pytest.mark.parametrize("version", list(PRODUCE.versions))
def test_records_get_their_offsets_in_every_version(
    clients: dict[int, WireClient], topic: MetadataResponseTopic, version: int
) -> None:
    client = leader_of(clients, topic)
    for acks, base in ((-1, 0), (1, 2)):
        answer = produce(client, topic, batch(b"a", b"b"), acks=acks, version=version)
        assert (answer.error_code, answer.base_offset, answer.log_append_time_ms) == (0, base, -1)
        assert answer.log_start_offset == (0 if version >= 5 else -1)


def test_partitions_are_answered_each_for_itself(clients: dict[int, WireClient], topic: MetadataResponseTopic) -> None:
    client = leader_of(clients, topic)
    known = TopicProduceData(
        topic_id=topic.topic_id,
        partition_data=[
            PartitionProduceData(index=0, records=batch()),
            PartitionProduceData(index=7, records=batch()),
            PartitionProduceData(index=-1, records=batch()),
        ],
    )
    unknown = TopicProduceData(topic_id=b"x" * 16, partition_data=[PartitionProduceData(index=0, records=batch())])
    answers = client.ask(ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[known, unknown])).responses
    assert [one.error_code for topic in answers for one in topic.partition_responses] == [
        ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
    ]  # fmt: skip


def test_whoever_does_not_lead_says_who_does(clients: dict[int, WireClient], topic: MetadataResponseTopic) -> None:
    leader = topic.partitions[0].leader_id
    other = next(client for broker, client in clients.items() if broker != leader)
    response = other.ask(request(topic, batch()))
    answer = response.responses[0].partition_responses[0]
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert answer.current_leader is not None
    assert answer.current_leader.leader_id == leader
    assert [one.node_id for one in response.node_endpoints] == [leader]


@pytest.mark.parametrize(
    ("records", "error"),
    [
        (None, ErrorCode.INVALID_RECORD),
        (b"", ErrorCode.INVALID_RECORD),
        (batch() + batch(), ErrorCode.INVALID_RECORD),
        (batch(control=True), ErrorCode.INVALID_RECORD),
        (claiming(1000), ErrorCode.INVALID_RECORD),
        (batch()[:-1] + b"!", ErrorCode.CORRUPT_MESSAGE),
        (batch()[:40], ErrorCode.CORRUPT_MESSAGE),
        (batch(bytes(1_100_000)), ErrorCode.MESSAGE_TOO_LARGE),
        (batch(producer_id=5, producer_epoch=0, base_sequence=7), ErrorCode.NONE),
    ],
)
def test_what_may_not_be_sent_is_refused_with_kafkas_error(
    clients: dict[int, WireClient], topic: MetadataResponseTopic, records: bytes | None, error: ErrorCode
) -> None:
    answer = produce(leader_of(clients, topic), topic, records)
    assert answer.error_code == error
    assert (answer.error_message is None) == (error is ErrorCode.NONE)


@pytest.mark.parametrize("version", list(PRODUCE.versions))
def test_only_the_records_without_a_key_are_blamed_where_a_topic_is_compacted(
    cluster: Cluster, clients: dict[int, WireClient], name: str, version: int
) -> None:
    cluster.admin.create_topic(name, 1, 3, configs={"cleanup.policy": "compact"})
    client = next(iter(clients.values()))
    topic = client.until_led(name)
    made = [Record(at, TIME, key, b"v") for at, key in enumerate((b"a", None, b"b", None))]
    answer = produce(leader_of(clients, topic), topic, bytes(build_batch(made)), version=version)
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert [one.batch_index for one in answer.record_errors] == ([1, 3] if version >= 8 else [])
    assert all("has no key" in (one.batch_index_error_message or "") for one in answer.record_errors)
    assert produce(leader_of(clients, topic), topic, batch(), version=version).record_errors == []


def many(count: int, **options: object) -> bytes:
    """A batch of records of different lengths, which are walked one by one."""
    made = [Record(at, TIME, b"k" * (at % 3), b"v" * (at * 7 % 5)) for at in range(count)]
    return bytes(build_batch(made, codec=Codec.ZSTD, **options))  # type: ignore[arg-type]


def of_producer(sequence: int, count: int = 1) -> bytes:
    made = many if count > 1 else lambda _count, **options: batch(**options)
    return made(count, producer_id=901, producer_epoch=0, base_sequence=sequence)


@pytest.fixture(scope="module")
def long_batch() -> bytes:
    return of_producer(0, 60_000)


def test_what_is_sent_behind_a_batch_that_takes_long_to_check_stays_behind_it(
    long_batch: bytes, clients: dict[int, WireClient], topic: MetadataResponseTopic
) -> None:
    client = leader_of(clients, topic)
    sent = [long_batch, of_producer(60_000), claiming(50_000), of_producer(60_001, 12_000), of_producer(72_001)]
    client.send_all([request(topic, data) for data in (*sent, long_batch)])
    answers = [client.next(ProduceResponse).responses[0].partition_responses[0] for _ in range(6)]
    assert [(one.error_code, one.base_offset) for one in answers] == [
        (0, 0), (0, 60_000), (ErrorCode.INVALID_RECORD, -1), (0, 60_001), (0, 72_001), (0, 0)
    ]  # fmt: skip


def test_large_batches_get_the_codec_of_the_topic_on_another_thread_and_in_their_order(
    cluster: Cluster, clients: dict[int, WireClient], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.admin.create_topic(name, 1, 3, configs={"compression.type": "gzip"})
    topic = next(iter(clients.values())).until_led(name)
    client, threads = leader_of(clients, topic), []

    def recompress_here(header: BatchHeader, plain: bytes, codec: Codec) -> RecordBatches:
        threads.append(threading.current_thread().name)
        return recompress(header, plain, codec)

    monkeypatch.setattr(admission, "recompress", recompress_here)
    large = bytes(900_000)
    sent = [
        batch(value, producer_id=902, producer_epoch=0, base_sequence=at)
        for at, value in enumerate((b"first", large, b"second", large, b"third"))
    ]
    client.send_all([request(topic, data) for data in sent])
    answers = [client.next(ProduceResponse).responses[0].partition_responses[0] for _ in sent]
    assert [(one.error_code, one.base_offset) for one in answers] == [(0, offset) for offset in range(5)]
    codecs = f"codec-{topic.partitions[0].leader_id}"
    assert [one == codecs for one in threads] == [False, True, False, True, False]


def test_only_so_many_batches_wait_behind_one_that_takes_long_to_check(
    long_batch: bytes,
    clients: dict[int, WireClient],
    topic: MetadataResponseTopic,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(admissions, "WAITING_MAX", 2)
    client, sent = leader_of(clients, topic), [long_batch, *(of_producer(60_000 + at) for at in range(4))]
    client.send_all([request(topic, data) for data in sent])
    answers = [client.next(ProduceResponse).responses[0].partition_responses[0] for _ in sent]
    refused = ErrorCode.NOT_ENOUGH_REPLICAS
    assert [one.error_code for one in answers] == [0, 0, refused, refused, refused]
    again = [produce(client, topic, data) for data in sent[2:]]
    assert [(one.error_code, one.base_offset) for one in again] == [(0, 60_001), (0, 60_002), (0, 60_003)]


def test_acks_are_none_one_or_all(clients: dict[int, WireClient], topic: MetadataResponseTopic) -> None:
    assert produce(leader_of(clients, topic), topic, batch(), acks=2).error_code == ErrorCode.INVALID_REQUIRED_ACKS


def test_zstd_came_with_a_later_version(clients: dict[int, WireClient], topic: MetadataResponseTopic) -> None:
    client, data = leader_of(clients, topic), batch(codec=Codec.ZSTD)
    assert produce(client, topic, data, version=6).error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert produce(client, topic, data, version=7).error_code == ErrorCode.NONE


def test_a_batch_that_is_sent_again_is_answered_again(
    clients: dict[int, WireClient], topic: MetadataResponseTopic
) -> None:
    client = leader_of(clients, topic)

    def send(sequence: int, epoch: int = 1) -> PartitionProduceResponse:
        data = batch(b"a", b"b", producer_id=900, producer_epoch=epoch, base_sequence=sequence)
        return produce(client, topic, data)

    first, second = send(0), send(2)
    assert (first.base_offset, second.base_offset) == (0, 2)
    assert (send(0).base_offset, send(2).base_offset) == (0, 2)
    assert send(8).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(4, epoch=0).error_code == ErrorCode.INVALID_PRODUCER_EPOCH


def test_without_acks_there_is_no_answer_and_a_failure_ends_the_connection(
    cluster: Cluster, topic: MetadataResponseTopic
) -> None:
    leader = topic.partitions[0].leader_id
    with WireClient(cluster, leader) as client:
        client.send_unanswered(request(topic, batch(b"a"), acks=0))
        assert produce(client, topic, batch(b"b")).base_offset == 1
        client.send_unanswered(request(topic, b"nonsense", acks=0))
        assert client.is_closed_by_peer()


def test_what_is_not_replicated_in_time_is_a_time_out(
    clients: dict[int, WireClient], topic: MetadataResponseTopic
) -> None:
    """No time at all is over before any other replica can have it."""
    asked = request(topic, batch(b"slow"))
    asked.timeout_ms = 0
    answer = leader_of(clients, topic).ask(asked, 13).responses[0].partition_responses[0]
    assert (answer.error_code, answer.base_offset) == (ErrorCode.REQUEST_TIMED_OUT, -1)


def numbered(sequence: int) -> bytes:
    return batch(producer_id=77, producer_epoch=0, base_sequence=sequence)


def test_what_was_sent_behind_a_batch_that_a_full_mailbox_refused_does_not_take_its_place(
    clients: dict[int, WireClient], topic: MetadataResponseTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = leader_of(clients, topic)
    put = Mailbox.put

    def full(mailbox: Mailbox, envelope: Envelope[Any]) -> None:
        if isinstance(envelope.message, AppendRecords):
            raise MailboxFull("try again later")
        put(mailbox, envelope)

    with monkeypatch.context() as patch:
        patch.setattr(Mailbox, "put", full)
        assert produce(client, topic, numbered(0)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert produce(client, topic, numbered(1)).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    told = [produce(client, topic, numbered(sequence)) for sequence in (0, 1)]
    assert [(one.error_code, one.base_offset) for one in told] == [(ErrorCode.NONE, 0), (ErrorCode.NONE, 1)]


def test_what_was_sent_behind_a_batch_that_a_failing_disk_refused_does_not_take_its_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The replica is restarted, and has forgotten everything that is not on disk."""

    def fail(*_: object) -> None:
        raise OSError(errno.EIO, "the disk is broken")

    with Cluster(1, log_level="critical") as cluster, WireClient(cluster) as client:
        cluster.admin.create_topic("orders", 1, 1)
        topic = client.until_led("orders")
        with monkeypatch.context() as patch:
            patch.setattr(DiskFile, "pwrite", fail)
            patch.setattr(DiskFile, "pwritev", fail)
            assert produce(client, topic, numbered(0)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        errors: list[int] = []

        def is_back() -> bool:
            errors.append(produce(client, topic, numbered(1)).error_code)
            return errors[-1] not in (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_LEADER_OR_FOLLOWER)

        wait_until(is_back, lambda: f"answered with {ErrorCode(errors[-1]).name}")
        assert errors[-1] == ErrorCode.NOT_ENOUGH_REPLICAS
        told = [produce(client, topic, numbered(sequence)) for sequence in (0, 1)]
        assert [(one.error_code, one.base_offset) for one in told] == [(ErrorCode.NONE, 0), (ErrorCode.NONE, 1)]


def test_a_disk_that_fails_is_a_storage_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.EIO, "the disk is broken")

    with Cluster(1, log_level="critical") as cluster, WireClient(cluster) as client:
        cluster.admin.create_topic("orders", 1, 1)
        topic = client.until_led("orders")
        with monkeypatch.context() as patch:
            patch.setattr(DiskFile, "pwrite", fail)
            patch.setattr(DiskFile, "pwritev", fail)
            answer = produce(client, topic, batch())
        assert (answer.error_code, answer.base_offset) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
