"""Records a second into each cluster, acks=all, by one client that batches."""

from __future__ import annotations

from time import perf_counter
from typing import Any

from attrs import frozen
from confluent_kafka import KafkaError, Producer

from tools.bench.wire.contestants import FEW, Contestant, Topic

AT_ONCE = 10_000
_FLUSH_SECONDS = 60.0


@frozen(slots=True)
class Rate:
    """What one round gave."""

    records_per_s: float
    bytes_per_s: float
    cpu_s_per_million: float | None


class NotDelivered(Exception):
    """A cluster refused records, or kept them waiting."""


def produce(one: Contestant, count: int, size: int, topic: Topic = FEW, *, batch_bytes: int = 1_000_000) -> Rate:
    """Send `count` records of `size` bytes, spread over the partitions, and wait until all are acknowledged."""
    failed: list[KafkaError] = []

    def delivered(error: KafkaError | None, _message: Any) -> None:
        if error is not None:
            failed.append(error)

    producer = Producer({
        **one.conf, "acks": "all", "linger.ms": 5, "batch.size": batch_bytes, "batch.num.messages": 10_000,
        "queue.buffering.max.messages": 1_000_000, "queue.buffering.max.kbytes": 1 << 20,
        "delivery.report.only.error": True, "on_delivery": delivered,
    })  # fmt: skip
    producer.list_topics(topic.name, timeout=_FLUSH_SECONDS)
    value = bytes(size)
    messages = [{"value": value, "partition": at % topic.partitions} for at in range(AT_ONCE)]
    cpu, begun, left = one.cpu_seconds(), perf_counter(), count
    while left > 0:
        taken = producer.produce_batch(topic.name, messages[:left])
        left -= taken
        producer.poll(0 if taken == len(messages) else 0.005)
        for message in messages:
            message.pop("_error", None)
    if producer.flush(_FLUSH_SECONDS) or failed:
        raise NotDelivered(f"{one.name}: {failed[0] if failed else 'not everything within a minute'}")
    seconds = perf_counter() - begun
    after = one.cpu_seconds()
    used = None if cpu is None or after is None else (after - cpu) / count * 1e6
    return Rate(count / seconds, count * size / seconds, used)


def produce_one_by_one(one: Contestant, count: int, size: int) -> list[float]:
    """Seconds from handing over one record until it is acknowledged, again and again."""
    producer = Producer({**one.conf, "acks": "all", "linger.ms": 0})
    producer.list_topics(FEW.name, timeout=_FLUSH_SECONDS)
    value, took = bytes(size), []
    for _ in range(count):
        begun = perf_counter()
        producer.produce(FEW.name, value, partition=0)
        if producer.flush(_FLUSH_SECONDS):
            raise NotDelivered(f"{one.name}: one record took more than a minute")
        took.append(perf_counter() - begun)
    return took
