"""Transactions into each cluster, by one client: as many as possible, and records in transactions of 100 ms."""

from __future__ import annotations

import uuid
from time import perf_counter
from typing import Any

from confluent_kafka import KafkaError, Producer

from tools.bench.wire.contestants import FEW, Contestant
from tools.bench.wire.produce import NotDelivered

TRANSACTION_SECONDS = 0.1
RECORD_BYTES = 100
_AT_ONCE = 1_000
_SECONDS_MAX = 60.0


def transactions_per_s(one: Contestant, seconds: float, partitions: int) -> float:
    """Transactions of one small record for each of so many partitions, one after the other."""
    producer = _producer(one, [], linger_ms=0, transactional=True)
    begun, count = perf_counter(), 0
    while perf_counter() - begun < seconds:
        producer.begin_transaction()
        for partition in range(partitions):
            producer.produce(FEW.name, b"x", partition=partition)
        producer.commit_transaction(_SECONDS_MAX)
        count += 1
    return count / (perf_counter() - begun)


def records_per_s(one: Contestant, seconds: float, *, transactional: bool) -> float:
    """Records of an idempotent producer; or the same in transactions of 100 ms."""
    failed: list[KafkaError] = []
    producer = _producer(one, failed, linger_ms=5, transactional=transactional)
    messages = [{"value": bytes(RECORD_BYTES), "partition": at % FEW.partitions} for at in range(_AT_ONCE)]
    begun, count = perf_counter(), 0
    while perf_counter() - begun < seconds:
        if transactional:
            producer.begin_transaction()
        until = perf_counter() + TRANSACTION_SECONDS
        while perf_counter() < until:
            taken = producer.produce_batch(FEW.name, messages)
            count += taken
            producer.poll(0 if taken == len(messages) else 0.005)
            for message in messages:
                message.pop("_error", None)
        if transactional:
            producer.commit_transaction(_SECONDS_MAX)
    if producer.flush(_SECONDS_MAX) or failed:
        raise NotDelivered(f"{one.name}: {failed[0] if failed else 'not everything within a minute'}")
    return count / (perf_counter() - begun)


def _producer(one: Contestant, failed: list[KafkaError], *, linger_ms: int, transactional: bool) -> Producer:
    def delivered(error: KafkaError | None, _message: Any) -> None:
        if error is not None:
            failed.append(error)

    conf = {
        **one.conf, "enable.idempotence": True, "linger.ms": linger_ms, "batch.size": 1_000_000,
        "batch.num.messages": 10_000, "queue.buffering.max.messages": 100_000,
        "delivery.report.only.error": True, "on_delivery": delivered,
    }  # fmt: skip
    if transactional:
        conf["transactional.id"] = f"bench-{uuid.uuid4().hex}"
    producer = Producer(conf)
    producer.list_topics(FEW.name, timeout=_SECONDS_MAX)
    if transactional:
        producer.init_transactions(_SECONDS_MAX)
    return producer
