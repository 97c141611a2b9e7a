"""How much a connection begins in one turn."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from attrs import frozen

from actors.raft.exclusive_work import ExclusiveWork
from actors.runtime import Actor, Address, Future, Node, Scheduler, handles
from actors.runtime.clock import VirtualClock
from actors.runtime.ref import Ref
from actors.serving import answers
from actors.serving import connection as serving_connection
from actors.serving.answers import Answers, Slot
from actors.serving.connection import BUSY_SECONDS, SLICE_SECONDS, Connection, Received, Work
from actors.serving.seldom import Seldom
from log.slices import called
from protocol.errors import ProtocolError
from tests.actors.serving.test_answers import Taken

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


class Slices(Begins):
    """Works on each request in slices, of which each is one of its bytes."""

    def begin(self, request: memoryview) -> None:
        slot = self.answers.begin(len(request))
        self.in_slices(self.work(bytes(request), slot))

    def work(self, request: bytes, slot: Slot) -> Work:
        for at in range(len(request)):
            self.begun.append(request[at : at + 1])
            self.clock.advance_to(self.clock.now() + self.seconds)
            if request[at : at + 1] == b"!":
                raise ProtocolError("it may not")
            if request[at : at + 1] == b"?":
                self.ask(SILENT, Silence(), lambda _future: self.begun.append(b"."))
            yield None
        self.answers.fill(slot, [request])


@frozen
class Silence:
    pass


SILENT = Address("silent", "", 1)


class Calls(Slices):
    """Has another thread do one thing for each request, which is what the request says, and then pauses twice."""

    def work(self, request: bytes, slot: Slot) -> Work:
        yield from called(lambda: self.begun.append(request))
        yield None
        yield None
        self.begun.append(b"%b." % request)
        self.answers.fill(slot, [request])


class Thread:
    """Does what it is given when it is told to, in this thread."""

    def __init__(self) -> None:
        self.given: list[tuple[Callable[[], None], Callable[[BaseException | None], None]]] = []

    def submit(self, work: Callable[[], None], done: Callable[[BaseException | None], None]) -> None:
        self.given.append((work, done))

    def run(self) -> None:
        work, done = self.given.pop(0)
        work()
        done(None)


class Silent(Actor):
    """Answers when it is told to."""

    def __init__(self, asked: list[Future[None]]) -> None:
        super().__init__()
        self.asked = asked

    @handles(Silence)
    def hear(self, _message: Silence) -> None:
        self.asked.append(self.defer())


class Edge:
    """Offers requests to a connection, one turn at a time."""

    def __init__(self, *requests: bytes, kind: type[Begins] = Begins, beside: Edge | None = None) -> None:
        self.clock: VirtualClock = VirtualClock() if beside is None else beside.clock
        self.scheduler: Scheduler = Scheduler(self.clock) if beside is None else beside.scheduler
        self.node: Node = Node(1, self.scheduler, incarnation=1) if beside is None else beside.node
        self.answers = Answers(Taken(), self.scheduler)  # type: ignore[arg-type]
        self.waiting = deque(memoryview(request) for request in requests)
        self.context: Any = (
            SimpleNamespace(codecs=Thread(), long_calls=ExclusiveWork()) if beside is None else (beside.context)
        )
        serving: Any = SimpleNamespace(says=Seldom(self.node.log, self.clock), context=self.context)
        address = Address("connection", str(len(self.node.addresses)), 1)
        self.ref: Ref[Begins] = self.node.spawn(kind, self.answers, serving, "peer", address=address)

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
    monkeypatch.setattr(answers, "REQUESTS_MAX", ROOM)
    edge = Edge(*(b"%d" % number for number in range(3 * ROOM)))
    assert edge.turn() == ROOM + 1
    assert len(edge.waiting) == 2 * ROOM - 1


def test_nothing_is_begun_after_what_a_client_may_not_do(begun: list[bytes]) -> None:
    edge = Edge(b"good", b"bad", b"never")
    edge.turn()
    assert begun == [b"good", b"bad"]
    assert not edge.waiting


def test_a_long_request_is_worked_on_a_few_milliseconds_at_a_time(
    begun: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Begins, "seconds", 0.4 * SLICE_SECONDS)
    edge = Edge(b"12345678", b"ab", kind=Slices)
    edge.turn()
    assert begun == [b"1", b"2", b"3"]
    assert edge.answers.are_many, "the reader waits meanwhile"
    edge.scheduler.turn()
    assert begun == [b"1", b"2", b"3", b"4", b"5", b"6"]
    edge.scheduler.turn()
    assert begun[-2:] == [b"7", b"8"], "the next request is begun when the reader offers it again"
    assert (edge.turn(), begun[-2:]) == (1, [b"a", b"b"])


def test_a_client_waits_for_no_slice_of_the_long_requests_of_others(
    begun: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Begins, "seconds", 0.4 * SLICE_SECONDS)
    first = Edge(b"aaaaaaaaa", kind=Slices)
    hogs = [first, *(Edge(name * 9, kind=Slices, beside=first) for name in (b"b", b"c"))]
    for hog in hogs:
        hog.turn()
    assert b"".join(begun) == b"aaabbbccc"
    for name in (b"1", b"2", b"3"):
        Edge(name, kind=Slices, beside=first).turn()
    assert b"".join(begun) == b"aaabbbccc123", "a turn that brings a request does nothing for the others"
    first.scheduler.turn()
    assert b"".join(begun) == b"aaabbbccc123aaa", "between two looks at sockets is one slice of one connection"
    while first.scheduler.busy:
        first.scheduler.turn()
    assert b"".join(begun) == b"aaabbbccc123aaabbbcccaaabbbccc"


def test_what_a_request_may_not_have_ends_the_connection_wherever_it_stands(
    begun: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Begins, "seconds", 0.4 * SLICE_SECONDS)
    edge = Edge(b"1234!5", b"ab", kind=Slices)
    edge.turn()
    edge.scheduler.turn()
    edge.scheduler.turn()
    assert begun == [b"1", b"2", b"3", b"4", b"!"]
    assert not edge.answers.are_many
    edge.turn()
    assert not edge.waiting


def test_a_long_request_waits_until_those_that_it_asked_keep_up(
    begun: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving_connection, "ASKS_MAX", 3)
    edge = Edge(b"?????", kind=Slices)
    asked: list[Future[None]] = []
    edge.node.spawn(Silent, asked, address=SILENT)
    edge.turn()
    for _ in range(10):
        edge.scheduler.turn()
    assert begun == [b"?", b"?", b"?"]
    asked[0].set(None)
    for _ in range(3):
        edge.scheduler.turn()
    assert begun == [b"?", b"?", b"?", b".", b"?"]
    for future in asked[1:]:
        future.set(None)
    for _ in range(3):
        edge.scheduler.turn()
    assert begun.count(b"?") == 5
    assert not edge.answers.are_many


def turns(edge: Edge) -> None:
    for _ in range(5):
        edge.scheduler.turn()


def test_another_thread_does_what_cannot_be_divided_and_the_reader_waits_meanwhile(begun: list[bytes]) -> None:
    edge = Edge(b"1", b"2", kind=Calls)
    edge.turn()
    turns(edge)
    assert begun == []
    assert edge.answers.are_many, "the reader waits meanwhile"
    edge.context.codecs.run()
    turns(edge)
    assert begun == [b"1", b"1."]
    edge.turn()
    edge.context.codecs.run()
    turns(edge)
    assert begun == [b"1", b"1.", b"2", b"2."]
    assert not edge.answers.are_many


def test_what_came_of_a_long_call_is_used_up_before_another_connection_makes_one(
    begun: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving_connection, "SLICE_SECONDS", -1.0)
    first = Edge(b"1", kind=Calls)
    others = [Edge(name, kind=Calls, beside=first) for name in (b"2", b"3", b"4")]
    for edge in (first, *others):
        edge.turn()
    thread = first.context.codecs
    thread.run()
    assert (begun, thread.given) == ([b"1"], [])
    others[1].ref.stop(block=False)  # its client is gone
    turns(first)
    assert begun == [b"1", b"1."]
    thread.run()
    others[0].ref.stop(block=False)
    turns(first)
    thread.run()
    turns(first)
    assert begun == [b"1", b"1.", b"2", b"4", b"4."]
    assert thread.given == []
    assert first.context.long_calls._under_way is None
