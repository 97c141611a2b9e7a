"""How much a connection begins in one turn."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest

from actors.answers import Answers
from actors.connection import BUSY_SECONDS, Connection, Received
from actors.runtime import Address, Node, Scheduler
from actors.runtime.clock import VirtualClock
from actors.runtime.ref import Ref
from tests.actors.test_answers import Taken

ROOM = 10


class Begins(Connection):
    """Does nothing with a request but take time for it."""

    begun: list[bytes]
    seconds = 0.0

    def begin(self, request: memoryview) -> None:
        self.answers.begin(len(request))
        self.begun.append(bytes(request))
        self.clock.advance_to(self.clock.now() + self.seconds)
        if bytes(request) == b"bad":
            self.end("it may not")

    @property
    def clock(self) -> VirtualClock:
        clock = self.node.scheduler.clock
        assert isinstance(clock, VirtualClock)
        return clock


class Edge:
    """Offers requests to a connection, one turn at a time."""

    def __init__(self, *requests: bytes) -> None:
        self.scheduler = Scheduler(VirtualClock())
        self.node = Node(1, self.scheduler, incarnation=1)
        self.answers = Answers(Taken(), self.scheduler)  # type: ignore[arg-type]
        self.waiting = deque(memoryview(request) for request in requests)
        serving: Any = None
        address = Address("connection", "1", 1)
        self.ref: Ref[Begins] = self.node.spawn(Begins, self.answers, serving, "peer", address=address)

    def turn(self) -> int:
        """How many are begun in one."""
        before = self.answers.requests
        self.scheduler.turn(lambda: self.ref.tell(Received(self.waiting)))
        return self.answers.requests - before


@pytest.fixture(autouse=True)
def begun(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    made: list[bytes] = []
    monkeypatch.setattr(Begins, "begun", made, raising=False)
    return made


def test_a_few_requests_are_begun_in_the_turn_that_brings_them(begun: list[bytes]) -> None:
    assert Edge(b"1", b"2", b"3").turn() == 3
    assert begun == [b"1", b"2", b"3"]


def test_many_requests_are_begun_a_few_milliseconds_at_a_time(
    begun: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Begins, "seconds", 0.4 * BUSY_SECONDS)
    edge = Edge(*(b"%d" % number for number in range(8)))
    assert [edge.turn() for _ in range(4)] == [3, 3, 2, 0]
    assert begun == [b"%d" % number for number in range(8)]


def test_no_more_are_begun_while_too_many_are_not_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.answers.REQUESTS_MAX", ROOM)
    edge = Edge(*(b"%d" % number for number in range(3 * ROOM)))
    assert edge.turn() == ROOM + 1
    assert len(edge.waiting) == 2 * ROOM - 1


def test_nothing_is_begun_after_what_a_client_may_not_do(begun: list[bytes]) -> None:
    edge = Edge(b"good", b"bad", b"never")
    edge.turn()
    assert begun == [b"good", b"bad"]
    assert not edge.waiting
