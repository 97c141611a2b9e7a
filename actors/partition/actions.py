"""What a part of a replica may have the replica's actor do.

The parts (admissions, look-ups, cleaning, …) hold these functions and never the actor, so that each says in its
constructor what it needs and can be tested alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from actors.runtime import Address, Future
from actors.runtime.timers import Timer
from log.slices import LongCall
from protocol.late_attrs import frozen


class AskActor(Protocol):
    """`Actor.ask`: `then` runs in a later turn of this actor, with the answer or with why there is none."""

    def __call__(
        self, address: Address, message: Any, then: Callable[[Future[Any]], None], *, timeout: float | None = None
    ) -> Future[Any]: ...


class AskPeer(Protocol):
    """Ask the replica of the same partition on another broker."""

    def __call__(self, broker: int, message: Any, then: Callable[[Future[Any]], None], *, timeout: float) -> None: ...


@frozen(slots=True)
class Actions:
    """See the module's docstring."""

    now: Callable[[], float]
    defer: Callable[[], Future[Any]]
    """Take over the answer to the message in hand."""
    send: Callable[[Address, Any], bool]
    ask: AskActor
    ask_peer: AskPeer
    after: Callable[[float, Any], Timer]
    """Tell this actor a message once, so many seconds from now."""
    after_call: Callable[[LongCall | None, Any], None]
    """Tell this actor a message when another thread has done the call; without a call, soon."""
    in_background: Callable[[Any], None]
    """Tell this actor a message when all other actors had their turn."""
    sync_soon: Callable[[], None]
    """Begin a flush of the log, whatever the settings ask for."""
    start_log_at: Callable[[int], None]
    """Raise the log start to this offset, as far as that is committed, and flush before if need be."""
