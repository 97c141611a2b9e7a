"""aiokafka, with its loop on a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, Self

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import BrokerResponseError, for_code

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

POLL_MS = 50


told = partial(refusals, BrokerResponseError, lambda error: error.errno)


def check(code: int, text: str | None) -> None:
    if code:
        raise Refused(code, text or for_code(code).__name__)


class Loop:
    """Where aiokafka lives."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()

    def run(self, call: Coroutine[Any, Any, Any]) -> Any:
        with told():
            return asyncio.run_coroutine_threadsafe(call, self._loop).result(PATIENCE_SECONDS)

    def wait(self, call: Awaitable[Any]) -> Any:
        async def waited() -> Any:
            return await call

        return self.run(waited())

    def make(self, kind: Any, **options: Any) -> Any:
        """It wants to be made on the loop."""

        async def made() -> Any:
            return kind(**options)

        return self.run(made())


class Delivery:
    def __init__(self, loop: Loop, future: Any) -> None:
        self._loop = loop
        self._future = future

    def offset(self) -> int | None:
        found = self._loop.wait(self._future)
        return None if found is None else int(found.offset)


class Producer(BaseProducer):
    def __init__(self, loop: Loop, producer: Any) -> None:
        self._loop = loop
        self._producer = producer

    def send_record(self, record: Outgoing) -> Delivery:
        headers = list(record.headers) or None
        send = self._producer.send(record.topic, record.value, record.key, record.partition, record.timestamp, headers)
        return Delivery(self._loop, self._loop.run(send))

    def flush(self) -> None:
        self._loop.run(self._producer.flush())


class Consumer:
    def __init__(self, loop: Loop, consumer: Any) -> None:
        self._loop = loop
        self._consumer = consumer

    def poll(self) -> list[Message]:
        polled = self._loop.run(self._consumer.getmany(timeout_ms=POLL_MS))
        return messages(polled.values())

    def seek(self, place: Place, offset: int) -> None:
        async def seek() -> None:
            self._consumer.seek(TopicPartition(*place), offset)

        self._loop.run(seek())

    def seek_to_beginning(self, place: Place) -> None:
        self._loop.run(self._consumer.seek_to_beginning(TopicPartition(*place)))

    def seek_to_end(self, place: Place) -> None:
        self._loop.run(self._consumer.seek_to_end(TopicPartition(*place)))

    def position(self, place: Place) -> int:
        return int(self._loop.run(self._consumer.position(TopicPartition(*place))))

    def offset_at(self, place: Place, timestamp: int) -> int | None:
        (found,) = self._loop.run(self._consumer.offsets_for_times({TopicPartition(*place): timestamp})).values()
        return None if found is None else int(found.offset)

    def ends(self, place: Place) -> tuple[int, int]:
        partition = TopicPartition(*place)
        low = self._loop.run(self._consumer.beginning_offsets([partition]))
        high = self._loop.run(self._consumer.end_offsets([partition]))
        return low[partition], high[partition]


class Admin:
    def __init__(self, loop: Loop, admin: Any) -> None:
        self._loop = loop
        self._admin = admin

    def create_topic(
        self, name: str, partitions: int, replication_factor: int, configs: Mapping[str, str] | None = None
    ) -> None:
        topic = NewTopic(name, partitions, replication_factor, topic_configs=dict(configs or {}))
        for _, code, text in self._loop.run(self._admin.create_topics([topic])).topic_errors:
            check(code, text)

    def delete_topic(self, name: str) -> None:
        for _, code in self._loop.run(self._admin.delete_topics([name])).topic_error_codes:
            check(code, None)

    def add_partitions(self, name: str, total: int) -> None:
        answer = self._loop.run(self._admin.create_partitions({name: NewPartitions(total)}))
        for _, code, text in answer.topic_errors:
            check(code, text)

    def configs(self, name: str) -> dict[str, str]:
        found: dict[str, str] = {}
        resource = ConfigResource(ConfigResourceType.TOPIC, name)
        for answer in self._loop.run(self._admin.describe_configs([resource])):
            for code, text, _, _, entries in answer.resources:
                check(code, text)
                found |= {entry[0]: entry[1] for entry in entries}
        return found

    def alter_config(self, name: str, config: str, value: str) -> None:
        resource = ConfigResource(ConfigResourceType.TOPIC, name, {config: value})
        for answer in self._loop.run(self._admin.alter_configs([resource])):
            for code, text, *_ in answer.resources:
                check(code, text)

    def topics(self) -> dict[str, int]:
        return {topic["topic"]: len(topic["partitions"]) for topic in self._loop.run(self._admin.describe_topics())}

    def brokers(self) -> dict[int, tuple[str, int]]:
        found = self._loop.run(self._admin.describe_cluster())["brokers"]
        return {broker["node_id"]: (broker["host"], broker["port"]) for broker in found}


class AioKafka(Client):
    @contextmanager
    def make_producer(self, bootstrap: str, sending: Sending) -> Iterator[Producer]:
        with Loop() as loop:
            producer = loop.make(
                AIOKafkaProducer, bootstrap_servers=bootstrap, acks=sending.acks, enable_idempotence=sending.idempotent,
                compression_type=None if sending.codec == "none" else sending.codec, max_batch_size=sending.batch_bytes,
                max_request_size=MAX_BYTES, request_timeout_ms=sending.patience_ms,
            )  # fmt: skip
            try:
                loop.run(producer.start())
                yield Producer(loop, producer)
            finally:
                loop.run(producer.stop())

    @contextmanager
    def consumer(self, bootstrap: str, *places: Place, max_wait_ms: int = 500) -> Iterator[Consumer]:
        with Loop() as loop:
            consumer = loop.make(
                AIOKafkaConsumer, bootstrap_servers=bootstrap, group_id=None, auto_offset_reset="none",
                fetch_max_wait_ms=max_wait_ms, request_timeout_ms=max(40_000, max_wait_ms + 1000),
            )  # fmt: skip
            try:
                loop.run(consumer.start())
                partitions = [TopicPartition(*place) for place in places]
                loop.run(_assigned(consumer, partitions))
                yield Consumer(loop, consumer)
            finally:
                loop.run(consumer.stop())

    @contextmanager
    def admin(self, bootstrap: str) -> Iterator[Admin]:
        with Loop() as loop:
            admin = loop.make(AIOKafkaAdminClient, bootstrap_servers=bootstrap)
            try:
                loop.run(admin.start())
                yield Admin(loop, admin)
            finally:
                loop.run(admin.close())


async def _assigned(consumer: Any, partitions: list[Any]) -> None:
    consumer.assign(partitions)
    if partitions:
        await consumer.seek_to_beginning(*partitions)
