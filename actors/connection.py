"""A client's connection, as an actor. It lives and dies with its socket, which a task reads for it (listener.py).

The first byte that comes tells the dialect: kafka_connection.py, json_connection.py.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from actors.runtime import Actor, handles
from protocol.late_attrs import frozen

if TYPE_CHECKING:
    from actors.answers import Answers
    from actors.serving import Serving


BUSY_SECONDS = 0.003


@frozen(slots=True)
class Received:
    """Requests as they came, in order: frames without their sizes, or lines without their ends.

    The connection takes them from the front, as many as it has time and room for. What it leaves is offered again.
    """

    requests: deque[memoryview]


@frozen(slots=True)
class HeardAll:
    """The client sends no more requests: it is gone, or has shut down its side and waits for what is due."""


@frozen(slots=True)
class _Later:
    """To a connection, from itself: go on with this."""

    function: Callable[[], None]


class Connection(Actor):
    """What both dialects have in common."""

    restart = None
    mailbox_capacity: ClassVar[int] = 1 << 14

    def __init__(self, answers: Answers, serving: Serving, peer: str) -> None:
        super().__init__()
        self.answers = answers
        self.serving = serving
        self.peer = peer
        self.ending = ""
        """Why this connection is about to end, if it is."""
        self.heard_all = False

    def end(self, reason: str) -> None:
        """The client did what it may not. What was answered before goes out, if the client takes it."""
        if not self.ending:
            self.ending = reason
            self.log.info("connection: %s closed: %s", self.peer, reason)
            self.answers.end()

    @handles(Received)
    def received(self, message: Received) -> None:
        """Begin what came, but not for long at a time: a heap of requests must not keep other clients waiting."""
        requests, now = message.requests, self.node.scheduler.clock.now
        stop_at = now() + BUSY_SECONDS
        while requests:
            self.begin(requests.popleft())
            if self.ending:
                requests.clear()
            elif requests and (self.answers.are_many or now() > stop_at):
                return

    @property
    def now(self) -> float:
        return self.node.scheduler.clock.now()

    @property
    def client_host(self) -> str:
        """Where the client is, as Kafka's brokers write it."""
        return "/" + self.peer.rpartition(":")[0]

    def later(self, seconds: float, function: Callable[[], None]) -> None:
        """Go on with this after a while, in a turn of this connection, unless the client is gone by then."""
        self.after(seconds, _Later(function))

    @handles(_Later)
    def go_on(self, message: _Later) -> None:
        message.function()

    @abstractmethod
    def begin(self, request: memoryview) -> None:
        """Do this, or have it done; its answer has its place among the others from now on."""

    @handles(HeardAll)
    def all_was_heard(self, _message: HeardAll) -> None:
        self.heard_all = True

    def on_failure(self, *_: Any) -> None:
        self.answers.end()
