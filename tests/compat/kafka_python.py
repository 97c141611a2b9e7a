"""kafka-python."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from typing import Any

from protocol.error_codes import ErrorCode
from tests.compat.client import (
    MAX_BYTES,
    PATIENCE_SECONDS,
    Client,
    Message,
    Outgoing,
    Place,
    Refused,
    Sending,
    messages,
    refusals,
)
from tests.compat.client import Producer as BaseProducer

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # it reads its own files in an old way
    from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
    from kafka.admin import ConfigResource, ConfigResourceType, NewPartitions, NewTopic
    from kafka.errors import BrokerResponseError

POLL_MS = 50


told = partial(refusals, BrokerResponseError, lambda error: error.errno)


class Delivery:
    def __init__(self, future: Any) -> None:
        self._future = future

    def offset(self) -> int | None:
        with told():
            return int(self._future.get(PATIENCE_SECONDS).offset)


class Producer(BaseProducer):
    def __init__(self, producer: Any) -> None:
        self._producer = producer

    def send_record(self, record: Outgoing) -> Delivery:
        headers = list(record.headers) or None
        sent = self._producer.send(record.topic, record.value, record.key, headers, record.partition, record.timestamp)
        return Delivery(sent)

    def flush(self) -> None:
        self._producer.flush(PATIENCE_SECONDS)


class Consumer:
    def __init__(self, consumer: Any) -> None:
        self._consumer = consumer

    def poll(self) -> list[Message]:
        with told():
            polled = self._consumer.poll(POLL_MS)
        return messages(polled.values())

    def seek(self, place: Place, offset: int) -> None:
        self._consumer.seek(TopicPartition(*place), offset)

    def seek_to_beginning(self, place: Place) -> None:
        self._consumer.seek_to_beginning(TopicPartition(*place))

    def seek_to_end(self, place: Place) -> None:
        self._consumer.seek_to_end(TopicPartition(*place))
        self.position(place)  # it looks where that is when it is first asked

    def position(self, place: Place) -> int:
        return int(self._consumer.position(TopicPartition(*place)))

    def offset_at(self, place: Place, timestamp: int) -> int | None:
        (found,) = self._consumer.offsets_for_times({TopicPartition(*place): timestamp}).values()
        return None if found is None else int(found.offset)

    def ends(self, place: Place) -> tuple[int, int]:
        partition = TopicPartition(*place)
        low, high = self._consumer.beginning_offsets([partition]), self._consumer.end_offsets([partition])
        return low[partition], high[partition]


class Admin:
    def __init__(self, admin: Any) -> None:
        self._admin = admin

    def create_topic(
        self, name: str, partitions: int, replication_factor: int, configs: Mapping[str, str] | None = None
    ) -> None:
        with told():
            self._admin.create_topics(
                [NewTopic(name, partitions, replication_factor, topic_configs=dict(configs or {}))]
            )

    def delete_topic(self, name: str) -> None:
        with told():
            self._admin.delete_topics([name])

    def add_partitions(self, name: str, total: int) -> None:
        with told():
            self._admin.create_partitions({name: NewPartitions(total)})

    def configs(self, name: str) -> dict[str, str]:
        resource = ConfigResource(ConfigResourceType.TOPIC, name)
        with told():
            found = self._admin.describe_configs([resource], config_filter="all")
        if not found["topic"][name]:  # why, this client keeps to itself
            raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{name} has no configs at all")
        return {config: entry["value"] for config, entry in found["topic"][name].items()}

    def alter_config(self, name: str, config: str, value: str) -> None:
        with told():
            told_of = self._admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, name, {config: value})])
        refusal = re.match(r"\[Error (\d+)\]", told_of["topic"][name])
        if refusal:
            raise Refused(int(refusal[1]), told_of["topic"][name])

    def topics(self) -> dict[str, int]:
        return {topic["name"]: len(topic["partitions"]) for topic in self._admin.describe_topics()}

    def brokers(self) -> dict[int, tuple[str, int]]:
        found = self._admin.describe_cluster()["brokers"]
        return {broker.get("node_id", broker.get("broker_id")): (broker["host"], broker["port"]) for broker in found}


class KafkaPython(Client):
    @contextmanager
    def make_producer(self, bootstrap: str, sending: Sending) -> Iterator[Producer]:
        with closing(
            KafkaProducer(
                bootstrap_servers=bootstrap.split(","), acks=sending.acks, enable_idempotence=sending.idempotent,
                compression_type=None if sending.codec == "none" else sending.codec, batch_size=sending.batch_bytes,
                max_request_size=MAX_BYTES, max_block_ms=sending.patience_ms,
            )
        ) as producer:  # fmt: skip
            yield Producer(producer)

    @contextmanager
    def consumer(self, bootstrap: str, *places: Place, max_wait_ms: int = 500) -> Iterator[Consumer]:
        with closing(
            KafkaConsumer(
                bootstrap_servers=bootstrap.split(","), group_id=None, auto_offset_reset="none",
                fetch_max_wait_ms=max_wait_ms, request_timeout_ms=max(30_000, max_wait_ms + 1000),
                connections_max_idle_ms=2 * max(300_000, max_wait_ms),
            )
        ) as consumer:  # fmt: skip
            partitions = [TopicPartition(*place) for place in places]
            consumer.assign(partitions)
            consumer.seek_to_beginning(*partitions)
            yield Consumer(consumer)

    @contextmanager
    def admin(self, bootstrap: str) -> Iterator[Admin]:
        with closing(KafkaAdminClient(bootstrap_servers=bootstrap.split(","))) as admin:
            yield Admin(admin)
