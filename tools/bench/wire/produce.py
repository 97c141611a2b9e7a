"""Records a second into each cluster, acks=all, by one client that batches."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Any

from attrs import frozen
from confluent_kafka import KafkaError, Producer

from tools.bench.wire.contestants import FEW, Conf, Contestant, Topic

AT_ONCE = 10_000
FLUSH_SECONDS = 60.0


@frozen(slots=True)
class Rate:
    """What one round gave."""

    records_per_s: float
    bytes_per_s: float
    cpu_s_per_million: float | None

    @classmethod
    def since(cls, begun: float, one: Contestant, cpu_seconds: float | None, count: int, size: int) -> Rate:
        """The rate since `begun`, when the processes of the contestant had used `cpu_seconds`; `size` is in bytes."""
        seconds, after = perf_counter() - begun, one.cpu_seconds()
        used = None if cpu_seconds is None or after is None else (after - cpu_seconds) / count * 1e6
        return cls(count / seconds, size / seconds, used)


def least_cpu(rates: Sequence[Rate]) -> str:
    """The least processor time of a round for a million records, for a table."""
    used = [rate.cpu_s_per_million for rate in rates if rate.cpu_s_per_million is not None]
    return f"{min(used):.2f}" if used else "unknown"


class NotDelivered(Exception):
    """A cluster refused records, or did not acknowledge them in time."""


class BatchingProducer:
    """Hands over many equal records at a time."""

    def __init__(self, one: Contestant, conf: Conf, topic: Topic, record_bytes: int, at_once: int) -> None:
        self._name, self._topic = one.name, topic
        self._failed: list[KafkaError] = []
        value = bytes(record_bytes)
        self._messages = [{"value": value, "partition": at % topic.partitions} for at in range(at_once)]
        self.producer = Producer({
            **one.conf, "batch.num.messages": 10_000, "delivery.report.only.error": True,
            "on_delivery": self._delivered, **conf,
        })  # fmt: skip
        self.producer.list_topics(topic.name, timeout=FLUSH_SECONDS)

    def send(self, count_max: int) -> int:
        """Gives how many the client has taken."""
        taken: int = self.producer.produce_batch(self._topic.name, self._messages[:count_max])
        self.producer.poll(0 if taken == len(self._messages) else 0.005)
        for message in self._messages:
            message.pop("_error", None)
        return taken

    def flush(self) -> None:
        """Wait until everything is acknowledged."""
        if self.producer.flush(FLUSH_SECONDS) or self._failed:
            raise NotDelivered(f"{self._name}: {self._failed[0] if self._failed else 'not everything within a minute'}")

    def _delivered(self, error: KafkaError | None, _message: Any) -> None:
        if error is not None:
            self._failed.append(error)


def produce(one: Contestant, count: int, size: int, topic: Topic = FEW, *, batch_bytes: int = 1_000_000) -> Rate:
    """Send `count` records of `size` bytes, spread over the partitions, and wait until all are acknowledged."""
    conf = {
        "acks": "all", "linger.ms": 5, "batch.size": batch_bytes, "queue.buffering.max.messages": 1_000_000,
        "queue.buffering.max.kbytes": 1 << 20,
    }  # fmt: skip
    producer = BatchingProducer(one, conf, topic, size, AT_ONCE)
    cpu, begun, left = one.cpu_seconds(), perf_counter(), count
    while left > 0:
        left -= producer.send(left)
    producer.flush()
    return Rate.since(begun, one, cpu, count, count * size)


def produce_one_by_one(one: Contestant, count: int, size: int) -> list[float]:
    """Seconds from handing over one record until it is acknowledged, again and again."""
    producer = Producer({**one.conf, "acks": "all", "linger.ms": 0})
    producer.list_topics(FEW.name, timeout=FLUSH_SECONDS)
    value, took = bytes(size), []
    for _ in range(count):
        begun = perf_counter()
        producer.produce(FEW.name, value, partition=0)
        if producer.flush(FLUSH_SECONDS):
            raise NotDelivered(f"{one.name}: one record took more than a minute")
        took.append(perf_counter() - begun)
    return took
