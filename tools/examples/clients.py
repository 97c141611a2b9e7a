"""The plain clients that a scenario runs with: our own, or confluent-kafka. Both have the same few methods here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from importlib.util import find_spec
from typing import Any, NamedTuple, Protocol

from tools.client.consumer import Consumer
from tools.client.errors import CommitFailed
from tools.client.offsets import EARLIEST
from tools.client.producer import Producer
from tools.client.writing.batch import Delivery

Headers = tuple[tuple[str, bytes | None], ...]
_MESSAGES_AT_ONCE = 500
_POLL_SECONDS = 0.5
_FLUSH_SECONDS = 60.0


class ClientMissing(Exception):
    """The package of a client is not installed."""


class ClientFailed(Exception):
    """confluent-kafka gave up; our own client raises its ClientError."""


class Message(NamedTuple):
    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers


class Sender(Protocol):
    """Idempotent, with acks=all."""

    def send(self, topic: str, value: bytes | None, key: bytes | None, headers: Headers = ()) -> None: ...

    def flush(self) -> None:
        """Wait until all records are acknowledged. Raises ClientFailed or ClientError."""

    def close(self) -> None: ...


class Reader(Protocol):
    """A member of a consumer group. A new group begins at the beginning."""

    def poll(self, seconds: float) -> list[Message]: ...

    def commit(self) -> bool:
        """Commit what was polled. False if the group has given the partitions away: the messages are read again."""
        ...

    def close(self) -> None: ...


class Client(Protocol):
    def sender(self, bootstrap: str) -> Sender: ...

    def reader(self, bootstrap: str, group: str, topics: Iterable[str]) -> Reader: ...

    def replay(self, bootstrap: str, topic: str) -> Iterator[Message]:
        """All current messages of a topic, those of a partition in order."""
        ...


# -- our own ---------------------------------------------------------------------------------------------------------


class OwnSender:
    def __init__(self, bootstrap: str) -> None:
        self._producer = Producer(bootstrap, compression="lz4", client_id="example")
        self._deliveries: list[Delivery] = []

    def send(self, topic: str, value: bytes | None, key: bytes | None, headers: Headers = ()) -> None:
        self._deliveries.append(self._producer.send(topic, value, key=key, headers=headers))

    def flush(self) -> None:
        self._producer.flush()
        deliveries, self._deliveries = self._deliveries, []
        for delivery in deliveries:
            delivery.result()

    def close(self) -> None:
        self._producer.close()


class OwnReader:
    def __init__(self, bootstrap: str, group: str, topics: Iterable[str]) -> None:
        self._consumer = Consumer(
            bootstrap, group_id=group, auto_offset_reset="earliest", auto_commit_interval=None, fetch_wait=0.1,
            client_id="example",
        )  # fmt: skip
        self._consumer.subscribe(list(topics))

    def poll(self, seconds: float) -> list[Message]:
        return _messages(self._consumer.poll(seconds, _MESSAGES_AT_ONCE))

    def commit(self) -> bool:
        try:
            self._consumer.commit()
        except CommitFailed:
            return False
        return True

    def close(self) -> None:
        self._consumer.close()


class Own:
    """tools.client."""

    def sender(self, bootstrap: str) -> Sender:
        return OwnSender(bootstrap)

    def reader(self, bootstrap: str, group: str, topics: Iterable[str]) -> Reader:
        return OwnReader(bootstrap, group, topics)

    def replay(self, bootstrap: str, topic: str) -> Iterator[Message]:
        with Consumer(bootstrap, client_id="example") as consumer:
            ends = consumer.end_offsets(consumer.partitions(topic))
            consumer.assign(dict.fromkeys(ends, EARLIEST))
            while any(consumer.position(where) < end for where, end in ends.items()):
                yield from _messages(consumer.poll(_POLL_SECONDS))


def _messages(records: Mapping[Any, Any]) -> list[Message]:
    return [
        Message(where.topic, where.partition, one.offset, one.key, one.value, one.headers)
        for where, some in records.items()
        for one in some
    ]


# -- confluent-kafka -------------------------------------------------------------------------------------------------


class ConfluentSender:
    def __init__(self, bootstrap: str) -> None:
        import confluent_kafka  # noqa: PLC0415  optional

        self._kafka: Any = confluent_kafka
        self._producer: Any = confluent_kafka.Producer({
            "bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5, "client.id": "example",
            "partitioner": "murmur2_random", "log_level": 2,
        })  # fmt: skip
        self._errors: list[str] = []

    def send(self, topic: str, value: bytes | None, key: bytes | None, headers: Headers = ()) -> None:
        while True:
            try:
                self._producer.produce(topic, value, key, headers=list(headers), on_delivery=self._delivered)
            except BufferError:
                self._producer.poll(_POLL_SECONDS)
            except self._kafka.KafkaException as error:
                raise ClientFailed(f"{topic}: {error}") from error
            else:
                self._producer.poll(0)
                return

    def _delivered(self, error: object, message: Any) -> None:
        if error is not None:
            self._errors.append(f"{message.topic()}-{message.partition()}: {error}")

    def flush(self) -> None:
        left = self._producer.flush(_FLUSH_SECONDS)
        if left:
            self._errors.append(f"{left} records were not acknowledged within {_FLUSH_SECONDS:g} s")
        if self._errors:
            raise ClientFailed(self._errors[0])

    def close(self) -> None:
        self.flush()


class ConfluentReader:
    def __init__(self, bootstrap: str, group: str, topics: Iterable[str]) -> None:
        import confluent_kafka  # noqa: PLC0415  optional

        self._kafka: Any = confluent_kafka
        self._consumer: Any = confluent_kafka.Consumer({
            "bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest",
            "enable.auto.commit": False, "fetch.wait.max.ms": 100, "client.id": "example",
            "log_level": 2,
        })  # fmt: skip
        self._consumer.subscribe(list(topics))

    def poll(self, seconds: float) -> list[Message]:
        return _confluent_messages(self._consumer.consume(_MESSAGES_AT_ONCE, seconds), lambda _: None)

    def commit(self) -> bool:
        try:
            self._consumer.commit(asynchronous=False)
        except self._kafka.KafkaException as error:
            name = error.args[0].name()
            if name == "_NO_OFFSET":
                return True
            if name in ("ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID", "REBALANCE_IN_PROGRESS", "_ASSIGNMENT_LOST"):
                return False
            raise ClientFailed(str(error)) from error
        return True

    def close(self) -> None:
        self._consumer.close()


class Confluent:
    """confluent-kafka."""

    def __init__(self) -> None:
        if find_spec("confluent_kafka") is None:
            raise ClientMissing("confluent-kafka is not installed: pip install confluent-kafka")

    def sender(self, bootstrap: str) -> Sender:
        return ConfluentSender(bootstrap)

    def reader(self, bootstrap: str, group: str, topics: Iterable[str]) -> Reader:
        return ConfluentReader(bootstrap, group, topics)

    def replay(self, bootstrap: str, topic: str) -> Iterator[Message]:
        import confluent_kafka as kafka  # noqa: PLC0415  optional

        settings = {"bootstrap.servers": bootstrap, "group.id": "not-used", "enable.auto.commit": False,
                    "enable.partition.eof": True, "auto.offset.reset": "earliest", "log_level": 2}  # fmt: skip
        with closing(kafka.Consumer(settings)) as consumer:
            numbers = consumer.list_topics(topic, timeout=_FLUSH_SECONDS).topics[topic].partitions
            left = set(numbers)
            consumer.assign([kafka.TopicPartition(topic, number, kafka.OFFSET_BEGINNING) for number in numbers])
            while left:
                yield from _confluent_messages(consumer.consume(_MESSAGES_AT_ONCE, _POLL_SECONDS), left.discard)


def _confluent_messages(polled: Iterable[Any], at_end: Callable[[int], object]) -> list[Message]:
    """The messages; what librdkafka tells between them is an end, a failure that it gets over, or the end of it all."""
    found: list[Message] = []
    for one in polled:
        error = one.error()
        if error is None:
            headers = tuple(one.headers() or ())
            found.append(Message(one.topic(), one.partition(), one.offset(), one.key(), one.value(), headers))
        elif error.name() == "_PARTITION_EOF":
            at_end(one.partition())
        elif error.fatal() or not (error.retriable() or error.name().startswith("_")):
            raise ClientFailed(str(error))
    return found


CLIENTS: Mapping[str, Callable[[], Client]] = {"barnabas": Own, "confluent": Confluent}
"""The values of `--client`."""
