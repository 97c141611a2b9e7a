"""Administrators: actors that make, change, move and delete topics, and know what must come of it."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any

import orjson
from attrs import Factory, define, evolve, frozen

from actors.messages.controller import ElectLeaders, OperationAnswer
from actors.messages.replica import (
    AppendRecords,
    AppendResult,
    ReadRecords,
    ReadResult,
    group_name,
    replica_address,
)
from actors.runtime import Address, Future, Payload, handles
from log.machines.metadata.metadata import Metadata
from log.machines.metadata.plans import (
    AlterConfigs,
    CreatePartitions,
    CreateTopic,
    DeleteTopic,
    DrainBroker,
    MoveReplicas,
    Request,
    TakeProducerIds,
)
from protocol.error_codes import ErrorCode
from protocol.records.batches import Record, build_batch, check_batches, records
from tools.simulator.clients.client import ClientServices, Finish, SimulatedClient

ASK_SECONDS = 0.7
FACTOR_MAX = 3
TRIES_MAX = 200
_AS_THINGS_ARE = (
    ErrorCode.INVALID_REPLICATION_FACTOR,  # a broker is down
    ErrorCode.REASSIGNMENT_IN_PROGRESS,
)
"""Why something cannot be done now, and may be later: that is another request."""
_AGAIN = (ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT, *_AS_THINGS_ARE)
_REPEAT_SHARE = 0.1
_RECORDS_BYTES_MAX = 1 << 20


@define(slots=True)
class Expected:
    """A topic as it must be."""

    topic_id: str
    partitions: int
    configs: dict[str, str] = Factory(dict)
    written: list[bytes] = Factory(list)
    """What was acknowledged in partition 0."""


@frozen(slots=True)
class _Next:
    pass


@frozen(slots=True)
class _Again:
    work: Callable[[], None]


class Administrator(SimulatedClient):
    """Does one thing after the other, each until it is answered for good."""

    role = "administrator"

    def __init__(self, services: ClientServices, rng: random.Random, blocks: dict[int, str], replicas: int) -> None:
        super().__init__(services, rng)
        self._blocks = blocks
        self._replicas = replicas
        """Of the partitions that all clients write to."""
        self._factor = min(FACTOR_MAX, len(services.brokers))
        self._topics: dict[str, Expected] = {}
        self._done = 0
        self._finishing = False
        self._ids_taken: set[int] = set()
        self._draining: int | None = None
        self._pause_s = rng.choice((0.03, 0.1, 0.3))
        self._moves_share = rng.choice((0.0, 0.0, 0.5))

    def on_start(self) -> None:
        self._think()

    @handles(Finish)
    def finish(self, _message: Finish) -> None:
        self._finishing = True

    @handles(_Again)
    def again(self, message: _Again) -> None:
        message.work()

    @handles(_Next)
    def next(self, _message: _Next) -> None:
        self.step()

    def step(self) -> None:
        """What it does next, if anything."""
        if self._finishing:
            self.finished = True
            return
        if self.rng.random() < self._moves_share:
            self._move()
            return
        self.rng.choice(
            (self._create, self._create, self._delete, self._grow, self._configure, self._move, self._move,
             self._take_ids, self._write, self._write, self._elect, self._drain)
        )()  # fmt: skip

    # -- what it does ------------------------------------------------------------------------------------------

    def _create(self) -> None:
        name = self._a_name()
        request = CreateTopic(self._new_id(), name, self.rng.randint(1, 3), self._factor)
        if name in self._topics:
            self._operate(request, self._think_after, ErrorCode.TOPIC_ALREADY_EXISTS)
        else:
            self._operate(request, partial(self._created, name))

    def _created(self, name: str, answer: dict[str, Any]) -> None:
        self._topics[name] = Expected(answer["topic_id"], answer["partitions"])
        self._think()

    def _delete(self) -> None:
        name = self._a_name()
        request = DeleteTopic(self._new_id(), name)
        if name in self._topics:
            self._operate(request, partial(self._deleted, name))
        else:
            self._operate(request, self._think_after, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def _deleted(self, name: str, answer: dict[str, Any]) -> None:
        expected = self._topics.pop(name)
        if answer["topic_id"] != expected.topic_id:
            self._violate("a topic keeps its id", f"{name} was {expected.topic_id}, then {answer['topic_id']}")
        self._think()

    def _grow(self) -> None:
        name = self._known_name()
        if name is None:
            self._create()
            return
        count = self._topics[name].partitions + self.rng.choice((0, 1, 2))
        request = CreatePartitions(self._new_id(), name, count)
        if count == self._topics[name].partitions:
            self._operate(request, self._think_after, ErrorCode.INVALID_PARTITIONS)
        else:
            self._operate(request, partial(self._grown, name, count))

    def _grown(self, name: str, count: int, _answer: dict[str, Any]) -> None:
        self._topics[name].partitions = count
        self._think()

    def _configure(self) -> None:
        name = self._known_name()
        if name is None:
            self._take_ids()
            return
        value = str(self.rng.choice((500, 5000, 50_000)))
        request = AlterConfigs(self._new_id(), name, (("segment.bytes", value),))
        self._operate(request, partial(self._configured, name, value))

    def _configured(self, name: str, value: str, _answer: dict[str, Any]) -> None:
        self._topics[name].configs["segment.bytes"] = value
        self._think()

    def _move(self) -> None:
        """Move a partition that all clients write to, or one of its own; or call off the last move."""
        name = self._known_name() if self.rng.random() < 0.3 else "t"
        if name is None or (name == "t" and not self.address.name.endswith("0")):
            self._take_ids()
            return
        partition = self.rng.randrange(len(self.services.groups)) if name == "t" else 0
        brokers = tuple(self.rng.sample(self.services.brokers, self._replicas if name == "t" else self._factor))
        if self.rng.random() < 0.2:
            request = MoveReplicas(self._new_id(), name, partition, ())
            self._operate(request, self._think_after, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, maybe=True)
            return
        request = MoveReplicas(self._new_id(), name, partition, brokers)
        self._operate(request, self._think_after, ErrorCode.INVALID_REPLICA_ASSIGNMENT, maybe=True)

    def _drain(self) -> None:
        """Empty a broker, if there are enough others; or let it be used again."""
        brokers = self.services.brokers
        if not self.address.name.endswith("0") or len(brokers) <= max(self._factor, self._replicas):
            self._take_ids()
            return
        drains = self._draining is None
        broker = self.rng.choice(brokers) if self._draining is None else self._draining
        request = DrainBroker(self._new_id(), broker, drains)
        self._operate(request, partial(self._drained, broker if drains else None))

    def _drained(self, broker: int | None, _answer: dict[str, Any]) -> None:
        self._draining = broker
        self._think()

    def _elect(self) -> None:
        self.ask(self._controller(), ElectLeaders(""), lambda _future: self._think(), timeout=ASK_SECONDS)

    def _take_ids(self) -> None:
        self._operate(TakeProducerIds(self._new_id()), self._took_ids)

    def _took_ids(self, answer: dict[str, Any]) -> None:
        owner = self._blocks.setdefault(answer["first"], str(self.address))
        if owner != str(self.address) or answer["first"] in self._ids_taken:
            self._violate("producer ids are given out once", f"{answer['first']} to {owner} and {self.address}")
        self._ids_taken.add(answer["first"])
        self._think()

    # -- data in a topic that comes and goes -----------------------------------------------------------------------

    def _write(self) -> None:
        name = self._known_name()
        if name is None:
            self._create()
            return
        value = b"%s of %s, %d" % (name.encode(), self._topics[name].topic_id.encode(), self._done)
        self._try_write(name, value, TRIES_MAX)

    def _try_write(self, name: str, value: bytes, tries: int) -> None:
        batch = build_batch([Record(0, 1, None, value, ())], producer_id=900, producer_epoch=0,
                            base_sequence=len(self._topics[name].written))  # fmt: skip
        request = AppendRecords(-1, 1000, Payload(memoryview(batch)))
        self.ask(self._replica(name), request, partial(self._wrote, name, value, tries), timeout=ASK_SECONDS)

    def _wrote(self, name: str, value: bytes, tries: int, future: Future[Any]) -> None:
        result: AppendResult | None = None if future.exception is not None else future.get()
        if result is not None and result.error == ErrorCode.NONE:
            self._topics[name].written.append(value)
            self._read(name, 0, [], TRIES_MAX)
            return
        self.look_elsewhere(name)
        if tries == 0:
            self._violate("a topic that was made serves", f"{value!r}: {future.exception or result}")
            self._think()
            return
        self.after(self.rng.uniform(0.05, 0.3), _Again(partial(self._try_write, name, value, tries - 1)))

    def _read(self, name: str, offset: int, found: list[bytes], tries: int) -> None:
        self.ask(
            self._replica(name), ReadRecords(offset, 1 << 20, 1, 0),
            partial(self._has_read, name, offset, found, tries), timeout=ASK_SECONDS,
        )  # fmt: skip

    def _has_read(self, name: str, offset: int, found: list[bytes], tries: int, future: Future[Any]) -> None:
        result: ReadResult | None = None if future.exception is not None else future.get()
        written = self._topics[name].written
        if result is not None and result.error == ErrorCode.NONE and len(result.batches):
            batches = check_batches(result.batches)
            for position, header in zip(batches.positions, batches.headers, strict=True):
                if not header.is_control:
                    found += [one.value or b"" for one in records(batches.data, position, limit=_RECORDS_BYTES_MAX)]
            self._read(name, batches.headers[-1].next_offset, found, tries)
            return
        if result is not None and result.error == ErrorCode.NONE and len(found) >= len(written):
            if found != written:
                self._violate("a topic holds what was written to it", f"{name}: {found[:5]} and not {written[:5]}")
            self._think()
            return
        self.look_elsewhere(name)
        if tries == 0:
            self._violate("a topic that was made serves", f"{name}: read {len(found)} of {len(written)}")
            self._think()
            return
        self.after(self.rng.uniform(0.05, 0.3), _Again(partial(self._read, name, offset, found, tries - 1)))

    def _replica(self, name: str) -> Address:
        return replica_address(group_name(name, 0, self._topics[name].topic_id), self.leader(name))

    # -- asking ------------------------------------------------------------------------------------------------

    def _operate(
        self,
        request: Request,
        then: Callable[[dict[str, Any]], None],
        refusal: ErrorCode = ErrorCode.NONE,
        *,
        maybe: bool = False,
        tries: int = TRIES_MAX,
    ) -> None:
        """Ask until there is an answer: `refusal`, or success; with `maybe` either is right."""

        def answered(future: Future[Any]) -> None:
            value = {"error": ErrorCode.NOT_CONTROLLER} if future.exception is not None else _value(future.get())
            if value["error"] in _AGAIN:
                if tries == 0:
                    self._violate("operations come to an end", f"{request}: {future.exception or value}")
                    self._think()
                    return
                is_another = value["error"] in _AS_THINGS_ARE
                wanted = evolve(request, request_id=f"{request.request_id}, {tries}") if is_another else request
                again = partial(self._operate, wanted, then, refusal, maybe=maybe, tries=tries - 1)
                self.after(self.rng.uniform(0.02, 0.3), _Again(again))
                return
            expected = (refusal, ErrorCode.NONE) if maybe else (refusal,)
            if value["error"] not in expected:
                self._violate("an operation does what it says", f"{request}: {value}")
                self._think()
            elif value["error"] == ErrorCode.NONE and self.rng.random() < _REPEAT_SHARE:
                self._repeat(request, then, value)
            elif value["error"] == ErrorCode.NONE:
                then(value)
            else:
                self._think()

        self.ask(self._controller(), request, answered, timeout=ASK_SECONDS)

    def _repeat(self, request: Request, then: Callable[[dict[str, Any]], None], value: dict[str, Any]) -> None:
        """The same once more, as if the answer had been lost: it is done once, and answered alike."""

        def answered(future: Future[Any]) -> None:
            again = {"error": ErrorCode.NOT_CONTROLLER} if future.exception is not None else _value(future.get())
            facts = {key: fact for key, fact in again.items() if key not in ("message", "warnings")}
            if again["error"] not in _AGAIN and any(value.get(key) != fact for key, fact in facts.items()):
                self._violate("an operation is done once", f"{request}: {value}, then {again}")
            then(value)

        self.ask(self._controller(), request, answered, timeout=ASK_SECONDS)

    def _controller(self) -> Address:
        return Address("controller", "", self.rng.choice(self.services.brokers))

    def _think_after(self, _answer: dict[str, Any]) -> None:
        self._think()

    def _think(self) -> None:
        self._done += 1
        self.after(self.rng.expovariate(1 / self._pause_s), _Next())

    def _a_name(self) -> str:
        return f"{self.address.name}-{self.rng.choice('xyz')}"

    def _known_name(self) -> str | None:
        return self.rng.choice(sorted(self._topics)) if self._topics else None

    def _new_id(self) -> str:
        return f"{self.address} {self._done}"

    def _violate(self, promise: str, text: str) -> None:
        self.history.violate(promise, "", f"{self.address}: {text}")

    # -- the end -----------------------------------------------------------------------------------------------

    def check(self, metadata: Metadata) -> None:
        """Is everything as it was answered to be?"""
        mine = {
            topic.name: topic for topic in metadata.topics.values() if topic.name.startswith(f"{self.address.name}-")
        }
        if self.address.name.endswith("0"):
            draining = [one.broker for one in metadata.brokers.values() if one.draining]
            if draining != ([] if self._draining is None else [self._draining]):
                self._violate("what was done stays done", f"{draining} are drained and not {self._draining}")
        if mine.keys() != self._topics.keys():
            self._violate("what was done stays done", f"{sorted(mine)} are there and not {sorted(self._topics)}")
            return
        for name, expected in self._topics.items():
            topic = mine[name]
            found = (topic.id, len(topic.partitions), topic.configs)
            if found != (expected.topic_id, expected.partitions, expected.configs):
                self._violate("what was done stays done", f"{name} is {found} and not {expected}")


def _value(answer: OperationAnswer) -> dict[str, Any]:
    value: dict[str, Any] = orjson.loads(answer.answer)
    return value
