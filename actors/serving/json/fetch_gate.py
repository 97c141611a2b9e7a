"""How much one connection may read at once.

What is read becomes lines in memory, unlike what Kafka clients fetch, which the kernel sends. So only some fetches of a
connection are under way at a time, and none begins while much is still to be sent. Their answers are sent in order
anyway; all that began before can end without those that wait here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from actors.serving.answers import UNSENT_BYTES_MAX

if TYPE_CHECKING:
    from actors.serving.connection import Connection

AT_ONCE_MAX = 16
LOOK_SECONDS = 0.02


class FetchGate:
    """The gate of one connection."""

    __slots__ = ("_connection", "_looks", "_under_way", "_waiting")

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._waiting: deque[Callable[[], None]] = deque()
        self._under_way = 0
        self._looks = False

    def enter(self, begin: Callable[[], None]) -> None:
        """Begin this when it may; it leaves when it is answered."""
        self._waiting.append(begin)
        self._go_on()

    def leave(self) -> None:
        self._under_way -= 1
        self._go_on()

    def _go_on(self) -> None:
        answers = self._connection.answers
        while self._waiting and self._under_way < AT_ONCE_MAX:
            if answers.early_bytes + answers.outlet.queued_bytes > UNSENT_BYTES_MAX:
                self._look_later()
                return
            self._under_way += 1
            self._waiting.popleft()()

    def _look_later(self) -> None:
        if not self._looks:
            self._looks = True
            self._connection.later(LOOK_SECONDS, self._look)

    def _look(self) -> None:
        self._looks = False
        self._go_on()
