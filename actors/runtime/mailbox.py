"""A bounded queue of messages for one actor, and what happens when it is full.

A mailbox is pykka's ActorInbox. Putting a message in makes its actor ready; the scheduler does the rest. A full mailbox
does one of two things, chosen per actor class: it refuses the message (REFUSE: the sender gets MailboxFull and may try
again), or it drops and counts it (DROP: for messages that the next one of their kind makes obsolete, such as
heartbeats). No message is lost in any other way.
"""

from __future__ import annotations

import enum
from collections import deque
from threading import get_ident
from typing import TYPE_CHECKING, Any

import pykka

from actors.runtime.errors import MailboxFull

if TYPE_CHECKING:
    from actors.runtime.pykka_hooks import Envelope
    from actors.runtime.scheduler import Runnable, Scheduler


class Overflow(enum.Enum):
    """What a full mailbox does with another message."""

    REFUSE = "refuse"
    DROP = "drop"


class Mailbox:
    """The inbox of one local actor. Messages from other threads are put in on the scheduler's thread."""

    __slots__ = ("_actor", "_scheduler", "capacity", "closed", "dropped", "overflow", "queue", "scheduled")

    _actor: Runnable
    _scheduler: Scheduler

    def __init__(self) -> None:
        self.queue: deque[Envelope[Any]] = deque()
        self.capacity = 0
        self.overflow = Overflow.REFUSE
        self.closed = False
        self.scheduled = False
        self.dropped = 0

    def bind(self, actor: Runnable, scheduler: Scheduler, capacity: int, overflow: Overflow) -> None:
        """Tie the mailbox to its actor: pykka makes inboxes before it knows either."""
        self._actor, self._scheduler = actor, scheduler
        self.capacity, self.overflow = capacity, overflow

    def put(self, envelope: Envelope[Any], /) -> None:
        if self.closed:
            raise pykka.ActorDeadError(f"{self._actor.address} not found")
        scheduler = self._scheduler
        if get_ident() != scheduler.thread_id:
            scheduler.tell_soon(lambda: self._put_for_thread(envelope))
            return
        if len(self.queue) >= self.capacity:
            self._overflow(envelope)
            return
        self.queue.append(envelope)
        if not self.scheduled:
            self.scheduled = True
            scheduler.make_ready(self._actor)

    def put_own(self, envelope: Envelope[Any]) -> None:
        """Put in a message that the actor itself ordered (a timer, an answer); it is never refused."""
        if self.closed:
            return
        self.queue.append(envelope)
        if not self.scheduled:
            self.scheduled = True
            self._scheduler.make_ready(self._actor)

    def get(self) -> Envelope[Any]:
        return self.queue.popleft()

    def empty(self) -> bool:
        return not self.queue

    def _overflow(self, envelope: Envelope[Any]) -> None:
        if self.overflow is Overflow.REFUSE or envelope.reply_to is not None:
            raise MailboxFull(f"{self._actor.address} has {self.capacity} messages waiting; try again later")
        self.dropped += 1
        self._scheduler.note_dropped(self._actor, self.dropped)

    def _put_for_thread(self, envelope: Envelope[Any]) -> None:
        try:
            self.put(envelope)
        except (MailboxFull, pykka.ActorDeadError) as error:
            if envelope.reply_to is not None:
                envelope.reply_to.set_exception((type(error), error, None))
            else:
                self.dropped += 1
                self._scheduler.note_dropped(self._actor, self.dropped)
