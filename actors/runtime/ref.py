"""References: the only way to an actor, in this process or in another.

`tell` and `ask` mean what they mean in pykka, with one difference: an ask on the loop's own thread must not block.
There it is written `await ref.ask(message, block=False, timeout=1.0)`, and its timeout is a deadline on the scheduler's
clock. From any other thread the blocking forms work as pykka's do.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeVar

import pykka

from actors.runtime.errors import BlockingCall, MailboxFull, RuntimeFault
from actors.runtime.future import Future
from actors.runtime.pykka_hooks import ActorStop, Envelope
from protocol.late_attrs import frozen

if TYPE_CHECKING:
    from actors.runtime.address import Address
    from actors.runtime.mailbox import Mailbox
    from actors.runtime.scheduler import Scheduler

A = TypeVar("A", bound=pykka.Actor)


class AddressedRef(pykka.ActorRef[A]):
    """What a local and a remote reference have in common: an address, an inbox, and the scheduler of this process."""

    address: Address
    _scheduler: Scheduler
    _inbox: Mailbox | RemoteInbox

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.address}>"

    def __str__(self) -> str:
        return str(self.address)

    def tell(self, message: Any) -> None:
        """Put a message into the inbox: ordered, at most once.

        Raises ActorDeadError without an actor, or a link to it, and MailboxFull where the inbox refuses more.
        """
        self._inbox.put(Envelope(message))

    def ask(self, message: Any, *, block: bool = True, timeout: float | None = None) -> Any:
        """Put a message into the inbox and get a future of the answer, or with `block` the answer itself.

        A link that is lost before the answer ends the future with LinkLost.
        """
        scheduler = self._scheduler
        on_thread = scheduler.on_thread
        if block and on_thread:
            raise BlockingCall("ask would stop the loop; use ask(..., block=False) and await the future")
        future: Future[Any] = Future(scheduler)
        try:
            self._inbox.put(Envelope(message, future))
        except (pykka.ActorDeadError, MailboxFull) as error:
            future.fail(error)
        if timeout is not None and not future.done:
            if on_thread:
                future.expire_after(timeout)
            else:
                scheduler.call_soon(lambda: future.expire_after(timeout))
        return future.get(timeout=timeout) if block else future

    def stop(self, *, block: bool = True, timeout: float | None = None) -> Any:
        """Stop the actor: True if it lived. On the loop, `await ref.stop(block=False)`."""
        if block or not self._scheduler.on_thread:
            return super().stop(block=block, timeout=timeout)
        return _stopped(self._scheduler, self.ask(ActorStop(), block=False, timeout=timeout))


class Ref(AddressedRef[A]):
    """A reference to an actor of this process."""

    actor_inbox: Mailbox

    def __init__(self, actor: A, address: Address, scheduler: Scheduler) -> None:
        super().__init__(actor)
        self.address = address
        self._scheduler = scheduler
        self._inbox = self.actor_inbox


class Outgoing(Protocol):
    """A link, as the senders of messages see it."""

    def send(self, address: Address, envelope: Envelope[Any]) -> None: ...


@frozen(slots=True)
class Exits:
    """The ways out of a node."""

    scheduler: Scheduler
    links: Mapping[int, Outgoing]
    log: logging.LoggerAdapter[logging.Logger]


class RemoteInbox:
    """The inbox of an actor in another process: what is put in goes over the link to its broker."""

    __slots__ = ("_address", "_exits")

    def __init__(self, exits: Exits, address: Address) -> None:
        self._exits, self._address = exits, address

    def put(self, envelope: Envelope[Any], /) -> None:
        scheduler = self._exits.scheduler
        if not scheduler.on_thread:
            scheduler.tell_soon(lambda: self._put_for_thread(envelope))
            return
        link = self._exits.links.get(self._address.broker)
        if link is None:
            raise pykka.ActorDeadError(f"{self._address} not found: no link to broker {self._address.broker}")
        link.send(self._address, envelope)

    def get(self) -> Envelope[Any]:
        raise TypeError("the inbox of a remote actor is read in its own process")

    def empty(self) -> bool:
        return True

    def _put_for_thread(self, envelope: Envelope[Any]) -> None:
        try:
            self.put(envelope)
        except (RuntimeFault, pykka.ActorDeadError) as error:
            if envelope.reply_to is not None:
                envelope.reply_to.set_exception((type(error), error, None))
            else:
                self._exits.log.warning("link: a tell from another thread was not delivered: %s", error)


class RemoteRef(AddressedRef[pykka.Actor]):
    """A reference to an actor of another process. It holds an address and no actor, so it outlives restarts there."""

    def __init__(self, exits: Exits, address: Address) -> None:
        # pykka's __init__ wants the actor itself; tell, ask and stop touch only what is set here.
        self.actor_class = pykka.Actor  # type: ignore[type-abstract]  # nothing makes one from it
        self.actor_urn = str(address)
        self.actor_inbox = self._inbox = RemoteInbox(exits, address)
        self.address = address
        self._scheduler = exits.scheduler
        self._exits = exits

    def is_alive(self) -> bool:
        """Is there a link to the actor's broker? Only an answer tells whether the actor is there."""
        return self.address.broker in self._exits.links

    def proxy(self) -> NoReturn:
        """Refused: a proxy would read another process's memory. Send a message."""
        raise TypeError(f"{self.address} lives in another process: send it a message")


def _stopped(scheduler: Scheduler, asked: Future[None]) -> Future[bool]:
    """Whether a stop that was asked for found the actor alive."""
    stopped: Future[bool] = Future(scheduler)

    def finish(done: Future[Any]) -> None:
        error = done.exception
        if error is None or isinstance(error, pykka.ActorDeadError):
            stopped.set(error is None)
        else:
            stopped.fail(error)

    asked.add_callback(finish)
    return stopped
