"""Long work of which all actors of a kind on a broker together have one piece under way; the others wait for it."""

from __future__ import annotations

from collections.abc import Callable


class ExclusiveWork:
    """The actor of a broker whose long work is under way, and the actors that wait for it."""

    __slots__ = ("_under_way", "_waiting")

    def __init__(self) -> None:
        self._under_way: str | None = None
        self._waiting: dict[str, Callable[[], None]] = {}

    def begin(self, name: str, may_begin: Callable[[], None]) -> bool:
        """May the actor with this name begin now? If not, `may_begin` is called later."""
        if self._under_way is None:
            self._under_way = name
            return True
        self._waiting[name] = may_begin
        return False

    def ended(self, name: str) -> None:
        """This actor has ended its work, or is gone."""
        self._waiting.pop(name, None)
        if self._under_way != name:
            return
        self._under_way = next(iter(self._waiting), None)
        if self._under_way is not None:
            self._waiting.pop(self._under_way)()
