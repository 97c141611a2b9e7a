"""Transactions into each cluster, by one client: as many as possible, and records in transactions of 100 ms."""

from __future__ import annotations

import uuid
from time import perf_counter

from tools.bench.wire.contestants import FEW, Conf, Contestant
from tools.bench.wire.produce import FLUSH_SECONDS, BatchingProducer

TRANSACTION_SECONDS = 0.1
RECORD_BYTES = 100
_AT_ONCE = 1_000


def transactions_per_s(one: Contestant, seconds: float, partitions: int) -> float:
    """Transactions of one small record for each of so many partitions, one after the other."""
    producer = _producer(one, linger_ms=0, transactional=True).producer
    begun, count = perf_counter(), 0
    while perf_counter() - begun < seconds:
        producer.begin_transaction()
        for partition in range(partitions):
            producer.produce(FEW.name, b"x", partition=partition)
        producer.commit_transaction(FLUSH_SECONDS)
        count += 1
    return count / (perf_counter() - begun)


def records_per_s(one: Contestant, seconds: float, *, transactional: bool) -> float:
    """Records of an idempotent producer; or the same in transactions of 100 ms."""
    producer = _producer(one, linger_ms=5, transactional=transactional)
    begun, count = perf_counter(), 0
    while perf_counter() - begun < seconds:
        if transactional:
            producer.producer.begin_transaction()
        until = perf_counter() + TRANSACTION_SECONDS
        while perf_counter() < until:
            count += producer.send(_AT_ONCE)
        if transactional:
            producer.producer.commit_transaction(FLUSH_SECONDS)
    producer.flush()
    return count / (perf_counter() - begun)


def _producer(one: Contestant, *, linger_ms: int, transactional: bool) -> BatchingProducer:
    conf: Conf = {
        "enable.idempotence": True, "linger.ms": linger_ms, "batch.size": 1_000_000,
        "queue.buffering.max.messages": 100_000,
    }  # fmt: skip
    if transactional:
        conf["transactional.id"] = f"bench-{uuid.uuid4().hex}"
    producer = BatchingProducer(one, conf, FEW, RECORD_BYTES, _AT_ONCE)
    if transactional:
        producer.producer.init_transactions(FLUSH_SECONDS)
    return producer
