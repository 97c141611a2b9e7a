"""Long work of which all replicas of a broker together have one piece under way; the others wait for it."""

from __future__ import annotations

from collections.abc import Callable


class ExclusiveWork:
    """Which replica of a broker has its long work under way, and which ones wait for that."""

    __slots__ = ("_under_way", "_waiting")

    def __init__(self) -> None:
        self._under_way: str | None = None
        self._waiting: dict[str, Callable[[], None]] = {}

    def begin(self, group: str, may_begin: Callable[[], None]) -> bool:
        """May this group begin now? If not, `may_begin` is called when it may."""
        if self._under_way is None:
            self._under_way = group
            return True
        self._waiting[group] = may_begin
        return False

    def ended(self, group: str) -> None:
        """This group is done with it, or is gone."""
        self._waiting.pop(group, None)
        if self._under_way != group:
            return
        self._under_way = next(iter(self._waiting), None)
        if self._under_way is not None:
            self._waiting.pop(self._under_way)()
