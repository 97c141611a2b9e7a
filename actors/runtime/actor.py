"""The actor: a pykka.Actor whose turns a scheduler runs.

    class Counter(Actor):
        def __init__(self) -> None:
            super().__init__()
            self.count = 0

        @handles(Add)
        def add(self, message: Add) -> int:
            self.count += message.amount
            return self.count

    ref = node.spawn(Counter, address=Address("counter", "", node.broker))
    total = await ref.ask(Add(2), block=False)

Handlers are plain functions: they never await and never block. A handler that cannot answer yet takes the answer with
`self.defer()` and sets it later; one that needs an answer itself gives `self.ask` a function to go on with, which runs
as a message of its own. What waits outside (sockets, files, other threads) sends its results to actors as messages.

pykka's semantics hold: an exception in the handler of an ask goes to the asker, and the actor lives on; an exception
in the handler of a tell ends the actor (`on_failure`), and its supervisor restarts it. Two things differ: pykka's
registry, a linear list, is not used (node.py has a directory), and `Node.spawn` replaces `start`, since every actor
needs a node.

The private hooks of pykka that this stands on are in pykka_hooks.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Self, TypeVar

import pykka

from actors.runtime.errors import MailboxFull
from actors.runtime.future import Future
from actors.runtime.mailbox import Mailbox, Overflow
from actors.runtime.pykka_hooks import ActorStop, Envelope, HookedActor
from actors.runtime.ref import Ref
from actors.runtime.supervision import Restart
from protocol.late_attrs import frozen

if TYPE_CHECKING:
    import logging

    from actors.runtime.address import Address
    from actors.runtime.node import Node
    from actors.runtime.timers import Timer

F = TypeVar("F", bound=Callable[..., Any])
Handler = Callable[[Any, Any], Any]


def handles(*message_classes: type) -> Callable[[F], F]:
    """Mark a method as the handler of these message classes."""

    def mark(function: F) -> F:
        function.__handles__ = message_classes  # type: ignore[attr-defined]
        return function

    return mark


@frozen(slots=True)
class Start:
    """The first message of every actor: run on_start in the actor's own turn."""


@frozen(slots=True)
class Continue:
    """An answer to one of the actor's own asks, with the function that goes on with it."""

    function: Callable[[Future[Any]], None]
    future: Future[Any]


class Actor(HookedActor):
    """The base class of all actors. `node` and `address` are set before `__init__` runs."""

    mailbox_capacity: ClassVar[int] = 4096
    mailbox_overflow: ClassVar[Overflow] = Overflow.REFUSE
    restart: ClassVar[Restart | None] = Restart()
    urgent: ClassVar[bool] = False
    """Is it scheduled before all other ready actors? For an actor with little to do, on which the others depend."""

    inbox_class = Mailbox
    future_class = Future

    node: Node
    address: Address
    actor_inbox: Mailbox

    _handlers: ClassVar[dict[type, Handler]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._handlers = {}
        for base in reversed(cls.__mro__):
            for name, value in vars(base).items():
                for message_class in getattr(value, "__handles__", ()):
                    cls._handlers[message_class] = getattr(cls, name)  # as overridden, with or without the mark

    def __init__(self) -> None:
        super().__init__(str(self.address), lambda actor: Ref(actor, self.address, self.node.scheduler))
        self._envelope: Envelope[Any] | None = None
        self._taken: tuple[Envelope[Any] | None, Any] = (None, None)
        self._owed: dict[Any, None] = {}  # in the order of their asks
        self._owed_limit = 64
        self._timers: set[Timer] = set()
        self._timers_limit = 64

    def __str__(self) -> str:
        return str(self.address)

    # -- what a handler may use --------------------------------------------------------------------------------

    @property
    def ref(self) -> Ref[Self]:
        """This actor's own reference."""
        return self.actor_ref  # type: ignore[return-value]

    @property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        return self.node.log

    @property
    def now(self) -> float:
        """The scheduler's monotonic time, in seconds."""
        return self.node.scheduler.clock.now()

    def send(self, address: Address, message: Any) -> bool:
        """Tell the actor at `address`. False if the message was not sent: for messages that may be lost, as Raft's."""
        try:
            self.node.tell(address, message)
        except (pykka.ActorDeadError, MailboxFull):
            return False
        return True

    def ask(
        self, address: Address, message: Any, then: Callable[[Future[Any]], None], *, timeout: float | None = None
    ) -> Future[Any]:
        """Ask the actor at `address`; `then(future)` runs in this actor's own turn once the answer is here.

        Callbacks of the future that is returned run earlier: at once when the question is refused or answered.
        """
        try:
            future: Future[Any] = self.node.ref(address).ask(message, block=False, timeout=timeout)
        except pykka.ActorDeadError as error:
            future = Future(self.node.scheduler)
            future.fail(error)
        future.add_callback(lambda done: self.actor_inbox.put_own(Envelope(Continue(then, done))))
        return future

    def defer(self) -> Future[Any]:
        """Take over the answer to the message in hand, to set it now or in another turn."""
        envelope = self._envelope
        assert envelope is not None, "there is no message in hand to defer the answer of"
        reply = envelope.reply_to
        if reply is None:
            return Future(self.node.scheduler)  # a tell: no asker waits, so the answer is dropped
        envelope.reply_to = None
        self._taken = (envelope, reply)
        self._owed[reply] = None
        if len(self._owed) > self._owed_limit:
            self._owed = {owed: None for owed in self._owed if not owed.done}
            self._owed_limit = max(64, 2 * len(self._owed))
        return reply  # type: ignore[return-value]

    def after(self, seconds: float, message: Any) -> Timer:
        """Tell this actor `message` once, `seconds` from now, unless it stops before."""
        return self._keep(self.node.scheduler.timers.after(seconds, lambda: self._tell_self(message)))

    def every(self, seconds: float, message: Any) -> Timer:
        """Tell this actor `message` every `seconds` until cancelled or stopped."""
        return self._keep(self.node.scheduler.timers.every(seconds, lambda: self._tell_self(message)))

    def in_background(self, message: Any) -> None:
        """Tell this actor `message` after the turns of all ready actors: for long work, a piece at a time."""
        self.node.scheduler.in_background(lambda: self._tell_self(message))

    def stop(self) -> None:
        """Stop after the messages that wait in the mailbox. Never refused, however full the mailbox is."""
        self.actor_inbox.put_own(Envelope(ActorStop()))

    # -- pykka's hooks ---------------------------------------------------------------------------------------

    @classmethod
    def start(cls, *_args: Any, **_kwargs: Any) -> NoReturn:
        """Refused: an actor needs a node."""
        raise TypeError(f"start {cls.__name__} with node.spawn({cls.__name__}, ..., address=...)")

    def activate(self) -> None:
        self.actor_inbox.bind(self, self.node.scheduler, self.mailbox_capacity, self.mailbox_overflow)
        self.actor_inbox.put_own(Envelope(Start()))

    def receive(self, message: Any) -> Any:
        handler = self._handlers.get(type(message))
        if handler is not None:
            return handler(self, message)
        if type(message) is Continue:
            message.function(message.future)
            return None
        if type(message) is Start:
            self.on_start()
            return None
        return super().receive(message)

    def stop_now(self) -> None:
        self._close()
        try:
            self.on_stop()
        except Exception as error:
            self.log.exception("actor: %s failed in on_stop", self.address)
            self.node.actor_ended(self, f"failed in on_stop: {error!r}")
        else:
            self.node.actor_ended(self, "stopped")
        self._refuse_all()

    def _end_by_failure(self, error: BaseException) -> None:
        self._close()
        if not self._expects(error):
            self.log.error("actor: %s failed", self.address, exc_info=error)
        try:
            self.on_failure(type(error), error, error.__traceback__)
        except Exception:
            self.log.exception("actor: %s failed in on_failure", self.address)
        self.node.actor_failed(self, error)
        self._refuse_all()
        forget_frames(error)

    def _expects(self, error: BaseException) -> bool:
        return self.restart is not None and isinstance(error, self.restart.expects)

    def _refuse_all(self) -> None:
        """Answer what is queued, and what was deferred and is still owed, with ActorDeadError."""
        self.refuse_queued()
        owed, self._owed = self._owed, {}
        for reply in owed:
            if not reply.done:
                error = pykka.ActorDeadError(f"{self.address} stopped before it answered")
                reply.set_exception((pykka.ActorDeadError, error, None))

    # -- the scheduler's side ----------------------------------------------------------------------------------

    def run_batch(self, limit: int, stop_at: float = math.inf) -> None:
        """Handle at most `limit` messages, until about `stop_at`. Called by the scheduler alone."""
        inbox, now = self.actor_inbox, self.node.scheduler.clock.now
        queue = inbox.queue
        while queue and limit:
            limit -= 1
            self._envelope = envelope = queue.popleft()
            try:
                response = self.receive(envelope.message)
                reply = envelope.reply_to
                if reply is not None:
                    reply.set(response)
            except Exception as error:  # noqa: BLE001  any failure of a handler is this actor's alone
                self._failed_on(envelope, error)
            if inbox.closed or (not limit & 7 and now() > stop_at):
                break
        self._envelope, self._taken = None, (None, None)  # an actor at rest holds no message, and no buffer behind it
        if inbox.closed:
            return
        if queue:
            self.node.scheduler.make_ready(self)
        else:
            inbox.scheduled = False

    def crash(self) -> None:
        """End as with the process: no on_stop, no restart, no Terminated; only askers in this process are answered."""
        if not self.actor_inbox.closed:
            self._close()
            self._refuse_all()

    def _failed_on(self, envelope: Envelope[Any], error: Exception) -> None:
        taken_by, taken = self._taken
        reply: Any = taken if taken_by is envelope else envelope.reply_to
        if reply is None or reply.answered:
            self._end_by_failure(error)
            return
        self.log.info("actor: %s answers %s with %r", self.address, type(envelope.message).__name__, error)
        reply.set_exception((type(error), error, error.__traceback__))
        if self._expects(error):
            forget_frames(error)

    def _close(self) -> None:
        self.actor_stopped.set()
        self.actor_inbox.closed = True
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()

    def _tell_self(self, message: Any) -> None:
        self.actor_inbox.put_own(Envelope(message))

    def _keep(self, timer: Timer) -> Timer:
        self._timers.add(timer)
        if len(self._timers) > self._timers_limit:
            self._timers = {kept for kept in self._timers if kept.active}
            self._timers_limit = max(64, 2 * len(self._timers))
        return timer


def forget_frames(error: BaseException | None) -> None:
    """Drop the error's traceback, which holds the frames of the functions that the error has passed.

    A frame that also holds the error forms a reference cycle with it, and keeps open files alive until the next garbage
    collection.
    """
    while error is not None:
        error.__traceback__ = None
        error = error.__cause__ or error.__context__
