"""Clients of transactions: each follows a script, asks coordinators and leaders, and starts again after it vanished.

A script is a generator. It yields a request and is sent the response, or None if the outcome is unknown. So the code of
a client stands in the order in which the client acts.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator
from typing import Any, NoReturn

from attrs import define, evolve, frozen

from actors.runtime import handles
from protocol.apis import FIND_COORDINATOR, INIT_PRODUCER_ID, METADATA, Api
from protocol.error_codes import ErrorCode
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.records.batches import RecordBatches
from tools.checker.history import FAILED, OK, UNKNOWN, Init, Operation
from tools.simulator.clients.client import ClientServices, Finish
from tools.simulator.clients.kafka_client import KafkaClient
from tools.simulator.settings.transactions import TransactionalMember, TransactionSettings
from tools.simulator.transactions.view import TransactionView

REQUEST_SECONDS = 0.6
RETRY_SECONDS = (0.02, 0.15)
_GONE_SHARE, _GONE_SHARE_IN_THE_END = 0.1, 0.5
"""Of those that vanish, how many never come back."""
_TIMEOUT_MS_IN_THE_END = 8000
GROUP, TRANSACTION = 0, 1
"""Kinds of coordinators."""
MOVED = frozenset(
    (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
)
AGAIN = MOVED | {
    ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNSTABLE_OFFSET_COMMIT,
}  # fmt: skip
"""The outcome is unknown, or the request is to be repeated."""


@frozen(slots=True)
class AskBroker:
    """A question, and to whom."""

    broker: int
    lane: str
    api: Api
    message: object
    version: int


@frozen(slots=True)
class AskAll:
    """Several questions at once, in this order; the answers come as a list."""

    asks: tuple[AskBroker, ...]


@frozen(slots=True)
class Rest:
    seconds: float


class Vanished(Exception):
    """The client that followed the script is gone."""


Script = Generator[AskBroker | AskAll | Rest, Any, Any]


@define(slots=True)
class Delays:
    """Which requests are held up on their way."""

    holds: Callable[[ScriptedClient, AskBroker], float | None] | None = None
    """If a client's request is held up: after how many seconds the client gives it up."""


@frozen(slots=True)
class TransactionServices:
    """What these clients share."""

    clients: ClientServices
    view: TransactionView
    settings: TransactionSettings
    source: str
    source_partitions: int
    topic: str
    topic_ids: dict[str, bytes]
    history: list[Operation]
    skipped: set[tuple[int, int]]
    """Of the source, by partition and offset: what was deleted before it was copied."""
    delays: Delays


class ScriptedClient(KafkaClient):
    """A client that follows a script, and looks up leaders and coordinators."""

    def __init__(self, services: TransactionServices, rng: random.Random) -> None:
        super().__init__(rng)
        self.services = services
        self.view = services.view
        self.finishing = self.finished = False
        self._leaders: dict[tuple[str, int], int] = {}
        self._coordinators: dict[int, int] = {}

    def follow(self, script: Script) -> None:
        """Do what it says, until it ends, or this life does."""
        self._go_on_with(script, None)

    def _go_on_with(self, script: Script, value: Any) -> None:
        try:
            step = script.send(value)
        except (StopIteration, Vanished):
            return
        if isinstance(step, Rest):
            self.later(step.seconds, lambda: self._go_on_with(script, None))
        elif isinstance(step, AskBroker):
            self._put(step, lambda response: self._go_on_with(script, response))
        else:
            self._put_all(step.asks, script)

    def _put(self, ask: AskBroker, then: Any) -> None:
        holds = self.services.delays.holds
        given_up_s = None if holds is None else holds(self, ask)
        if given_up_s is not None:
            self.later(given_up_s, lambda: then(None))
            return
        self.request(ask.broker, ask.lane, ask.api, ask.message, ask.version, then, seconds=REQUEST_SECONDS)

    def _put_all(self, asks: tuple[AskBroker, ...], script: Script) -> None:
        answers: list[Any] = [None] * len(asks)
        left = len(asks)

        def take(at: int, response: Any) -> None:
            nonlocal left
            answers[at] = response
            left -= 1
            if not left:
                self._go_on_with(script, answers)

        for at, ask in enumerate(asks):
            self._put(ask, lambda response, at=at: take(at, response))

    @handles(Finish)
    def finish(self, _message: Finish) -> None:
        self.finishing = True

    def rest(self) -> Rest:
        """Before it is tried again."""
        return Rest(self.rng.uniform(*RETRY_SECONDS))

    def anybody(self) -> int:
        return self.rng.choice(self.services.clients.brokers)

    # -- leaders and coordinators -------------------------------------------------------------------------------------

    def leaders(self, topic: str, numbers: list[int]) -> Script:
        """The leaders of these partitions."""
        while any((topic, number) not in self._leaders for number in numbers):
            request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
            response = yield AskBroker(self.anybody(), "anybody", METADATA, request, 9)
            for one in () if response is None else response.topics[0].partitions:
                if one.leader_id >= 0:
                    self._leaders[topic, one.partition_index] = one.leader_id
            if any((topic, number) not in self._leaders for number in numbers):
                yield self.rest()
        return [self._leaders[topic, number] for number in numbers]

    def forget_leader(self, topic: str, number: int) -> None:
        self._leaders.pop((topic, number), None)

    def batches(self, broker: int, data: Any) -> RecordBatches | None:
        """What was fetched; None if a damaged disk gave it."""
        return self.services.clients.batches(data or b"", self.address, broker)

    def at_coordinator(self, kind: int, key: str, api: Api, message: object, version: int) -> Script:
        """The coordinator's response, or None. It is looked up again after it did not answer."""
        if kind not in self._coordinators:
            request = FindCoordinatorRequest(coordinator_keys=[key], key_type=kind)
            found = yield AskBroker(self.anybody(), "anybody", FIND_COORDINATOR, request, 4)
            if found is None or found.coordinators[0].error_code != ErrorCode.NONE:
                return None
            self._coordinators[kind] = found.coordinators[0].node_id
        response = yield AskBroker(self._coordinators[kind], "coordinator", api, message, version)
        if response is None:
            self._coordinators.pop(kind, None)
        return response

    def has_moved(self, kind: int, error: int) -> bool:
        if error in MOVED:
            self._coordinators.pop(kind, None)
        return error in MOVED


class IdentifiedClient(ScriptedClient):
    """One that has a transactional id."""

    def __init__(self, services: TransactionServices, rng: random.Random, member: TransactionalMember) -> None:
        super().__init__(services, rng)
        self.member = member
        self.gone = False
        """For good?"""
        self.producer = ""
        """Its name in the history: another one for each life."""
        self.producer_id, self.epoch = -1, -1
        self._began = 0

    def on_start(self) -> None:
        super().on_start()
        self.later(self.rng.uniform(0, 0.3), lambda: self.follow(self.live()))

    def live(self) -> Script:
        """What it does, from its start."""
        raise NotImplementedError

    def vanish(self) -> NoReturn:
        """Die in the middle of its work; perhaps come back after a while."""
        self.view.note(f"{self.address} vanishes")
        self.end_life(silently=self.rng.random() < 0.5)
        self._coordinators.clear()
        if self.rng.random() < (_GONE_SHARE_IN_THE_END if self.finishing else _GONE_SHARE):
            self.gone = self.finished = True
        else:
            seconds = self.rng.choice((0.0, 0.1, 1.0)) * self.member.timeout_ms / 1000
            self.later(seconds, lambda: self.follow(self.live()))
        raise Vanished

    def initialise(self) -> Script:
        """Get an epoch of its own."""
        self._began += 1
        self.producer = f"{self.address.name}.{self._began}"
        timeout_ms = _TIMEOUT_MS_IN_THE_END if self.finishing else self.member.timeout_ms
        request = InitProducerIdRequest(
            transactional_id=self.member.transactional_id, transaction_timeout_ms=timeout_ms
        )
        version = 5 if self.member.is_new else 4
        while True:
            begin = self.now
            response = yield from self.at_coordinator(
                TRANSACTION, self.member.transactional_id, INIT_PRODUCER_ID, request, version
            )
            error = None if response is None else ErrorCode(response.error_code)
            outcome = OK if error == ErrorCode.NONE else UNKNOWN
            self.record(Init(self.producer, self.member.transactional_id, outcome, begin, self.now))
            if error == ErrorCode.NONE:
                self.producer_id, self.epoch = response.producer_id, response.producer_epoch
                self.view.initialised(self.member.transactional_id, self.producer_id, self.epoch, self.producer)
                return
            if error is not None and not self.has_moved(TRANSACTION, error) and error not in AGAIN:
                self.view.violate("a producer that initialises gets an epoch", f"{self.producer} was told {error.name}")
                return
            yield self.rest()

    def record(self, operation: Operation) -> int:
        """Put it into the history. Gives its place there."""
        self.services.history.append(operation)
        return len(self.services.history) - 1

    def amend(self, place: int, outcome: str, **more: Any) -> None:
        """It is over, and this is what came of it."""
        history = self.services.history
        operation: Any = history[place]
        history[place] = evolve(operation, outcome=outcome, end=self.now, **more)

    @property
    def who(self) -> dict[str, Any]:
        """As requests name it."""
        return {
            "transactional_id": self.member.transactional_id, "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
        }  # fmt: skip


def outcome_of(error: ErrorCode | None) -> str:
    if error == ErrorCode.NONE:
        return OK
    return UNKNOWN if error is None or error in AGAIN else FAILED
