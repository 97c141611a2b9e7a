"""Everything that the runtime takes from the inside of pykka 4.5; no other module uses a private name of pykka's.

Envelope       what an inbox holds: a message, and where its answer goes
ActorStop      the message that stops an actor
HookedActor    pykka's private hooks of an actor, under public names that the actor of this runtime uses or replaces
HookedFuture   pykka's future, made without its constructor

tests/actors/runtime/test_pykka_contract.py pins each of them, and their use by this module alone.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

import pykka
from pykka._envelope import Envelope
from pykka.messages import _ActorStop as ActorStop

__all__ = ["ActorStop", "Envelope", "HookedActor", "HookedFuture"]

T = TypeVar("T")


class HookedActor(pykka.Actor):
    """A pykka.Actor whose turns are not run by pykka."""

    inbox_class: ClassVar[Callable[[], Any]]
    future_class: ClassVar[Callable[[], pykka.Future[Any]]]

    def __init__(self, urn: str, ref_of: Callable[[Any], pykka.ActorRef[Any]]) -> None:
        super().__init__()
        self.actor_urn = urn
        self._actor_ref = ref_of(self)  # it copies the URN and the inbox, so they come first

    @abstractmethod
    def activate(self) -> None:
        """Make the actor, which is complete now, ready for its first turn."""

    @abstractmethod
    def stop_now(self) -> None:
        """Stop without handling what is left in the inbox; also run for ActorStop."""

    def receive(self, message: Any) -> Any:
        """Handle a message of pykka's own, such as ActorStop or a proxy's call; give others to on_receive."""
        return super()._handle_receive(message)

    def refuse_queued(self) -> None:
        """Answer every message that is left in the inbox with ActorDeadError, and every ActorStop with None."""
        super()._actor_loop_teardown()

    @classmethod
    def _create_actor_inbox(cls) -> Any:
        return cls.inbox_class()

    @classmethod
    def _create_future(cls) -> pykka.Future[Any]:
        return cls.future_class()

    def _start_actor_loop(self) -> None:
        self.activate()

    def _stop(self) -> None:
        self.stop_now()


class HookedFuture(pykka.Future[T]):
    """A pykka.Future whose initial state is in class attributes.

    A subclass need not call pykka's constructor, which makes a sentinel object for each future.
    """

    has_get_hook = False
    """Does a function give its value (`set_get_hook`: futures that map, filter or join others)?"""

    _get_hook: Callable[[float | None], Any] | None = None
    _get_hook_result = pykka.Future[Any]()._get_hook_result

    def set_get_hook(self, func: Callable[[float | None], Any]) -> None:
        super().set_get_hook(func)
        self.has_get_hook = True
