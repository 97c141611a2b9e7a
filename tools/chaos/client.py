"""A thread with a Kafka client, and the meaning of its errors.

Only an acknowledgement is sure: librdkafka retries by itself, so a refusal may be that of a second attempt whose first
attempt was written. Every other outcome is recorded as unknown.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

import attrs
from attrs import frozen
from confluent_kafka import KafkaError, KafkaException, Message

from tools.chaos.librdkafka.fatal_errors import Producer, raised_before
from tools.chaos.recorder import Recorder
from tools.checker.history import OK, READ_COMMITTED, TRANSACTIONAL, UNKNOWN, OffsetCommit, Poll, Send

_QUIET = logging.getLogger(f"{__package__}.librdkafka")
_QUIET.addHandler(logging.NullHandler())
_QUIET.propagate = False
CALL_SECONDS = 20.0
"""The timeout of one call of a client; a retriable call is made again."""
ATTEMPTS_MAX = 5
"""After so many failed calls a client gives up its producer and makes a new one."""


@frozen(slots=True)
class Setting:
    """What all clients of a round have in common."""

    bootstrap: str
    recorder: Recorder
    seed: str
    name: str
    """The name of the round: topics, groups and transactional ids begin with it."""
    partitions: int
    rate: float
    """Records per second and producer."""

    def topic(self, name: str) -> str:
        return f"{self.name}-{name}"

    def places(self, *names: str) -> list[tuple[str, int]]:
        return [(self.topic(name), number) for name in names for number in range(self.partitions)]

    def config(self, **more: Any) -> dict[str, Any]:
        """The settings of a librdkafka client. Without a logger librdkafka writes to stderr."""
        base = {
            "bootstrap.servers": self.bootstrap, "log_level": 0, "logger": _QUIET, "reconnect.backoff.max.ms": 500,
            "topic.metadata.refresh.interval.ms": 5000, "socket.timeout.ms": 6000,
        }  # fmt: skip
        return base | {name.replace("_", "."): value for name, value in more.items()}


class Client(threading.Thread):
    """Works until `end` is called; `failure` keeps the exception that ended it."""

    workload = ""

    def __init__(self, name: str, setting: Setting) -> None:
        super().__init__(name=name, daemon=True)
        self.setting, self.recorder = setting, setting.recorder
        self.rng = random.Random(f"{setting.seed} {setting.name} {name}")
        self.ending = threading.Event()
        self.failure: Exception | None = None
        self.outstanding: dict[str, Send] = {}
        """By value: sends without an outcome yet, as they are recorded if no outcome follows."""
        self.committing: list[OffsetCommit] = []
        """The same of offsets."""

    def run(self) -> None:
        try:
            self.work()
        except Exception as error:  # noqa: BLE001  it goes into the verdict
            self.failure = error

    def work(self) -> None:
        raise NotImplementedError

    def end(self) -> None:
        self.ending.set()

    def record_outstanding(self) -> None:
        """Record the sends and offsets of a client that hangs as unknown."""
        for send in list(self.outstanding.values()):
            self.recorder.add(self.workload, attrs.evolve(send, end=self.recorder.now))
        for commit in self.committing:
            self.recorder.add(self.workload, attrs.evolve(commit, end=self.recorder.now))

    def without_errors(self, messages: Iterable[Message]) -> list[Message]:
        """The records among these messages. Errors are counted; the end of a partition is no error."""
        good: list[Message] = []
        for message in messages:
            error = message.error()
            if error is None:
                good.append(message)
            elif error.code() != KafkaError._PARTITION_EOF:
                self.told("consume", error)
        return good

    def told(self, what: str, error: KafkaError) -> None:
        self.recorder.error(self.workload, f"{what}: {error.name()}")


def error_of(exception: KafkaException) -> KafkaError:
    error: KafkaError = exception.args[0]
    return error


def repeatedly(client: Client, what: str, call: Callable[[], object]) -> KafkaError | None:
    """Make a call of a transactional producer until it succeeds or fails with an error that is not retriable."""
    for _ in range(ATTEMPTS_MAX):
        try:
            call()
        except KafkaException as exception:
            error = error_of(exception)
            client.told(what, error)
            if not error.retriable():
                return error
        else:
            return None
    return error


def send(
    client: Client,
    producer: Producer,
    name: str,
    place: tuple[str, int],
    value: str,
    kind: str,
    transaction: str | None = None,
) -> None:
    """Send a record. Raises KafkaException if the producer cannot be used any more."""
    topic, number = place
    recorder, workload = client.recorder, client.workload

    def delivered(error: KafkaError | None, message: Message) -> None:
        fatal = raised_before(time.monotonic)
        outcome, offset = (OK, offset_of(message)) if error is None else (UNKNOWN, -1)
        if error is not None and kind != TRANSACTIONAL:
            client.told("delivery", error)
        made = attrs.evolve(client.outstanding.pop(value), outcome=outcome, end=recorder.now, offset=offset)
        recorder.add(workload, made)
        if fatal is not None:
            raise fatal

    while True:
        now = recorder.now
        client.outstanding[value] = Send(
            name, f"{topic}-{number}", value, UNKNOWN, now, now, kind=kind, transaction=transaction
        )
        try:
            producer.produce(topic, value.encode(), partition=number, on_delivery=delivered)
        except BufferError:
            producer.poll(0.1)
        except KafkaException:
            del client.outstanding[value]  # it was not even tried
            raise
        else:
            return


def offset_of(message: Message) -> int:
    """The offset of the record; -1 if librdkafka knows only that it was written, from a later acknowledgement."""
    offset = message.offset()
    return -1 if offset is None else offset


def give_up(client: Client, producer: Producer) -> None:
    """Drop what the producer has not sent, and wait until every delivery is reported."""
    producer.purge()
    for _ in range(ATTEMPTS_MAX):
        try:
            producer.flush(CALL_SECONDS)
        except KafkaException as exception:  # it raises its fatal error once more before it continues
            client.told("flush", error_of(exception))
        else:
            return


def record_polls(
    client: Client,
    consumer: str,
    assignment: Callable[[str, int], str],
    messages: Iterable[Message],
    began: float,
    *,
    isolation: str = READ_COMMITTED,
    transaction: str | None = None,
    fresh: set[str] | None = None,
) -> dict[tuple[str, int], int]:
    """Record what was read. Gives the next offset of each partition.

    `fresh` has the partitions that were read before, of a consumer that begins at 0 everywhere.
    """
    found: dict[tuple[str, int], list[tuple[int, str]]] = {}
    for message in messages:
        place = (message.topic() or "", message.partition() or 0)
        found.setdefault(place, []).append((message.offset() or 0, (message.value() or b"").decode()))
    ended = client.recorder.now
    for (topic, number), records in found.items():
        partition = f"{topic}-{number}"
        position = -1
        if fresh is not None and partition not in fresh:
            fresh.add(partition)
            position = 0
        poll = Poll(
            consumer, assignment(topic, number), partition, tuple(records), began, ended, position,
            isolation=isolation, transaction=transaction,
        )  # fmt: skip
        client.recorder.add(client.workload, poll)
    return {place: records[-1][0] + 1 for place, records in found.items()}
