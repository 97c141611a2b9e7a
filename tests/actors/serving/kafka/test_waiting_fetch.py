"""A fetch that lacks bytes and waits for them, while something changes. Without replicas and without a client."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Generator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from actors.messages.replica import LogMoved, ReadSlice, SliceRead, UnwatchLog, WatchLog
from actors.runtime import Address, Future, Scheduler
from actors.runtime.clock import VirtualClock
from actors.serving.kafka.handlers import fetch
from log.disk.slice import EMPTY, Slice
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic

RECORDS = b"records"
SIZE = len(RECORDS)
WAIT_SECONDS = 1.0


class Fetched:
    """A fetch of partitions whose logs are empty at first. Every append brings RECORDS."""

    def __init__(self, *, partitions: int = 1, min_bytes: int = 1) -> None:
        self.clock = VirtualClock()
        self.answers: list[Any] = []
        self.sent: list[tuple[int, object]] = []
        """The messages to replicas, each with the number of its partition."""
        self.while_it_watches: Callable[[], bool] = lambda: True
        """Gives whether the replica is there."""
        self._ends = [0] * partitions
        self._watched: dict[int, WatchLog] = {}
        serving = SimpleNamespace(
            node=SimpleNamespace(scheduler=Scheduler(self.clock)),
            topic_by=lambda _name, _id: SimpleNamespace(partitions=[None] * partitions),
            replica=lambda _topic, number: Address("replica", f"orders-{number}", 1),
        )
        self.connection = SimpleNamespace(
            address=Address("connection", "1", 1), heard_all=False, ask=self._ask, send=self._send,
            in_slices=self._in_slices, wait_for_more=lambda _fetch: 1, wait_no_longer=lambda _number: None,
            after=lambda _seconds, _message: SimpleNamespace(cancel=lambda: None),
        )  # fmt: skip
        asked = [FetchPartition(partition=number, partition_max_bytes=1000) for number in range(partitions)]
        topics = [FetchTopic(topic="orders", partitions=asked)]
        request = FetchRequest(topics=topics, max_wait_ms=int(WAIT_SECONDS * 1000), min_bytes=min_bytes, max_bytes=1000)
        call = SimpleNamespace(
            request=request, version=12, serving=serving, connection=self.connection,
            answer_at_once=self.answers.append,
        )  # fmt: skip
        self.fetch = fetch._Fetch(cast("Any", call), None)

    def begin(self) -> list[list[bytes]]:
        self._in_slices(self.fetch.begin())
        return self.answered

    @property
    def answered(self) -> list[list[bytes]]:
        """The records of each partition in each answer."""
        return [[one.records for one in answer.responses[0].partitions] for answer in self.answers]

    def append(self, number: int = 0) -> None:
        """As a replica does: it reports if that is what is wanted."""
        self._ends[number] += 1
        watch, end = self._watched.get(number), self._ends[number]
        if watch is not None and (end - watch.offset) * SIZE >= watch.wanted:
            del self._watched[number]
            self.fetch.moved(LogMoved(watch.number, watch.place, end, (end - watch.offset) * SIZE))

    def depose(self, number: int = 0) -> None:
        watch = self._watched.pop(number)
        self.fetch.moved(LogMoved(watch.number, watch.place, -1, 0))

    def expire(self) -> None:
        self.clock.advance_to(self.clock.now() + WAIT_SECONDS)
        self.fetch.expired()

    def _in_slices(self, work: Generator[None, None, None]) -> None:
        for _ in work:
            pass

    def _ask(self, replica: Address, message: ReadSlice, then: Callable[[Future[Any]], None]) -> None:
        number = int(replica.name.rpartition("-")[2])
        self.sent.append((number, message))
        end = self._ends[number]
        found = Slice(None, 0, end * SIZE, end, copy=RECORDS * end) if end else EMPTY
        future: Future[SliceRead] = Future()
        future.set(SliceRead(0, end, end, 0, found))
        then(future)

    def _send(self, replica: Address, message: object) -> bool:
        number = int(replica.name.rpartition("-")[2])
        self.sent.append((number, message))
        if isinstance(message, WatchLog):
            self._watched[number] = message
            return self.while_it_watches()
        del self._watched[number]
        return True

    @property
    def kinds(self) -> list[type]:
        return [type(message) for _, message in self.sent]

    @property
    def read(self) -> list[int]:
        """The partitions that were read, in order."""
        return [number for number, message in self.sent if isinstance(message, ReadSlice)]


@pytest.mark.parametrize("is_there", [True, False])
def test_a_log_that_moves_while_a_fetch_begins_to_watch_it_is_read_again(*, is_there: bool) -> None:
    """Either its replica says so before every replica was asked, or it is gone by then."""
    fetched = Fetched()

    def move() -> bool:
        fetched.append()
        return is_there

    fetched.while_it_watches = move
    assert fetched.begin() == [[RECORDS]]
    assert fetched.kinds == [ReadSlice, WatchLog, ReadSlice]


def test_a_fetch_whose_time_is_up_once_it_watches_is_answered_with_nothing() -> None:
    fetched = Fetched()

    def wait() -> bool:
        fetched.expire()
        return True

    fetched.while_it_watches = wait
    assert fetched.begin() == [[b""]]
    assert fetched.kinds == [ReadSlice, WatchLog, UnwatchLog]


def test_a_fetch_for_which_nothing_comes_is_answered_without_another_read() -> None:
    fetched = Fetched(min_bytes=10 * SIZE)
    assert fetched.begin() == []
    fetched.expire()
    assert fetched.answered == [[b""]]
    assert fetched.kinds == [ReadSlice, WatchLog, UnwatchLog]


def test_only_the_partitions_that_moved_are_read_again() -> None:
    fetched = Fetched(partitions=3)
    assert fetched.begin() == []
    fetched.append(1)
    assert fetched.answered == [[b"", RECORDS, b""]]
    assert fetched.read == [0, 1, 2, 1]
    assert [number for number, message in fetched.sent if isinstance(message, UnwatchLog)] == [0, 2]


def test_a_fetch_of_one_partition_reads_again_when_all_that_it_lacks_is_there() -> None:
    """However many commits that takes, its replica reports twice."""
    fetched = Fetched(min_bytes=5 * SIZE)
    fetched.begin()
    for _ in range(4):
        fetched.append()
    assert not fetched.answers
    fetched.append()
    assert fetched.answered == [[5 * RECORDS]]
    assert fetched.kinds == [ReadSlice, WatchLog, WatchLog, ReadSlice]


def test_bytes_of_all_partitions_count_together() -> None:
    fetched = Fetched(partitions=2, min_bytes=3 * SIZE)
    fetched.begin()
    fetched.append(0)
    fetched.append(1)
    assert fetched.read == [0, 1], "it lacks bytes, so it reads nothing"
    fetched.append(0)
    assert fetched.answered == [[2 * RECORDS, RECORDS]]
    assert fetched.read == [0, 1, 0, 1]


def test_a_fetch_whose_time_is_up_is_answered_with_what_came_even_if_it_is_not_enough() -> None:
    fetched = Fetched(partitions=2, min_bytes=3 * SIZE)
    fetched.begin()
    fetched.append(1)
    fetched.expire()
    assert fetched.answered == [[b"", RECORDS]]
    assert fetched.read == [0, 1, 1]


def test_bytes_that_were_there_when_a_fetch_came_are_not_asked_for_again() -> None:
    fetched = Fetched(min_bytes=2 * SIZE)
    fetched.append()
    fetched.begin()
    (watch,) = (message for _, message in fetched.sent if isinstance(message, WatchLog))
    assert (watch.offset, watch.lacks) == (1, SIZE)
    fetched.append()
    assert fetched.answered == [[2 * RECORDS]]


def test_a_replica_that_leads_no_longer_is_read_again_at_once_however_much_is_lacking() -> None:
    fetched = Fetched(partitions=2, min_bytes=100 * SIZE)
    fetched.begin()
    fetched.depose(1)
    assert fetched.read == [0, 1, 1], "the read tells why"
    assert not fetched.answers, "it leads again by now"
    fetched.expire()
    assert fetched.answered == [[b"", b""]]


def test_a_fetch_that_is_abandoned_leaves_no_watch_behind() -> None:
    fetched = Fetched(partitions=2, min_bytes=2 * SIZE)
    fetched.begin()
    fetched.append(1)
    fetched.fetch.abandon()
    assert not fetched._watched
    assert not fetched.answers


class Interleaved(Fetched):
    """The same, but everything happens in an order of chance: only messages between the same two keep theirs."""

    def __init__(self, rng: random.Random) -> None:
        self.partitions = rng.randint(1, 4)
        self.min_bytes = rng.choice([1, SIZE + 1, 5 * SIZE, 9 * SIZE])
        super().__init__(partitions=self.partitions, min_bytes=self.min_bytes)
        self._rng = rng
        self._work: deque[Generator[None, None, None]] = deque()
        self._to_replica: list[deque[Callable[[], None]]] = [deque() for _ in range(self.partitions)]
        self._to_fetch: list[deque[Callable[[], None]]] = [deque() for _ in range(self.partitions)]

    @property
    def size(self) -> int:
        return sum(self._ends) * SIZE

    def append(self, number: int = 0) -> None:
        self._ends[number] += 1
        self._look(number)

    def depose(self, number: int = 0) -> None:
        """The replica leads again when it is read."""
        watch = self._watched.pop(number, None)
        if watch is not None:
            moved = LogMoved(watch.number, watch.place, -1, 0)
            self._to_fetch[number].append(lambda: self.fetch.moved(moved))

    def step(self) -> bool:
        """False if there is nothing more to do."""
        queues = [queue for queue in (*self._to_replica, *self._to_fetch) if queue]
        at = self._rng.randrange(len(queues) + bool(self._work)) if queues or self._work else -1
        if at < 0:
            return False
        if at < len(queues):
            queues[at].popleft()()
        elif next(self._work[0], self) is self:
            self._work.popleft()
        return True

    def settle(self) -> None:
        while self.step():
            pass

    def _in_slices(self, work: Generator[None, None, None]) -> None:
        self._work.append(work)

    def _ask(self, replica: Address, message: ReadSlice, then: Callable[[Future[Any]], None]) -> None:
        number = int(replica.name.rpartition("-")[2])
        self._to_replica[number].append(lambda: super(Interleaved, self)._ask(replica, message, later))

        def later(future: Future[Any]) -> None:
            self._to_fetch[number].append(lambda: then(future))

    def _send(self, replica: Address, message: object) -> bool:
        number = int(replica.name.rpartition("-")[2])
        self._to_replica[number].append(lambda: self._heard(number, message))
        return True

    def _heard(self, number: int, message: object) -> None:
        self.sent.append((number, message))
        if isinstance(message, WatchLog):
            self._watched[number] = message
            self._look(number)
        else:
            self._watched.pop(number, None)

    def _look(self, number: int) -> None:
        watch, end = self._watched.get(number), self._ends[number]
        if watch is not None and (end - watch.offset) * SIZE >= watch.wanted:
            del self._watched[number]
            moved = LogMoved(watch.number, watch.place, end, (end - watch.offset) * SIZE)
            self._to_fetch[number].append(lambda: self.fetch.moved(moved))


@pytest.mark.parametrize("seed", [*range(300), 610, 1074, 1141])  # the last: more moves while some is read again
def test_a_fetch_is_answered_once_with_enough_or_when_its_time_is_up(seed: int) -> None:
    rng = random.Random(seed)
    fetched = Interleaved(rng)
    fetched.begin()
    for _ in range(rng.randrange(40)):
        number = rng.randrange(fetched.partitions)
        if rng.random() < 0.5:
            fetched.append(number)
        else:
            fetched.depose(number)
        for _ in range(rng.randrange(12)):
            fetched.step()
    fetched.settle()
    assert len(fetched.answers) == (fetched.size >= fetched.min_bytes)
    if not fetched.answers:
        fetched.expire()
        fetched.settle()
        assert sum(map(len, fetched.answered[0])) == fetched.size
    assert len(fetched.answers) == 1
    assert sum(map(len, fetched.answered[0])) >= min(fetched.min_bytes, fetched.size)
    assert not fetched._watched
