"""A cluster as a client sees it: metadata that is kept up to date, and the ways to its brokers.

The metadata (`view`) is replaced as a whole, so any thread may read it. It is refreshed after an error that says it is
old, and every few minutes. The request goes to a connected broker, else to a known one, else to one of the bootstrap
list; so a cluster whose brokers have all moved is found again by its bootstrap addresses.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar

from attrs import evolve

from protocol.apis import METADATA, Api
from protocol.error_codes import ErrorCode
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tools.client.addresses import Address, addresses
from tools.client.errors import ClientError, ConnectionLost, ErrorClass, KafkaError, TimedOut
from tools.client.metadata import Topic, TopicPartition, View
from tools.client.network.broker import Broker, Patience
from tools.client.network.connection import Ask, Then
from tools.client.network.loop import Loop, Timer

T = TypeVar("T")
Bootstrap = str | Sequence[Address]


class Cluster:
    """Started at once; `close` ends it. The sections below say which thread may call a method."""

    def __init__(
        self,
        bootstrap: Bootstrap,
        *,
        client_id: str = "barnabas",
        patience: Patience | None = None,
        allow_auto_create: bool = False,
    ) -> None:
        self.patience = patience or Patience()
        self.loop = Loop(client_id)
        self.view = View()
        self.error: ClientError | None = None
        """The error of the last Metadata request; None if it succeeded."""
        self._client_id = client_id
        self._allow_auto_create = allow_auto_create
        known = addresses(bootstrap) if isinstance(bootstrap, str) else list(bootstrap)
        self._bootstrap = [Broker(self.loop, one, client_id, self.patience) for one in known]
        self._brokers: dict[tuple[int, str], Broker] = {}
        self._wanted: set[str] = set()
        self._wants_all = False
        self._turn = 0
        self._tries = 0
        self._incomplete = 0
        self._is_asking = False
        self._is_stale = False
        self._timer: Timer | None = None
        self._listeners: list[Callable[[], object]] = []
        self._waiting: list[Callable[[], object]] = []
        self._updated = threading.Condition()
        self._closed: ClientError | None = None
        self.loop.at_end(self._end)
        self.loop.start()

    def close(self) -> None:
        self.loop.stop()

    # -- for any thread ------------------------------------------------------------------------------------------

    def topic(self, name: str, seconds: float) -> Topic:
        """A topic with its partitions; waits until it is known."""
        known = self.view.topics.get(name)
        if known is not None:
            return known
        self.loop.soon(self.want, (name,))
        deadline = time.monotonic() + seconds
        with self._updated:
            while True:
                known = self.view.topics.get(name)
                if known is not None:
                    return known
                error = self.view.errors.get(name)
                reason = KafkaError(error, f"topic {name}") if error else self.error
                if isinstance(reason, KafkaError) and not reason.kind.is_retriable:
                    raise reason
                if self._closed is not None:
                    raise self._closed
                left = deadline - time.monotonic()
                if left <= 0:
                    raise TimedOut(f"topic {name} is not known after {seconds:g} s: {reason}") from reason
                self._updated.wait(left)

    def refreshed(self, seconds: float) -> View:
        """Metadata that is requested after this call."""
        done: Future[None] = Future()
        self.loop.soon(self.refresh, lambda: done.set_result(None))
        try:
            done.result(seconds)
        except TimeoutError:
            raise TimedOut(f"the cluster was not reached within {seconds:g} s: {self.error}") from self.error
        if self._closed is not None:
            raise self._closed
        return self.view

    def call(
        self, api: Api, message: object, *, broker: int | None = None, seconds: float, version_max: int | None = None
    ) -> Any:
        """The answer of this broker, or of any. One attempt."""

        def ask(then: Then) -> None:
            way = self.anybody() if broker is None else self.way(broker)
            if way is None:
                then(ConnectionLost(f"broker {broker} is not known to be alive"))
            else:
                way.ask(Ask(api, message, then, self.loop.now() + seconds, version_max))

        return self.answer(ask)

    def answer(self, ask: Callable[[Then], object], seconds: float | None = None, asked: str = "") -> Any:
        """Call `ask` on the loop's thread and wait for its answer. Raises the answer if it is an error."""
        done: Future[Any] = Future()
        self.loop.soon(ask, done.set_result)
        try:
            answer = done.result(seconds)
        except TimeoutError:
            raise TimedOut(f"{asked} gave no answer") from None
        if isinstance(answer, ClientError):
            raise answer
        return answer

    def persist(self, attempt: Callable[[], T], seconds: float, final: ErrorCode | None = None) -> T:
        """The result of an attempt, which is retried while its error is retriable and is not `final`."""
        deadline = time.monotonic() + seconds
        failures = 0
        while True:
            try:
                return attempt()
            except ClientError as error:
                is_final = isinstance(error, KafkaError) and error.code is final
                if is_final or not error.kind.is_retriable:
                    raise
                left = deadline - time.monotonic()
                pause = self.patience.pause(failures)
                if left <= pause:
                    raise TimedOut(f"not within {seconds:g} s: {error}") from error
                threading.Event().wait(pause)
                if error.kind is ErrorClass.REFRESH:
                    try:
                        self.refreshed(max(left - pause, 0.001))
                    except TimedOut:  # the attempt's error says more than the refresh's
                        raise TimedOut(f"not within {seconds:g} s: {error}") from error
                failures += 1

    def by_leader(self, wheres: Iterable[TopicPartition], what: str) -> dict[int, list[TopicPartition]]:
        """These partitions by their leaders. Raises a retriable KafkaError if one has none now."""
        found: dict[int, list[TopicPartition]] = {}
        for where in wheres:
            known = self.view.partition(where)
            if known is None:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{what} {where}")
            if known.leader is None:
                raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{what} {where}")
            found.setdefault(known.leader, []).append(where)
        return found

    # -- for the loop's thread -----------------------------------------------------------------------------------

    def listen(self, call: Callable[[], object]) -> None:
        """Call this whenever there is new metadata."""
        self._listeners.append(call)

    def unlisten(self, call: Callable[[], object]) -> None:
        self._listeners.remove(call)

    def want(self, topics: Sequence[str]) -> None:
        """Keep the metadata of these topics. While one is unknown or has no leader, it is requested again and again."""
        if not self._wanted.issuperset(topics):
            self._wanted.update(topics)
            self._is_stale = True
            self.refresh()

    def want_all(self) -> None:
        """Keep the metadata of all topics."""
        if not self._wants_all:
            self._wants_all = self._is_stale = True
            self.refresh()

    def broker_named(self, broker: int, address: Address) -> None:
        """Add a broker from an answer, which may be newer than the metadata."""
        if broker not in self.view.brokers:
            self.view = evolve(self.view, brokers={**self.view.brokers, broker: address})

    def refresh(self, then: Callable[[], object] | None = None) -> None:
        """Request metadata, unless a request is under way. `then` is called with metadata newer than this call."""
        if then is not None:
            self._waiting.append(then)
            self._is_stale = True  # the request under way may be older than this call
        if self._closed is not None:
            self._told()
        elif not self._is_asking:
            self._is_asking = True
            self._ask()

    def way(self, broker: int, lane: str = "") -> Broker | None:
        """A broker, over a separate connection for each lane: a waiting Fetch blocks the requests behind it."""
        address = self.view.brokers.get(broker)
        if address is None:
            return None
        made = self._brokers.get((broker, lane))
        if made is None or made.address != address:
            if made is not None:
                made.close(ConnectionLost(f"broker {broker} has moved"))
            made = self._brokers[broker, lane] = Broker(self.loop, address, self._client_id, self.patience)
            if self._closed is not None:
                made.close(self._closed)
        return made

    def leader_named(self, where: TopicPartition, leader: int, epoch: int, address: Address | None) -> bool:
        """A broker named another leader in its refusal. True if that changes the metadata."""
        view = self.view.with_leader(where, leader, epoch, address)
        if view is self.view:
            return False
        self.view = view
        return True

    def _ask(self) -> None:
        self._is_stale = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        wanted = None if self._wants_all else [MetadataRequestTopic(name=name) for name in sorted(self._wanted)]
        request = MetadataRequest(
            topics=wanted,
            allow_auto_topic_creation=self._allow_auto_create,
        )
        then: Then = partial(self._answered, wanted is None)
        self.anybody().ask(Ask(METADATA, request, then, self.loop.now() + self.patience.request))

    def anybody(self) -> Broker:
        ways = [way for node in self.view.brokers if (way := self.way(node)) is not None]
        ready = [way for way in ways if way.is_ready]
        candidates = ready or [way for way in (*ways, *self._bootstrap) if not way.is_failing]
        candidates = candidates or [*ways, *self._bootstrap]
        self._turn += 1
        return candidates[self._turn % len(candidates)]

    def _answered(self, is_all: bool, response: MetadataResponse | ClientError) -> None:  # noqa: FBT001  it was asked
        if self._closed is not None:
            return
        if isinstance(response, MetadataResponse) and response.error_code:
            response = KafkaError(response.error_code, "metadata")
        if isinstance(response, ClientError):
            self.error = response
            self._tries += 1
            everybody = len(self._bootstrap) + len(self.view.brokers)
            # The next broker at once; a pause after all of them have failed.
            pause = 0.0 if self._tries % everybody else self.patience.pause(self._tries // everybody)
            self._timer = self.loop.after(pause, self._ask)
            with self._updated:
                self._updated.notify_all()
            return
        self.error = None
        self._tries = 0
        view = self.view.updated(response)
        self.view = view.without_others(response) if is_all else view
        for (node, lane), way in list(self._brokers.items()):
            if node not in self.view.brokers and way.is_failing:
                del self._brokers[node, lane]
                way.close(ConnectionLost(f"broker {node} has left the cluster"))
        if self._is_stale:
            self._ask()
            return
        self._is_asking = False
        self._timer = self.loop.after(self._age_max(), self.refresh)
        self._told()

    def _age_max(self) -> float:
        """The time to the next refresh: short while a wanted topic is incomplete."""
        if all(self._is_led(name) for name in self._wanted):
            self._incomplete = 0
            return self.patience.metadata_age
        self._incomplete += 1
        return self.patience.pause(self._incomplete - 1)

    def _is_led(self, name: str) -> bool:
        """Has every partition of a topic a leader with a known address?"""
        topic = self.view.topics.get(name)
        return topic is not None and all(
            one is not None and one.leader in self.view.brokers for one in topic.partitions
        )

    def _told(self) -> None:
        with self._updated:
            self._updated.notify_all()
        waiting, self._waiting = self._waiting, []
        for call in (*self._listeners, *waiting):
            call()

    def _end(self, error: ClientError) -> None:
        self._closed = error
        for way in (*self._bootstrap, *self._brokers.values()):
            way.close(error)
        self._told()
