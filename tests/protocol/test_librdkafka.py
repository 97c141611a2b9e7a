"""What librdkafka sends we read, and what we encode it consumes, over a socket, for every codec."""

from __future__ import annotations

from typing import Any, cast

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition

from protocol.records.batches import (
    ControlType,
    Record,
    build_batch,
    check_batches,
    end_txn_marker,
    read_header,
    rebuild_batch,
    records,
)
from protocol.records.compression import Codec
from tests.protocol.capture import TOPIC, LittleBroker
from tests.protocol.golden import RECORDS, START

LIMIT = 8 << 20
MANY = [Record(n, START + n % 7, b"key %d" % (n % 10), b"value " * (n % 50), (("n", b"%d" % n),)) for n in range(2000)]
every_codec = pytest.mark.parametrize("codec", list(Codec), ids=lambda codec: codec.name.lower())


def produce(kept: list[Record], codec: Codec) -> bytes:
    """The batches that a librdkafka producer makes of these records."""
    with LittleBroker() as broker:
        producer = Producer(
            {"bootstrap.servers": broker.address, "compression.type": codec.name.lower(), "linger.ms": 1000}
        )
        for _, timestamp, key, value, headers in kept:
            producer.produce(TOPIC, value, key, partition=0, timestamp=timestamp, headers=list(headers))
        assert producer.flush(20) == 0
        return b"".join(broker.produced)


def consume(data: bytes | bytearray, count: int) -> list[Record]:
    """What a librdkafka consumer, which checks CRCs, makes of these batches."""
    with LittleBroker(bytes(data), check_batches(data).headers[-1].next_offset) as broker:
        consumer = Consumer(
            {
                "bootstrap.servers": broker.address,
                "group.id": "none",
                "check.crcs": True,
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
            }
        )
        try:
            consumer.assign([TopicPartition(TOPIC, 0, 0)])
            return [as_record(message) for message in consumer.consume(count, timeout=20)]
        finally:
            consumer.close()


def as_record(message: Message) -> Record:
    assert message.error() is None
    offset, headers = message.offset(), cast("list[tuple[str, bytes | None]]", message.headers() or [])
    assert isinstance(offset, int)
    return Record(offset, message.timestamp()[1], message.key(), message.value(), tuple(headers))


@every_codec
def test_we_read_what_a_producer_sends(codec: Codec) -> None:
    batch = produce(RECORDS, codec)
    (header,) = check_batches(batch).headers
    assert header.codec is codec
    assert records(batch, limit=LIMIT) == RECORDS


@every_codec
def test_a_consumer_reads_what_we_write(codec: Codec) -> None:
    assert consume(build_batch(RECORDS, codec=codec), len(RECORDS)) == RECORDS


@every_codec
def test_a_consumer_reads_many_batches_in_one_answer(codec: Codec) -> None:
    parts = (MANY[at : at + 500] for at in range(0, len(MANY), 500))
    data = b"".join(build_batch(part, base_offset=part[0].offset, codec=codec, leader_epoch=1) for part in parts)
    assert consume(data, len(MANY)) == MANY


def test_a_consumer_steps_over_markers_gaps_and_emptied_batches() -> None:
    first = [Record(n, START, b"k", b"v") for n in range(3)]
    last = [Record(12, START, b"k", None), Record(15, START, b"k", b"w")]
    producer: dict[str, Any] = {"producer_id": 1, "producer_epoch": 0}
    emptied = build_batch(
        [Record(n, START, b"k", b"v") for n in range(4, 9)], base_offset=4, **producer, base_sequence=3
    )
    data = build_batch(first, transactional=True, **producer, base_sequence=0)
    data += end_txn_marker(ControlType.COMMIT, 0, 1, 0, START, base_offset=3)
    data += rebuild_batch(read_header(emptied), [])
    data += build_batch(last, base_offset=9, last_offset=20, append_time=START, delete_horizon=START + 100)
    assert consume(data, 5) == first + last
