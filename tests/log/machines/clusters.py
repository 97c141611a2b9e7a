"""A cluster as its metadata alone: what a controller does with a request, without log, voters or time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson

from log.machines.metadata.metadata import Metadata, PartitionState
from log.machines.metadata.plans import Circumstances, CreateTopic, Plan, Request, plan
from log.machines.metadata.records import BrokerRegistered, MetadataRecord, RequestDone, decode, encode
from protocol.error_codes import ErrorCode


class Cluster:
    """Brokers that are registered and alive."""

    def __init__(self, *brokers: int) -> None:
        self.metadata = Metadata()
        self._ids_given = 0
        self.about = Circumstances(frozenset(brokers), lambda: self._new_id("topic"))
        for broker in brokers:
            self.metadata.apply(registered(broker))

    def ask(self, operation: Callable[..., Request], *args: Any, **kwargs: Any) -> Plan:
        """Plan an operation with an id of its own, and do it."""
        made = self.plan(operation, *args, **kwargs)
        self.write(made.records)
        return made

    def plan(self, operation: Callable[..., Request], *args: Any, **kwargs: Any) -> Plan:
        before = self.metadata.encode()
        made = plan(self.metadata, operation(self._new_id("request"), *args, **kwargs), self.about)
        assert self.metadata.encode() == before, "a plan changes nothing"
        assert made.error == ErrorCode.NONE or not made.records, "nothing is written of what is refused"
        assert bool(made.message) == (made.error != ErrorCode.NONE)
        return made

    def answer(self, request: Request) -> dict[str, Any]:
        """What a controller answers: what it did before, if the request came before."""
        known = self.metadata.answer_to(request.request_id)
        if known is None:
            made = plan(self.metadata, request, self.about)
            self.write(made.records)
            known = made.answer
        answer: dict[str, Any] = orjson.loads(known)
        return answer

    def write(self, records: list[MetadataRecord]) -> None:
        for record in records:
            self.metadata.apply(decode(encode(record)))
            self.metadata.applied += 1

    def refusal(self, operation: Callable[..., Request], *args: Any, **kwargs: Any) -> tuple[ErrorCode, str]:
        made = self.plan(operation, *args, **kwargs)
        assert (made.warnings, made.facts, made.records) == ([], {}, [])
        return made.error, made.message

    def partition(self, topic: str = "orders", number: int = 0) -> PartitionState:
        found = self.metadata.topic(topic)
        assert found is not None
        return found.partitions[number]

    def _new_id(self, of: str) -> str:
        self._ids_given += 1
        return f"{of}-{self._ids_given}"


def cluster(brokers: int = 4, **topics: tuple[tuple[int, ...], ...]) -> Cluster:
    """Brokers from 1 on, and topics with these replicas."""
    made = Cluster(*range(1, brokers + 1))
    for name, assignment in topics.items():
        assert made.ask(CreateTopic, name, assignment=assignment).error == ErrorCode.NONE
    return made


def registered(broker: int, directory: str = "") -> BrokerRegistered:
    return BrokerRegistered(broker, directory or f"directory-{broker}", "localhost", 9092 + broker)


def written(made: Plan) -> list[MetadataRecord]:
    """What a plan writes; the last record is always what was answered."""
    if not made.records:
        return []
    *records, done = made.records
    assert isinstance(done, RequestDone)
    assert done.answer == made.answer
    return records
