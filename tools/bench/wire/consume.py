"""Records a second out of each cluster, by one client that reads everything from the beginning."""

from __future__ import annotations

from time import perf_counter

from confluent_kafka import Consumer, TopicPartition

from tools.bench.wire.contestants import FEW, Contestant
from tools.bench.wire.produce import Rate

AT_ONCE = 10_000
_PATIENCE_SECONDS = 60.0


class NothingCame(Exception):
    """A cluster has fewer records than it was sent."""


def consume(one: Contestant, count: int) -> Rate:
    """Read `count` records; where the cluster has fewer, read again from the beginning."""
    consumer = Consumer({
        **one.conf, "group.id": "bench", "enable.auto.commit": False, "auto.offset.reset": "earliest",
        "fetch.wait.max.ms": 100, "queued.min.messages": 1_000_000, "queued.max.messages.kbytes": 256 << 10,
        "fetch.message.max.bytes": 4 << 20, "enable.partition.eof": True, "log_level": 3,
    })  # fmt: skip
    try:
        cpu, begun = one.cpu_seconds(), perf_counter()
        taken = size = 0
        while taken < count:
            before = taken
            consumer.assign([TopicPartition(FEW.name, partition, 0) for partition in range(FEW.partitions)])
            at_end: set[int] = set()
            while taken < count and len(at_end) < FEW.partitions:
                messages = consumer.consume(AT_ONCE, timeout=1.0)
                for message in messages:
                    if message.error() is None:
                        taken += 1
                        size += len(message)
                    else:
                        at_end.add(message.partition() or 0)
                if perf_counter() - begun > _PATIENCE_SECONDS:
                    raise NothingCame(f"{one.name}: {taken} of {count} records within a minute")
            if taken == before:
                raise NothingCame(f"{one.name} has no records")
        return Rate.since(begun, one, cpu, taken, size)
    finally:
        consumer.close()
