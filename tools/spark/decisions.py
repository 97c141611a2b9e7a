"""The committed micro-batch of a query: one record in a compacted topic, written before the first commit.

The record names every prepared transaction of the batch. Once it is written the batch is decided, even if the driver
dies: the next driver finds the record, its tasks write nothing, and it commits the named transactions; repeating a
commit does no harm.

Two runs of one query may commit at the same time: one that Spark believes to have stopped, and its successor. So a
decision is written in a transaction, with one transactional id for each writer. A run that is about to decide first
takes the id over, which fences the other run, and then looks for a decision of the other run.
"""

from __future__ import annotations

import json
from typing import Self

from attrs import frozen

from protocol.error_codes import ErrorCode
from protocol.records.record import Record
from tools.client.admin import Admin
from tools.client.errors import KafkaError, TransactionFailed
from tools.client.producer import Producer
from tools.client.writing.transaction import PreparedTransaction
from tools.spark.last_record import last_record

TOPIC = "barnabas.spark.decisions"
_CLIENT = "barnabas-spark"
_OPEN_MAX = 10.0


@frozen
class Decision:
    """A micro-batch that is committed, with its transactions."""

    batch: int
    prepared: tuple[PreparedTransaction, ...]


def last_decision(bootstrap: str, query: str) -> Decision | None:
    """The last decided micro-batch of a query."""
    key = query.encode()

    def is_of_query(record: Record) -> bool:
        return record.key == key

    with Admin(bootstrap, client_id=_CLIENT) as admin:
        if TOPIC not in admin.describe_topics([TOPIC]):
            return None
    found, _ = last_record(bootstrap, (TOPIC, 0), is_of_query, client_id=_CLIENT)
    if found is None or found.value is None:
        return None
    said = json.loads(found.value)
    return Decision(said["batch"], tuple(PreparedTransaction.from_json(one) for one in said["prepared"]))


class Decider:
    """Fences every other run that is about to decide for this writer."""

    def __init__(self, bootstrap: str, writer: str) -> None:
        _make_topic(bootstrap)
        self._writer = writer
        self._producer = Producer(
            bootstrap,
            client_id=_CLIENT,
            transactional_id=f"barnabas-decision-{writer}",
            transaction_timeout=_OPEN_MAX,
        )
        try:
            self._producer.init_transactions()
        except BaseException:
            self._producer.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._producer.close()

    def decide(self, decision: Decision) -> None:
        """Decide: the micro-batch is committed from now on. Raises ProducerFenced if another run has taken over."""
        said = {"batch": decision.batch, "prepared": [one.to_json() for one in decision.prepared]}
        self._producer.begin()
        self._producer.send(TOPIC, json.dumps(said).encode(), key=self._writer.encode(), partition=0)
        try:
            self._producer.commit()
        except TransactionFailed:
            self._producer.abort()  # raises ProducerFenced if another run has taken over
            raise


def _make_topic(bootstrap: str) -> None:
    with Admin(bootstrap, client_id=_CLIENT) as admin:
        if TOPIC in admin.describe_topics([TOPIC]):
            return
        try:
            admin.create_topic(TOPIC, partitions=1, configs={"cleanup.policy": "compact"})
        except KafkaError as error:
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
