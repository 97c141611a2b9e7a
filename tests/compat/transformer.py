"""Copies a topic, exactly once, in a process of its own, so that it can be killed like any other.

    python -m tests.compat.transformer confluent-kafka BOOTSTRAP GROUP INPUT OUTPUT NUMBER

The written records and the offsets of the read ones are one transaction. Any error ends the process; the next process
continues after the last committed transaction. A transaction that takes too long ends the process too: kafka-python 3.0
forgets a request for a coordinator that it cannot connect to, and waits without end; librdkafka 2.16 may do so, too.
The process prints the number of records of each committed transaction in a line.
"""

from __future__ import annotations

import asyncio
import signal
import sys

TIMEOUT_MS = 10_000
SESSION_MS = 2000
BATCH_MAX = 20
POLL_SECONDS = 0.1
PATIENCE_SECONDS = 12
"""For one transaction: then SIGALRM ends the process."""


def tell(count: int) -> None:
    signal.alarm(0)
    sys.stdout.write(f"{count}\n")
    sys.stdout.flush()


def confluent(bootstrap: str, group: str, source: str, target: str, number: int) -> None:
    from confluent_kafka import Producer, TopicPartition  # noqa: PLC0415  only one client is needed

    from tools.chaos.subscription import Subscription  # noqa: PLC0415

    producer = Producer(
        {
            "bootstrap.servers": bootstrap, "transactional.id": f"{group} {number}", "linger.ms": 0,
            "transaction.timeout.ms": TIMEOUT_MS, "socket.timeout.ms": TIMEOUT_MS, "log_level": 0,
        }
    )  # fmt: skip
    producer.init_transactions(30)
    config = {
        "bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest",
        "enable.auto.commit": False, "isolation.level": "read_committed", "session.timeout.ms": SESSION_MS,
        "heartbeat.interval.ms": SESSION_MS // 4, "log_level": 0,
    }  # fmt: skip
    subscription = Subscription(config, [source])
    while True:
        messages = subscription.poll(BATCH_MAX, POLL_SECONDS, told=lambda _: None)
        if not messages:
            continue
        signal.alarm(PATIENCE_SECONDS)
        producer.begin_transaction()
        for one in messages:
            producer.produce(target, one.value(), partition=one.partition() or 0)
        ends = {one.partition() or 0: (one.offset() or 0) + 1 for one in messages}
        offsets = [TopicPartition(source, *end) for end in ends.items()]
        producer.send_offsets_to_transaction(offsets, subscription.consumer.consumer_group_metadata(), 30)
        producer.commit_transaction(30)
        tell(len(messages))


def kafka_python(bootstrap: str, group: str, source: str, target: str, number: int) -> None:
    from kafka import KafkaConsumer, KafkaProducer  # noqa: PLC0415
    from kafka.structs import OffsetAndMetadata  # noqa: PLC0415

    producer = KafkaProducer(
        bootstrap_servers=bootstrap.split(","), transactional_id=f"{group} {number}",
        transaction_timeout_ms=TIMEOUT_MS, max_block_ms=30_000,
    )  # fmt: skip
    producer.init_transactions()
    consumer = KafkaConsumer(
        source, bootstrap_servers=bootstrap.split(","), group_id=group, auto_offset_reset="earliest",
        enable_auto_commit=False, isolation_level="read_committed", session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=SESSION_MS // 4, max_poll_records=BATCH_MAX,
    )  # fmt: skip
    while True:
        found = consumer.poll(timeout_ms=int(POLL_SECONDS * 1000))
        if not found:
            continue
        signal.alarm(PATIENCE_SECONDS)
        producer.begin_transaction()
        for place, messages in found.items():
            for one in messages:
                producer.send(target, one.value, partition=place.partition)
        ends = {place: OffsetAndMetadata(messages[-1].offset + 1, "", -1) for place, messages in found.items()}
        producer.send_offsets_to_transaction(ends, consumer.group_metadata())
        producer.commit_transaction()
        tell(sum(map(len, found.values())))


def aiokafka(bootstrap: str, group: str, source: str, target: str, number: int) -> None:
    """aiokafka does not send its member with the offsets. So each process has its own partitions, by its number: the
    successor of a killed one has its transactional id, which ends its transaction before the offsets are read."""
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition  # noqa: PLC0415

    async def copy() -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap, transactional_id=f"{group} {number}", transaction_timeout_ms=TIMEOUT_MS
        )
        await producer.start()
        consumer = AIOKafkaConsumer(
            bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False,
            isolation_level="read_committed", max_poll_records=BATCH_MAX,
        )  # fmt: skip
        await consumer.start()
        partitions = sorted(await producer.partitions_for(source))
        consumer.assign([TopicPartition(source, one) for one in partitions[number::2]])
        while True:
            found = await consumer.getmany(timeout_ms=int(POLL_SECONDS * 1000))
            if not found:
                continue
            signal.alarm(PATIENCE_SECONDS)
            async with producer.transaction():
                for place, messages in found.items():
                    for one in messages:
                        await producer.send(target, one.value, partition=place.partition)
                ends = {place: messages[-1].offset + 1 for place, messages in found.items()}
                await producer.send_offsets_to_transaction(ends, group)
            tell(sum(map(len, found.values())))

    asyncio.run(copy())


def own(bootstrap: str, group: str, source: str, target: str, number: int) -> None:
    from tools.client.consumer import Consumer  # noqa: PLC0415
    from tools.client.group_offsets import Committed  # noqa: PLC0415
    from tools.client.producer import Producer  # noqa: PLC0415

    with (
        Producer(bootstrap, transactional_id=f"{group} {number}", transaction_timeout=TIMEOUT_MS / 1000) as producer,
        Consumer(
            bootstrap, group_id=group, auto_offset_reset="earliest", auto_commit_interval=None,
            isolation="read_committed", session_timeout=SESSION_MS / 1000, heartbeat_interval=SESSION_MS / 4000,
        ) as consumer,
    ):  # fmt: skip
        producer.init_transactions()
        consumer.subscribe([source])
        while True:
            found = consumer.poll(POLL_SECONDS, BATCH_MAX)
            if not found:
                continue
            signal.alarm(PATIENCE_SECONDS)
            producer.begin()
            for where, some in found.items():
                for one in some:
                    producer.send(target, one.value, partition=where.partition)
            ends = {where: Committed(some[-1].offset + 1) for where, some in found.items()}
            producer.send_offsets(group, ends, consumer.member)
            producer.commit()
            tell(sum(map(len, found.values())))


TRANSFORMERS = {"confluent-kafka": confluent, "kafka-python": kafka_python, "aiokafka": aiokafka, "our own": own}


def main() -> None:
    client, bootstrap, group, source, target, number = sys.argv[1:]
    TRANSFORMERS[client](bootstrap, group, source, target, int(number))


if __name__ == "__main__":
    main()
