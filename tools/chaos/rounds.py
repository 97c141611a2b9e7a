"""A round: topics, clients, faults, its end, and its outcome."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from attrs import define, field
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # its public name

from tools.chaos.client import Client, Setting
from tools.chaos.exactly_once import check_exactly_once, source_of
from tools.chaos.faults import Faults
from tools.chaos.final_read import FinalReader
from tools.chaos.producers import Sender
from tools.chaos.readers import Member, OffsetReader, Reader
from tools.chaos.transactors import Transactor
from tools.chaos.transformers import Transformer
from tools.checker.anomalies import Anomaly
from tools.checker.check import check
from tools.checker.files import read
from tools.checker.history import IDEMPOTENT, PLAIN, READ_COMMITTED, READ_UNCOMMITTED, Settled

TOPICS = ("plain", "in", "out")
PARTITIONS = 3
PROTOCOLS = ("classic", "consumer")
PATIENCE_SECONDS = 150.0
ASK_SECONDS = 10.0


@define(slots=True)
class Outcome:
    """The outcome of one round."""

    operations: int
    counts: dict[tuple[str, str], Counter[str]]
    errors: Counter[str]
    anomalies: list[Anomaly] = field(factory=list)
    problems: list[str] = field(factory=list)
    """Problems that no history shows: clients that fail or do not finish, work that is not done exactly once."""


@define(slots=True)
class Round:
    """Runs once."""

    setting: Setting
    faults: Faults | None
    problems: list[str] = field(factory=list)

    def run(self, seconds: float) -> Outcome:
        admin = AdminClient({"bootstrap.servers": self.setting.bootstrap, "log_level": 0})
        with _topics(admin, self.setting):
            producers, consumers = _clients(self.setting)
            for client in (*producers, *consumers):
                client.start()
            if self.faults is None:
                time.sleep(seconds)
            else:
                self.faults.run(seconds)
                self.faults.mend()
                self.faults.now = "healed"
            self._settle(producers, consumers)
        recorder = self.setting.recorder
        return Outcome(recorder.operations, recorder.snapshot(), recorder.errors, [], self.problems)

    def _settle(self, producers: list[Client], consumers: list[Client]) -> None:
        self._end(producers)
        committed = self._read_all("written", READ_COMMITTED, ("in",))
        inputs = committed.values[self.setting.topic("in")]
        self._until_processed(set(inputs))
        self._end(consumers)
        self._read_all("everything", READ_UNCOMMITTED, TOPICS)
        last = self._read_all("committed", READ_COMMITTED, TOPICS)
        now = self.setting.recorder.now
        self.setting.recorder.add("final read", Settled(now, now))
        self.problems += check_exactly_once(inputs, last.values[self.setting.topic("out")])

    def _until_processed(self, inputs: set[str]) -> None:
        until = time.monotonic() + PATIENCE_SECONDS
        attempt = 0
        while time.monotonic() < until:
            attempt += 1
            outputs = self._read_all(f"processed {attempt}", READ_COMMITTED, ("out",))
            if inputs <= set(map(source_of, outputs.values[self.setting.topic("out")])):
                return
            time.sleep(1.0)
        self.problems.append("not everything is processed, though everything has healed")

    def _read_all(self, name: str, isolation: str, topics: tuple[str, ...]) -> FinalReader:
        reader = FinalReader(f"{self.setting.name}-{name}", self.setting, isolation, topics)
        reader.start()
        self._end([reader])
        for partition, (at, end) in reader.unreached.items():
            self.problems.append(
                f"{name}: {isolation} reads {partition} only up to {at} of {end}: a hanging transaction?"
            )
        return reader

    def _end(self, clients: Sequence[Client]) -> None:
        for client in clients:
            client.end()
        until = time.monotonic() + PATIENCE_SECONDS
        for client in clients:
            client.join(max(0.0, until - time.monotonic()))
            if client.is_alive():
                self.problems.append(f"{client.workload}: {client.name} does not finish")
                client.record_outstanding()
            elif client.failure is not None:
                self.problems.append(f"{client.workload}: {client.name} failed: {_with_cause(client.failure)}")


def judge(outcome: Outcome, history: Path) -> None:
    """Look for anomalies in what was recorded."""
    outcome.anomalies = check(read(history))


def _clients(setting: Setting) -> tuple[list[Client], list[Client]]:
    """The clients that end before everything is processed, and those that end afterwards."""
    producers: list[Client] = [
        Sender("plain", setting, PLAIN),
        *(Sender(f"idempotent{number}", setting, IDEMPOTENT) for number in range(2)),
        *(Transactor(f"transactor{number}", setting) for number in range(3)),
    ]
    consumers: list[Client] = [
        *(Transformer(f"transformer{number}", setting) for number in range(2)),
        *(Reader(isolation, setting, isolation) for isolation in (READ_COMMITTED, READ_UNCOMMITTED)),
        *(Member(f"{protocol}{number}", setting, protocol) for protocol in PROTOCOLS for number in range(2)),
        OffsetReader("offsets-eos", setting, "eos", "in"),
        *(OffsetReader(f"offsets-{protocol}", setting, protocol, "plain") for protocol in PROTOCOLS),
    ]  # fmt: skip
    return producers, consumers


@contextmanager
def _topics(admin: AdminClient, setting: Setting) -> Iterator[None]:
    replicas = min(3, len(admin.list_topics(timeout=ASK_SECONDS).brokers))
    names = [setting.topic(name) for name in TOPICS]
    configs = {"min.insync.replicas": f"{(replicas + 2) // 2}", "retention.ms": "-1"}
    made = admin.create_topics(
        [NewTopic(name, num_partitions=PARTITIONS, replication_factor=replicas, config=configs) for name in names]
    )
    for future in made.values():
        future.result(ASK_SECONDS)
    yield
    for future in admin.delete_topics(names).values():
        future.result(ASK_SECONDS)


def leader_finder(bootstrap: str, choose: Callable[[Sequence[int]], int]) -> Callable[[], int | None]:
    """Finds the leader of some partition, of coordinators' topics too; None if no broker answers."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})

    def find() -> int | None:
        try:
            topics = admin.list_topics(timeout=1.0).topics
        except KafkaException:  # no broker answers: any broker may be the next victim
            return None
        leaders = [one.leader for topic in topics.values() for one in topic.partitions.values() if one.leader > 0]
        return choose(leaders) if leaders else None

    return find


def _with_cause(failure: BaseException) -> str:
    return repr(failure) if failure.__cause__ is None else f"{failure!r}, because of {failure.__cause__!r}"
