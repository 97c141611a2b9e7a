"""The producer ids that a coordinator may give out, until it has to ask for more."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from log.machines.transaction.transaction import ProducerIdentity


class NoProducerIds(Exception):
    """No producer id is left. The request waits for more."""


class ProducerIds:
    """Producer ids, each of which is taken once."""

    __slots__ = ("_ids",)

    def __init__(self) -> None:
        self._ids: deque[int] = deque()

    def add(self, ids: Iterable[int]) -> None:
        self._ids.extend(ids)

    def take(self) -> int:
        if not self._ids:
            raise NoProducerIds
        return self._ids.popleft()

    def after(self, identity: ProducerIdentity) -> ProducerIdentity:
        """The one that fences this one: the next epoch, or another producer id."""
        if identity.is_exhausted:
            return ProducerIdentity(self.take(), 0)
        return ProducerIdentity(identity.producer_id, identity.epoch + 1)
