"""confluent-kafka, which is librdkafka."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, KafkaError, KafkaException, TopicPartition
from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import Producer as ConfluentProducer
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # they are its public names all the same
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
)

from tests.compat.client import MAX_BYTES, PATIENCE_SECONDS, Client, Message, Outgoing, Place, Refused, Sending
from tests.compat.client import Producer as BaseProducer

POLL_SECONDS = 0.05


def refused(error: KafkaError) -> Exception:
    """What the broker said; what the client itself has to complain of stays its own."""
    return Refused(error.code(), error.str()) if error.code() >= 0 else KafkaException(error)


class Delivery:
    def __init__(self, producer: ConfluentProducer) -> None:
        self._producer = producer
        self._done: tuple[KafkaError | None, Any] | None = None

    def done(self, error: KafkaError | None, message: Any) -> None:
        self._done = (error, message)

    def offset(self) -> int | None:
        self._producer.flush(PATIENCE_SECONDS)
        assert self._done is not None, "not delivered in time"
        error, message = self._done
        if error is not None:
            raise refused(error)
        offset: int | None = message.offset()
        return offset


class Producer(BaseProducer):
    def __init__(self, producer: ConfluentProducer) -> None:
        self._producer = producer

    def send_record(self, record: Outgoing) -> Delivery:
        delivery = Delivery(self._producer)
        more: dict[str, Any] = {} if record.timestamp is None else {"timestamp": record.timestamp}
        self._producer.produce(
            record.topic, record.value, record.key, record.partition, on_delivery=delivery.done,
            headers=list(record.headers) or None, **more,
        )  # fmt: skip
        self._producer.poll(0)
        return delivery

    def flush(self) -> None:
        left = self._producer.flush(PATIENCE_SECONDS)
        assert not left, f"{left} messages were not delivered in time"


class Consumer:
    def __init__(self, consumer: ConfluentConsumer) -> None:
        self._consumer = consumer

    def poll(self) -> list[Message]:
        found = []
        for message in self._consumer.consume(1000, POLL_SECONDS):
            error = message.error()
            if error is not None:
                raise refused(error)
            headers: Any = tuple(message.headers() or ())
            topic, partition, offset = message.topic(), message.partition(), message.offset()
            assert topic is not None
            assert partition is not None
            assert offset is not None
            stamp = message.timestamp()[1]
            found.append(Message(topic, partition, offset, stamp, message.key(), message.value(), headers))
        return found

    def seek(self, place: Place, offset: int) -> None:
        partition = TopicPartition(*place, offset)
        try:
            self._consumer.seek(partition)
        except KafkaException as error:
            if error.args[0].code() != KafkaError._STATE:
                raise
            self._consumer.incremental_unassign([partition])  # after an error it has given the partition up
            self._consumer.incremental_assign([partition])

    def seek_to_beginning(self, place: Place) -> None:
        self.seek(place, OFFSET_BEGINNING)

    def seek_to_end(self, place: Place) -> None:
        """As its own users do: by looking where that is."""
        self.seek(place, self.ends(place)[1])

    def position(self, place: Place) -> int:
        (found,) = self._consumer.position([TopicPartition(*place)])
        return int(found.offset)

    def offset_at(self, place: Place, timestamp: int) -> int | None:
        (found,) = self._consumer.offsets_for_times([TopicPartition(*place, timestamp)], timeout=PATIENCE_SECONDS)
        if found.error is not None:
            raise refused(found.error)
        return None if found.offset in (OFFSET_END, -1) else found.offset

    def ends(self, place: Place) -> tuple[int, int]:
        low, high = self._consumer.get_watermark_offsets(TopicPartition(*place), timeout=PATIENCE_SECONDS)
        return low, high


class Admin:
    def __init__(self, admin: AdminClient) -> None:
        self._admin = admin

    def create_topic(
        self, name: str, partitions: int, replication_factor: int, configs: Mapping[str, str] | None = None
    ) -> None:
        topic = NewTopic(
            name, num_partitions=partitions, replication_factor=replication_factor, config=dict(configs or {})
        )
        _settled(self._admin.create_topics([topic]))

    def delete_topic(self, name: str) -> None:
        _settled(self._admin.delete_topics([name]))

    def add_partitions(self, name: str, total: int) -> None:
        _settled(self._admin.create_partitions([NewPartitions(name, total)]))

    def configs(self, name: str) -> dict[str, str]:
        found = _settled(self._admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, name)]))
        return {entry.name: entry.value for entry in found.values()}

    def alter_config(self, name: str, config: str, value: str) -> None:
        entry = ConfigEntry(config, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ConfigResource.Type.TOPIC, name, incremental_configs=[entry])
        _settled(self._admin.incremental_alter_configs([resource]))

    def topics(self) -> dict[str, int]:
        return {
            name: len(topic.partitions)
            for name, topic in self._admin.list_topics(timeout=PATIENCE_SECONDS).topics.items()
        }

    def brokers(self) -> dict[int, tuple[str, int]]:
        found: Any = self._admin.list_topics(timeout=PATIENCE_SECONDS).brokers
        return {number: (broker.host, broker.port) for number, broker in found.items()}


def _settled(futures: Mapping[Any, Future[Any]]) -> Any:
    (future,) = futures.values()
    try:
        return future.result(PATIENCE_SECONDS)
    except KafkaException as error:
        raise refused(error.args[0]) from error


class Confluent(Client):
    @contextmanager
    def make_producer(self, bootstrap: str, sending: Sending) -> Iterator[Producer]:
        with ConfluentProducer(
            {
                "bootstrap.servers": bootstrap, "acks": sending.acks, "enable.idempotence": sending.idempotent,
                "compression.type": sending.codec, "message.max.bytes": MAX_BYTES,
                "batch.size": max(sending.batch_bytes, 1), "message.timeout.ms": sending.patience_ms,
                "topic.metadata.propagation.max.ms": sending.patience_ms // 2,
            }
        ) as producer:  # fmt: skip
            yield Producer(producer)

    @contextmanager
    def consumer(self, bootstrap: str, *places: Place, max_wait_ms: int = 500) -> Iterator[Consumer]:
        consumer = ConfluentConsumer(
            {
                "bootstrap.servers": bootstrap, "group.id": "not joined", "enable.auto.commit": False,
                "auto.offset.reset": "error", "fetch.wait.max.ms": max_wait_ms,
                "socket.timeout.ms": max(60_000, max_wait_ms + 1000),
            }
        )  # fmt: skip
        try:
            consumer.assign([TopicPartition(*place, OFFSET_BEGINNING) for place in places])
            yield Consumer(consumer)
        finally:
            consumer.close()

    @contextmanager
    def admin(self, bootstrap: str) -> Iterator[Admin]:
        yield Admin(AdminClient({"bootstrap.servers": bootstrap}))
