"""Which micro-batch of a query is committed: one record in a compacted topic, written before anything is committed.

The record names every prepared transaction of the batch. Once it is written the batch is decided, whatever dies: a
driver that comes back finds it, lets its tasks write nothing, and commits what is named there, as often as it takes.
"""

from __future__ import annotations

import json

from attrs import frozen

from protocol.error_codes import ErrorCode
from protocol.record import Record
from tools.client.admin import Admin
from tools.client.consumer import Consumer
from tools.client.errors import KafkaError
from tools.client.last_record import last_record
from tools.client.producer import Producer
from tools.client.transaction import PreparedTransaction

TOPIC = "barnabas.spark.decisions"
_WHERE = (TOPIC, 0)
_CLIENT = "barnabas-spark"


@frozen
class Decision:
    """A micro-batch that is committed, with its transactions."""

    batch: int
    prepared: tuple[PreparedTransaction, ...]


def last_decision(bootstrap: str, query: str) -> Decision | None:
    """The last micro-batch of a query that was decided on."""
    key = query.encode()

    def is_of_query(record: Record) -> bool:
        return record.key == key

    with Admin(bootstrap, client_id=_CLIENT) as admin:
        if TOPIC not in admin.describe_topics([TOPIC]):
            return None
    with Consumer(bootstrap, client_id=_CLIENT) as consumer:
        found = last_record(consumer, _WHERE, is_of_query)
    if found is None or found.value is None:
        return None
    said = json.loads(found.value)
    return Decision(said["batch"], tuple(PreparedTransaction.from_json(one) for one in said["prepared"]))


def write_decision(bootstrap: str, query: str, decision: Decision) -> None:
    """From now on the micro-batch is committed."""
    _make_topic(bootstrap)
    said = {"batch": decision.batch, "prepared": [one.to_json() for one in decision.prepared]}
    with Producer(bootstrap, client_id=_CLIENT) as producer:
        producer.send(TOPIC, json.dumps(said).encode(), key=query.encode(), partition=0).result()


def _make_topic(bootstrap: str) -> None:
    with Admin(bootstrap, client_id=_CLIENT) as admin:
        if TOPIC in admin.describe_topics([TOPIC]):
            return
        try:
            admin.create_topic(TOPIC, partitions=1, configs={"cleanup.policy": "compact"})
        except KafkaError as error:
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
