"""A member of a group in a process of its own, so that it can be killed and stopped like any other.

    python -m tests.compat.group_member confluent-kafka classic BOOTSTRAP GROUP TOPIC SESSION_MS [INSTANCE]

It prints what happens to it, a line of JSON each: assigned partitions, records that it read, committed offsets. It
joins when it reads a line, so that a test can start it early and need not wait for its imports; commits after every
poll; and leaves its group on SIGTERM.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import signal
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from tools import client

POLL_SECONDS = 0.1
_ends = False


def tell(**what: Any) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


class Report:
    """Tells what a member is assigned when that changes, and what it has read and committed."""

    def __init__(self) -> None:
        self._seen: list[int] | None = None

    def assigned(self, partitions: Iterable[int]) -> None:
        now = sorted(partitions)
        if now != self._seen:
            self._seen = now
            tell(assigned=now)

    def read(self, polled: Iterable[tuple[int, Sequence[Any]]]) -> None:
        tell(read=[[partition, one.offset, one.value.decode()] for partition, some in polled for one in some])

    def committed(self, polled: Iterable[tuple[int, Sequence[Any]]]) -> None:
        tell(committed={partition: some[-1].offset + 1 for partition, some in polled})


def heartbeat_ms(session_ms: int) -> int:
    """A member hears of a rebalance with its next heartbeat: also one with a long session soon does."""
    return min(session_ms // 4, 500)


def confluent(protocol: str, bootstrap: str, group: str, topic: str, session_ms: int, instance: str) -> None:
    from confluent_kafka import KafkaException, TopicPartition  # noqa: PLC0415  only one client is needed

    from tools.chaos.subscription import Subscription  # noqa: PLC0415

    config: dict[str, Any] = {
        "bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest",
        "enable.auto.commit": False, "group.protocol": "consumer" if protocol == "consumer" else "classic",
        "topic.metadata.refresh.interval.ms": 1000,
    }  # fmt: skip
    if protocol != "consumer":
        config |= {"session.timeout.ms": session_ms, "heartbeat.interval.ms": heartbeat_ms(session_ms)}
    if protocol == "cooperative":
        config["partition.assignment.strategy"] = "cooperative-sticky"
    if instance:
        config["group.instance.id"] = instance
    subscription = Subscription(config, [topic])
    consumer = subscription.consumer
    report = Report()
    while not _ends:
        messages = subscription.poll(500, POLL_SECONDS, told=lambda _: None)
        report.assigned(one.partition for one in consumer.assignment())
        if not messages:
            continue
        tell(read=[[one.partition(), one.offset(), (one.value() or b"").decode()] for one in messages])
        ends: dict[int, int] = {}
        for one in messages:
            ends[one.partition() or 0] = (one.offset() or 0) + 1
        try:
            consumer.commit(offsets=[TopicPartition(topic, *end) for end in ends.items()], asynchronous=False)
        except KafkaException as error:
            tell(refused=str(error))
        else:
            tell(committed=ends)
    consumer.close()


def kafka_python(_protocol: str, bootstrap: str, group: str, topic: str, session_ms: int, instance: str) -> None:
    from kafka import KafkaConsumer  # noqa: PLC0415
    from kafka.errors import KafkaError  # noqa: PLC0415

    consumer = KafkaConsumer(
        topic, bootstrap_servers=bootstrap.split(","), group_id=group, auto_offset_reset="earliest",
        enable_auto_commit=False, session_timeout_ms=session_ms, heartbeat_interval_ms=heartbeat_ms(session_ms),
        group_instance_id=instance or None, metadata_max_age_ms=1000,
    )  # fmt: skip
    report = Report()
    while not _ends:
        records = consumer.poll(timeout_ms=int(POLL_SECONDS * 1000))
        report.assigned(one.partition for one in consumer.assignment())
        if not records:
            continue
        polled = [(place.partition, some) for place, some in records.items()]
        report.read(polled)
        try:
            consumer.commit()
        except KafkaError as error:
            tell(refused=str(error))
        else:
            report.committed(polled)
    consumer.close(autocommit=False)


def aiokafka(_protocol: str, bootstrap: str, group: str, topic: str, session_ms: int, instance: str) -> None:
    from aiokafka import AIOKafkaConsumer  # noqa: PLC0415
    from aiokafka.errors import KafkaError  # noqa: PLC0415

    async def consume() -> None:
        consumer = AIOKafkaConsumer(
            topic, bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest",
            enable_auto_commit=False, session_timeout_ms=session_ms, heartbeat_interval_ms=heartbeat_ms(session_ms),
            rebalance_timeout_ms=10_000, group_instance_id=instance or None, metadata_max_age_ms=1000,
        )  # fmt: skip
        await consumer.start()
        report = Report()
        while not _ends:
            records = await consumer.getmany(timeout_ms=int(POLL_SECONDS * 1000))
            report.assigned(one.partition for one in consumer.assignment())
            if not records:
                continue
            polled = [(place.partition, some) for place, some in records.items()]
            report.read(polled)
            try:
                await consumer.commit()
            except KafkaError as error:
                tell(refused=str(error))
            else:
                report.committed(polled)
        await consumer.stop()

    asyncio.run(consume())


def own(protocol: str, bootstrap: str, group: str, topic: str, session_ms: int, instance: str) -> None:
    from tools.client.consumer import Consumer  # noqa: PLC0415
    from tools.client.errors import CommitFailed, TimedOut  # noqa: PLC0415
    from tools.client.network.broker import Patience  # noqa: PLC0415

    with Consumer(
        bootstrap, group_id=group, auto_offset_reset="earliest", auto_commit_interval=None,
        group_protocol="consumer" if protocol == "consumer" else "classic",
        assignors=["cooperative-sticky"] if protocol == "cooperative" else ["range"],
        session_timeout=session_ms / 1000, heartbeat_interval=heartbeat_ms(session_ms) / 1000,
        group_instance_id=instance or None, patience=Patience(metadata_age=1.0), block=10.0,
    ) as consumer:  # fmt: skip
        consumer.subscribe([topic])
        report = Report()
        while not _ends:
            records = consumer.poll(POLL_SECONDS)
            report.assigned(where.partition for where in consumer.assignment)
            if not records:
                continue
            polled = [(where.partition, some) for where, some in records.items()]
            report.read(polled)
            try:
                consumer.commit()
            except (CommitFailed, TimedOut) as error:
                tell(refused=str(error))
            else:
                report.committed(polled)


MODULES = {
    "confluent-kafka": "confluent_kafka", "kafka-python": "kafka", "aiokafka": "aiokafka",
    "our own": f"{client.__name__}.consumer",
}  # fmt: skip
MEMBERS = {"confluent-kafka": confluent, "kafka-python": kafka_python, "aiokafka": aiokafka, "our own": own}


def main() -> None:
    def end(*_: object) -> None:
        global _ends
        _ends = True

    signal.signal(signal.SIGTERM, end)
    kind, protocol, bootstrap, group, topic, session_ms, *instance = sys.argv[1:]
    importlib.import_module(MODULES[kind])
    tell(ready=True)
    sys.stdin.readline()
    MEMBERS[kind](protocol, bootstrap, group, topic, int(session_ms), instance[0] if instance else "")
    tell(left=True)


if __name__ == "__main__":
    main()
