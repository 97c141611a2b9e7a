"""What the tests want of a Kafka client: the same few calls for each, so that every test is written once.

An adapter per client turns these into the client's own: confluent.py, kafka_python.py, aiokafka_client.py. Clients are
used as they come, with their defaults, but for what a test asks for.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple, Protocol

from attrs import frozen

from protocol.error_codes import ErrorCode

PATIENCE_SECONDS = 40.0
MAX_BYTES = 3 << 20
"""What clients may send in one request; the broker's own limit is what is tested."""
Place = tuple[str, int]
"""A topic and a partition of it."""


class Message(NamedTuple):
    """A record as a consumer got it."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


class Refused(Exception):
    """The client reports an error that it had from a broker."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code}: {text}")
        self.error = ErrorCode(code)


class Delivery(Protocol):
    """A record on its way."""

    def offset(self) -> int | None:
        """Wait until the record is written and return its offset; with acks=0 a value of the client. Raises Refused."""


class Outgoing(NamedTuple):
    """A record as a test gives it."""

    topic: str
    partition: int
    value: bytes | None
    key: bytes | None
    headers: Sequence[tuple[str, bytes | None]]
    timestamp: int | None


class Producer(ABC):
    def send(
        self,
        place: Place,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        timestamp: int | None = None,
    ) -> Delivery:
        return self.send_record(Outgoing(*place, value, key, headers, timestamp))

    @abstractmethod
    def send_record(self, record: Outgoing) -> Delivery: ...

    @abstractmethod
    def flush(self) -> None: ...


class Consumer(Protocol):
    """Of assigned partitions; reads from their beginnings by default."""

    def poll(self) -> list[Message]:
        """The available records, after a short wait."""

    def seek(self, place: Place, offset: int) -> None: ...

    def seek_to_beginning(self, place: Place) -> None: ...

    def seek_to_end(self, place: Place) -> None: ...

    def position(self, place: Place) -> int: ...

    def offset_at(self, place: Place, timestamp: int) -> int | None:
        """The offset of the first record with this timestamp or a later one; None if there is none."""

    def ends(self, place: Place) -> tuple[int, int]:
        """Where it begins and where it ends."""


class Admin(Protocol):
    def create_topic(
        self, name: str, partitions: int, replication_factor: int, configs: Mapping[str, str] | None = None
    ) -> None: ...

    def delete_topic(self, name: str) -> None: ...

    def add_partitions(self, name: str, total: int) -> None: ...

    def configs(self, name: str) -> dict[str, str]: ...

    def alter_config(self, name: str, config: str, value: str) -> None: ...

    def topics(self) -> dict[str, int]:
        """Every topic and the number of its partitions."""

    def brokers(self) -> dict[int, tuple[str, int]]:
        """Where they are, as the cluster tells it."""


@frozen
class Sending:
    """How a producer sends."""

    acks: int = -1
    idempotent: bool = False
    codec: str = "none"
    batch_bytes: int = 16384
    patience_ms: int = 30_000


class Client(ABC):
    def producer(self, bootstrap: str, **sending: Any) -> AbstractContextManager[Producer]:
        """With the fields of Sending as options."""
        return self.make_producer(bootstrap, Sending(**sending))

    @abstractmethod
    def make_producer(self, bootstrap: str, sending: Sending) -> AbstractContextManager[Producer]: ...

    @abstractmethod
    def consumer(self, bootstrap: str, *places: Place, max_wait_ms: int = 500) -> AbstractContextManager[Consumer]: ...

    @abstractmethod
    def admin(self, bootstrap: str) -> AbstractContextManager[Admin]: ...


def messages(polled: Iterable[Iterable[Any]]) -> list[Message]:
    """Records as the Python clients give them, by partition."""
    return [
        Message(one.topic, one.partition, one.offset, one.timestamp, one.key, one.value, tuple(one.headers))
        for records in polled
        for one in records
    ]


@contextmanager
def refusals(kind: type[Exception], code: Callable[[Any], int]) -> Iterator[None]:
    """Raises Refused for errors of this kind, which a client raises for what a broker refused."""
    try:
        yield
    except kind as error:
        raise Refused(code(error), str(error)) from error


def read(consumer: Consumer, count: int) -> list[Message]:
    """The next `count` messages. It is a mistake if there are more."""
    found: list[Message] = []
    read_until(consumer, found, lambda: len(found) >= count)
    assert len(found) == count, f"{len(found)} messages came; {count} were wanted"
    return found


def read_until(consumer: Consumer, found: list[Message], enough: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not enough():
        assert time.monotonic() < deadline, f"only {len(found)} messages came; the last was {found[-1:]}"
        found.extend(consumer.poll())
