"""Our own client, tools/client."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial

from tests.compat.client import PATIENCE_SECONDS, Client, Message, Outgoing, Place, Sending, refusals
from tests.compat.client import Producer as BaseProducer
from tools.client import admin, consumer, producer
from tools.client.errors import KafkaError
from tools.client.offsets import EARLIEST
from tools.client.writing import batch

POLL_SECONDS = 0.05


told = partial(refusals, KafkaError, lambda error: error.number)


class Delivery:
    def __init__(self, delivery: batch.Delivery) -> None:
        self._delivery = delivery

    def offset(self) -> int | None:
        with told():
            return self._delivery.result(PATIENCE_SECONDS).offset


class Producer(BaseProducer):
    def __init__(self, made: producer.Producer) -> None:
        self._producer = made

    def send_record(self, record: Outgoing) -> Delivery:
        with told():
            sent = self._producer.send(
                record.topic, record.value, key=record.key, partition=record.partition, timestamp_ms=record.timestamp,
                headers=record.headers,
            )  # fmt: skip
        return Delivery(sent)

    def flush(self) -> None:
        self._producer.flush(PATIENCE_SECONDS)


class Consumer:
    def __init__(self, made: consumer.Consumer) -> None:
        self._consumer = made

    def poll(self) -> list[Message]:
        with told():
            polled = self._consumer.poll(POLL_SECONDS)
        return [
            Message(where.topic, where.partition, one.offset, one.timestamp, one.key, one.value, tuple(one.headers))
            for where, records in polled.items()
            for one in records
        ]

    def seek(self, place: Place, offset: int) -> None:
        self._consumer.seek(place, offset)

    def seek_to_beginning(self, place: Place) -> None:
        self._consumer.seek_to_beginning(place)

    def seek_to_end(self, place: Place) -> None:
        self._consumer.seek_to_end(place)
        self.position(place)  # which waits until it is known

    def position(self, place: Place) -> int:
        return self._consumer.position(place)

    def offset_at(self, place: Place, timestamp: int) -> int | None:
        (found,) = self._consumer.offsets_for_times({place: timestamp}).values()
        return found.offset if found.offset >= 0 else None

    def ends(self, place: Place) -> tuple[int, int]:
        (low,) = self._consumer.beginning_offsets([place]).values()
        (high,) = self._consumer.end_offsets([place]).values()
        return low, high


class Admin:
    def __init__(self, made: admin.Admin) -> None:
        self._admin = made

    def create_topic(
        self, name: str, partitions: int, replication_factor: int, configs: Mapping[str, str] | None = None
    ) -> None:
        with told():
            self._admin.create_topic(
                name, partitions=partitions, replication_factor=replication_factor, configs=configs
            )

    def delete_topic(self, name: str) -> None:
        with told():
            self._admin.delete_topic(name)

    def add_partitions(self, name: str, total: int) -> None:
        with told():
            self._admin.create_partitions(name, total)

    def configs(self, name: str) -> dict[str, str]:
        with told():
            return {config: entry.value or "" for config, entry in self._admin.describe_configs(name).items()}

    def alter_config(self, name: str, config: str, value: str) -> None:
        with told():
            self._admin.alter_configs(name, {config: value})

    def topics(self) -> dict[str, int]:
        return {name: len(topic.partitions) for name, topic in self._admin.list_topics().items()}

    def brokers(self) -> dict[int, tuple[str, int]]:
        return dict(self._admin.describe_cluster().brokers)


class OwnClient(Client):
    @contextmanager
    def make_producer(self, bootstrap: str, sending: Sending) -> Iterator[Producer]:
        with producer.Producer(
            bootstrap, acks=sending.acks, idempotent=sending.idempotent, compression=sending.codec,
            batch_bytes=sending.batch_bytes, block=sending.patience_ms / 1000,
        ) as made:  # fmt: skip
            yield Producer(made)

    @contextmanager
    def consumer(self, bootstrap: str, *places: Place, max_wait_ms: int = 500) -> Iterator[Consumer]:
        with consumer.Consumer(bootstrap, fetch_wait=max_wait_ms / 1000) as made:
            made.assign(dict.fromkeys(places, EARLIEST))
            yield Consumer(made)

    @contextmanager
    def admin(self, bootstrap: str) -> Iterator[Admin]:
        with admin.Admin(bootstrap) as made:
            yield Admin(made)
