"""A client's connection, as an actor. It lives and dies with its socket, which a task reads for it (listener.py).

The first byte that comes selects the dialect: kafka/connection.py or json/connection.py.

A request with many elements is done in slices: its work is a generator that pauses after each element, and goes on in
later turns of the scheduler when its few milliseconds are over. So other clients, links and timers never wait for a
whole request, however long it is. What cannot be divided, such as the decompression of megabytes, is a LongCall
(log/slices.py), which another thread does. Megabytes may come of it: the connections of a broker take turns, and each
keeps its turn until the work that made the call is done.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Generator
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from actors.control.client import ControllerClient
from actors.runtime import Actor, handles
from log.slices import LongCall
from protocol.errors import ProtocolError
from protocol.late_attrs import frozen

if TYPE_CHECKING:
    from actors.runtime import Address, Future
    from actors.serving.answers import Answers
    from actors.serving.context import Serving


BUSY_SECONDS = 0.003
SLICE_SECONDS = 0.003
ASKS_MAX = 1000
"""The open questions of one connection to other actors. One client must not fill the mailboxes that all share."""
Work = Generator[Any, None, None]
"""Long work that pauses often. The yielded values have no meaning, but for a LongCall."""


@frozen(slots=True)
class Received:
    """Requests as they came, in order: frames without their sizes, or lines without their ends.

    The connection takes them from the front, as many as it has time and room for. What it leaves is offered again.
    """

    requests: deque[memoryview]


@frozen(slots=True)
class HeardAll:
    """The client sends no more requests: it is gone, or has shut down its side and waits for the last answers."""

    unfinished_bytes: int = 0
    """The size of the part that came of a last request."""


@frozen(slots=True)
class _Later:
    """From a connection to itself: call this function."""

    function: Callable[[], None]


@frozen(slots=True)
class NextSlice:
    """From a connection to itself: go on with the work that is done in slices."""


class Connection(Actor):
    """The part of a connection that both dialects share."""

    restart = None
    mailbox_capacity: ClassVar[int] = 1 << 14

    def __init__(self, answers: Answers, serving: Serving, peer: str) -> None:
        super().__init__()
        self.answers = answers
        self.serving = serving
        self.peer = peer
        self.ending = ""
        """Why this connection is about to end; empty if it is not."""
        self.heard_all = False
        self._work: deque[Work] = deque()
        self._is_stalled = False
        """Does the work wait for answers of other actors?"""
        self._has_turn = False
        """Does this connection have its turn to make long calls, or wait for it?"""

    def end(self, reason: str) -> None:
        """Close the connection because of what the client did. Answers that are ready go out if possible."""
        if not self.ending:
            self.ending = reason
            self.serving.says.info("closed", "connection: %s closed: %s", self.peer, reason)
            self.answers.end()

    def in_slices(self, work: Work) -> None:
        """Do this work a few milliseconds at a time, after earlier work. No request is begun meanwhile, so requests
        ask other actors in their order."""
        self._work.append(work)
        if len(self._work) == 1:
            self.next_slice(NextSlice())

    def ask(
        self, address: Address, message: Any, then: Callable[[Future[Any]], None], *, timeout: float | None = None
    ) -> Future[Any]:
        self.answers.asks += 1
        return super().ask(address, message, partial(self._was_answered, then), timeout=timeout)

    def _was_answered(self, then: Callable[[Future[Any]], None], future: Future[Any]) -> None:
        answers = self.answers
        answers.asks -= 1
        then(future)
        if self._is_stalled and answers.asks < ASKS_MAX:
            self._is_stalled = False
            self._go_on_in_background()

    @handles(NextSlice)
    def next_slice(self, _message: NextSlice) -> None:
        waiting, now = self._work, self.node.scheduler.clock.now
        stop_at = now() + SLICE_SECONDS
        while waiting and not self.ending:
            try:
                for pause in waiting[0]:
                    if isinstance(pause, LongCall):
                        self._call(pause)
                        return
                    if now() > stop_at or self.answers.asks >= ASKS_MAX:
                        self._pause()
                        return
            except ProtocolError as error:
                self.end(str(error))
                break
            waiting.popleft()
            self._give_up_turn()
        waiting.clear()
        self._give_up_turn()
        self.answers.not_busy()

    def _call(self, call: LongCall) -> None:
        """Have another thread make this call when it is this connection's turn, and then go on."""
        context = self.serving.context

        def submit() -> None:
            context.codecs.submit(call.run, lambda _error: self._go_on_in_background())

        self.answers.is_busy = True
        if self._has_turn:
            submit()
            return
        self._has_turn = True
        if context.long_calls.begin(str(self.address), submit):
            submit()

    def _give_up_turn(self) -> None:
        if self._has_turn:
            self._has_turn = False
            self.serving.context.long_calls.ended(str(self.address))

    def _pause(self) -> None:
        """Go on after sockets and other actors had their turn, or once enough questions are answered."""
        self.answers.is_busy = True
        self._is_stalled = self.answers.asks >= ASKS_MAX
        if not self._is_stalled:
            self._go_on_in_background()

    def _go_on_in_background(self) -> None:
        """Connections that work in slices take turns, so that many of them hardly delay the others."""
        self.in_background(NextSlice())

    @handles(Received)
    def received(self, message: Received) -> None:
        """Begin requests, but not for long at a time: many requests of one client must not keep others waiting."""
        requests, now = message.requests, self.node.scheduler.clock.now
        stop_at = now() + BUSY_SECONDS
        while requests and not self._work:
            self.begin(requests.popleft())
            if self.ending:
                requests.clear()
            elif requests and (self.answers.are_many or now() > stop_at):
                return

    @property
    def now(self) -> float:
        return self.node.scheduler.clock.now()

    @property
    def controller(self) -> ControllerClient:
        """The way to the controllers. One is made for each use: a kept one would form a reference cycle."""
        return ControllerClient(self, self.serving.controller)

    @property
    def client_host(self) -> str:
        """The client's address, as Kafka's brokers write it."""
        return "/" + self.peer.rpartition(":")[0]

    def later(self, seconds: float, function: Callable[[], None]) -> None:
        """Call this function after so many seconds, in a turn of this connection, unless the client is gone by then."""
        self.after(seconds, _Later(function))

    @handles(_Later)
    def go_on(self, message: _Later) -> None:
        message.function()

    @abstractmethod
    def begin(self, request: memoryview) -> None:
        """Begin this request. From now on its answer has its place in the order of the requests."""

    @handles(HeardAll)
    def all_was_heard(self, message: HeardAll) -> None:
        self.heard_all = True
        if message.unfinished_bytes:
            self.begin_unfinished(message.unfinished_bytes)

    def begin_unfinished(self, size_bytes: int) -> None:
        """The client's last request has no end. In a dialect of frames nothing can be answered."""

    def on_stop(self) -> None:
        self._give_up_turn()

    def on_failure(self, *_: Any) -> None:
        self._give_up_turn()
        self.answers.end()
