"""What the tests of transactions want of a client: the same few calls for each, beside those of client.py."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from typing import Any, Protocol

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioPartition
from aiokafka.errors import KafkaError as AioError
from confluent_kafka import OFFSET_BEGINNING, KafkaException, TopicPartition
from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import Producer as ConfluentProducer
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as PythonPartition
from kafka.errors import KafkaError as PythonError

from tests.compat import aiokafka_client, confluent, kafka_python, own_client
from tests.compat.client import PATIENCE_SECONDS, Consumer, Place, Refused
from tools.client import consumer, producer
from tools.client.errors import ClientError
from tools.client.offsets import EARLIEST
from tools.client.writing import batch

TIMEOUT_MS = 30_000


class Failed(Exception):
    """The client says that the transaction, or the producer with it, came to nothing."""


@contextmanager
def failing(*kinds: type[Exception]) -> Iterator[None]:
    """Raises Failed for these errors of a client."""
    try:
        yield
    except kinds as error:
        raise Failed(str(error)) from error


class Transactions(Protocol):
    """A producer with a transactional id, which has begun: all others with this id are fenced."""

    def begin(self) -> None: ...

    def send(self, place: Place, value: bytes) -> None: ...

    def flush(self) -> None:
        """Wait until everything is written. Raises Failed."""

    def commit(self) -> None:
        """Raises Failed."""

    def abort(self) -> None: ...


class TransactionalClient(Protocol):
    def producer(
        self, bootstrap: str, transactional_id: str, timeout_ms: int = TIMEOUT_MS
    ) -> AbstractContextManager[Transactions]: ...

    def committed(self, bootstrap: str, *places: Place) -> AbstractContextManager[Consumer]:
        """A reader of committed records, from the beginnings of these partitions."""


# -- confluent-kafka ---------------------------------------------------------------------------------------------------


class ConfluentTransactions:
    def __init__(self, producer: ConfluentProducer) -> None:
        self._producer = producer

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, place: Place, value: bytes) -> None:
        with failing(KafkaException):
            self._producer.produce(place[0], value, partition=place[1])

    def flush(self) -> None:
        with failing(KafkaException):
            left = self._producer.flush(PATIENCE_SECONDS)
        assert not left, "not everything was delivered"

    def commit(self) -> None:
        with failing(KafkaException):
            self._producer.commit_transaction(PATIENCE_SECONDS)

    def abort(self) -> None:
        self._producer.abort_transaction(PATIENCE_SECONDS)


class Confluent:
    @contextmanager
    def producer(
        self, bootstrap: str, transactional_id: str, timeout_ms: int = TIMEOUT_MS
    ) -> Iterator[ConfluentTransactions]:
        config = {
            "bootstrap.servers": bootstrap, "transactional.id": transactional_id, "linger.ms": 0, "log_level": 0,
            "transaction.timeout.ms": timeout_ms, "socket.timeout.ms": min(10_000, timeout_ms),
        }  # fmt: skip
        producer = ConfluentProducer(config)
        producer.init_transactions(PATIENCE_SECONDS)
        yield ConfluentTransactions(producer)
        producer.purge()

    @contextmanager
    def committed(self, bootstrap: str, *places: Place) -> Iterator[Consumer]:
        consumer = ConfluentConsumer(
            {
                "bootstrap.servers": bootstrap, "group.id": "not joined", "enable.auto.commit": False,
                "auto.offset.reset": "error", "isolation.level": "read_committed",
            }
        )  # fmt: skip
        try:
            consumer.assign([TopicPartition(*place, OFFSET_BEGINNING) for place in places])
            yield confluent.Consumer(consumer)
        finally:
            consumer.close()


# -- kafka-python ------------------------------------------------------------------------------------------------------


class PythonTransactions:
    def __init__(self, producer: Any) -> None:
        self._producer = producer
        self._sent: list[Any] = []

    def begin(self) -> None:
        self._sent.clear()
        self._producer.begin_transaction()

    def send(self, place: Place, value: bytes) -> None:
        with failing(PythonError):
            self._sent.append(self._producer.send(place[0], value, partition=place[1]))

    def flush(self) -> None:
        with failing(PythonError):
            for future in self._sent:
                future.get(PATIENCE_SECONDS)

    def commit(self) -> None:
        with failing(PythonError):
            self._producer.commit_transaction()

    def abort(self) -> None:
        self._producer.abort_transaction()


class KafkaPython:
    @contextmanager
    def producer(
        self, bootstrap: str, transactional_id: str, timeout_ms: int = TIMEOUT_MS
    ) -> Iterator[PythonTransactions]:
        producer = KafkaProducer(
            bootstrap_servers=bootstrap.split(","), transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms, max_block_ms=int(PATIENCE_SECONDS * 1000),
        )  # fmt: skip
        try:
            producer.init_transactions()
            yield PythonTransactions(producer)
        finally:
            producer.close(timeout=1)

    @contextmanager
    def committed(self, bootstrap: str, *places: Place) -> Iterator[Consumer]:
        with closing(
            KafkaConsumer(
                bootstrap_servers=bootstrap.split(","), group_id=None, auto_offset_reset="none",
                isolation_level="read_committed",
            )
        ) as consumer:  # fmt: skip
            partitions = [PythonPartition(*place) for place in places]
            consumer.assign(partitions)
            consumer.seek_to_beginning(*partitions)
            yield kafka_python.Consumer(consumer)


# -- aiokafka ----------------------------------------------------------------------------------------------------------


class AioTransactions:
    def __init__(self, loop: aiokafka_client.Loop, producer: Any) -> None:
        self._loop, self._producer = loop, producer
        self._sent: list[Any] = []

    def begin(self) -> None:
        self._sent.clear()
        self._loop.run(self._producer.begin_transaction())

    def send(self, place: Place, value: bytes) -> None:
        with failing(AioError, Refused):
            self._sent.append(self._loop.run(self._producer.send(place[0], value, partition=place[1])))

    def flush(self) -> None:
        with failing(AioError, Refused):
            for future in self._sent:
                self._loop.wait(future)

    def commit(self) -> None:
        try:
            self._loop.run(self._producer.commit_transaction())
        except (AioError, Refused) as error:
            raise Failed(str(error)) from error
        except AssertionError as error:  # all that it says if it knew before that it is fenced
            if not self._producer._txn_manager.is_fatal_error():
                raise
            raise Failed(str(error)) from error

    def abort(self) -> None:
        self._loop.run(self._producer.abort_transaction())


class AioKafka:
    @contextmanager
    def producer(
        self, bootstrap: str, transactional_id: str, timeout_ms: int = TIMEOUT_MS
    ) -> Iterator[AioTransactions]:
        with aiokafka_client.Loop() as loop:
            producer = loop.make(
                AIOKafkaProducer, bootstrap_servers=bootstrap, transactional_id=transactional_id,
                transaction_timeout_ms=timeout_ms,
            )  # fmt: skip
            try:
                loop.run(producer.start())
                yield AioTransactions(loop, producer)
            finally:
                _stopped(loop, producer)

    @contextmanager
    def committed(self, bootstrap: str, *places: Place) -> Iterator[Consumer]:
        with aiokafka_client.Loop() as loop:
            consumer = loop.make(
                AIOKafkaConsumer, bootstrap_servers=bootstrap, group_id=None, auto_offset_reset="none",
                isolation_level="read_committed",
            )  # fmt: skip
            try:
                loop.run(consumer.start())
                loop.run(aiokafka_client._assigned(consumer, [AioPartition(*place) for place in places]))
                yield aiokafka_client.Consumer(loop, consumer)
            finally:
                loop.run(consumer.stop())


def _stopped(loop: aiokafka_client.Loop, producer: Any) -> None:
    with suppress(AioError, Refused):  # a fenced one says so once more
        loop.run(producer.stop())


# -- our own -----------------------------------------------------------------------------------------------------------


class OwnTransactions:
    def __init__(self, made: producer.Producer) -> None:
        self._producer = made
        self._sent: list[batch.Delivery] = []

    def begin(self) -> None:
        self._sent.clear()
        self._producer.begin()

    def send(self, place: Place, value: bytes) -> None:
        with failing(ClientError):
            self._sent.append(self._producer.send(place[0], value, partition=place[1]))

    def flush(self) -> None:
        self._producer.flush(PATIENCE_SECONDS)
        with failing(ClientError):
            for delivery in self._sent:
                delivery.result(PATIENCE_SECONDS)

    def commit(self) -> None:
        with failing(ClientError):
            self._producer.commit(PATIENCE_SECONDS)

    def abort(self) -> None:
        self._producer.abort(PATIENCE_SECONDS)


class OwnClient:
    @contextmanager
    def producer(
        self, bootstrap: str, transactional_id: str, timeout_ms: int = TIMEOUT_MS
    ) -> Iterator[OwnTransactions]:
        with producer.Producer(
            bootstrap, transactional_id=transactional_id, transaction_timeout=timeout_ms / 1000, block=PATIENCE_SECONDS
        ) as made:
            made.init_transactions()
            yield OwnTransactions(made)

    @contextmanager
    def committed(self, bootstrap: str, *places: Place) -> Iterator[Consumer]:
        with consumer.Consumer(bootstrap, isolation="read_committed") as made:
            made.assign(dict.fromkeys(places, EARLIEST))
            yield own_client.Consumer(made)


CLIENTS: Mapping[str, type[TransactionalClient]] = {
    "confluent-kafka": Confluent, "kafka-python": KafkaPython, "aiokafka": AioKafka, "our own": OwnClient,
}  # fmt: skip
