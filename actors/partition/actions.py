"""What the parts of a replica may have the replica's actor do.

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
    """`Actor.ask`: `then` runs in a later turn of this actor, with the answer or an error."""

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
    """Tell this actor a message after another thread has run the call; without a call, at once."""
    in_background: Callable[[Any], None]
    """Tell this actor a message after the turns of all ready actors."""
    sync_soon: Callable[[], None]
    """Begin a flush of the log, whether or not the settings ask for one."""
    start_log_at: Callable[[int], None]
    """Raise the log start to this offset, as far as it is committed, after a flush if need be."""
