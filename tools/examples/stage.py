"""What a scenario has around it: a cluster, a client, topics of its own, a broker that dies if that is asked for, and a
line about each step.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from attrs import define, field

from tools.client.admin import Admin
from tools.examples.clients import Client, Own, Reader, Sender
from tools.examples.envelope import Envelope, first_event

SECONDS_MAX = 120.0
_LINE_SECONDS = 2.0
Sent = tuple[bytes | None, bytes | None]
"""A key and a value."""


class ScenarioFailed(Exception):
    """The result is not what it must be, or did not come about in time."""


def must(is_so: object, told: str) -> None:
    """Raise ScenarioFailed if a result is wrong."""
    if not is_so:
        raise ScenarioFailed(told)


@define
class Stage:
    """Topics begin with `prefix`, which is empty on a cluster of the scenario's own."""

    bootstrap: str
    directory: Path
    client: Client = field(factory=Own)
    seed: int = 7
    count: int | None = None
    prefix: str = ""
    say: Callable[[str], object] = lambda _: None
    kill: Callable[[int], object] | None = None
    """Ends a broker, if one has to die in the middle."""
    made: list[str] = field(factory=list)

    def counted(self, default: int) -> int:
        """How many events there are."""
        return self.count or default

    def topic(self, name: str) -> str:
        return f"{self.prefix}{name}"

    def make_topics(self, *names: str, partitions: int = 3) -> None:
        with Admin(self.bootstrap) as admin:
            for name in names:
                admin.create_topic(self.topic(name), partitions=partitions)
                self.made.append(self.topic(name))
        self.say(f"{', '.join(map(self.topic, names))}: made, partitions: {partitions}")

    def remove_topics(self) -> None:
        """Delete what `make_topics` made, from a cluster that others use."""
        with Admin(self.bootstrap) as admin:
            while self.made:
                admin.delete_topic(self.made.pop())

    @contextmanager
    def sender(self) -> Iterator[Sender]:
        sender = self.client.sender(self.bootstrap)
        try:
            yield sender
        finally:
            sender.close()

    @contextmanager
    def reader(self, group: str, *topics: str) -> Iterator[Reader]:
        reader = self.client.reader(self.bootstrap, f"{self.prefix}{group}", [self.topic(one) for one in topics])
        try:
            yield reader
        finally:
            reader.close()

    def send(self, topic: str, records: Iterable[Sent]) -> None:
        """Send keys and values, and wait until all are acknowledged."""
        count, line = 0, time.monotonic()
        with self.sender() as sender:
            for key, value in records:
                sender.send(self.topic(topic), value, key)
                count += 1
                if time.monotonic() - line >= _LINE_SECONDS:
                    self.say(f"{count:,} messages are sent to {self.topic(topic)}")
                    line = time.monotonic()
            sender.flush()
        self.say(f"{count:,} messages are in {self.topic(topic)}")

    def interrupted(self, topic: str, records: Sequence[Sent]) -> Iterator[Sent]:
        """These records. In the middle a broker dies, if one has to."""
        for number, record in enumerate(records):
            if number == len(records) // 2:
                self.middle(topic)
            yield record

    def middle(self, topic: str) -> None:
        """Kill the leader of the topic's first partition, once."""
        if self.kill is None:
            return
        with Admin(self.bootstrap) as admin:
            partition = admin.describe_topic(self.topic(topic)).partitions[0]
        must(partition is not None and partition.leader is not None, f"{self.topic(topic)}-0 has no leader")
        assert partition is not None
        assert partition.leader is not None
        kill, self.kill = self.kill, None
        kill(partition.leader)
        self.say(f"broker {partition.leader}, which led {self.topic(topic)}-0, was killed")

    def until(self, is_done: Callable[[], bool], step: Callable[[], object], told: Callable[[], str]) -> None:
        """Take steps until it is done, and say from time to time how far it is."""
        begin = line = time.monotonic()
        while not is_done():
            step()
            now = time.monotonic()
            if now - line >= _LINE_SECONDS:
                self.say(told())
                line = now
            must(now - begin < SECONDS_MAX, f"not within {SECONDS_MAX:g} s: {told()}")
        self.say(told())


class Events:
    """Makes events that have no cause, with ids and times that the seed gives."""

    BEGIN = 1_767_225_600_000
    """2026-01-01, a multiple of every window's step."""

    def __init__(self, seed: int, sender: str, step_ms: int = 1_000) -> None:
        self._seed, self._sender, self._step = seed, sender, step_ms
        self._number = 0

    def event(self, type_: str, correlation_id: str, timestamp: int | None = None, **data: object) -> Envelope:
        number, self._number = self._number, self._number + 1
        time_ms = self.BEGIN + number * self._step if timestamp is None else timestamp
        return first_event(type_, self._sender, correlation_id, data, timestamp=time_ms, seed=self._seed, number=number)
