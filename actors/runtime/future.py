"""The answer to an ask: pykka's Future for actors that share one thread.

On the loop a future is awaited (trio) or given a callback; from any other thread `get` waits as pykka's own does.
`get` on the loop's thread never waits: the loop would stand still, and the answer would never come.

A future ends once: with a value, an exception, or its deadline. What comes after the deadline is dropped, because
the asker has gone on; a second answer to one ask is a mistake of the answering actor and raises, as in pykka.
"""

from __future__ import annotations

import math
import queue
import sys
import threading
import time
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, TypeVar

import pykka
import trio

from actors.runtime.errors import BlockingCall
from actors.runtime.loop.trio_loop import Parking
from actors.runtime.pykka_hooks import HookedFuture

if TYPE_CHECKING:
    from types import TracebackType

    from actors.runtime.scheduler import Scheduler
    from actors.runtime.timers import Timer

    ExcInfo = tuple[type[BaseException] | None, BaseException | None, TracebackType | None]

T = TypeVar("T")

_LOOK_SECONDS = 0.5


class Future(HookedFuture[T]):
    """An answer that has come or is still to come."""

    _scheduler: Scheduler | None = None
    _done = False
    _expired = False
    _value: Any = None
    _exception: BaseException | None = None
    _callbacks: list[Callable[[Future[Any]], None]] | None = None
    _timer: Timer | None = None
    _thread_event: threading.Event | None = None

    def __init__(self, scheduler: Scheduler | None = None) -> None:
        if scheduler is not None:
            self._scheduler = scheduler

    def __repr__(self) -> str:
        if not self._done:
            return "<Future pending>"
        return f"<Future {self._exception!r}>" if self._exception is not None else f"<Future {self._value!r}>"

    @property
    def done(self) -> bool:
        return self._done

    @property
    def answered(self) -> bool:
        """Was it answered? A future that ran into its deadline was not: its asker has gone on."""
        return self._done and not self._expired

    @property
    def exception(self) -> BaseException | None:
        """The failure with which this future ended, if it did."""
        return self._exception

    def set(self, value: T | None = None) -> None:
        self._finish(value, None)

    def set_exception(self, exc_info: ExcInfo | None = None) -> None:
        exception = (exc_info or sys.exc_info())[1]
        assert exception is not None, "set_exception outside of an except block needs an exc_info"
        self._finish(None, exception)

    def fail(self, exception: BaseException) -> None:
        """End with this exception."""
        self._finish(None, exception)

    def expire_after(self, seconds: float) -> None:
        """End with `pykka.Timeout` unless an answer comes within `seconds` of the scheduler's clock."""
        if self._done:
            return
        assert self._scheduler is not None, "a deadline needs a scheduler's clock"
        self._timer = self._scheduler.timers.after(seconds, lambda: self._expire(seconds))

    def add_callback(self, callback: Callable[[Future[Any]], None]) -> None:
        """Call `callback(self)` once the future is done, perhaps now. It runs in the turn that brings the answer."""
        if self._done:
            callback(self)
        elif self._callbacks is None:
            self._callbacks = [callback]
        else:
            self._callbacks.append(callback)

    def get(self, *, timeout: float | None = None) -> Any:
        if self.has_get_hook:
            return super().get(timeout=timeout)
        if not self._done:
            self._wait_in_thread(timeout)
        if self._exception is not None:
            raise self._exception
        return self._value

    def __await__(self) -> Generator[Any, Any, T]:
        if not self.has_get_hook and not self._done:
            if self._scheduler is not None and not self._scheduler.on_thread:
                # Another loop awaits it, such as that of a test with a cluster on a thread of its own.
                there: T = yield from trio.to_thread.run_sync(self.get, abandon_on_cancel=True).__await__()
                return there
            if self._scheduler is not None:
                self._scheduler.turn()  # what was just asked goes out now, not at the loop's next round
            if not self._done:
                parking = Parking()
                self.add_callback(lambda _: parking.wake())
                yield from parking.wait().__await__()
        result: T = self.get()
        return result

    def _expire(self, seconds: float) -> None:
        if not self._done:
            self._finish(None, pykka.Timeout(f"no answer within {seconds} s"))
            self._expired = True

    def _finish(self, value: Any, exception: BaseException | None) -> None:
        if self._done or self.has_get_hook:
            if self._expired:
                return
            raise queue.Full
        self._value = value
        self._exception = exception
        self._done = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._thread_event is not None:
            self._thread_event.set()
        if self._callbacks is not None:
            callbacks, self._callbacks = self._callbacks, None
            for callback in callbacks:
                callback(self)

    def _wait_in_thread(self, timeout: float | None) -> None:
        if self._scheduler is not None and self._scheduler.on_thread:
            raise BlockingCall("the answer is not here yet and waiting would stop the loop; await the future instead")
        # The setter marks the future done before it looks for an event, and we look again after placing ours: one of
        # the two always sees the other, so no lock is needed.
        event = self.__dict__.setdefault("_thread_event", threading.Event())  # one for all the threads that wait
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        while not self._done and not event.wait(min(deadline - time.monotonic(), _LOOK_SECONDS)):
            if time.monotonic() >= deadline:
                raise pykka.Timeout(f"{timeout} seconds")
            if self._scheduler is not None and self._scheduler.ended and not self._done:
                raise pykka.ActorDeadError("the loop that ran the actor has ended")


class Gather:
    """Counts the answers to many questions, and calls `then` once all have come.

        gather = Gather(then)
        for one in many:
            gather.begin()
            ask(one, lambda answer: gather.done())
        gather.done()

    The asker's own `done` comes after the last `begin`. So an answer that comes at once does not end it too early, and
    `then` is called also if there was nothing to ask.
    """

    __slots__ = ("_open", "_then")

    def __init__(self, then: Callable[[], object]) -> None:
        self._then: Callable[[], object] | None = then
        self._open = 1

    def begin(self) -> None:
        """One more question is under way."""
        assert self._open, "everything is done already"
        self._open += 1

    def done(self) -> None:
        """One question is answered, or the last one has been begun."""
        self._open -= 1
        assert self._open >= 0, "more is done than was begun"
        if not self._open:
            then, self._then = self._then, None  # `then` usually holds the maker of this Gather: no cycle may remain
            assert then is not None
            then()
