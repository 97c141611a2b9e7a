"""A fetch that finds nothing and begins to wait, while something changes. Without replicas and without a client."""

from __future__ import annotations

from collections.abc import Callable, Generator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from actors.messages.replica import ReadSlice, SliceRead, UnwatchLog, WatchLog
from actors.runtime import Address, Future, Scheduler
from actors.runtime.clock import VirtualClock
from actors.serving.kafka.handlers import fetch
from log.disk.slice import EMPTY, Slice
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic

RECORDS = b"records"
WAIT_SECONDS = 1.0


class Fetched:
    """A fetch of one partition. Its log is empty until the fetch begins to watch it."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.answers: list[Any] = []
        self.sent: list[object] = []
        self.while_it_watches: Callable[[], bool] = lambda: True
        """Gives whether the replica is there."""
        self._end = 0
        serving = SimpleNamespace(
            node=SimpleNamespace(scheduler=Scheduler(self.clock)),
            topic_by=lambda _name, _id: SimpleNamespace(partitions=[None]),
            replica=lambda _topic, _number: Address("replica", "orders-0", 1),
        )
        self.connection = SimpleNamespace(
            address=Address("connection", "1", 1), heard_all=False, ask=self._ask, send=self._send,
            in_slices=self._in_slices, wait_for_more=lambda _fetch: 1, wait_no_longer=lambda _number: None,
            after=lambda _seconds, _message: SimpleNamespace(cancel=lambda: None),
        )  # fmt: skip
        topics = [FetchTopic(topic="orders", partitions=[FetchPartition(partition=0, partition_max_bytes=100)])]
        request = FetchRequest(topics=topics, max_wait_ms=int(WAIT_SECONDS * 1000), min_bytes=1, max_bytes=100)
        call = SimpleNamespace(
            request=request, version=12, serving=serving, connection=self.connection,
            answer_at_once=self.answers.append,
        )  # fmt: skip
        self.fetch = fetch._Fetch(cast("Any", call), None)

    def begin(self) -> list[bytes]:
        """The records of each answer that is given at once."""
        self._in_slices(self.fetch.begin())
        return [answer.responses[0].partitions[0].records for answer in self.answers]

    def append(self) -> None:
        self._end = 1

    def _in_slices(self, work: Generator[None, None, None]) -> None:
        for _ in work:
            pass

    def _ask(self, _replica: Address, message: ReadSlice, then: Callable[[Future[Any]], None]) -> None:
        self.sent.append(message)
        found = Slice(None, 0, len(RECORDS), 1, copy=RECORDS) if self._end else EMPTY
        future: Future[SliceRead] = Future()
        future.set(SliceRead(0, self._end, self._end, 0, found))
        then(future)

    def _send(self, _replica: Address, message: object) -> bool:
        self.sent.append(message)
        return self.while_it_watches() if isinstance(message, WatchLog) else True

    @property
    def kinds(self) -> list[type]:
        return [type(one) for one in self.sent]


@pytest.mark.parametrize("is_there", [True, False])
def test_a_log_that_moves_while_a_fetch_begins_to_watch_it_is_read_again(*, is_there: bool) -> None:
    """Either its replica says so before every replica was asked, or it is gone by then."""
    fetched = Fetched()

    def move() -> bool:
        fetched.append()
        if is_there:
            fetched.fetch.more()
        return is_there

    fetched.while_it_watches = move
    assert fetched.begin() == [RECORDS]
    assert fetched.kinds == [ReadSlice, WatchLog, ReadSlice, UnwatchLog]


def test_a_fetch_whose_time_is_up_once_it_watches_is_answered_with_nothing() -> None:
    fetched = Fetched()

    def wait() -> bool:
        fetched.clock.advance_to(fetched.clock.now() + WAIT_SECONDS)
        fetched.fetch.expired()
        return True

    fetched.while_it_watches = wait
    assert fetched.begin() == [b""]
    assert fetched.kinds == [ReadSlice, WatchLog, UnwatchLog]
